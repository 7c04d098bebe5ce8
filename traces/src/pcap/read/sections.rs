//! Blocks of pcapng files.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use super::Found;
use super::clock::Clock;
use super::error::PcapError;
use super::options::Options;
use super::order::{Order, size};
use super::window::{BUFFER, Window};
use crate::pcap::{ETHERNET, Interface, LONGEST};
use crate::unit::Nanos;
use crate::wire::Mac;

/// Where in its sections a pcapng file is.
#[derive(Debug)]
pub(super) struct Sections {
    order: Order,
    /// By interface of the file: how its packets are read. The section's own start at `first`.
    ports: Vec<Port>,
    first: usize,
    /// The time of the last frame: simple packets have none of their own.
    time: Nanos,
    /// The first packet whose link type is not Ethernet, if there was one.
    foreign: Option<(u16, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Port {
    clock: Clock,
    /// The most bytes that are kept of a frame; zero for no limit.
    snap: u32,
    link_type: u16,
}

/// A block of which all is in memory that will be looked at.
struct Block {
    code: u32,
    kind: &'static str,
    order: Order,
    offset: u64,
    /// The last frame before it.
    number: u64,
    /// Where in the window it is, without the type and the lengths; empty if it is of no known kind.
    place: Range<usize>,
}

/// Where a packet's parts are in the content of its block.
struct Packet {
    interface: usize,
    ticks: Option<u64>,
    captured: u32,
    original: u32,
    data: usize,
}

impl Sections {
    /// Reads on a file that starts with a section header, which is still to be read.
    pub(super) const fn open() -> Self {
        Self { order: Order::Little, ports: Vec::new(), first: 0, time: Nanos(0), foreign: None }
    }

    /// The next packet of an Ethernet interface; packets of others count, but are passed over. Interfaces that are
    /// described on the way are added to `interfaces`.
    pub(super) fn next<R: Read>(
        &mut self,
        window: &mut Window<R>,
        interfaces: &mut Vec<Interface>,
    ) -> Result<Option<Found>, PcapError> {
        while let Some(block) = self.block(window)? {
            match block.code {
                SECTION => {
                    let major = block.order.half(window.taken(block.place.clone()), 4);
                    if major != 1 {
                        return block.wrong(format!("its version is {major}; only version 1 is known"));
                    }
                    self.first = self.ports.len();
                }
                INTERFACE => {
                    if self.ports.len() == MOST_INTERFACES {
                        return block
                            .wrong(format!("there are {MOST_INTERFACES} interfaces before it already"));
                    }
                    let (port, interface) = block.interface(window.taken(block.place.clone()))?;
                    self.ports.push(port);
                    interfaces.push(interface);
                }
                OBSOLETE | SIMPLE | ENHANCED => {
                    window.frames += 1;
                    if let Some(found) = self.packet(&block, window.taken(block.place.clone()))? {
                        return Ok(Some(found));
                    }
                }
                _ => {}
            }
        }
        match self.foreign.filter(|_| !interfaces.iter().any(|port| port.link_type == ETHERNET)) {
            Some((link_type, offset)) => Err(PcapError::LinkType { link_type: link_type.into(), offset }),
            None => Ok(None),
        }
    }

    /// Takes the next block, or passes over it if it is of no known kind.
    fn block<R: Read>(&mut self, window: &mut Window<R>) -> Result<Option<Block>, PcapError> {
        let (offset, number) = (window.offset(), window.frames);
        let whole = window.fill(LEAST)?;
        let start = window.bytes();
        if start.is_empty() {
            return Ok(None);
        }
        let mut block = Block { code: 0, kind: "block", order: self.order, offset, number, place: 0..0 };
        if !whole {
            return block.wrong(format!(
                "{LEAST} bytes are the least, {} are left; the file is cut short",
                start.len()
            ));
        }
        // The type of a section header is the same in both orders; the order stands behind the length.
        if start.starts_with(&SECTION.to_be_bytes()) {
            block.kind = "section header";
            self.order = match start[8..LEAST] {
                [0x1a, 0x2b, 0x3c, 0x4d] => Order::Big,
                [0x4d, 0x3c, 0x2b, 0x1a] => Order::Little,
                ref other => {
                    return block.wrong(format!("{other:02x?} is not 1a2b3c4d in either byte order"));
                }
            };
        }
        let (code, length) = (self.order.word(start, 0), self.order.word(start, 4));
        let (kind, least) = match code {
            SECTION => ("section header", 28),
            INTERFACE => ("interface description", 20),
            OBSOLETE => ("packet", 32),
            SIMPLE => ("simple packet", 16),
            ENHANCED => ("enhanced packet", 32),
            _ => ("block", 12),
        };
        (block.code, block.kind, block.order) = (code, kind, self.order);
        if length < least || length % 4 != 0 {
            return block.wrong(format!("its length {length} is not a multiple of 4 from {least} on"));
        }
        let whole = size(length);
        let known = kind != "block";
        if known && whole > BUFFER {
            return block
                .wrong(format!("its length {length} is more than {BUFFER}, the longest that is read"));
        }
        let behind = if known && window.fill(whole)? {
            let start = window.take(whole);
            block.place = start + 8..start + whole - 4;
            self.order.word(window.taken(block.place.end..start + whole), 0)
        } else if !known && window.skip(u64::from(length) - 4)? == 0 && window.fill(4)? {
            let start = window.take(4);
            self.order.word(window.taken(start..start + 4), 0)
        } else {
            return block.wrong(format!("it needs {length} bytes; the file is cut short"));
        };
        if behind != length {
            return block.wrong(format!("its length is {length} at its start, {behind} at its end"));
        }
        Ok(Some(block))
    }

    /// The packet in a block, if it is of an Ethernet interface.
    fn packet(&mut self, block: &Block, content: &[u8]) -> Result<Option<Found>, PcapError> {
        let ports = &self.ports[self.first..];
        let Packet { interface, ticks, captured, original, data } = match block.code {
            OBSOLETE => block.obsolete(content),
            SIMPLE => block.simple(content, ports),
            _ => block.enhanced(content),
        };
        let Some(port) = ports.get(interface) else {
            return block.wrong(format!("it is of interface {interface}, its section has {}", ports.len()));
        };
        let (number, offset) = (block.number + 1, block.offset);
        let end = data.saturating_add(size(captured));
        if captured > original || size(captured) > LONGEST || end > content.len() {
            return Err(PcapError::Length { number, offset, captured, original });
        }
        if port.link_type != ETHERNET {
            self.foreign = self.foreign.or(Some((port.link_type, offset)));
            return Ok(None);
        }
        let time = ticks.map_or(Some(self.time), |ticks| port.clock.at(ticks));
        let Some(time) = time else {
            return block.wrong(format!("its time, {} ticks, lies outside 1970 to 2554", ticks.unwrap_or(0)));
        };
        self.time = time;
        let options = match block.code {
            SIMPLE => content.len(),
            _ => end.next_multiple_of(4).min(content.len()),
        };
        let interface = u32::try_from(self.first + interface).unwrap_or(u32::MAX);
        let start = block.place.start;
        let (bytes, options) = (start + data..start + end, start + options..block.place.end);
        Ok(Some(Found { offset, time, original, interface, bytes, options, order: block.order }))
    }
}

impl Block {
    fn wrong<T>(&self, what: String) -> Result<T, PcapError> {
        Err(PcapError::Block { kind: self.kind, offset: self.offset, number: self.number, what })
    }

    fn interface(&self, content: &[u8]) -> Result<(Port, Interface), PcapError> {
        let link_type = self.order.half(content, 0);
        let mut port = Port { clock: Clock::default(), snap: self.order.word(content, 4), link_type };
        let mut interface = Interface { link_type, ..Interface::default() };
        let mut offset = 0;
        for (code, value) in (Options { order: self.order, rest: &content[8..] }) {
            match (code, value) {
                (2, text) => interface.name = Some(short(text)),
                (3, text) => interface.description = Some(short(text)),
                (4, &[a, b, c, d, ref mask @ ..]) if mask.len() == 4 => {
                    let prefix = mask.iter().map(|byte| byte.leading_ones()).sum::<u32>();
                    note(
                        &mut interface,
                        Ipv4Addr::new(a, b, c, d).into(),
                        u8::try_from(prefix).unwrap_or(32),
                    );
                }
                (5, value) if value.len() == 17 => {
                    if let Some(&address) = value.first_chunk::<16>() {
                        note(&mut interface, Ipv6Addr::from(address).into(), value[16]);
                    }
                }
                (6, &[a, b, c, d, e, f]) => interface.mac = Some(Mac([a, b, c, d, e, f])),
                (8, &[a, b, c, d, e, f, g, h]) => {
                    let (first, second) =
                        (self.order.word(&[a, b, c, d], 0), self.order.word(&[e, f, g, h], 0));
                    interface.bits_per_second = Some(self.order.long(first, second));
                }
                (9, &[code]) => port.clock = Clock::new(code),
                (14, &[a, b, c, d, e, f, g, h]) => {
                    let (first, second) =
                        (self.order.word(&[a, b, c, d], 0), self.order.word(&[e, f, g, h], 0));
                    offset = self.order.long(first, second).cast_signed();
                }
                (8 | 9 | 14, value) => {
                    return self.wrong(format!("its option {code} has {} bytes", value.len()));
                }
                _ => {}
            }
        }
        port.clock.offset = offset;
        Ok((port, interface))
    }

    fn enhanced(&self, content: &[u8]) -> Packet {
        let [interface, high, low, captured, original] =
            [0, 4, 8, 12, 16].map(|at| self.order.word(content, at));
        let ticks = Some(u64::from(high) << 32 | u64::from(low));
        Packet { interface: size(interface), ticks, captured, original, data: 20 }
    }

    /// A packet as files before 2009 have it: its interface takes half a word, beside a count of drops.
    fn obsolete(&self, content: &[u8]) -> Packet {
        Packet { interface: self.order.half(content, 0).into(), ..self.enhanced(content) }
    }

    /// A packet that says its original length alone; what was kept of it follows from its interface.
    fn simple(&self, content: &[u8], ports: &[Port]) -> Packet {
        let original = self.order.word(content, 0);
        let room = u32::try_from(content.len() - 4).unwrap_or(u32::MAX);
        let snap = ports.first().map_or(0, |port| port.snap);
        let kept = if snap == 0 { original } else { original.min(snap) };
        Packet { interface: 0, ticks: None, captured: kept.min(room), original, data: 4 }
    }
}

impl Order {
    /// A word of eight bytes from its halves, as they stand in the file.
    fn long(self, first: u32, second: u32) -> u64 {
        match self {
            Self::Little => u64::from(second) << 32 | u64::from(first),
            Self::Big => u64::from(first) << 32 | u64::from(second),
        }
    }
}

fn note(interface: &mut Interface, address: IpAddr, prefix: u8) {
    if interface.addresses.len() < MOST_ADDRESSES {
        interface.addresses.push((address, prefix));
    }
}

/// A text, as much of it as is kept.
fn short(text: &[u8]) -> String {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(&text[..text.len().min(LONGEST_NAME)]).into_owned()
}

/// Types of blocks. Packets of type 2 are obsolete since 2009.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OBSOLETE: u32 = 2;
const SIMPLE: u32 = 3;
const ENHANCED: u32 = 6;

/// The shortest block: type, length, and the length again, or the byte order in a section header.
const LEAST: usize = 12;

/// What is kept of interfaces takes 8 MiB at most.
const MOST_INTERFACES: usize = 8_192;
const LONGEST_NAME: usize = 256;
const MOST_ADDRESSES: usize = 8;
