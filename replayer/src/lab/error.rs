//! Why there is no testbed.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why there is no testbed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LabError {
    /// A folder for the agents' sockets can not be made.
    #[error("cannot make the folder {} for the agents' sockets", .0.display())]
    Folder(PathBuf, #[source] io::Error),
    /// A program can not be started.
    #[error("cannot start `{program}`")]
    Spawn {
        /// Which.
        program: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A program did not do what it was asked.
    #[error("`{program}` ended with {how}: {said}")]
    Command {
        /// Which, with its first arguments.
        program: String,
        /// Its exit status.
        how: String,
        /// What it said on standard error.
        said: String,
    },
    /// An agent did not begin to listen.
    #[error("the agent of {host} {what}")]
    Agent {
        /// Whose.
        host: String,
        /// What it did instead, and what it said.
        what: String,
    },
    /// The trace's addresses can not be given to namespaces.
    #[error("{nic} has the address `{address}`, which is not in 198.18.0.0/15 or 2001:2::/48")]
    Address {
        /// Whose.
        nic: String,
        /// Which.
        address: String,
    },
    /// All of loopback is taken.
    #[error("UDP port {0} is in use on all of 127.100.0.0 to 127.131.255.255; end the other runs")]
    Loopback(u16),
    /// More NICs than loopback has room for.
    #[error("{0} NICs; a testbed on loopback has at most 60,000")]
    Nics(usize),
}
