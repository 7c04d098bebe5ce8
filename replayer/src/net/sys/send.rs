//! Many datagrams to one address in one call.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use socket2::SockAddr;

/// The most datagrams (or bundles that the kernel cuts into datagrams) of one call.
pub(in crate::net) const MOST: usize = 64;

/// Sends `bytes` to `to` as pieces of `piece` bytes, [`MOST`] of them at the most; with `segment`, the kernel cuts
/// each piece into datagrams of so many bytes. Returns how many bytes it has taken.
///
/// # Errors
/// What `sendmmsg` answers when it took none.
pub(in crate::net) fn send(
    socket: BorrowedFd<'_>,
    to: &SockAddr,
    bytes: &[u8],
    piece: usize,
    segment: Option<u16>,
) -> io::Result<usize> {
    let mut control = Control::new(segment.unwrap_or(0));
    let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MOST];
    let mut messages = [super::empty_message(); MOST];
    let mut count = 0;
    for ((piece, vector), message) in bytes.chunks(piece.max(1)).zip(&mut vectors).zip(&mut messages) {
        *vector = libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() };
        let header = &mut message.msg_hdr;
        header.msg_name = to.as_ptr().cast_mut().cast();
        header.msg_namelen = to.len();
        header.msg_iov = vector;
        header.msg_iovlen = 1;
        if segment.is_some_and(|segment| piece.len() > usize::from(segment)) {
            header.msg_control = (&raw mut control).cast();
            header.msg_controllen = CONTROL_LENGTH;
        }
        count += 1;
    }
    let length = libc::c_uint::try_from(count).expect("at most MOST");
    // SAFETY: the descriptor is open as long as it is borrowed. `messages` holds `length` headers whose address, data
    // and control point into `to`, `bytes` and `control`; all outlive the call. The kernel writes `msg_len` of the
    // headers, which are borrowed mutably, and only reads what they point to.
    let taken =
        unsafe { libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), length, libc::MSG_DONTWAIT) };
    let taken = usize::try_from(taken).map_err(|_| io::Error::last_os_error())?;
    Ok(bytes.chunks(piece.max(1)).take(taken).map(<[u8]>::len).sum())
}

/// A control message that carries the length of a segment.
#[repr(C)]
struct Control {
    header: libc::cmsghdr,
    segment: u16,
}

impl Control {
    fn new(segment: u16) -> Self {
        let header = libc::cmsghdr {
            cmsg_len: size_of::<libc::cmsghdr>() + size_of::<u16>(),
            cmsg_level: libc::SOL_UDP,
            cmsg_type: libc::UDP_SEGMENT,
        };
        Self { header, segment }
    }
}

/// The structure with its padding is what `CMSG_SPACE(2)` counts: data follow the header, which is a multiple of its
/// own alignment.
const CONTROL_LENGTH: usize = size_of::<Control>();
const _: () = assert!(CONTROL_LENGTH.is_multiple_of(align_of::<libc::cmsghdr>()));
