//! What was typed: the arguments, as clap reads them. What they mean stands in `command`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// From a training plan to RoCEv2 packets on the wire, and back to measurements.
///
/// A PLAN is a file, or the name of a shipped one: demo, tutorial-dp8, tutorial-pp8, tutorial-tp8.
#[derive(Debug, Parser)]
#[command(name = "tokenwire", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Typed {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The life of a token in numbers: words, tokens, tensors, operations, payloads, wire bytes, time
    Explain(Explain),
    /// Write the trace of a plan: captures, dependency graphs, manifest
    Generate(Generate),
    /// Examine traces or captures, whoever made them, as a critic of RoCEv2 would
    Verify(Verify),
    /// Play a trace between agents and measure what the network does to it
    Replay(Replay),
    /// Everything on this machine, in one go: explain, generate, verify, replay, report
    Demo(Demo),
    /// Wait for a coordinator and play hosts of a trace (`replay` starts its own on this machine)
    Agent(Agent),
    /// Print the JSON Schema of a document
    Schema {
        /// Which document
        document: Document,
    },
    /// Print the completions of a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// A plan file, or the name of a shipped plan
    pub(crate) plan: String,
    /// Follow this text instead of the plan's
    #[arg(long, value_name = "FILE", conflicts_with = "tokens")]
    pub(crate) text: Option<PathBuf>,
    /// Follow this many tokens instead of a text
    #[arg(long, value_name = "N")]
    pub(crate) tokens: Option<u64>,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Generate {
    /// A plan file, or the name of a shipped plan
    pub(crate) plan: String,
    /// The trace folder to write
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// Write the captures of these NICs alone, for example 0,4-7
    #[arg(long, value_name = "LIST", value_parser = crate::selection::parse)]
    pub(crate) nics: Option<crate::selection::Selection>,
    /// Write this many training steps instead of the plan's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) steps: Option<u32>,
    /// Keep this many bytes of each frame (Wireshark then calls frames with a payload malformed)
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(64..))]
    pub(crate) snap: Option<u32>,
    /// Write captures in this format; pcapng names ports and addresses, and says of each message why it is there
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
    /// Write one pcapng capture of all NICs, in order of time, instead of one for each
    #[arg(long)]
    pub(crate) merge: bool,
    /// Compress captures; Wireshark opens them as they are
    #[arg(long, value_enum)]
    pub(crate) compress: Option<Compression>,
    /// Begin another file after this many frames, or `none` [default: 1000000]
    #[arg(long, value_name = "N", value_parser = crate::limit::frames)]
    pub(crate) split_frames: Option<crate::limit::Limit<std::num::NonZeroU64>>,
    /// Begin another file before this size, compression aside, or `none` [default: 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = crate::limit::bytes)]
    pub(crate) split_bytes: Option<crate::limit::Limit<traces::unit::Bytes>>,
    /// Write with this many threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
    /// Replace the trace folder that stands there
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// Trace folders or captures: pcap or pcapng, plain or compressed by gzip or zstd
    #[arg(required = true, value_name = "TRACE|PCAP")]
    pub(crate) paths: Vec<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The trace folder to play
    pub(crate) trace: PathBuf,
    /// Where run folders go
    #[arg(short, long, value_name = "DIR", default_value = "runs")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) how: How,
    /// Print summary.json instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

/// How a trace is played.
#[derive(Clone, Debug, Args)]
pub(crate) struct How {
    /// When a message goes: as soon as what it waits for is there, or at the trace's time
    #[arg(long, value_enum, default_value_t = Mode::Dependency)]
    pub(crate) mode: Mode,
    /// In timed mode, play at K times the trace's speed [default: 1]
    #[arg(long, value_name = "K", value_parser = crate::speed::parse)]
    pub(crate) speed: Option<crate::speed::Speed>,
    /// Where the hosts of the trace are: namespaces with veth pairs, loopback addresses, or whichever works
    #[arg(long, value_enum, default_value_t = Lab::Auto)]
    pub(crate) lab: Lab,
    /// How frames are handed to the kernel
    #[arg(long, value_enum, default_value_t = Offload::Auto)]
    pub(crate) offload: Offload,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Where the trace and the runs go; a second demo replaces the first
    #[arg(short, long, value_name = "DIR", default_value = "tokenwire-demo")]
    pub(crate) output: PathBuf,
    /// Where the hosts of the trace are: namespaces with veth pairs, loopback addresses, or whichever works
    #[arg(long, value_enum, default_value_t = Lab::Auto)]
    pub(crate) lab: Lab,
}

#[derive(Debug, Args)]
pub(crate) struct Agent {
    /// Listen for the coordinator on this loopback address
    #[arg(long, value_name = "ADDRESS:PORT", required_unless_present = "socket", conflicts_with = "socket")]
    pub(crate) listen: Option<SocketAddr>,
    /// Listen for the coordinator on this Unix socket
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// End when the process that started this one ends
    #[arg(long)]
    pub(crate) with_parent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    Dependency,
    Timed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lab {
    Auto,
    Namespaces,
    Loopback,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Offload {
    /// Whichever the kernel can do
    Auto,
    /// Segmentation offload: many frames of a flow a call
    Gso,
    /// A batch of single frames a call
    Mmsg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Pcap,
    Pcapng,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compression {
    Zstd,
    Gzip,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Document {
    Plan,
    Explain,
    Manifest,
    Verify,
    Summary,
}

const EXIT_CODES: &str = "\
Results go to stdout, progress and messages to stderr. Exit codes:
   0  done
   1  ran, but something checked failed
   2  the request was wrong, or could not be carried out
   3  a threshold was missed (kept for thresholds; no command takes one yet)
   4  interrupted or partial
  77  a privilege is missing";
