//! What can go wrong between a coordinator and its agents.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

/// Why a run could not be led, or an agent could not serve.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The agent would be open to the network.
    #[error(
        "{0} is not loopback; agents have no authentication yet, so listen on 127.0.0.1 or on a Unix socket"
    )]
    Open(SocketAddr),
    /// The agent can not listen.
    #[error("cannot listen on {0}")]
    Listen(String, #[source] io::Error),
    /// The runtime did not start.
    #[error("cannot start the control threads")]
    Runtime(#[source] io::Error),
    /// The agent's server failed.
    #[error("the agent's server ended")]
    Serve(#[source] tonic::transport::Error),
    /// The agent does not answer.
    #[error("agent {agent} does not answer")]
    Connect {
        /// Where it should be.
        agent: String,
        /// Why.
        #[source]
        source: tonic::transport::Error,
    },
    /// The agent is another version.
    #[error("agent {agent} is version {theirs}, this program {ours}; use one version on all machines")]
    Version {
        /// Where it is.
        agent: String,
        /// Its version.
        theirs: String,
        /// Our version.
        ours: &'static str,
    },
    /// The agent does not share the coordinator's clock.
    #[error(
        "agent {0} is on another machine; clocks are not synchronized yet, so all agents run on this one"
    )]
    Machine(String),
    /// The agent refused.
    #[error("agent {agent} can not {doing}: {}", .status.message())]
    Refused {
        /// Where it is.
        agent: String,
        /// What was asked.
        doing: &'static str,
        /// Its answer.
        status: Box<tonic::Status>,
    },
    /// The path of a socket is longer than the system takes.
    #[error("{} is not a path that a Unix socket can have", .0.display())]
    Path(PathBuf),
}

/// An error with its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
