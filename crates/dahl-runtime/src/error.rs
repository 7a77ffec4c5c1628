//! The one error of this crate: what went wrong, and where.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
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
    /// No task finished for longer than the watchdog allows.
    Stuck,
    /// An array was read from inside a task, or another misuse of the runtime.
    Usage,
    /// Somebody cancelled it.
    Cancelled,
    /// A file or a device could not be used.
    Io,
}

/// An error with its context: kind, sentence, and as much of task, codelet, arguments, step, worker and
/// caller as is known.
///
/// Errors are cheap to clone, because a failed task hands its error to every array it poisons. What the
/// system or another library said is the [`source`](StdError::source), which `{}` does not repeat; `{:#}` and
/// `{:?}` add it behind a colon.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    task: Option<String>,
    codelet: Option<&'static str>,
    arguments: Option<String>,
    step: Option<u64>,
    worker: Option<usize>,
    location: Option<&'static Location<'static>>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// What a panic that was caught had to say. What it carried is dropped; should that panic as well, it is
/// forgotten.
#[cold]
pub fn panic_message(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("(no message)").to_string();
    // A second panic carries something too, whose drop may panic again, so nobody drops that.
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(second);
    }
    text
}

impl Error {
    /// An error of `kind` with a sentence that says what was expected, what came and what to do.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        let (task, codelet, arguments) = (None, None, None);
        let (step, worker, location, source) = (None, None, None, None);
        Error(Arc::new(Inner { kind, message, task, codelet, arguments, step, worker, location, source }))
    }

    fn with(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// Names the task (codelet and tile) that failed.
    pub fn in_task(self, task: impl Into<String>) -> Self {
        self.with(|inner| inner.task = Some(task.into()))
    }

    /// Names the codelet.
    pub fn of_codelet(self, codelet: &'static str) -> Self {
        self.with(|inner| inner.codelet = Some(codelet))
    }

    /// Says what the arguments were: names, shapes, and the regions that the task works on.
    pub fn with_arguments(self, arguments: impl Into<String>) -> Self {
        self.with(|inner| inner.arguments = Some(arguments.into()))
    }

    /// Says in which step of the session it happened, counted from 0.
    pub fn in_step(self, step: u64) -> Self {
        self.with(|inner| inner.step = Some(step))
    }

    /// Names the worker that ran the task.
    pub fn on_worker(self, worker: usize) -> Self {
        self.with(|inner| inner.worker = Some(worker))
    }

    /// Adds the source line of the caller.
    pub fn at(self, location: &'static Location<'static>) -> Self {
        self.with(|inner| inner.location = Some(location))
    }

    /// Adds the error that led to this one.
    pub fn because_of(self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.with(|inner| inner.source = Some(Arc::new(source)))
    }

    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The sentence, without context.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The task (codelet, implementation and tile) that failed.
    pub fn task(&self) -> Option<&str> {
        self.0.task.as_deref()
    }

    /// The codelet.
    pub fn codelet(&self) -> Option<&'static str> {
        self.0.codelet
    }

    /// Names, shapes and regions of the arguments.
    pub fn arguments(&self) -> Option<&str> {
        self.0.arguments.as_deref()
    }

    /// The step of the session, counted from 0.
    pub fn step(&self) -> Option<u64> {
        self.0.step
    }

    /// The worker that ran the task.
    pub fn worker(&self) -> Option<usize> {
        self.0.worker
    }

    /// The line of the program that recorded or submitted the task, or that made the call.
    pub fn location(&self) -> Option<&'static Location<'static>> {
        self.0.location
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        match (&self.0.task, self.0.codelet) {
            (Some(task), _) => write!(f, "; in task {task}")?,
            (None, Some(codelet)) => write!(f, "; in task {codelet}")?,
            (None, None) => {}
        }
        if let Some(arguments) = &self.0.arguments {
            write!(f, " on {arguments}")?;
        }
        if let Some(step) = self.0.step {
            // People count from one.
            write!(f, ", step {}", step + 1)?;
        }
        if let Some(worker) = self.0.worker {
            write!(f, ", worker {worker}")?;
        }
        if let Some(location) = self.0.location {
            write!(f, " (called from {}:{})", location.file(), location.line())?;
        }
        if f.alternate() { causes(self, f) } else { Ok(()) }
    }
}

/// Shows what led to an error, each cause behind a colon.
pub fn causes(error: &dyn StdError, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut cause = error.source();
    while let Some(error) = cause {
        write!(f, ": {error}")?;
        cause = error.source();
    }
    Ok(())
}

/// Adds the line that called the function which calls this, unless the error names one already, as that of a
/// task does.
#[track_caller]
pub(crate) fn at_caller<T>(result: Result<T>) -> Result<T> {
    let caller = Location::caller();
    result.map_err(|error| if error.location().is_some() { error } else { error.at(caller) })
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self:#}", self.0.kind)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}
