//! Many datagrams from a socket in one call, into memory that is used again.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Memory for one batch of datagrams.
#[derive(Debug)]
pub(in crate::net) struct Arena {
    bytes: Vec<u8>,
    slot: usize,
}

/// What the kernel delivered in one piece: a datagram, or several of one flow that it joined.
#[derive(Clone, Copy, Debug)]
pub(in crate::net) struct Delivery<'a> {
    /// The content.
    pub(in crate::net) bytes: &'a [u8],
    /// The length of each datagram in it; the last may be shorter.
    pub(in crate::net) segment: usize,
    /// The type of service or traffic class.
    pub(in crate::net) traffic_class: u8,
    /// Whether it was longer than its slot, so that its end is missing.
    pub(in crate::net) cut: bool,
}

impl Arena {
    /// Memory for [`MOST`] deliveries of at most `slot` bytes.
    pub(in crate::net) fn new(slot: usize) -> Self {
        Self { bytes: vec![0; slot * MOST], slot }
    }

    /// Takes what has arrived at the socket, at most [`MOST`] deliveries, and hands each to `each`; returns how many.
    ///
    /// # Errors
    /// What `recvmmsg` answers; nothing to receive is not an error.
    pub(in crate::net) fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        each: &mut dyn FnMut(Delivery<'_>),
    ) -> io::Result<usize> {
        let mut controls = [Control([0; CONTROL_BYTES]); MOST];
        let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MOST];
        let mut messages = [super::empty_message(); MOST];
        let parts = self.bytes.chunks_exact_mut(self.slot).zip(&mut vectors).zip(&mut controls);
        for (((slot, vector), control), message) in parts.zip(&mut messages) {
            *vector = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
            let header = &mut message.msg_hdr;
            header.msg_iov = vector;
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut control.0).cast();
            header.msg_controllen = CONTROL_BYTES;
        }
        let length = libc::c_uint::try_from(MOST).expect("a small constant");
        // SAFETY: the descriptor is open as long as it is borrowed. Each of the `length` headers points to a slot of
        // its own in `self.bytes` and to a control buffer of its own, with their true lengths; all outlive the call,
        // nothing else refers to them during it, and any bytes that the kernel writes are valid for `u8`.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                length,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        let Ok(received) = usize::try_from(received) else {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
                _ => Err(error),
            };
        };
        let slots = self.bytes.chunks_exact(self.slot).zip(&messages).zip(&controls);
        for ((slot, message), control) in slots.take(received) {
            let bytes =
                usize::try_from(message.msg_len).map_or(slot, |length| &slot[..length.min(slot.len())]);
            let controls = control.0.get(..message.msg_hdr.msg_controllen).unwrap_or_default();
            let (mut segment, mut traffic_class) = (None, 0);
            for (level, kind, data) in Controls(controls) {
                match (level, kind) {
                    (libc::SOL_UDP, libc::UDP_GRO) => segment = integer(data),
                    (libc::IPPROTO_IP, libc::IP_TOS) => traffic_class = data.first().copied().unwrap_or(0),
                    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                        traffic_class = integer(data).and_then(|class| u8::try_from(class).ok()).unwrap_or(0);
                    }
                    _ => {}
                }
            }
            let segment =
                segment.and_then(|segment| usize::try_from(segment).ok()).filter(|&segment| segment > 0);
            let cut = message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
            each(Delivery { bytes, segment: segment.unwrap_or(bytes.len()), traffic_class, cut });
        }
        Ok(received)
    }
}

/// Room for the control messages of one delivery, aligned as their headers are.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// The control messages in a buffer: level, kind, data (`man 3 cmsg`).
struct Controls<'a>(&'a [u8]);

impl<'a> Iterator for Controls<'a> {
    type Item = (i32, i32, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (length, rest) = self.0.split_first_chunk()?;
        let (level, rest) = rest.split_first_chunk()?;
        let (kind, _) = rest.split_first_chunk()?;
        let length = usize::from_ne_bytes(*length);
        let data = self.0.get(size_of::<libc::cmsghdr>()..length)?;
        self.0 = self.0.get(length.next_multiple_of(size_of::<usize>())..).unwrap_or_default();
        Some((i32::from_ne_bytes(*level), i32::from_ne_bytes(*kind), data))
    }
}

fn integer(data: &[u8]) -> Option<i32> {
    data.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes))
}

/// The most deliveries of one call: more gain nothing (measured with 8 to 256).
const MOST: usize = 32;

/// Room for three control messages of one integer each.
const CONTROL_BYTES: usize = 96;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_messages_are_read_until_they_end() {
        let mut bytes = Vec::new();
        for (kind, data) in [(libc::IP_TOS, &[0x6b_u8][..]), (libc::UDP_GRO, &[0x68, 0x10, 0, 0])] {
            bytes.extend((16 + data.len()).to_ne_bytes());
            bytes.extend(17_i32.to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(data);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        let read: Vec<_> = Controls(&bytes).map(|(_, kind, data)| (kind, data.len())).collect();
        assert_eq!(read, [(libc::IP_TOS, 1), (libc::UDP_GRO, 4)]);
        assert_eq!(Controls(&bytes[..23]).count(), 1);
        assert_eq!(Controls(&[0xff; 40]).count(), 0, "a length beyond the buffer");
        assert_eq!(Controls(&[0; 40]).count(), 0, "a length less than its own header");
    }
}
