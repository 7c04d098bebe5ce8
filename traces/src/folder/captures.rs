//! A capture's files in a trace folder that is being written: one with a plain name, or a set with Wireshark's names for
//! sets, by which it steps from file to file.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::pcap::Packing;
use crate::pcap::packing::Packer;
use crate::pcap::write::{Files, Form};
use crate::unit::{Bytes, Nanos};

/// The files of one capture.
#[derive(Debug)]
pub struct CaptureFiles {
    folder: PathBuf,
    /// The path in the folder, without what stands behind the name: `pcap/host0-nic0`.
    stem: String,
    /// What stands behind it: `.pcapng.zst`.
    suffix: String,
    packing: Packing,
    opened: usize,
    ended: Vec<String>,
    bytes: Bytes,
}

impl CaptureFiles {
    pub(super) fn new(folder: &Path, stem: String, form: &Form, packing: Packing) -> Self {
        let form = match form {
            Form::Pcap => ".pcap",
            Form::PcapNg(_) => ".pcapng",
        };
        let suffix = format!("{form}{}", packing.suffix());
        let folder = folder.to_owned();
        Self { folder, stem, suffix, packing, opened: 0, ended: Vec::new(), bytes: Bytes::ZERO }
    }

    /// The paths in the folder of the files that are whole, in order.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.ended
    }

    /// Their bytes on disk.
    #[must_use]
    pub const fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// The name of the one file, if there is but one.
    #[must_use]
    pub fn plain_name(&self) -> String {
        format!("{}{}", self.stem, self.suffix)
    }

    /// The name that a file has while it is written.
    fn working_name(&self, index: usize) -> String {
        if index == 0 { self.plain_name() } else { format!("{}_{index:05}.partial", self.stem) }
    }
}

impl Files for CaptureFiles {
    type File = Packer<File>;

    fn next(&mut self) -> io::Result<Packer<File>> {
        let file = File::create(self.folder.join(self.working_name(self.opened)))?;
        self.opened += 1;
        Packer::new(file, self.packing)
    }

    fn end(&mut self, file: Packer<File>, first: Option<Nanos>, more: bool) -> io::Result<()> {
        let file = file.finish()?;
        self.bytes += Bytes(file.metadata()?.len());
        let index = self.ended.len();
        let working = self.working_name(index);
        let name = if index == 0 && !more {
            working.clone()
        } else {
            let first = date(first.unwrap_or_default());
            format!("{}_{:05}_{first}{}", self.stem, index + 1, self.suffix)
        };
        if name != working {
            fs::rename(self.folder.join(working), self.folder.join(&name))?;
        }
        self.ended.push(name);
        Ok(())
    }
}

/// An instant since 1970 as file sets write it, in UTC: `20260101000000`.
fn date(at: Nanos) -> String {
    let seconds = at.0 / 1_000_000_000;
    let (mut days, second) = (seconds / DAY, seconds % DAY);
    let mut year = 1970;
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let length = |year| if leap(year) { 366 } else { 365 };
    while days >= length(year) {
        days -= length(year);
        year += 1;
    }
    let february = if leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{:02}{hour:02}{minute:02}{second:02}", days + 1)
}

const DAY: u64 = 86_400;

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::folder::{Existing, TraceFolderWriter};
    use crate::pcap::CaptureReader;
    use crate::pcap::write::{CaptureWriter, Label, Split};

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "19700101000000"),
            (951_782_399, "20000228235959"),
            (951_782_400, "20000229000000"),
            (951_868_800, "20000301000000"),
            (1_767_225_600, "20260101000000"),
            (4_107_542_399, "21000228235959"),
            (4_107_542_400, "21000301000000"),
            (1_735_689_599, "20241231235959"),
        ] {
            assert_eq!(date(Nanos(seconds * 1_000_000_000)), text);
        }
    }

    #[test]
    fn one_file_has_the_plain_name_and_several_have_those_of_a_set() {
        let place = tempfile::tempdir().unwrap();
        let folder = TraceFolderWriter::create(place.path().join("trace"), Existing::Keep).unwrap();
        let write = |stem: &str, frames: u64, packing| {
            let files = folder.captures(stem, &Form::Pcap, packing);
            let split = Split { frames: NonZeroU64::new(3), bytes: None };
            let mut writer = CaptureWriter::new(files, &Form::Pcap, 1, split).unwrap();
            for second in 0..frames {
                let at = Nanos((1_767_225_600 + second) * 1_000_000_000);
                writer.record(&Label::default(), at, 60, 60).unwrap().fill(1);
            }
            writer.finish().unwrap().0
        };
        assert_eq!(write("a", 0, Packing::Plain).names(), ["pcap/a.pcap"]);
        assert_eq!(write("b", 3, Packing::Gzip).names(), ["pcap/b.pcap.gz"]);
        let set = write("c", 7, Packing::Zstd);
        assert_eq!(
            set.names(),
            [
                "pcap/c_00001_20260101000000.pcap.zst",
                "pcap/c_00002_20260101000003.pcap.zst",
                "pcap/c_00003_20260101000006.pcap.zst"
            ]
        );
        let mut on_disk = 0;
        for (name, frames) in set.names().iter().zip([3, 3, 1]) {
            let file = File::open(set.folder.join(name)).unwrap();
            on_disk += file.metadata().unwrap().len();
            let mut reader = CaptureReader::new(file).unwrap();
            let mut count = 0;
            while reader.next_record().unwrap().is_some() {
                count += 1;
            }
            assert_eq!(count, frames);
        }
        assert_eq!(set.bytes(), Bytes(on_disk));
        assert_eq!(fs::read_dir(set.folder.join("pcap")).unwrap().count(), 5, "nothing else is left");
    }
}
