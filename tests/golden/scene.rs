//! The frames that stand in `tests/golden/frames`: each opcode with its headers, each answer, each way to be carried.
//! To read this list is to learn how frames are made with [`traces::wire`].

use traces::unit::Bytes;
use traces::wire::aeth::{Aeth, Syndrome};
use traces::wire::atomic::{AtomicAckEth, AtomicEth};
use traces::wire::datagram::Deth;
use traces::wire::management::{
    Communication, DisconnectReply, DisconnectRequest, IpHeader, Mad, Message, ReadyToUse,
    ReceiptAcknowledge, Reject, RejectReason, Reply, Request, ServiceId, Subject,
};
use traces::wire::{
    Bth, Credits, Ecn, Extensions, Frame, Immediate, Network, Opcode, PathMtu, Payload, Psn, Read, RemoteKey,
    Reth, RnrTimer, Segment, Segments, Timeout, Verb, source_port,
};

use super::hosts::{A, B, Host, frame, from_a, from_b, identified, tagged, to_a, to_b, version_6};

/// A frame, the name of its file, and what it is in one line.
pub(crate) struct Golden {
    /// The opcode in hexadecimal, then what is special.
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) bytes: Vec<u8>,
}

/// All of them.
pub(crate) fn frames() -> Vec<Golden> {
    let mut list = List(Vec::new());
    list.messages();
    list.reads();
    list.atomics();
    list.answers();
    list.lengths();
    list.carriers();
    list.habits();
    list.datagrams();
    list.management();
    list.0
}

struct List(Vec<Golden>);

impl List {
    fn add(&mut self, name: impl Into<String>, title: impl Into<String>, frame: &Frame<'_>) {
        let mut bytes = Vec::new();
        frame.emit(&mut bytes).unwrap();
        self.0.push(Golden { name: name.into(), title: title.into(), bytes });
    }

    /// A message of 600 bytes is First, Middle and Last at a path MTU of 256; one of 64 bytes is an Only.
    fn messages(&mut self) {
        for verb in Verb::ALL {
            for bytes in [600, 64] {
                let segments = Segments::new(verb, Bytes(bytes), PathMtu::Mtu256, Psn::wrapping(0x1000));
                for segment in segments.iter() {
                    let name = name(segment.opcode);
                    if !self.0.iter().any(|golden| golden.name == name) {
                        let title =
                            format!("{}, of a message of {bytes} bytes at path MTU 256", segment.opcode);
                        self.add(name, title, &data(verb, &segments, segment));
                    }
                }
            }
        }
    }

    /// A READ of 600 bytes, its three answers, and what is asked again when the second did not come.
    fn reads(&mut self) {
        let read = Read { reth: reth(600), path_mtu: PathMtu::Mtu256, first: Psn::wrapping(0x1000) };
        let request = |read: Read| {
            let bth = Bth { ack_request: true, ..to_b(Opcode::ReadRequest, read.first) };
            from_a(bth, Extensions { reth: Some(read.reth), ..NONE }, &[])
        };
        self.add(
            "0c-read-request",
            "RC RDMA READ Request of 600 bytes: takes three sequence numbers",
            &request(read),
        );
        let again = read.again_from(Psn::wrapping(0x1001)).unwrap();
        let title =
            "RC RDMA READ Request again, for the 344 bytes from the second answer on, which did not come";
        self.add("0c-read-request-again", title, &request(again));
        let one = Read { reth: reth(64), ..read };
        for (read, words) in [(read, "600 bytes at path MTU 256"), (one, "64 bytes")] {
            for segment in read.responses().iter() {
                // The request is complete, for the responder, when it starts to answer: all answers count it.
                let aeth =
                    segment.opcode.shape().aeth.then_some(Aeth::new(Syndrome::UNLIMITED, Psn::wrapping(1)));
                let bth = to_a(segment.opcode, segment.psn);
                let frame = from_b(bth, Extensions { aeth, ..NONE }, payload(segment));
                self.add(name(segment.opcode), format!("{}, to a READ of {words}", segment.opcode), &frame);
            }
        }
    }

    fn atomics(&mut self) {
        let counter = AtomicEth {
            virtual_address: 0x7f2a_4000_0008,
            remote_key: RemoteKey(0x0018_1aed),
            swap_or_add: 1,
            compare: 0,
        };
        for (opcode, atomic, title) in [
            (
                Opcode::CompareSwap,
                AtomicEth { compare: 41, swap_or_add: 42, ..counter },
                "puts 42 where 41 is",
            ),
            (Opcode::FetchAdd, counter, "adds 1"),
        ] {
            let bth = Bth { ack_request: true, ..to_b(opcode, Psn::wrapping(0x1000)) };
            let frame = from_a(bth, Extensions { atomic: Some(atomic), ..NONE }, &[]);
            self.add(name(opcode), format!("{opcode}: {title}"), &frame);
        }
        let found = Extensions {
            aeth: Some(Aeth::new(Syndrome::UNLIMITED, Psn::wrapping(1))),
            atomic_ack: Some(AtomicAckEth { original: 41 }),
            ..NONE
        };
        let frame = from_b(to_a(Opcode::AtomicAcknowledge, Psn::wrapping(0x1000)), found, &[]);
        self.add("12-atomic-acknowledge", "RC ATOMIC Acknowledge: 41 was there", &frame);
    }

    fn answers(&mut self) {
        let rows = [
            ("ack", Syndrome::UNLIMITED),
            ("ack-credits-0", Syndrome::ack(Credits::for_posted(0))),
            ("ack-credits-6", Syndrome::ack(Credits::for_posted(7))),
            ("rnr-nak", Syndrome::not_ready(RnrTimer::NCCL)),
            ("nak-sequence", Syndrome::SequenceError),
            ("nak-invalid-request", Syndrome::InvalidRequest),
            ("nak-remote-access", Syndrome::RemoteAccess),
            ("nak-remote-operational", Syndrome::RemoteOperational),
            ("nak-invalid-domain", Syndrome::InvalidDomain),
        ];
        for (special, syndrome) in rows {
            self.add(format!("11-{special}"), format!("RC Acknowledge: {syndrome}"), &answer(syndrome));
        }
    }

    /// Pad of each length, nothing at all, and the largest frame.
    fn lengths(&mut self) {
        for (bytes, pad) in [(7, 1), (6, 2), (5, 3)] {
            let title = format!("RC RDMA WRITE Only of {bytes} bytes: pad {pad}, which the ICRC covers");
            self.add(format!("0a-pad-{pad}"), title, &write_only(bytes));
        }
        let title =
            "RC RDMA WRITE Only Immediate of no bytes: how NCCL ends a message that was written before";
        let segments =
            Segments::new(Verb::WriteImmediate, Bytes::ZERO, PathMtu::Mtu4096, Psn::wrapping(0x1000));
        self.add("0b-empty", title, &data(segments.verb, &segments, segments.get(0).unwrap()));
        let title = "RC SEND Only of no bytes: 58 bytes, filled to Ethernet's 60 behind the ICRC";
        let empty = from_a(to_b(Opcode::SendOnly, Psn::wrapping(0x1000)), NONE, &[]);
        self.add("04-empty", title, &empty);
        let title = "RC SEND Only of no bytes in a VLAN: 62 bytes, nothing to fill";
        self.add("04-empty-vlan", title, &Frame { link: tagged(empty.link, 3, 100), ..empty });
        let title = "RC RDMA READ response Only of no bytes";
        let read = Read { reth: reth(0), path_mtu: PathMtu::Mtu4096, first: Psn::wrapping(0x1000) };
        let aeth = Some(Aeth::new(Syndrome::UNLIMITED, Psn::wrapping(1)));
        let bth = to_a(Opcode::ReadResponseOnly, read.responses().get(0).unwrap().psn);
        self.add("10-empty", title, &from_b(bth, Extensions { aeth, ..NONE }, &[]));
        let segments = Segments::new(Verb::Write, Bytes(8192), PathMtu::Mtu4096, Psn::wrapping(0x1000));
        let title = "RC RDMA WRITE First of 8192 bytes at path MTU 4096";
        self.add("06-mtu-4096", title, &data(Verb::Write, &segments, segments.get(0).unwrap()));
    }

    /// IPv6, VLAN and priority tags, a congestion mark.
    fn carriers(&mut self) {
        let write = write_only(64);
        let v6 = |frame: Frame<'static>| Frame { network: version_6(frame.network), ..frame };
        let title = "RC RDMA WRITE Only over IPv6: UDP has a checksum";
        self.add("0a-v6", title, &v6(write));
        self.add("11-v6", "RC Acknowledge over IPv6", &v6(answer(Syndrome::UNLIMITED)));
        let title = "RC RDMA WRITE Only with priority 3 in VLAN 100";
        self.add("0a-vlan", title, &Frame { link: tagged(write.link, 3, 100), ..write });
        let title = "RC RDMA WRITE Only with priority 3 and no VLAN";
        self.add("0a-priority", title, &Frame { link: tagged(write.link, 3, 0), ..write });
        let title = "RC RDMA WRITE Only with priority 3 in VLAN 100 over IPv6";
        self.add("0a-vlan-v6", title, &Frame { link: tagged(write.link, 3, 100), ..v6(write) });
        let marked = Network { ecn: Ecn::CongestionExperienced, ttl: 254, ..write.network };
        let title = "RC RDMA WRITE Only behind a switch that marked it: the ICRC is that of 0a-write-only";
        self.add("0a-marked", title, &Frame { network: marked, ..write });
    }

    /// What other NICs than ConnectX do, and what an application may ask for.
    fn habits(&mut self) {
        let write = write_only(64);
        let title = "RC RDMA WRITE Only as rxe sends it: M clear, not ECN capable, TTL 64";
        let frame = Frame {
            bth: Bth { migrated: false, ..write.bth },
            network: Network { ecn: Ecn::NotCapable, dscp: 0, ttl: 64, ..write.network },
            source_port: source_port::own(A.queue_pair()),
            ..write
        };
        self.add("0a-rxe", title, &frame);
        let title = "RC RDMA WRITE Only as HNS sends it: byte 4 of BTH is 0x10, IP identification 0, TTL 64";
        let network = identified(Network { dscp: 0, ttl: 64, ..write.network }, 0);
        self.add("0a-hns", title, &Frame { bth: Bth { congestion: 0x10, ..write.bth }, network, ..write });
        let title = "RC SEND Only that asks for an event (SE)";
        let send = Segments::new(Verb::Send, Bytes(64), PathMtu::Mtu256, Psn::wrapping(0x1000));
        let send = data(Verb::Send, &send, send.get(0).unwrap());
        self.add("04-solicited", title, &Frame { bth: Bth { solicited: true, ..send.bth }, ..send });
        let title = "RC RDMA WRITE Only with the last sequence number";
        self.add("0a-last-psn", title, &Frame { bth: Bth { psn: Psn::LAST, ..write.bth }, ..write });
    }

    fn datagrams(&mut self) {
        let deth = Deth { queue_key: 0x1111_1111, reserved: 0, source: A.queue_pair() };
        for opcode in [Opcode::DatagramSendOnly, Opcode::DatagramSendOnlyImmediate] {
            let immediate = opcode.shape().immediate.then_some(Immediate::from_u32(64));
            let bth = Bth { ack_request: false, ..to_b(opcode, Psn::wrapping(0x1000)) };
            let frame = from_a(bth, Extensions { deth: Some(deth), immediate, ..NONE }, bytes(64));
            self.add(name(opcode), format!("{opcode} of 64 bytes"), &frame);
        }
        let frame = from_b(Bth::notification(A.queue_pair()), NONE, &Bth::NOTIFICATION_PAYLOAD);
        let frame = Frame { network: Network { dscp: 48, ..frame.network }, source_port: 0, ..frame };
        let title = "CNP: a congestion notification to the sender of marked frames, as ConnectX sends it";
        self.add("81-notification", title, &frame);
    }

    /// A connection is made and ends; another is refused; a third is asked for over IPv6.
    fn management(&mut self) {
        let connect = |v6: bool| {
            let addresses = IpHeader::new(40_000, A.address(v6), B.address(v6));
            Request::new(&A.endpoint(), ServiceId::tcp(7471), addresses, PathMtu::Mtu1024)
        };
        let request = connect(false);
        let reply = Reply::new(&B.endpoint(), &request);
        let ready = ReadyToUse::new(&reply);
        let end =
            DisconnectRequest { communication: ready.communication, remote_queue_pair: reply.queue_pair };
        let taken = ReceiptAcknowledge {
            communication: Communication { local: B.id(), remote: A.id() },
            received: Subject::Request,
            service_timeout: Timeout::MANAGEMENT,
        };
        let refusal = Reject {
            communication: Communication { local: 0, remote: A.id() },
            rejected: Subject::Request,
            reason: RejectReason::INVALID_SERVICE,
        };
        let rows: [(&str, Host, &str, Message); 8] = [
            ("req", A, "A asks for a connection, and wants to receive from 0x89bb0e on", request.into()),
            ("mra", B, "B has the request and takes its time", taken.into()),
            ("rep", B, "B agrees, and wants to receive from 0xc23298 on", reply.into()),
            ("rtu", A, "A is ready", ready.into()),
            ("dreq", A, "A ends the connection", end.into()),
            ("drep", B, "B has ended it", DisconnectReply::new(&end).into()),
            ("rej", B, "nobody listens there", refusal.into()),
            ("req-v6", A, "the same over IPv6", connect(true).into()),
        ];
        for (psn, (special, from, words, message)) in (82..).zip(rows) {
            let (bth, extensions) = Mad::headers(Psn::wrapping(psn));
            let mad = Mad::new(TRANSACTION, message).to_bytes();
            let to = if from.0 == A.0 { B } else { A };
            let frame = frame(from, to, bth, extensions, &mad);
            // Linux's connection manager sends with TTL 64; mlx5 from the lowest port, as there is no connection yet.
            let network = Network { ttl: 64, dscp: 0, ..frame.network };
            let network = if special.ends_with("v6") { version_6(network) } else { network };
            let frame = Frame { network, source_port: source_port::LOWEST, ..frame };
            self.add(format!("64-cm-{special}"), format!("CM {}: {words}", message.name()), &frame);
        }
    }
}

/// As Linux makes it: a number of the manager, then that of the connection.
const TRANSACTION: u64 = 0x0000_0003_1f00_0001;

const NONE: Extensions = Extensions {
    deth: None,
    reth: None,
    atomic: None,
    aeth: None,
    atomic_ack: None,
    immediate: None,
    invalidate: None,
};

/// One frame of a message from A to B.
fn data(verb: Verb, segments: &Segments, segment: Segment) -> Frame<'static> {
    let shape = segment.opcode.shape();
    let length = u32::try_from(segments.bytes.0).unwrap();
    let extensions = Extensions {
        reth: shape.reth.then(|| reth(length)),
        immediate: (verb.has_immediate() && shape.place.ends()).then(|| Immediate::from_u32(length)),
        invalidate: shape.invalidate.then_some(RemoteKey(0x0018_1aed)),
        ..NONE
    };
    let bth = Bth { ack_request: segment.ack_request, ..to_b(segment.opcode, segment.psn) };
    from_a(bth, extensions, payload(segment))
}

fn write_only(bytes: u64) -> Frame<'static> {
    let segments = Segments::new(Verb::Write, Bytes(bytes), PathMtu::Mtu256, Psn::wrapping(0x1000));
    data(Verb::Write, &segments, segments.get(0).unwrap())
}

/// What B says about A's message of one frame.
fn answer(syndrome: Syndrome) -> Frame<'static> {
    // What is complete counts; what is refused does not.
    let complete = Psn::wrapping(u32::from(syndrome.is_ack()));
    let aeth = Some(Aeth::new(syndrome, complete));
    from_b(to_a(Opcode::Acknowledge, Psn::wrapping(0x1000)), Extensions { aeth, ..NONE }, &[])
}

fn reth(length: u32) -> Reth {
    Reth { virtual_address: 0x7f2a_4000_0000, remote_key: RemoteKey(0x0018_1aed), length }
}

fn payload(segment: Segment) -> &'static [u8] {
    Payload::Pattern.bytes(segment.offset, segment.payload.into()).unwrap()
}

fn bytes(length: usize) -> &'static [u8] {
    Payload::Pattern.bytes(0, length).unwrap()
}

/// `07-write-middle` of RC RDMA WRITE Middle.
fn name(opcode: Opcode) -> String {
    let words = opcode.name().trim_start_matches("RC ").trim_start_matches("RDMA ").to_lowercase();
    let words = words.replace("ud send", "datagram-send").replace(' ', "-");
    format!("{:02x}-{words}", opcode.byte())
}
