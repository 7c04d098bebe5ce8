//! The agent processes of a testbed: started, waited for, ended. None outlives its owner.

use std::fs::{self, DirBuilder};
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use traces::unit::Nanos;

use super::error::LabError;
use crate::clock::Clock;

/// An agent process. Dropping it ends it and waits for its end.
#[derive(Debug)]
pub(super) struct Agent {
    child: Child,
    socket: PathBuf,
}

impl Agent {
    /// Starts `program` as an agent behind `wrapper` (a program and its arguments that replaces itself by what
    /// follows, so the process stays the same), and waits until it listens.
    pub(super) fn start(
        program: &Path,
        wrapper: &[String],
        folder: &Folder,
        host: &str,
    ) -> Result<Self, LabError> {
        let socket = folder.path.join(format!("{host}.sock"));
        let mut command = match wrapper.split_first() {
            None => Command::new(program),
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
        };
        command.args(["agent", "--with-parent", "--socket"]).arg(&socket);
        // Standard input is the leash: the agent ends when it is closed. A group of its own, so that Ctrl-C reaches
        // the coordinator alone, which stops and collects.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        let child = command
            .spawn()
            .map_err(|source| LabError::Spawn { program: program.display().to_string(), source })?;
        let mut agent = Self { child, socket };
        agent.wait_until_it_listens(host)?;
        Ok(agent)
    }

    /// Its process.
    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Where it listens.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    fn wait_until_it_listens(&mut self, host: &str) -> Result<(), LabError> {
        let clock = Clock::since(Clock::MONOTONIC.now());
        while clock.now() < PATIENCE {
            if UnixStream::connect(&self.socket).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                let mut said = String::new();
                if let Some(mut stderr) = self.child.stderr.take() {
                    let _ = stderr.read_to_string(&mut said);
                }
                let what = format!("ended with {status}: {}", said.trim());
                return Err(LabError::Agent { host: host.to_owned(), what });
            }
            clock.sleep_until(Nanos(clock.now().0 + POLL.0));
        }
        let what = format!("does not listen after {PATIENCE}");
        Err(LabError::Agent { host: host.to_owned(), what })
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // The leash first; an agent that does not follow is killed.
        drop(self.child.stdin.take());
        let clock = Clock::since(Clock::MONOTONIC.now());
        while clock.now() < GRACE {
            match self.child.try_wait() {
                Ok(Some(_)) => return,
                Ok(None) => clock.sleep_until(Nanos(clock.now().0 + POLL.0)),
                Err(_) => break,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The folder of the agents' sockets, for this user alone. Removed when it is dropped.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes one that nobody else has.
    pub(super) fn new() -> Result<Self, LabError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("tokenwire-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self { path }),
                // Left by a process of the same number that was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(LabError::Folder(path, error)),
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// How long an agent may take to listen.
const PATIENCE: Nanos = Nanos(10_000_000_000);

/// How long it may take to end by itself.
const GRACE: Nanos = Nanos(1_000_000_000);

const POLL: Nanos = Nanos(5_000_000);
