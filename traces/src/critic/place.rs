//! Checks of a capture as a file: taken at one place, cut at one length, with a clock that is worth its digits,
//! and with the other traffic of the link in agreement.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use super::check::Tally;
use super::flow::state_of;
use super::sight::{Content, Look, Rule, Sight, family};
use crate::unit::Nanos;
use crate::wire::{Mac, NotRoce};

family! {
    "place and file":
    OneVantage,
    SnapConstant,
    Resolution,
    GapsVary,
    Arp,
}

/// A capture shows one port: each frame goes from it or to it, by its MAC address and its IP addresses.
#[derive(Default)]
struct OneVantage;

impl Rule for OneVantage {
    const LOOK: Look = Look::Constant;

    fn name(&self) -> &'static str {
        "one_vantage"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, _)) = sight.roce() else { return };
        let vantage = sight.vantage;
        let (from, to) = (frame.network.ip.source(), frame.network.ip.destination());
        if let Some(mac) = vantage.mac {
            let sent = frame.link.source == mac;
            let address = if sent { from } else { to };
            let right = (sent || frame.link.destination == mac)
                && (vantage.addresses.is_empty() || vantage.addresses.contains(&address));
            sight.expect(tally, right, || {
                format!(
                    "from {from} ({}) to {to} ({}), not this port's",
                    frame.link.source, frame.link.destination
                )
            });
        } else if !vantage.addresses.is_empty() {
            let right = vantage.addresses.contains(&from) || vantage.addresses.contains(&to);
            sight.expect(tally, right, || format!("from {from} to {to}, not this port's"));
        }
    }
}

/// A capture cuts all frames at one length, or none.
#[derive(Default)]
struct SnapConstant(Vec<Snap>);

#[derive(Default)]
struct Snap {
    /// The length of frames that were cut.
    cut: Option<usize>,
    /// The longest that was not, and where it is.
    whole: (usize, usize, u64),
}

impl Rule for SnapConstant {
    const LOOK: Look = Look::Constant;

    fn name(&self) -> &'static str {
        "snap_constant"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let captured = sight.bytes.len();
        let snap = state_of(&mut self.0, sight.file);
        if u32::try_from(captured).is_ok_and(|captured| captured >= sight.length) {
            tally.examine();
            if captured > snap.whole.0 {
                snap.whole = (captured, sight.file, sight.number);
            }
            return;
        }
        let first = *snap.cut.get_or_insert(captured);
        sight.expect(tally, captured == first, || {
            format!("cut at {captured} of {} bytes, others at {first}", sight.length)
        });
    }

    fn finish(&mut self, names: &super::sight::Captures, tally: &mut Tally) {
        for snap in &self.0 {
            let (whole, file, frame) = snap.whole;
            if let Some(cut) = snap.cut.filter(|&cut| cut < whole) {
                tally.violate(names.get(file).map_or("", String::as_str), frame, || {
                    format!("{whole} bytes are there, others were cut at {cut}")
                });
            }
        }
    }
}

/// Nanosecond timestamps have nanoseconds: not all are whole microseconds. Examined where frames are made up, so that
/// the clock is too: a capture may have been taken with microseconds.
#[derive(Default)]
struct Resolution(Vec<Clock>);

#[derive(Default)]
struct Clock {
    frames: u64,
    fine: bool,
    file: usize,
}

impl Rule for Resolution {
    fn name(&self) -> &'static str {
        "timestamps_resolution"
    }

    fn frame(&mut self, sight: &Sight<'_>, _tally: &mut Tally) {
        if sight.vantage.content.is_some() {
            let clock = state_of(&mut self.0, sight.port);
            clock.frames += 1;
            clock.fine |= !sight.time.0.is_multiple_of(1_000);
            clock.file = sight.file;
        }
    }

    fn finish(&mut self, names: &super::sight::Captures, tally: &mut Tally) {
        for clock in self.0.iter().filter(|clock| clock.frames >= ENOUGH) {
            tally.examine();
            if !clock.fine {
                tally.violate(names.get(clock.file).map_or("", String::as_str), clock.frames, || {
                    format!("all {} timestamps are whole microseconds", clock.frames)
                });
            }
        }
    }
}

/// The frames of a capture do not follow each other in one beat.
#[derive(Default)]
struct GapsVary(Vec<Beat>);

#[derive(Default)]
struct Beat {
    last: Nanos,
    gap: Option<u64>,
    frames: u64,
    varies: bool,
    file: usize,
}

impl Rule for GapsVary {
    fn name(&self) -> &'static str {
        "timestamps_vary"
    }

    fn frame(&mut self, sight: &Sight<'_>, _tally: &mut Tally) {
        let beat = state_of(&mut self.0, sight.port);
        beat.frames += 1;
        if beat.varies {
            return;
        }
        let gap = sight.time.0.saturating_sub(beat.last.0);
        if beat.frames > 1 {
            let first = *beat.gap.get_or_insert(gap);
            beat.varies = gap != first;
        }
        (beat.last, beat.file) = (sight.time, sight.file);
    }

    fn finish(&mut self, names: &super::sight::Captures, tally: &mut Tally) {
        for beat in self.0.iter().filter(|beat| beat.frames >= ENOUGH) {
            tally.examine();
            if !beat.varies {
                tally.violate(names.get(beat.file).map_or("", String::as_str), beat.frames, || {
                    format!(
                        "all {} frames follow each other by {} ns",
                        beat.frames,
                        beat.gap.unwrap_or_default()
                    )
                });
            }
        }
    }
}

/// So many frames say what a capture's clock is like.
const ENOUGH: u64 = 32;

/// Who answers ARP for an address is who sends from it.
#[derive(Default)]
struct Arp {
    told: BTreeMap<(usize, IpAddr), Mac>,
    flows: Vec<Option<Sender>>,
}

struct Sender {
    port: usize,
    address: IpAddr,
    mac: Mac,
    file: usize,
    frame: u64,
}

impl Rule for Arp {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "arp_agrees"
    }

    fn frame(&mut self, sight: &Sight<'_>, _tally: &mut Tally) {
        match &sight.content {
            Content::Roce(frame, placed) => {
                state_of(&mut self.flows, placed.flow).get_or_insert_with(|| Sender {
                    port: sight.port,
                    address: frame.network.ip.source(),
                    mac: frame.link.source,
                    file: sight.file,
                    frame: sight.number,
                });
            }
            Content::Other(NotRoce::EtherType(ARP)) => {
                // Behind the Ethernet header: types and lengths 6, operation 2, sender 6 + 4, target 6 + 4.
                let sender = sight.bytes.get(22..32).and_then(|bytes| bytes.first_chunk::<10>());
                if let Some(&[a, b, c, d, e, f, w, x, y, z]) = sender {
                    let address = IpAddr::V4(Ipv4Addr::new(w, x, y, z));
                    self.told.insert((sight.port, address), Mac([a, b, c, d, e, f]));
                }
            }
            Content::Other(_) | Content::Broken(_) => {}
        }
    }

    fn finish(&mut self, names: &super::sight::Captures, tally: &mut Tally) {
        for Sender { port, address, mac, file, frame } in self.flows.iter().flatten() {
            let Some(told) = self.told.get(&(*port, *address)) else { continue };
            tally.examine();
            if told != mac {
                tally.violate(names.get(*file).map_or("", String::as_str), *frame, || {
                    format!("{address} sends from {mac}, by ARP it is at {told}")
                });
            }
        }
    }
}

const ARP: u16 = 0x0806;
