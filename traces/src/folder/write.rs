//! Writing a trace folder: everything goes into a hidden folder beside it, which takes its name when it is whole.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Component, Path, PathBuf};

use super::{CaptureFiles, FolderError};
use crate::graph::Head;
use crate::graph::encode::GraphWriter;
use crate::id::HostId;
use crate::manifest::Manifest;
use crate::pcap::Packing;
use crate::pcap::write::Form;

/// What to do when a trace folder already has the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Refuse.
    Keep,
    /// Replace it once the new one is whole; refused when it is not a trace folder.
    Replace,
}

/// A trace folder in the making. Dropped before [`Self::finish`], it leaves nothing behind.
#[derive(Debug)]
pub struct TraceFolderWriter {
    place: PathBuf,
    partial: PathBuf,
    existing: Existing,
    finished: bool,
}

impl TraceFolderWriter {
    /// Makes the hidden folder beside `place`, with the folders above it.
    ///
    /// # Errors
    /// [`FolderError::Exists`] or [`FolderError::Foreign`] when something stands at `place` that is to be kept,
    /// [`FolderError::Io`] when the folder can not be made.
    pub fn create(place: impl Into<PathBuf>, existing: Existing) -> Result<Self, FolderError> {
        let place = place.into();
        check_place(&place, existing)?;
        let name =
            place.file_name().map_or_else(|| "trace".into(), |name| name.to_string_lossy().into_owned());
        let above = place.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(above).map_err(FolderError::io("make folder", above))?;
        let partial = above.join(format!(".{name}.partial-{}", std::process::id()));
        remove_remains(above, &name);
        fs::create_dir(&partial).map_err(FolderError::io("make folder", &partial))?;
        let writer = Self { place, partial, existing, finished: false };
        for folder in ["graph", "pcap"] {
            let path = writer.partial.join(folder);
            fs::create_dir(&path).map_err(FolderError::io("make folder", path))?;
        }
        Ok(writer)
    }

    /// The path in the folder of a host's graph.
    #[must_use]
    pub fn graph_name(host: HostId) -> String {
        format!("graph/{host}.graph")
    }

    /// The files of the capture with this name, which are opened as they are needed.
    #[must_use]
    pub fn captures(&self, name: &str, form: &Form, packing: Packing) -> CaptureFiles {
        CaptureFiles::new(&self.partial, format!("pcap/{name}"), form, packing)
    }

    /// Starts the graph of a host at [`Self::graph_name`].
    ///
    /// # Errors
    /// [`FolderError`] when it can not be written.
    pub fn graph(&self, head: &Head) -> Result<GraphWriter<BufWriter<File>>, FolderError> {
        let path = self.partial.join(Self::graph_name(head.host));
        let output = File::create(&path).map_err(FolderError::io("write", &path))?;
        GraphWriter::new(BufWriter::with_capacity(WRITE_BYTES, output), head)
            .map_err(|source| FolderError::Graph { path, source })
    }

    /// Writes the text that the plan names, beside the plan.
    ///
    /// # Errors
    /// [`FolderError::Inconsistent`] when the name leads out of the folder, [`FolderError::Io`] when it can not be written.
    pub fn text(&self, name: &str, text: &str) -> Result<(), FolderError> {
        let inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
        let path = self.partial.join(name);
        if !inside || path.exists() {
            let what = format!("the text's name `{name}` is taken, or leads out of the folder");
            return Err(FolderError::Inconsistent { path: self.place.join("plan.toml"), what });
        }
        let above = path.parent().unwrap_or(&self.partial);
        fs::create_dir_all(above).map_err(FolderError::io("make folder", above))?;
        fs::write(&path, text).map_err(FolderError::io("write", &path))
    }

    /// Where the file `name` will be once the folder is whole, for messages.
    #[must_use]
    pub fn final_path(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    /// Writes the manifest and the plan, and gives the folder its name.
    ///
    /// # Errors
    /// [`FolderError`] when something can not be written, or has come to stand at the folder's place meanwhile.
    pub fn finish(mut self, manifest: &Manifest, plan_text: &str) -> Result<PathBuf, FolderError> {
        let json = serde_json::to_string_pretty(manifest)
            .map_err(|source| FolderError::Manifest { path: self.place.join("manifest.json"), source })?;
        for (name, text) in [("plan.toml", plan_text), ("manifest.json", &format!("{json}\n"))] {
            let path = self.partial.join(name);
            fs::write(&path, text).map_err(FolderError::io("write", path))?;
        }
        check_place(&self.place, self.existing)?;
        if self.place.exists() {
            // A rename does not replace a folder that holds something, so the old one steps aside first.
            let aside = self.partial.with_extension("old");
            fs::rename(&self.place, &aside).map_err(FolderError::io("move aside", &self.place))?;
            if let Err(error) = fs::rename(&self.partial, &self.place) {
                fs::rename(&aside, &self.place).map_err(FolderError::io("move back", &self.place))?;
                return Err(FolderError::io("rename to", &self.place)(error));
            }
            self.finished = true;
            fs::remove_dir_all(&aside).map_err(FolderError::io("remove", aside))?;
        } else {
            fs::rename(&self.partial, &self.place).map_err(FolderError::io("rename to", &self.place))?;
            self.finished = true;
        }
        Ok(self.place.clone())
    }
}

impl Drop for TraceFolderWriter {
    fn drop(&mut self) {
        if !self.finished {
            // Nothing more can be done about a folder that can not be removed; its name says that it is partial.
            let _ = fs::remove_dir_all(&self.partial);
        }
    }
}

/// Removes what processes left that were killed while they wrote a folder of this name, this one's number among them.
fn remove_remains(above: &Path, name: &str) {
    let prefix = format!(".{name}.partial-");
    let Ok(entries) = fs::read_dir(above) else { return };
    for entry in entries.flatten() {
        let file = entry.file_name();
        let Some(process) = file.to_str().and_then(|file| file.strip_prefix(&prefix)?.parse::<u32>().ok())
        else {
            continue;
        };
        // Without /proc nobody can be said to be dead.
        let processes = Path::new("/proc");
        let dead = processes.join("self").exists() && !processes.join(process.to_string()).exists();
        if dead || process == std::process::id() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn check_place(place: &Path, existing: Existing) -> Result<(), FolderError> {
    let path = || place.to_owned();
    match (existing, place.symlink_metadata().is_ok()) {
        (_, false) => Ok(()),
        (Existing::Keep, true) => Err(FolderError::Exists { path: path() }),
        (Existing::Replace, true) if place.join("manifest.json").is_file() => Ok(()),
        (Existing::Replace, true) => Err(FolderError::Foreign { path: path() }),
    }
}

/// Large enough that a graph is written at the speed of the page cache.
const WRITE_BYTES: usize = 256 << 10;
