//! Waiting for sockets with nanoseconds of time-out.

use std::io;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use traces::unit::Nanos;

use crate::clock::timespec;

/// The most sockets that one call waits for; a host has fewer NICs.
const MOST: usize = 16;

/// Waits until one of the sockets is ready for `what`, at the most for `timeout`. A signal ends it early.
pub(super) fn ready<S: AsFd>(sockets: &[S], what: PollFlags, timeout: Nanos) -> io::Result<()> {
    let Some(first) = sockets.first() else { return Ok(()) };
    let mut fds: [PollFd<'_>; MOST] = std::array::from_fn(|at| {
        // Entries beyond the sockets repeat the first one, and are not handed over.
        PollFd::from_borrowed_fd(sockets.get(at).unwrap_or(first).as_fd(), what)
    });
    let count = sockets.len().min(MOST);
    match poll(&mut fds[..count], Some(&timespec(timeout))) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
