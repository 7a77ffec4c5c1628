//! The one error of this crate: what went wrong, and where.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// What this crate returns.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of an [`Error`], for programs that react to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An index relation that cannot be parsed or bound.
    Relation,
    /// Arguments whose shapes, element types or number do not fit the codelet.
    Shape,
    /// A plan that does not fit the graph or the machine.
    Plan,
    /// More memory than a unit has, or an allocation that failed.
    Memory,
    /// A kernel failed or panicked, or its inputs were poisoned by one that did.
    Task,
    /// An array was read from inside a task, or another misuse of the runtime.
    Usage,
    /// Somebody cancelled it.
    Cancelled,
    /// A file or a device could not be used.
    Io,
}

/// An error with its context: kind, sentence, and as much of task, codelet, worker and caller as is known.
///
/// Errors are cheap to clone, because a failed task hands its error to every array it poisons.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    task: Option<String>,
    worker: Option<usize>,
    location: Option<&'static Location<'static>>,
}

impl Error {
    /// An error of `kind` with a sentence that says what was expected, what came and what to do.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Error(Arc::new(Inner { kind, message, task: None, worker: None, location: None }))
    }

    fn with(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// Names the task (codelet and tile) that failed.
    pub fn in_task(self, task: impl Into<String>) -> Self {
        self.with(|inner| inner.task = Some(task.into()))
    }

    /// Names the worker that ran the task.
    pub fn on_worker(self, worker: usize) -> Self {
        self.with(|inner| inner.worker = Some(worker))
    }

    /// Adds the source line of the caller.
    pub fn at(self, location: &'static Location<'static>) -> Self {
        self.with(|inner| inner.location = Some(location))
    }

    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The sentence, without context.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if let Some(task) = &self.0.task {
            write!(f, "; in task {task}")?;
        }
        if let Some(worker) = self.0.worker {
            write!(f, ", worker {worker}")?;
        }
        if let Some(location) = self.0.location {
            write!(f, " (called from {}:{})", location.file(), location.line())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {}
