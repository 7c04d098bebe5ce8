//! The trace folder on disk: opened for reading, or written beside its place and renamed when it is whole.
//!
//! ```text
//! manifest.json          what is here
//! plan.toml              the plan as meant, every default written out
//! text/                  the text that it names
//! graph/host0.graph      the dependency graph of a host (crate::graph)
//! pcap/host0-nic0.pcap   the capture of a port, one file or a set (crate::pcap)
//! ```
//!
//! This is the one module of the crate that opens files.

mod open;
mod captures;
mod write;

pub use captures::CaptureFiles;
pub use open::TraceFolder;
pub use write::{Existing, TraceFolderWriter};

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::graph::encode::GraphError;
use crate::id::{HostId, NicId};
use crate::manifest::FORMAT_VERSION;

/// Why a trace folder can not be read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The system refused.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Something stands where the folder should be written.
    #[error("{} exists; choose another folder, or ask to overwrite it", path.display())]
    Exists {
        /// Where.
        path: PathBuf,
    },
    /// What stands there is not a trace folder, so it is not overwritten.
    #[error("{} is not a trace folder (it has no manifest.json), so it is not overwritten", path.display())]
    Foreign {
        /// Where.
        path: PathBuf,
    },
    /// There is no trace folder.
    #[error("{} is not a trace folder: it has no manifest.json", path.display())]
    NotATrace {
        /// Where.
        path: PathBuf,
    },
    /// The manifest is not the JSON that it should be.
    #[error("{} is not a manifest", path.display())]
    Manifest {
        /// Which file.
        path: PathBuf,
        /// What is wrong, and where.
        #[source]
        source: serde_json::Error,
    },
    /// The folder is of another version.
    #[error(
        "{} has format version {found}, but this program reads version {FORMAT_VERSION}; generate the trace again",
        path.display()
    )]
    Version {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
    /// The manifest contradicts itself.
    #[error("{}: {what}", path.display())]
    Inconsistent {
        /// Which file.
        path: PathBuf,
        /// How.
        what: String,
    },
    /// The folder has no graph of this host.
    #[error("{} has no graph of {host}; generate the trace with all of its NICs", path.display())]
    NoGraph {
        /// Which folder.
        path: PathBuf,
        /// Which host.
        host: HostId,
    },
    /// The folder has no capture of this NIC.
    #[error("{} has no capture of {nic}; generate the trace with it", path.display())]
    NoCapture {
        /// Which folder.
        path: PathBuf,
        /// Which NIC.
        nic: NicId,
    },
    /// A graph is damaged.
    #[error("{}", path.display())]
    Graph {
        /// Which file.
        path: PathBuf,
        /// What is wrong, and where.
        #[source]
        source: GraphError,
    },
}

impl FolderError {
    /// For `map_err`: the system refused `doing` on `path`.
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }
}

#[cfg(test)]
mod tests;
