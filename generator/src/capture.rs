//! Ports as a capture: their frames merged in order of time, up to an instant before which nothing more can come.
//!
//! A capture is of one port, or of several, each then an interface of its own.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use traces::id::NicId;
use traces::pcap::write::{Files, Form};
use traces::unit::Nanos;

use crate::frames::{CaptureError, Output, Port, PortTotals, Settings};
use crate::timeline::Burst;

/// A capture in the making.
#[derive(Debug)]
pub struct Capture<'a, F: Files> {
    /// In the order of their NICs.
    ports: Vec<Port<'a>>,
    output: Output<F>,
}

impl<'a, F: Files> Capture<'a, F> {
    /// The capture of ports of the plan, in the order of their NICs, which is that of the form's interfaces.
    ///
    /// # Errors
    /// What the files say.
    pub fn new(settings: &Settings<'a>, nics: &[NicId], files: F, form: &Form) -> io::Result<Self> {
        let output = Output::new(settings, files, form)?;
        let ports =
            nics.iter().enumerate().map(|(interface, &nic)| Port::new(settings, nic, interface)).collect();
        Ok(Self { ports, output })
    }

    /// Takes the next burst of a port, in its direction; ports that the capture does not have are passed over.
    pub fn push(&mut self, nic: NicId, burst: Burst) {
        if let Ok(place) = self.ports.binary_search_by_key(&nic, Port::nic) {
            self.ports[place].push(burst);
        }
    }

    /// Writes all frames that start before `until`: no burst that starts earlier may come after this.
    ///
    /// # Errors
    /// [`CaptureError`] when the file refuses.
    pub fn write_until(&mut self, until: Nanos) -> Result<(), CaptureError> {
        let next = |(place, port): (usize, &Port<'_>)| port.next().map(|(time, _)| Reverse((time, place)));
        let mut turns: BinaryHeap<_> = self.ports.iter().enumerate().filter_map(next).collect();
        while let Some(Reverse((_, place))) = turns.pop() {
            let port = &mut self.ports[place];
            // The port goes on until it is another's turn; at the same time, the first port's.
            let limit = turns.peek().map_or((until, 0), |Reverse(turn)| (*turn).min((until, 0)));
            while let Some((time, direction)) = port.next().filter(|(time, _)| (*time, place) < limit) {
                port.frame(direction, time, &mut self.output)?;
            }
            if let Some((time, _)) = port.next().filter(|(time, _)| *time < until) {
                turns.push(Reverse((time, place)));
            }
        }
        Ok(())
    }

    /// Writes what is left, and says what there is of each port, with the files that hold it.
    ///
    /// # Errors
    /// [`CaptureError`] when the file refuses.
    pub fn finish(mut self) -> Result<(Vec<(NicId, PortTotals)>, F), CaptureError> {
        self.write_until(Nanos(u64::MAX))?;
        let files = self.output.finish()?;
        Ok((self.ports.into_iter().map(|port| (port.nic(), port.into_totals())).collect(), files))
    }
}
