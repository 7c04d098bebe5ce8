//! The files that frames go to, with what is said of them.

use std::io;

use traces::pcap::write::{CaptureWriter, Files, Form};
use traces::unit::Nanos;

use super::Settings;
use crate::connection::Network;
use crate::notes;
use crate::timeline::{Burst, Content};

/// Where frames go.
#[derive(Debug)]
pub struct Output<F: Files> {
    pub(super) writer: CaptureWriter<F>,
    pub(super) epoch: Nanos,
    pub(super) snap: usize,
    /// The note about the frame at hand.
    pub(super) note: String,
}

impl<F: Files> Output<F> {
    /// Frames go to `files`.
    ///
    /// # Errors
    /// What the files say.
    pub fn new(settings: &Settings<'_>, files: F, form: &Form) -> io::Result<Self> {
        let Settings { epoch, snap, block, split, .. } = *settings;
        Ok(Self {
            writer: CaptureWriter::new(files, form, block, split)?,
            epoch,
            snap: snap.and_then(|snap| usize::try_from(snap).ok()).unwrap_or(usize::MAX),
            note: String::new(),
        })
    }

    /// Ends the last file.
    ///
    /// # Errors
    /// What the files say.
    pub fn finish(self) -> io::Result<F> {
        Ok(self.writer.finish()?.0)
    }

    /// Why the message is there that a burst begins, if it begins one, in files that have room for it.
    pub(super) fn note(&mut self, begins: bool, burst: &Burst, network: &Network) -> bool {
        match burst.content {
            Content::Data { carried, first: 0, again, .. } if begins && self.writer.is_labelled() => {
                notes::message(&mut self.note, network, network.pair(burst.sender), &carried, again);
                true
            }
            _ => false,
        }
    }
}
