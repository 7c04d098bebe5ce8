//! Opening the sockets of a host: what is asked, what the system grants, and what is said when it does not.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::str::FromStr;

use rustix::net::sockopt;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use thiserror::Error;

use super::super::flow::{Flow, Place};
use super::super::invariant::Headers;
use super::super::sys::{option, receive::Arena};
use super::{Route, Udp};

/// Where datagrams are cut out of a burst, and joined again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offload {
    /// In the kernel if it can, else here.
    #[default]
    Auto,
    /// In the kernel (generic segmentation and receive offload), or not at all.
    Gso,
    /// Here: many datagrams a call.
    Mmsg,
}

/// What the sockets should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// The addresses and ports to receive at: one per NIC.
    pub listen: Vec<SocketAddr>,
    /// What is sent; a [`super::super::FlowId`] is a place in it.
    pub flows: Vec<Flow>,
    /// The type of service or traffic class: DSCP in the upper six bits, ECN in the lower two.
    pub traffic_class: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// Who cuts bursts.
    pub offload: Offload,
}

/// Why sockets can not be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UdpError {
    /// Another socket holds the port.
    #[error(
        "UDP port {} of {} is in use; end the program that holds it (`ss -ulpn` names it) or choose another port",
        .0.port(), .0.ip()
    )]
    InUse(SocketAddr),
    /// The address is not on this machine.
    #[error("{0} is no address of this machine or network namespace (`ip address` lists them)")]
    NotHere(IpAddr),
    /// The target is somebody's.
    #[error("{0} is not an address for tests: frames go to 198.18.0.0/15, 2001:2::/48 and loopback alone")]
    Foreign(IpAddr),
    /// One end speaks IPv4, the other IPv6.
    #[error("a flow from {from} to {to}: both must be IPv4, or both IPv6")]
    Mixed {
        /// The sender.
        from: SocketAddr,
        /// The receiver.
        to: SocketAddr,
    },
    /// Bundles were asked for, and the kernel does not know them.
    #[error("this kernel cuts no bundles of datagrams (UDP_SEGMENT, Linux 4.18); use the offload `mmsg`")]
    NoSegmentation(#[source] io::Error),
    /// More NICs than one thread serves.
    #[error("{0} NICs of one host; at most {MOST_NICS}")]
    Nics(usize),
    /// The system refused something else.
    #[error("cannot {doing} for {address}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// For which socket.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

impl Udp {
    /// Opens the sockets of a host. What was granted otherwise than asked stands in the notes.
    ///
    /// # Errors
    /// [`UdpError`] when an address is not here, in use or somebody's, or the system refuses.
    pub fn open(options: &UdpOptions) -> Result<Self, UdpError> {
        if options.listen.len() > MOST_NICS {
            return Err(UdpError::Nics(options.listen.len()));
        }
        let mut notes = Vec::new();
        let mut joins = options.offload != Offload::Mmsg;
        let mut receivers = Vec::new();
        for &address in &options.listen {
            let socket = listen(address, &mut notes)?;
            if joins && option::set_udp_gro(socket.as_fd()).is_err() {
                joins = false;
                notes.push("this kernel joins no datagrams (UDP_GRO, Linux 5.0)".to_owned());
            }
            receivers.push(socket);
        }
        let mut senders = Senders { options, sockets: Vec::new(), by_address: BTreeMap::new() };
        let mut routes = Vec::new();
        for &flow in &options.flows {
            check(flow)?;
            let (sender, from) = senders.bound_to(flow.from, &mut notes)?;
            let headers = Headers::new(Flow { from, to: flow.to });
            routes.push(Route { sender, to: SockAddr::from(flow.to), headers });
        }
        let senders = senders.sockets;
        let bundles = can_bundle(options.offload, &senders, &mut notes)?;
        let arena = Arena::new(if joins { JOINED_BYTES } else { FRAME_BYTES });
        Ok(Self { senders, routes, receivers, arena, bundles, notes })
    }
}

/// The sockets that send, one per address and port.
struct Senders<'a> {
    options: &'a UdpOptions,
    sockets: Vec<Socket>,
    by_address: BTreeMap<SocketAddr, (usize, SocketAddr)>,
}

impl Senders<'_> {
    fn bound_to(
        &mut self,
        wanted: SocketAddr,
        notes: &mut Vec<String>,
    ) -> Result<(usize, SocketAddr), UdpError> {
        if let Some(&known) = self.by_address.get(&wanted) {
            return Ok(known);
        }
        let socket = match bind(wanted) {
            Err(UdpError::InUse(_)) => {
                let socket = bind(SocketAddr::new(wanted.ip(), 0))?;
                notes.push(format!(
                    "source port {} of {} is in use; another one is used",
                    wanted.port(),
                    wanted.ip()
                ));
                socket
            }
            answer => answer?,
        };
        let io = |doing| move |source| UdpError::Io { doing, address: wanted, source };
        if wanted.is_ipv4() {
            sockopt::set_ip_tos(&socket, self.options.traffic_class)
                .map_err(errno("set the DSCP", wanted))?;
            sockopt::set_ip_ttl(&socket, u32::from(self.options.ttl.max(1)))
                .map_err(errno("set the time to live", wanted))?;
            sockopt::set_ip_mtu_discover(&socket, sockopt::Ipv4PathMtuDiscovery::DO)
                .map_err(errno("forbid fragments", wanted))?;
        } else {
            sockopt::set_ipv6_tclass(&socket, u32::from(self.options.traffic_class))
                .map_err(errno("set the DSCP", wanted))?;
            sockopt::set_ipv6_unicast_hops(&socket, Some(self.options.ttl.max(1)))
                .map_err(errno("set the hop limit", wanted))?;
            sockopt::set_ipv6_mtu_discover(&socket, sockopt::Ipv6PathMtuDiscovery::DO)
                .map_err(errno("forbid fragments", wanted))?;
        }
        let _ = sockopt::set_socket_send_buffer_size_force(&socket, BUFFER_BYTES)
            .or_else(|_| sockopt::set_socket_send_buffer_size(&socket, BUFFER_BYTES));
        socket.set_nonblocking(true).map_err(io("set non-blocking mode"))?;
        let from = socket.local_addr().map_err(io("read the address"))?.as_socket().unwrap_or(wanted);
        let entry = (self.sockets.len(), from);
        self.sockets.push(socket);
        self.by_address.insert(wanted, entry);
        Ok(entry)
    }
}

fn check(flow: Flow) -> Result<(), UdpError> {
    if Place::of(flow.to.ip()) == Place::Foreign {
        return Err(UdpError::Foreign(flow.to.ip()));
    }
    if flow.from.is_ipv4() != flow.to.is_ipv4() {
        return Err(UdpError::Mixed { from: flow.from, to: flow.to });
    }
    Ok(())
}

fn listen(address: SocketAddr, notes: &mut Vec<String>) -> Result<Socket, UdpError> {
    let socket = bind(address)?;
    let io = |doing| move |source| UdpError::Io { doing, address, source };
    let _ = sockopt::set_socket_recv_buffer_size_force(&socket, FORCED_BYTES)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, BUFFER_BYTES));
    // The kernel counts its own overhead too, and says twice what it was asked for.
    let granted = socket.recv_buffer_size().map_err(io("read the receive buffer"))? / 2;
    if granted < BUFFER_BYTES {
        notes.push(format!(
            "the receive buffer of {} is {granted} bytes, not {BUFFER_BYTES}: bursts may be lost; \
             raise net.core.rmem_max",
            address.ip()
        ));
    }
    if address.is_ipv4() {
        sockopt::set_ip_recvtos(&socket, true).map_err(errno("ask for ECN marks", address))?;
    } else {
        sockopt::set_ipv6_recvtclass(&socket, true).map_err(errno("ask for ECN marks", address))?;
    }
    socket.set_nonblocking(true).map_err(io("set non-blocking mode"))?;
    Ok(socket)
}

fn bind(address: SocketAddr) -> Result<Socket, UdpError> {
    let io = |doing| move |source| UdpError::Io { doing, address, source };
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))
        .map_err(io("open a socket"))?;
    if address.is_ipv6() {
        socket.set_only_v6(true).map_err(io("keep to IPv6"))?;
    }
    socket.bind(&address.into()).map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => UdpError::InUse(address),
        io::ErrorKind::AddrNotAvailable => UdpError::NotHere(address.ip()),
        _ => UdpError::Io { doing: "bind a socket", address, source },
    })?;
    Ok(socket)
}

fn can_bundle(offload: Offload, senders: &[Socket], notes: &mut Vec<String>) -> Result<bool, UdpError> {
    let Some(socket) = senders.first().filter(|_| offload != Offload::Mmsg) else { return Ok(false) };
    match option::set_udp_segment(socket.as_fd(), 0) {
        Ok(()) => Ok(true),
        Err(error) if offload == Offload::Gso => Err(UdpError::NoSegmentation(error)),
        Err(_) => {
            notes.push("this kernel cuts no bundles of datagrams (UDP_SEGMENT, Linux 4.18)".to_owned());
            Ok(false)
        }
    }
}

fn errno(doing: &'static str, address: SocketAddr) -> impl FnOnce(rustix::io::Errno) -> UdpError {
    move |error| UdpError::Io { doing, address, source: error.into() }
}

impl FromStr for Offload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "gso" => Ok(Self::Gso),
            "mmsg" => Ok(Self::Mmsg),
            _ => Err(format!("`{text}` is no offload; choose auto, gso or mmsg")),
        }
    }
}

impl fmt::Display for Offload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Gso => "gso",
            Self::Mmsg => "mmsg",
        })
    }
}

/// Socket buffers: with the default of 208 KiB and a reader that pauses for 1 ms, 78 % of all frames were lost here;
/// with 1 MiB or more, none.
const BUFFER_BYTES: usize = 4 << 20;

/// The receive buffer of who may exceed the system's limit. In timed mode nobody waits for a reader that gets no core:
/// 4 MiB were lost from after some 40 ms of a line of 1 Gbit/s.
const FORCED_BYTES: usize = 32 << 20;

/// The most NICs of one host.
const MOST_NICS: usize = 16;

/// A slot for joined datagrams: the longest IP packet.
const JOINED_BYTES: usize = 1 << 16;

/// A slot for one: the longest frame of Ethernet in use.
const FRAME_BYTES: usize = 10 << 10;
