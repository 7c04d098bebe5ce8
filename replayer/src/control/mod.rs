//! How a coordinator leads agents: gRPC, one process per host, the one part of the replayer that is asynchronous.
//!
//! The coordinator shares out a trace, lets all agents prepare, starts them at one instant, watches, stops and
//! collects. Frames never pass here. Agents have no authentication yet, so they listen on a Unix socket or on
//! loopback and on nothing else.

#[expect(
    unused_qualifications,
    unreachable_pub,
    clippy::all,
    reason = "generated from proto/control.proto, which has the documentation"
)]
mod protocol {
    tonic::include_proto!("tokenwire.control.v1");
}
mod error;
pub mod place;
pub mod spec;
mod session;
pub mod agent;
mod party;
pub mod coordinator;

pub use agent::{AgentOptions, serve};
pub use coordinator::{Run, run};
pub use error::ControlError;
pub(crate) use error::chain;
pub use place::Place;
pub use spec::{AgentPlace, RunSpec};

pub use crate::dataplane::Standing;

/// The version that coordinator and agents compare.
const VERSION: &str = env!("CARGO_PKG_VERSION");
