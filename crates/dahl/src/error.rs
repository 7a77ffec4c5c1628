//! The one error of this crate.

use dahl_runtime::error::causes;
use dahl_runtime::shown;
use std::error::Error as StdError;
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
///
/// Operations and everything else of the runtime have errors of their own, which `?` turns into this one. It
/// then says what that one says, and [`kind`](Error::kind) holds it. What the system or another library said
/// is the [`source`](StdError::source), which `{}` does not repeat; `{:#}` adds it behind a colon, and so
/// does `{:?}`, which Rust prints when `main` returns an error.
///
/// ```
/// use dahl::prelude::*;
/// use std::error::Error;
///
/// let error = dataset::idx("no/such/folder").err().ok_or("no error")?;
/// assert!(error.to_string().starts_with("no/such/folder"));
///
/// fn too_few() -> dahl::Result<()> {
///     let runtime = Runtime::new(&Machine::with_workers(1))?;
///     runtime.owned_from([2, 3], &[1.0, 2.0])?;
///     Ok(())
/// }
/// let error = too_few().err().ok_or("no error")?;
/// assert!(matches!(error.kind(), dahl::ErrorKind::Runtime(_)) && error.source().is_none());
/// # Ok::<(), Box<dyn Error>>(())
/// ```
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// Something is wrong with the data at `path`.
    pub fn data(path: impl AsRef<Path>, message: impl Into<String>) -> Self {
        let kind = ErrorKind::Data(path.as_ref().to_path_buf());
        Error { kind, message: message.into(), source: None }
    }

    /// A setting makes no sense.
    pub fn setting(message: impl Into<String>) -> Self {
        Error { kind: ErrorKind::Setting, message: message.into(), source: None }
    }

    /// Adds the error that led to this one.
    pub fn because_of(self, source: impl StdError + Send + Sync + 'static) -> Self {
        Error { source: Some(Box::new(source)), ..self }
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

    /// The sentence with what led to it, without the path of what it is about.
    pub(crate) fn whole_message(&self) -> String {
        fmt::from_fn(|f| {
            f.write_str(&self.message)?;
            causes(self, f)
        })
        .to_string()
    }

    /// The kind of this error.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }
}

impl From<dahl_runtime::Error> for Error {
    fn from(error: dahl_runtime::Error) -> Self {
        Error { message: error.to_string(), kind: ErrorKind::Runtime(error), source: None }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let ErrorKind::Data(path) = &self.kind {
            write!(f, "{}: ", shown::path(path))?;
        }
        f.write_str(&self.message)?;
        if f.alternate() { causes(self, f) } else { Ok(()) }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match (&self.source, &self.kind) {
            (Some(source), _) => Some(&**source),
            // What the runtime said is in the message already.
            (None, ErrorKind::Runtime(error)) => error.source(),
            (None, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn what_led_to_an_error_is_its_source_and_is_said_once() {
        let cause = || io::Error::new(io::ErrorKind::StorageFull, "no room");
        let error = Error::data("x.npy", "cannot be written; make room").because_of(cause());
        assert_eq!(error.to_string(), "x.npy: cannot be written; make room");
        assert_eq!(format!("{error:#}"), "x.npy: cannot be written; make room: no room");
        assert_eq!(format!("{error:?}"), format!("{error:#}"));
        assert_eq!(error.whole_message(), "cannot be written; make room: no room");
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(source.map(io::Error::kind), Some(io::ErrorKind::StorageFull));

        let runtime = dahl_runtime::Error::new(dahl_runtime::ErrorKind::Io, "the plan cannot be read");
        let error = Error::from(runtime.because_of(cause())).in_layer("conv1");
        assert_eq!(error.to_string(), "conv1: the plan cannot be read");
        assert_eq!(format!("{error:#}"), "conv1: the plan cannot be read: no room");
        assert!(error.source().is_some_and(|source| source.is::<io::Error>()));
    }
}
