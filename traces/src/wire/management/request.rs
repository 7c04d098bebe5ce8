//! REQ: a connection is asked for, with all that the asking end knows of it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{BODY, Endpoint, MadError, get, put};
use crate::wire::bth::Bth;
use crate::wire::psn::Psn;
use crate::wire::qpn::Qpn;
use crate::wire::segment::PathMtu;
use crate::wire::timer::Timeout;

/// REQ (IBTA vol. 1, 12.6.5). Places are bytes of the message, bits from the highest; of fields narrower than their
/// type the low bits count. What a reliable connection over Ethernet does not have is 0: Q_Key (28-31), both EECNs
/// (36-38, 40-42), the alternate path (96-139); both LIDs (52-55) are `0xffff`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// 0-3: the sender's number for the connection (local communication ID).
    pub local: u32,
    /// 8-15: what it wants to be connected to.
    pub service: ServiceId,
    /// 16-23: the sender's NIC (local CA GUID).
    pub guid: u64,
    /// 32-34: the sender's queue pair.
    pub queue_pair: Qpn,
    /// 35: how many READs and atomics at a time it will answer.
    pub responder_resources: u8,
    /// 39: how many READs and atomics at a time it will ask for.
    pub initiator_depth: u8,
    /// 43, bits 7-3: how long the peer may take for REP (remote CM response time-out).
    pub remote_response: Timeout,
    /// 43, bits 2-1: 0 for a reliable connection, 1 for an unreliable one.
    pub transport: u8,
    /// 43, bit 0: whether it counts credits (end-to-end flow control).
    pub counts_credits: bool,
    /// 44-46: the sequence number of the first frame that it wants to receive.
    pub starting_psn: Psn,
    /// 47, bits 7-3: how long it may take for RTU (local CM response time-out).
    pub local_response: Timeout,
    /// 47, bits 2-0: how often the peer is to send again when no answer comes, 0 to 7.
    pub retries: u8,
    /// 48-49: the partition.
    pub partition_key: u16,
    /// 50, bits 7-4, as a code of 1 to 5: the payload of a full frame.
    pub path_mtu: PathMtu,
    /// 50, bits 2-0: how often the peer is to send again when this end is not ready; 7 is for ever.
    pub not_ready_retries: u8,
    /// 51, bits 7-4: how often management messages are sent again.
    pub management_retries: u8,
    /// 51, bit 3: whether its receives are shared between connections.
    pub shared_receives: bool,
    /// 56-95: the way to the peer.
    pub path: Path,
    /// 140-231: IP addresses, and what the application has to say.
    pub private: PrivateData,
}

/// What a service is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServiceId(pub u64);

/// The primary path of a REQ, which for RoCE says little: Ethernet and IP find their way without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    /// 56-71: the address of the sender, as a GID: IPv4 as `::ffff:192.0.2.1`.
    pub source: IpAddr,
    /// 72-87: the address of the peer, likewise.
    pub destination: IpAddr,
    /// 88-90, the upper 20 bits: the flow label.
    pub flow_label: u32,
    /// 91, bits 5-0: the rate, as a code: 7 is 40 Gbit/s, which Linux said for all that is faster. Wireshark 4.0 shows 0.
    pub rate: u8,
    /// 92: DSCP and ECN of the connection's frames.
    pub traffic_class: u8,
    /// 93: their hop limit.
    pub hop_limit: u8,
    /// 94, bits 7-4: the service level, from which a VLAN priority follows.
    pub service_level: u8,
    /// 94, bit 3: whether peers share a subnet; Linux says so for a hop limit of 1 alone.
    pub subnet_local: bool,
    /// 95, bits 7-3: the time-out of acknowledgements.
    pub ack_timeout: Timeout,
}

/// The last 92 bytes of a REQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PrivateData {
    /// Of a service that is an IP port: who asks, and 56 bytes of the application.
    Ip {
        /// Addresses.
        header: IpHeader,
        /// The application's.
        data: [u8; 56],
    },
    /// Of another service: the application's.
    Other([u8; 92]),
}

/// The 36 bytes in front of the private data of a service that is an IP port (IBTA vol. 1, annex A11.4).
///
/// ```text
/// byte 0     version 0 (major 7-4, minor 3-0)     4-19   source address, IPv4 in the last four
///      1     IP version (7-4), 0                  20-35  destination address, likewise
///      2-3   source port
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IpHeader {
    /// The port of the asking side; the other is in the service.
    pub source_port: u16,
    source: IpAddr,
    destination: IpAddr,
}

impl Request {
    /// A request as Linux makes it for a reliable connection with `rdma_connect`: times and counts are those of
    /// `drivers/infiniband/core/cma.c`, one READ at a time either way.
    ///
    /// ```
    /// use traces::wire::management::{Endpoint, IpHeader, Mad, Request, ServiceId};
    /// use traces::wire::{PathMtu, Psn, Qpn};
    ///
    /// let asking = Endpoint {
    ///     communication: 0x1f00_0001,
    ///     guid: 0x0200_c6ff_fe12_0001,
    ///     queue_pair: Qpn::for_data(0x124)?,
    ///     starting_psn: Psn::wrapping(0x89_bb0e),
    /// };
    /// let addresses = IpHeader::new(40_000, [198, 18, 0, 1].into(), [198, 18, 0, 2].into());
    /// let request = Request::new(&asking, ServiceId::tcp(7471), addresses, PathMtu::Mtu1024);
    /// let mad = Mad::new(1, request);
    /// assert_eq!(Mad::parse(&mad.to_bytes())?, mad);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn new(asking: &Endpoint, service: ServiceId, addresses: IpHeader, path_mtu: PathMtu) -> Self {
        Self {
            local: asking.communication,
            service,
            guid: asking.guid,
            queue_pair: asking.queue_pair,
            responder_resources: 1,
            initiator_depth: 1,
            remote_response: Timeout::MANAGEMENT,
            transport: 0,
            counts_credits: false,
            starting_psn: asking.starting_psn,
            local_response: Timeout::MANAGEMENT,
            retries: 7,
            partition_key: Bth::DEFAULT_PARTITION,
            path_mtu,
            not_ready_retries: 7,
            management_retries: 15,
            shared_receives: false,
            path: Path {
                source: addresses.source,
                destination: addresses.destination,
                flow_label: 0,
                rate: 7,
                traffic_class: 0,
                hop_limit: 64,
                service_level: 0,
                subnet_local: false,
                ack_timeout: Timeout::PATH,
            },
            private: PrivateData::Ip { header: addresses, data: [0; 56] },
        }
    }

    pub(super) fn to_bytes(self) -> [u8; BODY] {
        let mut body = [0; BODY];
        put(&mut body, 0, self.local.to_be_bytes());
        put(&mut body, 8, self.service.0.to_be_bytes());
        put(&mut body, 16, self.guid.to_be_bytes());
        put(&mut body, 32, self.queue_pair.to_bytes());
        put(&mut body, 35, [self.responder_resources]);
        put(&mut body, 39, [self.initiator_depth]);
        put(
            &mut body,
            43,
            [(self.remote_response.code() << 3)
                | ((self.transport & 3) << 1)
                | u8::from(self.counts_credits)],
        );
        put(&mut body, 44, self.starting_psn.to_bytes());
        put(&mut body, 47, [(self.local_response.code() << 3) | (self.retries & 7)]);
        put(&mut body, 48, self.partition_key.to_be_bytes());
        put(&mut body, 50, [(mtu_code(self.path_mtu) << 4) | (self.not_ready_retries & 7)]);
        put(&mut body, 51, [(self.management_retries << 4) | (u8::from(self.shared_receives) << 3)]);
        put(&mut body, 52, [0xff; 4]);
        self.path.put(&mut body);
        match self.private {
            PrivateData::Ip { header, data } => {
                put(&mut body, 140, header.to_bytes());
                put(&mut body, 176, data);
            }
            PrivateData::Other(data) => put(&mut body, 140, data),
        }
        body
    }

    pub(super) fn parse(body: &[u8; BODY]) -> Result<Self, MadError> {
        let [times, p0, p1, p2, more_times] = get(body, 43);
        let [mtu, counts] = get(body, 50);
        let service = ServiceId(u64::from_be_bytes(get(body, 8)));
        let header = IpHeader::parse(&get(body, 140)).filter(|_| service.port().is_some());
        Ok(Self {
            local: u32::from_be_bytes(get(body, 0)),
            service,
            guid: u64::from_be_bytes(get(body, 16)),
            queue_pair: Qpn::parse(&get(body, 32)),
            responder_resources: body[35],
            initiator_depth: body[39],
            remote_response: Timeout::from_low_bits(times >> 3),
            transport: (times >> 1) & 3,
            counts_credits: times & 1 != 0,
            starting_psn: Psn::parse(&[p0, p1, p2]),
            local_response: Timeout::from_low_bits(more_times >> 3),
            retries: more_times & 7,
            partition_key: u16::from_be_bytes(get(body, 48)),
            path_mtu: path_mtu(mtu >> 4)?,
            not_ready_retries: mtu & 7,
            management_retries: counts >> 4,
            shared_receives: counts & 8 != 0,
            path: Path::get(body),
            private: header.map_or_else(
                || PrivateData::Other(get(body, 140)),
                |header| PrivateData::Ip { header, data: get(body, 176) },
            ),
        })
    }
}

impl ServiceId {
    /// The service at a port of the TCP port space (`RDMA_PS_TCP`), where reliable connections are.
    ///
    /// Wireshark takes the data of connections to 4420 for NVMe over fabrics and to 3260 for iSER.
    #[must_use]
    pub const fn tcp(port: u16) -> Self {
        Self(0x0106_0000 | port as u64)
    }

    /// The port, if the service is one: `0x01`, the protocol of IP, the port (IBTA vol. 1, annex A11.3).
    #[must_use]
    pub const fn port(self) -> Option<u16> {
        let [0, 0, 0, 0, 1, _, high, low] = self.0.to_be_bytes() else { return None };
        Some(u16::from_be_bytes([high, low]))
    }
}

impl Path {
    fn put(&self, body: &mut [u8; BODY]) {
        put(body, 56, gid(self.source));
        put(body, 72, gid(self.destination));
        put(body, 88, ((self.flow_label << 12) | u32::from(self.rate & 0x3f)).to_be_bytes());
        put(body, 92, [self.traffic_class, self.hop_limit]);
        put(body, 94, [(self.service_level << 4) | (u8::from(self.subnet_local) << 3)]);
        put(body, 95, [self.ack_timeout.code() << 3]);
    }

    fn get(body: &[u8; BODY]) -> Self {
        let flow = u32::from_be_bytes(get(body, 88));
        let [traffic_class, hop_limit, level, timeout] = get(body, 92);
        Self {
            source: address(get(body, 56)),
            destination: address(get(body, 72)),
            flow_label: flow >> 12,
            rate: body[91] & 0x3f,
            traffic_class,
            hop_limit,
            service_level: level >> 4,
            subnet_local: level & 8 != 0,
            ack_timeout: Timeout::from_low_bits(timeout >> 3),
        }
    }
}

impl IpHeader {
    /// Its length in bytes.
    pub const LEN: usize = 36;

    /// The header for two addresses. Of two versions, the one of IPv4 is written in IPv6 (`::ffff:192.0.2.1`).
    #[must_use]
    pub fn new(source_port: u16, source: IpAddr, destination: IpAddr) -> Self {
        let (source, destination) = match (source, destination) {
            (IpAddr::V4(v4), IpAddr::V6(_)) => (v4.to_ipv6_mapped().into(), destination),
            (IpAddr::V6(_), IpAddr::V4(v4)) => (source, v4.to_ipv6_mapped().into()),
            same => same,
        };
        Self { source_port, source, destination }
    }

    /// Who asks.
    #[must_use]
    pub const fn source(&self) -> IpAddr {
        self.source
    }

    /// Who is asked.
    #[must_use]
    pub const fn destination(&self) -> IpAddr {
        self.destination
    }

    /// The bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[1] = if self.source.is_ipv4() { 0x40 } else { 0x60 };
        bytes[2..4].copy_from_slice(&self.source_port.to_be_bytes());
        for (address, at) in [(self.source, 4), (self.destination, 20)] {
            match address {
                IpAddr::V4(v4) => bytes[at + 12..at + 16].copy_from_slice(&v4.octets()),
                IpAddr::V6(v6) => bytes[at..at + 16].copy_from_slice(&v6.octets()),
            }
        }
        bytes
    }

    /// Reads the bytes; `None` if the version is not 0, or that of IP neither 4 nor 6.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let address = |at: usize| match bytes[1] >> 4 {
            4 => Some(IpAddr::V4(Ipv4Addr::from(get::<4, _>(bytes, at + 12)))),
            6 => Some(IpAddr::V6(Ipv6Addr::from(get::<16, _>(bytes, at)))),
            _ => None,
        };
        let (source, destination) = (address(4)?, address(20)?);
        let source_port = u16::from_be_bytes(get(bytes, 2));
        (bytes[0] == 0).then_some(Self { source_port, source, destination })
    }
}

/// The address as a GID of sixteen bytes.
fn gid(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

fn address(gid: [u8; 16]) -> IpAddr {
    Ipv6Addr::from(gid).to_canonical()
}

/// 1 for 256 to 5 for 4096 (IBTA vol. 1, 12.7.6).
const fn mtu_code(mtu: PathMtu) -> u8 {
    match mtu {
        PathMtu::Mtu256 => 1,
        PathMtu::Mtu512 => 2,
        PathMtu::Mtu1024 => 3,
        PathMtu::Mtu2048 => 4,
        PathMtu::Mtu4096 => 5,
    }
}

const fn path_mtu(code: u8) -> Result<PathMtu, MadError> {
    match code {
        1 => Ok(PathMtu::Mtu256),
        2 => Ok(PathMtu::Mtu512),
        3 => Ok(PathMtu::Mtu1024),
        4 => Ok(PathMtu::Mtu2048),
        5 => Ok(PathMtu::Mtu4096),
        _ => Err(MadError::PathMtu(code)),
    }
}
