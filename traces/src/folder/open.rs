//! Reading a trace folder: the manifest at once, graphs and captures as streams.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::FolderError;
use crate::graph::encode::{GraphError, GraphReader};
use crate::id::{HostId, NicId};
use crate::manifest::{FORMAT_VERSION, Host, Manifest, Nic, QueuePair};

/// A trace folder whose manifest was read and is consistent.
#[derive(Clone, Debug)]
pub struct TraceFolder {
    path: PathBuf,
    manifest: Manifest,
}

impl TraceFolder {
    /// Reads the manifest of the folder at `path` and checks that all it names is there.
    ///
    /// # Errors
    /// [`FolderError`] when it is no trace folder, of another version, contradictory, or lacks a file.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, FolderError> {
        let path = path.into();
        let manifest_path = path.join("manifest.json");
        let text = match fs::read_to_string(&manifest_path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_dir() => {
                return Err(FolderError::NotATrace { path });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(FolderError::Io { doing: "open", path, source: error });
            }
            Err(source) => return Err(FolderError::Io { doing: "read", path: manifest_path, source }),
        };
        let manifest = parse(&manifest_path, &text)?;
        let folder = Self { path, manifest };
        folder.check_files()?;
        Ok(folder)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it holds.
    #[must_use]
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Opens the graph of a host.
    ///
    /// # Errors
    /// [`FolderError`] when the folder has none, or it is damaged at its start, or of another host or plan.
    pub fn graph(&self, host: HostId) -> Result<GraphReader<BufReader<File>>, FolderError> {
        let named = self.manifest.hosts.get(host.index()).and_then(|host| host.graph.as_ref());
        let Some(file) = named else {
            return Err(FolderError::NoGraph { path: self.path.clone(), host });
        };
        let path = self.path.join(file);
        let input = File::open(&path).map_err(FolderError::io("open", &path))?;
        let reader = GraphReader::new(BufReader::with_capacity(READ_BYTES, input))
            .map_err(|source| FolderError::Graph { path: path.clone(), source })?;
        let head = reader.head();
        if head.host != host || head.plan_digest != self.manifest.plan_digest {
            let what =
                format!("the graph of {} under plan {}, not of {host} here", head.host, head.plan_digest);
            return Err(FolderError::Inconsistent { path, what });
        }
        Ok(reader)
    }

    /// The capture files of a NIC, in order of time.
    ///
    /// # Errors
    /// [`FolderError::NoCapture`] when the folder has none.
    pub fn captures(&self, nic: NicId) -> Result<Vec<PathBuf>, FolderError> {
        match self.manifest.nics.get(nic.index()) {
            Some(Nic { pcap, .. }) if !pcap.is_empty() => {
                Ok(pcap.iter().map(|file| self.path.join(file)).collect())
            }
            _ => Err(FolderError::NoCapture { path: self.path.clone(), nic }),
        }
    }

    /// The plan as it was meant, every default written out.
    ///
    /// # Errors
    /// [`FolderError::Io`] when it can not be read.
    pub fn plan_text(&self) -> Result<String, FolderError> {
        let path = self.path.join("plan.toml");
        fs::read_to_string(&path).map_err(FolderError::io("read", path))
    }

    /// The error of a damaged graph, with its path.
    pub(crate) fn damaged(&self, file: &str, source: GraphError) -> FolderError {
        FolderError::Graph { path: self.path.join(file), source }
    }

    fn check_files(&self) -> Result<(), FolderError> {
        let graphs = self.manifest.hosts.iter().filter_map(|host| host.graph.as_ref());
        for file in graphs.chain(self.manifest.nics.iter().flat_map(|nic| &nic.pcap)) {
            let path = self.path.join(file);
            fs::metadata(&path).map_err(FolderError::io("find", path))?;
        }
        Ok(())
    }
}

fn parse(path: &Path, text: &str) -> Result<Manifest, FolderError> {
    #[derive(Deserialize)]
    struct Version {
        schema_version: u64,
    }
    let broken = |source| FolderError::Manifest { path: path.to_owned(), source };
    let Version { schema_version: found } = serde_json::from_str(text).map_err(broken)?;
    if found != u64::from(FORMAT_VERSION) {
        return Err(FolderError::Version { path: path.to_owned(), found });
    }
    let manifest: Manifest = serde_json::from_str(text).map_err(broken)?;
    match contradiction(&manifest) {
        Some(what) => Err(FolderError::Inconsistent { path: path.to_owned(), what }),
        None => Ok(manifest),
    }
}

/// What makes a manifest unfit to index into: lists are in order of their ids, references lead somewhere, and files
/// stay in the folder.
fn contradiction(manifest: &Manifest) -> Option<String> {
    let Manifest { hosts, nics, queue_pairs, .. } = manifest;
    if let Some((place, host)) = hosts.iter().enumerate().find(|(place, host)| host.id.index() != *place) {
        return Some(format!("{} stands in place {place} of hosts", host.id));
    }
    for (place, nic) in nics.iter().enumerate() {
        if nic.id.index() != place {
            return Some(format!("{} stands in place {place} of nics", nic.id));
        }
        if nic.host.index() >= hosts.len() {
            return Some(format!("{} is in {}, but there are {} hosts", nic.id, nic.host, hosts.len()));
        }
        if nic.link_bps == 0 {
            return Some(format!("{} has link_bps 0", nic.id));
        }
    }
    for (place, pair) in queue_pairs.iter().enumerate() {
        let QueuePair { id, nic, peer, qpn, first_psn, .. } = pair;
        let back = queue_pairs.get(peer.index()).map(|peer| peer.peer);
        if id.index() != place || nic.index() >= nics.len() || back != Some(*id) {
            return Some(format!(
                "{id} in place {place} of queue_pairs: its nic is {nic}, its peer {peer} leads back to {back:?}"
            ));
        }
        if *qpn >= 1 << 24 || *first_psn >= 1 << 24 {
            return Some(format!("{id} has a qpn or first_psn of more than 24 bits"));
        }
    }
    let files = hosts.iter().filter_map(|Host { graph, .. }| graph.as_ref());
    files
        .chain(nics.iter().flat_map(|nic| &nic.pcap))
        .find(|file| {
            !Path::new(file).components().all(|part| matches!(part, std::path::Component::Normal(_)))
        })
        .map(|file| format!("the file `{file}` leads out of the folder"))
}

/// Large enough that a graph is read at the speed of the page cache.
const READ_BYTES: usize = 256 << 10;
