//! What is right: examples made by our own writers, from which inputs are drawn.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::ControlFlow;
use std::path::Path;

use generator::plan::Plan;
use generator::trace::{self, Options};
use traces::folder::TraceFolder;
use traces::id::{HostId, NicId};
use traces::pcap::packing::Packer;
use traces::pcap::write::{Label, PcapNgWriter, Section};
use traces::pcap::{CaptureReader, Direction, Interface, Packing, PcapWriter};
use traces::unit::Nanos;
use traces::wire::management::{Endpoint, IpHeader, Mad, ReadyToUse, Reply, Request, ServiceId};
use traces::wire::{Bth, Ecn, Extensions, Frame, Ip, Link, Mac, Network, Opcode, PathMtu, Psn, Qpn, Vlan};

/// Small traces, as the generator writes them.
pub(crate) struct Material {
    /// The plans that they were made from.
    pub(crate) plans: Vec<Vec<u8>>,
    /// Their manifests.
    pub(crate) manifests: Vec<Vec<u8>>,
    /// Their graphs.
    pub(crate) graphs: Vec<Vec<u8>>,
    /// The first frames of their captures.
    pub(crate) captures: Vec<Vec<u8>>,
    /// Messages of connection management.
    pub(crate) management: Vec<Vec<u8>>,
    /// A frame of each opcode, in each form of the headers below.
    pub(crate) frames: Vec<Vec<u8>>,
}

impl Material {
    /// Writes the traces below `folder` and reads them.
    pub(crate) fn make(folder: &Path) -> Self {
        let mut material = Self {
            plans: PLANS.iter().map(|text| text.as_bytes().to_vec()).collect(),
            manifests: Vec::new(),
            graphs: Vec::new(),
            captures: Vec::new(),
            management: management(),
            frames: frames(),
        };
        for (number, text) in PLANS.iter().enumerate() {
            let plan = Plan::read("plan", text, |_| Ok("In the middle".to_owned())).unwrap();
            material.plans.push(plan.to_toml().into_bytes());
            let options = Options { steps: Some(1), ..Options::default() };
            let place = folder.join(format!("trace{number}"));
            let place = trace::generate(&plan, &options, &place, &|_| ControlFlow::Continue(())).unwrap();
            let trace = TraceFolder::open(&place).unwrap();
            let read = |name: &str| std::fs::read(place.join(name)).unwrap();
            material.manifests.push(read("manifest.json"));
            let manifest = trace.manifest();
            material.graphs.push(read(manifest.hosts[HostId(0).index()].graph.as_deref().unwrap()));
            for path in trace.captures(NicId(0)).unwrap() {
                material.captures.push(first_frames(&std::fs::read(path).unwrap()));
            }
        }
        material
    }

    /// A capture of the frames of all opcodes.
    pub(crate) fn capture_of_opcodes(&self) -> Vec<u8> {
        let mut writer = PcapWriter::new(Vec::new());
        for (frame, at) in self.frames.iter().zip(1..) {
            writer.frame(Nanos(at * 1_000), frame, frame.len()).unwrap();
        }
        writer.finish().unwrap().0
    }

    /// The captures as pcapng: of a named interface, with notes, directions, and names of addresses.
    pub(crate) fn sections(&self) -> Vec<Vec<u8>> {
        let interface = Interface {
            name: Some("host0-nic0".to_owned()),
            description: Some("port 0".to_owned()),
            mac: Some(Mac([2, 0, 198, 18, 0, 1])),
            addresses: vec![([198, 18, 0, 1].into(), 15)],
            bits_per_second: Some(400_000_000_000),
            link_type: 1,
        };
        let section = Section {
            program: "tokenwire".to_owned(),
            comment: Some("two replicas".to_owned()),
            interfaces: vec![interface.clone(), Interface { name: None, ..interface }],
            names: vec![([198, 18, 0, 2].into(), "host1-nic0".to_owned())],
        };
        let written = |capture: &Vec<u8>| {
            let mut reader = CaptureReader::new(capture.as_slice()).unwrap();
            let mut writer = PcapNgWriter::new(Vec::new(), &section).unwrap();
            while let Some(record) = reader.next_record().unwrap() {
                let label = Label {
                    interface: usize::from(record.number % 2 == 0),
                    direction: (record.number % 3 == 0).then_some(Direction::Inbound),
                    comment: (record.number % 4 == 0).then_some("step 0, layer 1, dp_gradients"),
                };
                let length = usize::try_from(record.original_length).unwrap();
                writer.frame(&label, record.time, record.bytes, length).unwrap();
            }
            writer.finish().unwrap().0
        };
        self.captures.iter().map(written).collect()
    }

    /// Captures of both kinds, compressed in each way.
    pub(crate) fn packed(&self) -> Vec<Vec<u8>> {
        let captures = self.captures.iter().cloned().chain(self.sections());
        let packed = |capture: Vec<u8>| {
            [Packing::Gzip, Packing::Zstd].map(|packing| {
                let mut packer = Packer::new(Vec::new(), packing).unwrap();
                packer.write_all(&capture).unwrap();
                packer.finish().unwrap()
            })
        };
        captures.flat_map(packed).collect()
    }
}

fn first_frames(capture: &[u8]) -> Vec<u8> {
    let mut reader = CaptureReader::new(capture).unwrap();
    let mut writer = PcapWriter::new(Vec::new());
    for _ in 0..FRAMES {
        let Some(record) = reader.next_record().unwrap() else { break };
        let length = usize::try_from(record.original_length).unwrap();
        writer.frame(record.time, record.bytes, length).unwrap();
    }
    writer.finish().unwrap().0
}

/// A connection asked for over IPv4 and over IPv6, granted, made, and ended.
fn management() -> Vec<Vec<u8>> {
    let end = |queue_pair| Endpoint {
        communication: queue_pair + 9,
        guid: 0x0200_c6ff_fe12_0001,
        queue_pair: Qpn::new(queue_pair).unwrap(),
        starting_psn: Psn::wrapping(0x89_bb0e),
    };
    let request = |source: IpAddr, destination: IpAddr| {
        let addresses = IpHeader::new(40_000, source, destination);
        Request::new(&end(0x124), ServiceId::tcp(7_471), addresses, PathMtu::Mtu1024)
    };
    let v6 = request(
        Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1).into(),
        Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2).into(),
    );
    let v4 = request([198, 18, 0, 1].into(), [198, 18, 0, 2].into());
    let reply = Reply::new(&end(0x2a7), &v4);
    let ready = ReadyToUse::new(&reply);
    [Mad::new(1, v4), Mad::new(2, v6), Mad::new(1, reply), Mad::new(1, ready)]
        .map(|mad| mad.to_bytes().to_vec())
        .to_vec()
}

/// Each opcode over IPv4, over IPv4 with a VLAN tag, and over IPv6.
fn frames() -> Vec<Vec<u8>> {
    let vlan = Some(Vlan { priority: 3, drop_eligible: false, id: 100 });
    let v4 = Ip::V4 {
        source: Ipv4Addr::new(198, 18, 0, 1),
        destination: Ipv4Addr::new(198, 18, 0, 2),
        identification: 7,
        dont_fragment: true,
    };
    let v6 = Ip::V6 {
        source: Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1),
        destination: Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2),
        flow_label: 0x12345,
    };
    let forms = [(None, v4), (vlan, v4), (None, v6)];
    let opcodes = Opcode::ALL.iter().zip(0..);
    opcodes.flat_map(|(&opcode, number)| forms.map(|(vlan, ip)| frame(opcode, number, vlan, ip))).collect()
}

fn frame(opcode: Opcode, number: u32, vlan: Option<Vlan>, ip: Ip) -> Vec<u8> {
    let shape = opcode.shape();
    let headers: [u8; Extensions::MAX_LEN] = std::array::from_fn(|place| u8::try_from(place).unwrap());
    let (extensions, _) = Extensions::parse(&shape, &headers).unwrap();
    let payload = if shape.payload { &b"the life of a token"[..] } else { &[] };
    let mut bth = Bth::new(opcode, Qpn::new(0x2a7).unwrap(), Psn::wrapping(number));
    bth.ack_request = shape.place.ends();
    let frame = Frame {
        link: Link { source: Mac([2, 0, 198, 18, 0, 1]), destination: Mac([2, 0, 198, 18, 0, 2]), vlan },
        network: Network { ip, dscp: 26, ecn: Ecn::Capable0, ttl: 64 },
        source_port: 50_800,
        bth,
        extensions,
        payload,
    };
    let mut bytes = Vec::new();
    frame.emit(&mut bytes).unwrap();
    bytes
}

/// Frames of an example: enough for messages and their acknowledgements, few enough to be read often.
const FRAMES: u32 = 48;

const PLANS: [&str; 2] = [
    r#"
version = 1
name = "two replicas"
seed = 7
[model]
family = "gpt"
layers = 2
hidden = 32
heads = 2
vocab = 512
[training]
sequence_length = 16
micro_batch = 1
global_batch = 2
steps = 1
text = "a.txt"
[parallelism]
data = 2
buckets = "64KiB"
[cluster]
hosts = 2
gpus_per_host = 1
link = "100Gbit"
[transport]
path_mtu = 512
payload = "zero"
[collectives]
channels = 2
"#,
    r#"
version = 1
name = "two stages"
[model]
preset = "gpt2"
layers = 2
hidden = 16
heads = 1
ffn = 32
vocab = 64
[training]
sequence_length = 8
micro_batch = 1
global_batch = 4
tokens = 100
[parallelism]
pipeline = 2
schedule = "gpipe"
layers_per_stage = [1, 1]
order = "tp-cp-ep-dp-pp"
[cluster]
hosts = 2
gpus_per_host = 1
nics_per_host = 1
link = "10Gbit"
nvlink = "100Gbit"
addresses = "2001:2::/48"
vlan = 100
mtu = 1500
[transport]
path_mtu = 256
dscp = 26
ecn = 2
ttl = 64
[timing]
peak_flops = 1000000000000
efficiency_percent = 50
[fabric]
model = "ideal"
latency = "3us"
quantum = 4
[fabric.ecn]
kmin = "10KiB"
kmax = "40KiB"
pmax = "1%"
[[fabric.impairments]]
kind = "loss"
message = 1
frame = 2
count = 2
times = 2
[[fabric.impairments]]
kind = "ce"
burst = { start = "0.1%", frames = 4 }
from = "host0-nic0"
to = 1
[[fabric.impairments]]
kind = "delay"
rate = 0.01
delay = "7us"
frames = "all"
between = ["0us", "1ms"]
[[fabric.impairments]]
kind = "rnr"
rate = "0.1%"
class = "pp_forward"
"#,
];
