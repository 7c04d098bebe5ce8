//! The program under test, run as its users run it, and the outside judges.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What a run of the program said.
pub(crate) struct Said {
    /// The exit code; a signal is a failure of the test.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

/// Runs the program with these arguments in `folder`.
pub(crate) fn tokenwire(folder: &Path, arguments: &[&str]) -> Said {
    said(command(folder, arguments).output().expect("the program was built"))
}

/// The program, to be run in `folder` without colours.
pub(crate) fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tokenwire"));
    command.args(arguments).current_dir(folder).env("NO_COLOR", "1").env_remove("RUST_BACKTRACE");
    command
}

/// Runs the program, which must end well, and returns its standard output.
pub(crate) fn result(folder: &Path, arguments: &[&str]) -> String {
    let Said { code, out, err } = tokenwire(folder, arguments);
    assert_eq!(code, 0, "tokenwire {}\n{err}", arguments.join(" "));
    out
}

/// What an output says, as text.
pub(crate) fn said(output: Output) -> Said {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program writes UTF-8");
    let code = output.status.code().unwrap_or_else(|| panic!("ended by a signal: {}", output.status));
    let said = Said { code, out: text(output.stdout), err: text(output.stderr) };
    assert!(!said.err.contains("panicked"), "{}", said.err);
    said
}

/// A judge that knows nothing of tokenwire, if it is there.
///
/// A missing one fails the test, unless `tests/run.sh` has said aloud that it is skipped.
pub(crate) fn judge(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file());
    let skipped = std::env::var("TOKENWIRE_SKIP").unwrap_or_default();
    assert!(
        found.is_some() || skipped.split(',').any(|skipped| skipped == name),
        "{name} is missing: install it (tests/run.sh does), or set TOKENWIRE_SKIP={name} to go without"
    );
    found
}

/// Runs a judge, which must end well, and returns what it said.
pub(crate) fn judged(judge: &Path, arguments: &[&str]) -> String {
    let output = Command::new(judge).args(arguments).output().expect("the judge is there");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{} {}\n{said}\n{}",
        judge.display(),
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    said
}

/// The repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
