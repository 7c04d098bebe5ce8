//! What people and programs read: results on stdout, progress and remarks on stderr.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::exit::Failure;

/// Writes a result to stdout. A reader that has seen enough and closed the pipe is no error.
pub(crate) fn result(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::wrong(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a remark to stderr; nothing can be done when that fails.
pub(crate) fn remark(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Progress of long work on stderr: a bar on a terminal, a line each quarter elsewhere.
pub(crate) struct Progress {
    label: String,
    bar: ProgressBar,
    lines: bool,
    quarters: std::cell::Cell<u64>,
}

impl Progress {
    /// Work of `total` parts, each of the unit that the label names.
    pub(crate) fn start(label: &str, total: u64) -> Self {
        let terminal = io::stderr().is_terminal();
        let target = if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        let style = ProgressStyle::with_template("{msg:30} {bar:40} {percent:>3} % {elapsed_precise}");
        bar.set_style(style.expect("the template names known keys").progress_chars("=> "));
        bar.set_message(label.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        if !terminal {
            remark(&format!("{label} ..."));
        }
        Self { label: label.to_owned(), bar, lines: !terminal, quarters: std::cell::Cell::new(0) }
    }

    /// So much is done, of so much.
    pub(crate) fn set(&self, done: u64, total: u64) {
        self.bar.set_length(total.max(1));
        self.bar.set_position(done.min(total));
        let quarter = (u128::from(done.min(total)) * 4 / u128::from(total.max(1))).try_into().unwrap_or(4);
        if self.lines && quarter > self.quarters.get() && quarter < 4 {
            self.quarters.set(quarter);
            remark(&format!("{} ... {} %", self.label, quarter * 25));
        }
    }

    /// The work is done, as the remark says.
    pub(crate) fn finish(self, what: &str) {
        self.bar.finish_and_clear();
        remark(&format!("{}: {what}", self.label));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
