//! The runtime that a program holds: worker threads, submitted tasks and the memory of arrays.
//!
//! Everything that refers to a runtime (arenas, arrays) shares it, so memory and threads live as long as
//! anything can reach them. The last one to go waits for the tasks, lets go of the workers, which stop unless
//! somebody else has their pool, and frees the memory, in this order.

use crate::arena::{Arena, Slabs};
use crate::array::{Element, Owned};
use crate::engine::pool::current_worker;
use crate::engine::submit::Tasks;
use crate::engine::{Pool, WorkSource};
use crate::error::{Error, ErrorKind, Result, at_caller};
use crate::machine::{CPU, HOST, Machine, Unit};
use crate::sync::{Arc, thread};
use crate::trace::Trace;
use std::time::Duration;

/// Worker threads and the tasks and arrays that they work on.
///
/// ```
/// # use dahl_runtime::{Runtime, machine::Machine};
/// # fn main() -> dahl_runtime::Result<()> {
/// let runtime = Runtime::new(&Machine::with_workers(2))?;
/// let arena = runtime.arena("work");
/// let x = arena.array_from([2, 2], &[1.0f32, 2.0, 3.0, 4.5])?;
/// assert_eq!(x.read()?.to_string(), "[[  1   2]\n [  3 4.5]]");
/// # Ok(())
/// # }
/// ```
pub struct Runtime {
    inner: Arc<Inner>,
}

/// What a runtime, its arenas and its arrays share.
pub(crate) struct Inner {
    pub tasks: Arc<Tasks>,
    pub slabs: Arc<Slabs>,
    /// Shared with whoever else lets its workers work. Taken when the runtime goes.
    pool: Option<Arc<Pool>>,
    /// What the pool knows the tasks by.
    source: Arc<dyn WorkSource>,
}

/// What a runtime keeps an eye on. By default nothing: submitted tasks are small, and looking at the clock
/// twice is a tenth of what one costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// How many executed tasks each worker remembers for [`Runtime::take_trace`].
    pub trace_capacity: usize,
    /// How long no task may finish while the program waits for one. Whoever waits then gets an error of the
    /// kind [`ErrorKind::Stuck`] that names the kernels which are being executed. They cannot be stopped:
    /// arrays stay allocated, and the end of the runtime still waits for them.
    pub watchdog: Option<Duration>,
}

impl Runtime {
    /// Starts one worker per unit of the machine.
    ///
    /// Fails if no unit computes in the host's memory: submitted tasks run only there.
    #[track_caller]
    pub fn new(machine: &Machine) -> Result<Self> {
        Runtime::with_options(machine, Options::default())
    }

    /// The same, keeping an eye on what the options say.
    #[track_caller]
    pub fn with_options(machine: &Machine, options: Options) -> Result<Self> {
        let is_core = |unit: &Unit| machine.kinds.get(unit.kind).is_some_and(|kind| kind.code == CPU);
        if !machine.units.iter().any(|unit| unit.memory == HOST && is_core(unit)) {
            let message = "no core of the machine computes in the host's memory: add a CPU unit";
            return at_caller(Err(Error::new(ErrorKind::Usage, message)));
        }
        let pool = Arc::new(at_caller(Pool::new(machine))?);
        let tasks = Arc::new(Tasks::new(&pool, options.trace_capacity, options.watchdog));
        let source = Arc::clone(&tasks) as Arc<dyn WorkSource>;
        pool.attach(Arc::clone(&source));
        Ok(Runtime { inner: Arc::new(Inner { tasks, slabs: Arc::default(), pool: Some(pool), source }) })
    }

    /// An arena; the name appears in messages.
    pub fn arena(&self, name: &str) -> Arena {
        Arena::new(Arc::clone(&self.inner), name)
    }

    /// A zeroed array with memory of its own.
    #[track_caller]
    pub fn owned<T: Element, const R: usize>(&self, shape: [usize; R]) -> Result<Owned<T, R>> {
        at_caller(Owned::zeros(&self.inner, shape))
    }

    /// An array with memory of its own and a copy of these values, last dimension fastest.
    #[track_caller]
    pub fn owned_from<T: Element, const R: usize>(
        &self,
        shape: [usize; R],
        values: &[T],
    ) -> Result<Owned<T, R>> {
        let mut array = self.owned(shape)?;
        array.write()?.copy_from(values)?;
        Ok(array)
    }

    /// Waits until no task is unfinished, tasks that other threads submit meanwhile included. Failures are
    /// left to whoever reads what depends on them.
    #[track_caller]
    pub fn wait(&self) -> Result<()> {
        at_caller(self.inner.tasks.wait_submitted())
    }

    /// Cancels every task that has been submitted and has not started. Reading what they would have written
    /// is an error of kind [`Cancelled`](ErrorKind::Cancelled), until a task writes something else there;
    /// tasks submitted from now on run.
    pub fn cancel(&self) {
        self.inner.tasks.cancel();
    }

    /// Waits as [`Runtime::wait`] does, and returns what the workers did since the last call, as far as they
    /// remember ([`Options::trace_capacity`]). Tasks of other threads that are being executed just then may
    /// be missing.
    #[track_caller]
    pub fn take_trace(&self) -> Result<Trace> {
        self.wait()?;
        Ok(self.inner.tasks.take_trace())
    }

    /// Bytes of array memory that are not freed.
    pub fn n_bytes(&self) -> usize {
        self.inner.slabs.sweep(&self.inner.tasks);
        self.inner.slabs.n_bytes()
    }

    /// The workers, for sessions and other sources of work: they share them with submitted tasks.
    pub fn pool(&self) -> &Arc<Pool> {
        self.inner.pool.as_ref().expect("the pool is taken only when the runtime goes")
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let (tasks, slabs) = (Arc::clone(&self.tasks), Arc::clone(&self.slabs));
        let (pool, source) = (self.pool.take(), Arc::clone(&self.source));
        let end = move || {
            tasks.wait_all();
            if let Some(pool) = pool {
                pool.detach(&source);
            }
            drop(slabs);
        };
        // A worker that drops the last array must not wait for itself.
        if current_worker().is_some() {
            thread::spawn(end);
        } else {
            end();
        }
    }
}
