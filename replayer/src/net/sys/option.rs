//! Socket options that neither rustix nor socket2 knows.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::c_int;

/// Asks for segmentation by the kernel: sends are cut into datagrams of `bytes`; 0 turns it off.
///
/// # Errors
/// When the kernel does not know it (before Linux 4.18).
pub(in crate::net) fn set_udp_segment(socket: BorrowedFd<'_>, bytes: u16) -> io::Result<()> {
    set(socket, libc::UDP_SEGMENT, c_int::from(bytes))
}

/// Asks for datagrams of one flow to be received joined.
///
/// # Errors
/// When the kernel does not know it (before Linux 5.0).
pub(in crate::net) fn set_udp_gro(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, libc::UDP_GRO, 1)
}

fn set(socket: BorrowedFd<'_>, name: c_int, value: c_int) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<c_int>()).expect("four bytes");
    // SAFETY: the descriptor is open as long as it is borrowed; the kernel reads `length` bytes, which is the size
    // of `value`, before the call returns, and `value` lives until then.
    let answer = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, name, (&raw const value).cast(), length)
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
