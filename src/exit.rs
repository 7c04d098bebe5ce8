//! How the program ends: the documented exit codes, and what is said on stderr.

use std::error::Error;
use std::process::ExitCode;

use miette::Diagnostic;

/// An end, with its documented code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// Ran, but something that was checked failed.
    CheckFailed = 1,
    /// The request was wrong, or could not be carried out.
    Wrong = 2,
    /// Interrupted, or partial.
    Partial = 4,
    /// A privilege is missing.
    Privilege = 77,
}

/// Why a command did not end well.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    report: Report,
}

#[derive(Debug)]
enum Report {
    /// An error that shows its place in a source.
    Source(Box<dyn Diagnostic + Send + Sync>),
    /// An error with its chain of causes.
    Plain(Box<dyn Error + Send + Sync>),
}

impl Exit {
    pub(crate) fn code(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Done => 0,
            Self::CheckFailed => 1,
            Self::Wrong => 2,
            Self::Partial => 4,
            Self::Privilege => 77,
        })
    }
}

impl Failure {
    /// A request that was wrong or could not be carried out.
    pub(crate) fn wrong(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::with(Exit::Wrong, error)
    }

    /// Another end than a wrong request.
    pub(crate) fn with(exit: Exit, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { exit, report: Report::Plain(error.into()) }
    }

    /// A wrong request with its place in a source.
    pub(crate) fn in_source(error: impl Diagnostic + Send + Sync + 'static) -> Self {
        Self { exit: Exit::Wrong, report: Report::Source(Box::new(error)) }
    }

    pub(crate) const fn exit(&self) -> Exit {
        self.exit
    }

    /// What stands on stderr: the error, its causes, and its place where it has one.
    pub(crate) fn text(self) -> String {
        match self.report {
            Report::Source(diagnostic) => format!("{:?}", miette::Report::new_boxed(diagnostic)),
            Report::Plain(error) => {
                let mut text = format!("error: {error}");
                let mut cause = error.source();
                while let Some(because) = cause {
                    text.push_str(&format!("\n  because: {because}"));
                    cause = because.source();
                }
                text
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot write x")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn causes_follow_the_error_line_by_line() {
        let failure = Failure::wrong(Outer(std::io::Error::other("disk full")));
        assert_eq!(failure.exit(), Exit::Wrong);
        assert_eq!(failure.text(), "error: cannot write x\n  because: disk full");
    }
}
