//! Where an agent listens for its coordinator.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where an agent listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A Unix socket: reached from any network namespace of the machine.
    Socket(PathBuf),
    /// A TCP port.
    Tcp(SocketAddr),
}

impl Place {
    /// The address as gRPC's client takes it.
    pub(super) fn uri(&self) -> String {
        match self {
            Self::Socket(path) => format!("unix://{}", path.display()),
            Self::Tcp(address) => format!("http://{address}"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => path.display().fmt(f),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}
