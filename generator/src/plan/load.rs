//! Plans from files, and the shipped ones by name. The one module of the plan that opens files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use miette::Diagnostic;
use thiserror::Error;

use super::{Plan, PlanError};

/// Why there is no plan.
#[derive(Debug, Error, Diagnostic)]
#[non_exhaustive]
pub enum LoadError {
    /// Neither a file nor a shipped plan.
    #[error("there is no plan `{name}`: neither a file nor a shipped plan ({})", names().collect::<Vec<_>>().join(", "))]
    Missing {
        /// What was asked for.
        name: String,
    },
    /// The file can not be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The plan is wrong.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Plan(Box<PlanError>),
}

/// The plan in the file `name`, or the shipped one of that name.
///
/// # Errors
/// [`LoadError`] when there is none, or it is wrong.
pub fn load(name: &str) -> Result<Plan, LoadError> {
    let path = Path::new(name);
    match fs::read_to_string(path) {
        Ok(text) => {
            let beside = path.parent().unwrap_or(Path::new("")).to_owned();
            Plan::read(name, &text, |name| read_text(&beside.join(name))).map_err(LoadError::Plan)
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory) => {
            shipped(name)
        }
        Err(source) => Err(LoadError::Io { path: path.to_owned(), source }),
    }
}

/// Reads a text to be trained on.
///
/// # Errors
/// What is wrong: it can not be read, is no file, is longer than [`LONGEST_TEXT`], or not UTF-8.
pub fn read_text(path: &Path) -> Result<String, String> {
    let refused = |what: String| format!("cannot read {}: {what}", path.display());
    let about = fs::metadata(path).map_err(|error| refused(error.to_string()))?;
    if !about.is_file() || about.len() > LONGEST_TEXT {
        return Err(refused(format!("a text is a file of at most {LONGEST_TEXT} bytes")));
    }
    fs::read_to_string(path).map_err(|error| refused(error.to_string()))
}

/// The names of the shipped plans.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// The shipped plan of this name, whatever files there are.
///
/// # Errors
/// [`LoadError::Missing`] when there is none.
pub fn shipped(name: &str) -> Result<Plan, LoadError> {
    let missing = || LoadError::Missing { name: name.to_owned() };
    let (_, text) = SHIPPED.iter().find(|(shipped, _)| *shipped == name).ok_or_else(missing)?;
    let read_text = |name: &str| match name {
        "dante.txt" => Ok(include_str!("../../plans/dante.txt").to_owned()),
        _ => Err(format!("no text `{name}` is shipped")),
    };
    Plan::read(name, text, read_text).map_err(LoadError::Plan)
}

/// A hundred times the longest books.
pub const LONGEST_TEXT: u64 = 64 << 20;

const SHIPPED: [(&str, &str); 4] = [
    ("demo", include_str!("../../plans/demo.toml")),
    ("tutorial-dp8", include_str!("../../plans/tutorial-dp8.toml")),
    ("tutorial-pp8", include_str!("../../plans/tutorial-pp8.toml")),
    ("tutorial-tp8", include_str!("../../plans/tutorial-tp8.toml")),
];
