//! A trace, tshark with the companion, and captures as records.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use traces::folder::TraceFolder;
use traces::graph::{Message, Work};
use traces::id::HostId;
use traces::pcap::CaptureReader;
use traces::pcap::write::PcapWriter;
use traces::unit::Nanos;

use crate::program::{judge, result, root};

/// Tensor, pipeline and data parallelism over eight hosts: every kind of origin, some hundred messages a NIC.
pub(super) const PLAN: &str = "version = 1\nname = \"companion\"\nseed = 7\n[model]\nfamily = \"gpt\"\nlayers = 4\nhidden = 36\n\
    heads = 4\nvocab = 501\n[training]\nsequence_length = 33\nmicro_batch = 3\nglobal_batch = 12\nsteps = 2\ntokens = 33\n\
    [parallelism]\ntensor = 2\npipeline = 2\ndata = 2\n[cluster]\nhosts = 8\ngpus_per_host = 1\nlink = \"100Gbit\"\n\
    [transport]\npath_mtu = 1024\n";

pub(super) const PATH_MTU: u64 = 1024;

/// A trace, and tshark with the companion and no configuration but that.
pub(super) struct Bench {
    pub(super) tshark: PathBuf,
    pub(super) folder: tempfile::TempDir,
}

impl Bench {
    pub(super) fn new() -> Option<Self> {
        Self::of(PLAN)
    }

    pub(super) fn of(plan: &str) -> Option<Self> {
        let tshark = judge("tshark")?;
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("plan.toml"), plan).unwrap();
        result(folder.path(), &["generate", "plan.toml", "-o", "trace"]);
        Some(Self { tshark, folder })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn capture(&self, host: u32) -> PathBuf {
        self.path(&format!("trace/pcap/host{host}-nic0.pcap"))
    }

    pub(super) fn manifest(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.path("trace/manifest.json")).unwrap()).unwrap()
    }

    /// Runs tshark on a capture in `folder`, which must end well and complain of nothing.
    pub(super) fn run(&self, capture: &Path, arguments: &[&str]) -> String {
        let script = format!("lua_script:{}", root().join("docs/wireshark/tokenwire.lua").display());
        let output = Command::new(&self.tshark)
            .args(["-n", "-X", &script, "-r"])
            .arg(capture)
            .args(arguments)
            .current_dir(self.folder.path())
            .env("XDG_CONFIG_HOME", self.path("config"))
            .output()
            .unwrap();
        let complaints = String::from_utf8_lossy(&output.stderr);
        let complaints: Vec<_> =
            complaints.lines().filter(|line| !line.starts_with("Running as user \"root\"")).collect();
        assert!(output.status.success() && complaints.is_empty(), "{arguments:?}: {complaints:#?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// These fields of the frames that a filter lets pass; an absent one is empty.
    pub(super) fn fields(
        &self,
        capture: &Path,
        filter: &str,
        fields: &[&str],
        more: &[&str],
    ) -> Vec<Vec<String>> {
        let mut arguments = vec!["-Y", filter, "-T", "fields"];
        arguments.extend(fields.iter().flat_map(|field| ["-e", field]));
        arguments.extend(more);
        let said = self.run(capture, &arguments);
        said.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    }

    pub(super) fn count(&self, capture: &Path, filter: &str) -> usize {
        self.run(capture, &["-Y", filter]).lines().count()
    }

    /// The messages that a host sends, from its graph.
    pub(super) fn messages(&self, host: u32) -> Vec<Message> {
        let mut graph = TraceFolder::open(self.path("trace")).unwrap().graph(HostId(host)).unwrap();
        std::iter::from_fn(|| graph.node().unwrap())
            .filter_map(|node| match node.work {
                Work::Send(message) => Some(message),
                _ => None,
            })
            .collect()
    }
}

/// Frames of a message.
pub(super) fn frames(message: &Message) -> u64 {
    message.bytes.0.div_ceil(PATH_MTU).max(1)
}

/// The records of a capture: times and bytes.
pub(super) fn records(capture: &Path) -> Vec<(Nanos, Vec<u8>)> {
    let mut reader = CaptureReader::new(fs::File::open(capture).unwrap()).unwrap();
    let mut records = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        records.push((record.time, record.bytes.to_vec()));
    }
    records
}

pub(super) fn write(capture: &Path, records: &[(Nanos, Vec<u8>)]) {
    let mut writer = PcapWriter::new(fs::File::create(capture).unwrap());
    for (time, bytes) in records {
        writer.frame(*time, bytes, bytes.len()).unwrap();
    }
    writer.finish().unwrap();
}

/// Bytes of an untagged IPv4 frame.
pub(super) const FROM: std::ops::Range<usize> = 26..30;
pub(super) const TO: std::ops::Range<usize> = 30..34;
pub(super) const PORT: std::ops::Range<usize> = 34..36;
pub(super) const OPCODE: usize = 42;
pub(super) const QPN: std::ops::Range<usize> = 47..50;
pub(super) const PSN: std::ops::Range<usize> = 51..54;
pub(super) const SYNDROME: usize = 54;
pub(super) const PAYLOAD_OF_MIDDLE: usize = 54;
