//! The one error of this crate.

use dahl_runtime::shown;
use std::fmt;
use std::path::{Path, PathBuf};

/// What this crate returns.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of an [`Error`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file or folder of data that is missing or wrong.
    Data(PathBuf),
    /// A model, a setting or an argument that makes no sense.
    Setting,
    /// The runtime failed.
    Runtime(dahl_runtime::Error),
}

/// An error: its kind and a sentence that says what was expected, what came and what to do.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    /// Something is wrong with the data at `path`.
    pub fn data(path: impl AsRef<Path>, message: impl Into<String>) -> Self {
        Error { kind: ErrorKind::Data(path.as_ref().to_path_buf()), message: message.into() }
    }

    /// A setting makes no sense.
    pub fn setting(message: impl Into<String>) -> Self {
        Error { kind: ErrorKind::Setting, message: message.into() }
    }

    /// The same error, with the layer that it is about.
    pub(crate) fn in_layer(mut self, name: &str) -> Self {
        self.message = format!("{name}: {}", self.message);
        self
    }

    /// The sentence, without the path of what it is about.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The kind of this error.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }
}

impl From<dahl_runtime::Error> for Error {
    fn from(error: dahl_runtime::Error) -> Self {
        Error { message: error.to_string(), kind: ErrorKind::Runtime(error) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ErrorKind::Data(path) => write!(f, "{}: {}", shown::path(path), self.message),
            _ => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {}
