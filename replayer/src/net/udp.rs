//! The backend of plain UDP sockets: no privilege, and ARP, routing and ECMP are the system's own.
//!
//! Per source port one socket that sends, bound and not connected; per NIC address one that receives. Bursts go as
//! bundles that the kernel (or the NIC) cuts into datagrams, several bundles a call; where that is not possible, as
//! many datagrams a call. Measured on one core over veth: bundles 3.3 times as many frames per second as datagrams,
//! and bundles of four already twice.

mod open;

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::PollFlags;
use socket2::{SockAddr, Socket};
use traces::unit::Nanos;

pub use open::{Offload, UdpError, UdpOptions};

use super::invariant::Headers;
use super::sys::receive::Arena;
use super::sys::send;
use super::{Arrival, Backend, Burst, wait};

/// UDP sockets of one host.
#[derive(Debug)]
pub struct Udp {
    senders: Vec<Socket>,
    routes: Vec<Route>,
    receivers: Vec<Socket>,
    arena: Arena,
    bundles: bool,
    notes: Vec<String>,
}

/// How a flow's frames leave.
#[derive(Debug)]
struct Route {
    sender: usize,
    to: SockAddr,
    headers: Headers,
}

impl Udp {
    /// Whether bursts are cut into datagrams below the socket, not above.
    #[must_use]
    pub const fn bundles(&self) -> bool {
        self.bundles
    }

    /// Sends whole frames until all are taken, or the system takes no more for a while; returns the bytes taken.
    fn send_all(&self, route: usize, bytes: &[u8], frame_bytes: usize) -> io::Result<usize> {
        let Route { sender, to, .. } = &self.routes[route];
        let sender = &self.senders[*sender];
        let (piece, segment) = if self.bundles {
            (bundle_frames(frame_bytes) * frame_bytes, u16::try_from(frame_bytes).ok())
        } else {
            (frame_bytes, None)
        };
        let (mut sent, mut waits) = (0, 0);
        while sent < bytes.len() {
            match send::send(sender.as_fd(), to, &bytes[sent..], piece, segment) {
                Ok(taken) => sent += taken,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_full(&error) && waits < MOST_WAITS => {
                    waits += 1;
                    wait::ready(&[sender.as_fd()], PollFlags::OUT, WAIT)?;
                    if error.raw_os_error() == Some(libc::ENOBUFS) {
                        // The socket is ready all the same: it is the device's queue that has to drain.
                        std::thread::sleep(Duration::from_nanos(WAIT.0 / 10));
                    }
                }
                Err(error) if is_full(&error) => break,
                Err(_) if sent > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }

    fn seal(&mut self, burst: &mut Burst<'_>) {
        let in_bundle = if self.bundles { bundle_frames(burst.frame_bytes) } else { 1 };
        let headers = &mut self.routes[burst.flow.0].headers;
        for (place, frame) in burst.bytes.chunks_mut(burst.frame_bytes.max(1)).enumerate() {
            headers.seal(frame, u16::try_from(place % in_bundle).unwrap_or(0));
        }
    }
}

impl Backend for Udp {
    fn send(&mut self, mut burst: Burst<'_>) -> io::Result<usize> {
        let frame_bytes = burst.frame_bytes.max(1);
        self.seal(&mut burst);
        let taken = match self.send_all(burst.flow.0, burst.bytes, frame_bytes) {
            Err(error) if self.bundles && is_unable(&error) => {
                self.bundles = false;
                self.notes.push(format!(
                    "the device refuses bundles of datagrams ({error}), so they are sent one by one"
                ));
                self.seal(&mut burst);
                self.send_all(burst.flow.0, burst.bytes, frame_bytes)?
            }
            answer => answer?,
        };
        Ok(taken.div_ceil(frame_bytes))
    }

    fn receive(&mut self, each: &mut dyn FnMut(Arrival<'_>)) -> io::Result<usize> {
        let mut frames = 0;
        for (nic, socket) in self.receivers.iter().enumerate() {
            self.arena.receive(socket.as_fd(), &mut |delivery| {
                let ecn = delivery.traffic_class & 0b11;
                if delivery.cut {
                    return;
                }
                for bytes in delivery.bytes.chunks(delivery.segment.max(1)) {
                    frames += 1;
                    each(Arrival { nic, bytes, ecn });
                }
            })?;
        }
        Ok(frames)
    }

    fn wait(&mut self, timeout: Nanos) -> io::Result<()> {
        wait::ready(&self.receivers, PollFlags::IN, timeout)
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// Frames in one bundle.
fn bundle_frames(frame_bytes: usize) -> usize {
    (BUNDLE_BYTES / frame_bytes.max(1)).clamp(1, BUNDLE_FRAMES)
}

/// The queue is full; it will drain.
fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOBUFS)
}

/// What Linux answers when it cannot cut a bundle for this device: no checksum offload (EIO).
fn is_unable(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EOPNOTSUPP))
}

/// The most segments that all kernels cut a bundle into (`UDP_MAX_SEGMENTS`, 64 until Linux 6.10).
const BUNDLE_FRAMES: usize = 64;

/// The most bytes of one: an IP packet of 65,535 with an IPv6 header, which is the longer one, and UDP.
const BUNDLE_BYTES: usize = 65_535 - 40 - 8;

/// One wait for room in a queue, and how often.
const WAIT: Nanos = Nanos(1_000_000);
const MOST_WAITS: u32 = 50;
