//! A session: a planned graph that an engine has bound, run step after step.
//!
//! A [`Handle`] ends a run from outside: by stopping it (steps under way end, and `run` says how many there
//! were) or by cancelling it (tasks are passed over, and the session fails).

#![expect(unsafe_code, reason = "hands out ring versions while no task uses them")]

use super::memory::Store;
use super::pool::current_worker;
use super::rings::{Outputs, Ports};
use super::runner::Failure;
use super::steps::{Engine, Steps};
use super::watchdog::Watch;
use super::workspace::Workspace;
use crate::error::{Error, ErrorKind, Result};
use crate::graph::Lowered;
use crate::plan::Plan;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::trace::{Release, Scene, Trace, ticks};
use std::collections::VecDeque;
use std::time::Duration;

/// A planned graph that is ready to run. Memory is allocated when it is made, unless another session of the
/// same [`Workspace`] has taken enough; running allocates nothing.
pub struct Session {
    steps: Box<dyn Steps>,
    depth: u64,
    /// Steps that were released, over all runs.
    n_released: u64,
    stop: Arc<AtomicBool>,
    scene: Arc<Scene>,
    /// The newest releases; as many as there is room for.
    releases: VecDeque<Release>,
    watchdog: Option<Duration>,
}

/// Releases that a trace reaches back, at most.
const MAX_RELEASES: usize = 4096;

impl Session {
    /// Prepares a graph for an engine, such as a pool of workers, keeping the newest `trace_capacity` events
    /// of each unit.
    pub fn new<E: Engine + ?Sized>(
        engine: &Arc<E>,
        lowered: &Lowered,
        plan: &Plan,
        trace_capacity: usize,
    ) -> Result<Self> {
        Session::new_in(&Workspace::new(), engine, lowered, plan, trace_capacity)
    }

    /// The same in memory that other sessions use, too, while this one does not run.
    pub fn new_in<E: Engine + ?Sized>(
        workspace: &Workspace,
        engine: &Arc<E>,
        lowered: &Lowered,
        plan: &Plan,
        trace_capacity: usize,
    ) -> Result<Self> {
        let steps = Arc::clone(engine).bind(lowered, plan, workspace, trace_capacity)?;
        Ok(Session {
            steps,
            depth: lowered.depth as u64,
            n_released: 0,
            stop: Arc::new(AtomicBool::new(false)),
            scene: Arc::new(Scene::new(lowered, plan, engine.machine())),
            releases: VecDeque::with_capacity(trace_capacity.min(MAX_RELEASES)),
            watchdog: None,
        })
    }

    /// Ends a run with an error if no task finishes for this long while [`Session::run`] waits for one. The
    /// error has the kind [`ErrorKind::Stuck`] and names the kernels that are being executed, and the tasks
    /// that wait and for what.
    ///
    /// A kernel that is being executed cannot be stopped. It keeps the memory it works on, which is lost to
    /// the program: the session stays failed, the arrays of the [`Store`] cannot be used any more, and its
    /// worker is busy until the kernel ends. A program that drops the pool does not wait for it.
    ///
    /// The limit must be longer than the longest kernel, and than other users of the same pool may take.
    /// Where nothing is traced, watching costs as much as a trace.
    pub fn set_watchdog(&mut self, limit: Option<Duration>) {
        self.watchdog = limit;
        if limit.is_some() {
            self.steps.runner().watch();
        }
    }

    /// Runs `n_steps` steps. Before each, `feed` fills its ports; after each, in order, `collect` reads its
    /// outputs. Several steps are under way at a time, so `feed` is up to the graph's depth ahead of
    /// `collect`.
    ///
    /// Returns the number of steps, which is smaller than asked for only if a [`Handle`] was told to stop.
    pub fn run(
        &mut self,
        store: &mut Store,
        n_steps: u64,
        mut feed: impl FnMut(u64, &mut Ports<'_>),
        mut collect: impl FnMut(u64, &Outputs<'_>),
    ) -> Result<u64> {
        if let Some(worker) = current_worker() {
            let message =
                "a run was begun from inside a task, which would wait for its own worker: run it elsewhere";
            return Err(Error::new(ErrorKind::Usage, message).on_worker(worker));
        }
        if let Some(error) = self.steps.runner().failure() {
            return Err(error);
        }
        let first = self.n_released;
        self.steps.begin(store, first)?;
        let (mut fed, mut collected) = (first, first);
        let mut end = first + n_steps;
        // Whatever happens, the store is not given back before the workers are done with it.
        let mut running = Running { session: self, store, first, is_lost: false };
        while collected < end {
            let session = &*running.session;
            if session.stop.swap(false, Ordering::Relaxed) {
                end = fed;
            }
            let room = end.min(collected + session.depth);
            for step in fed..room {
                session.steps.own_ports(step);
                // SAFETY: the step `depth` before was collected, so it has finished, and this one is released
                // after it was fed.
                let mut ports = unsafe { Ports::new(session.steps.rings(), step) };
                feed(step - first, &mut ports);
            }
            fed = room;
            running.release(fed);
            // Refilling when half of the ring is free keeps the workers busy and wakes this thread rarely.
            let session = &*running.session;
            let enough = if fed == end { end } else { collected + (session.depth / 2).max(1) };
            if let Err(error) = session.wait(enough) {
                running.give_up();
                return Err(error);
            }
            // In this order: what is passed over after a failure counts as finished, but nobody may collect
            // it.
            let finished = session.steps.finished().min(fed);
            if let Some(error) = session.steps.runner().failure() {
                return Err(error);
            }
            for step in collected..finished {
                session.steps.fetch_outputs(step);
                if let Some(error) = session.steps.runner().failure() {
                    return Err(error);
                }
                // SAFETY: the step has finished, and the one `depth` later is fed and released after this one
                // was collected.
                let outputs = unsafe { Outputs::new(session.steps.rings(), step) };
                collect(step - first, &outputs);
            }
            collected = finished;
        }
        // Whoever asked to stop after the last step was fed meant this run.
        running.session.stop.store(false, Ordering::Relaxed);
        Ok(collected - first)
    }

    /// Something to end a run by, from another thread.
    pub fn handle(&self) -> Handle {
        Handle { failure: self.steps.runner().failures(), stop: Arc::clone(&self.stop) }
    }

    /// The events since the last call.
    pub fn take_trace(&mut self) -> Trace {
        let mut trace = Trace {
            scene: Arc::clone(&self.scene),
            releases: self.releases.drain(..).collect(),
            ..Trace::default()
        };
        self.steps.take_events(&mut trace);
        trace
    }

    /// Waits until `steps` steps are finished, or until the watchdog has seen enough.
    fn wait(&self, steps: u64) -> Result<()> {
        let Some(limit) = self.watchdog else {
            self.steps.wait(steps, None);
            return Ok(());
        };
        let runner = self.steps.runner();
        // Tasks that are passed over after a failure are seen in the steps that finish.
        let progress = || runner.n_events() + self.steps.finished();
        let mut watch = Watch::new(limit, progress());
        while !self.steps.wait(steps, Some(watch.pause())) {
            if watch.is_over(progress()) {
                let error = self.steps.stuck(limit);
                runner.fail(error.clone());
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Ends the run of a [`Session`] from another thread.
#[derive(Clone)]
pub struct Handle {
    failure: Arc<Failure>,
    stop: Arc<AtomicBool>,
}

impl Handle {
    /// Lets the steps that are under way end, and no others begin. [`Session::run`] returns how many there
    /// were; the state is as if no more had been asked for. Without a run under way, it is the next one that
    /// stops.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Passes over every task that has not started. [`Session::run`] returns an error of kind
    /// [`Cancelled`](ErrorKind::Cancelled), and the session cannot be used any more.
    pub fn cancel(&self) {
        let message = "the run was cancelled, so its state is not consistent";
        self.failure.set(Error::new(ErrorKind::Cancelled, message));
    }
}

/// A run under way. Dropping it, also while unwinding, waits until every released step is finished.
struct Running<'a> {
    session: &'a mut Session,
    store: &'a mut Store,
    /// Its first step.
    first: u64,
    /// Whether nobody waits for the tasks any more.
    is_lost: bool,
}

impl Running<'_> {
    fn release(&mut self, step: u64) {
        self.session.n_released = step;
        let releases = &mut self.session.releases;
        if releases.capacity() > 0 {
            if releases.len() == MAX_RELEASES.min(releases.capacity()) {
                releases.pop_front();
            }
            releases.push_back(Release { steps: step, ticks: ticks() });
        }
        self.session.steps.release(step);
    }

    /// Leaves the memory of the store to the tasks, which may never be done with it.
    fn give_up(&mut self) {
        self.session.steps.give_up(self.store);
        self.is_lost = true;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.is_lost && self.session.wait(self.session.n_released).is_err() {
            self.give_up();
        }
        if !self.is_lost {
            self.session.steps.end(self.store, self.session.n_released - self.first);
        }
    }
}
