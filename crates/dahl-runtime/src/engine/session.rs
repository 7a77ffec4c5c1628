//! A session: a lowered graph, planned and bound to a pool of workers, run step after step.
//!
//! A [`Handle`] ends a run from outside: by stopping it (steps under way end, and `run` says how many there
//! were) or by cancelling it (tasks are passed over, and the session fails).

#![expect(unsafe_code, reason = "hands out ring versions while no task uses them")]

use super::bound::BoundGraph;
use super::dynamic::Dynamic;
use super::executor::Executor;
use super::memory::Store;
use super::pool::{Pool, WorkSource, current_worker};
use super::replay::Replay;
use super::watchdog::{Watch, stuck};
use super::workspace::{Lease, Workspace};
use crate::error::{Error, ErrorKind, Result};
use crate::graph::{Lowered, Role, Var};
use crate::machine::Machine;
use crate::plan::{Order, Plan};
use crate::schedule::{self, Scheduler, SchedulerKind};
use crate::shape::Element;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Weak};
use crate::trace::{Clock, Release, Scene, Trace, ticks};
use std::collections::VecDeque;
use std::time::Duration;

/// A lowered graph that is ready to run. Memory is allocated when it is made, unless another session of the
/// same [`Workspace`] has taken enough; running allocates nothing.
pub struct Session {
    pool: Arc<Pool>,
    program: Arc<BoundGraph>,
    executor: Arc<dyn Executor>,
    source: Arc<dyn WorkSource>,
    rings: Vec<Option<(usize, Role)>>,
    depth: u64,
    steps: u64,
    stop: Arc<AtomicBool>,
    clock: Clock,
    scene: Arc<Scene>,
    /// The newest releases; as many as there is room for.
    releases: VecDeque<Release>,
    watchdog: Option<Duration>,
}

/// Releases that a trace reaches back, at most.
const MAX_RELEASES: usize = 4096;

impl Session {
    /// Prepares a graph for the pool's workers, keeping the newest `trace_capacity` events of each.
    pub fn new(pool: &Arc<Pool>, lowered: &Lowered, plan: &Plan, trace_capacity: usize) -> Result<Self> {
        Session::new_in(&Workspace::new(), pool, lowered, plan, trace_capacity)
    }

    /// The same in memory that other sessions use, too, while this one does not run.
    pub fn new_in(
        workspace: &Workspace,
        pool: &Arc<Pool>,
        lowered: &Lowered,
        plan: &Plan,
        trace_capacity: usize,
    ) -> Result<Self> {
        if let Some(placement) = plan.placement().filter(|p| p.order.len() != pool.n_workers()) {
            let (planned, there) = (placement.order.len(), pool.n_workers());
            let message = format!("the plan is for {planned} workers and there are {there}: make a new plan");
            return Err(Error::new(ErrorKind::Plan, message));
        }
        plan.check(lowered)?;
        let memory = plan.memory();
        let program = Arc::new(BoundGraph::new(lowered, memory, pool.machine(), trace_capacity, workspace)?);
        let edges = [&lowered.edges[..], &memory.edges[..]].concat();
        let executor: Arc<dyn Executor> = match plan.order() {
            Order::Planned(placement) => {
                Arc::new(Replay::new(Arc::clone(&program), placement, &edges, pool.bell()))
            }
            Order::Open(policy) => {
                let scheduler = scheduler(*policy, lowered, pool.machine());
                let n_tasks = lowered.tasks.len();
                Arc::new(Dynamic::new(Arc::clone(&program), n_tasks, &edges, scheduler, pool.bell()))
            }
        };
        let source = Arc::clone(&executor) as Arc<dyn WorkSource>;
        pool.attach(Arc::clone(&source));
        let stop = Arc::new(AtomicBool::new(false));
        let (pool, rings, depth) = (Arc::clone(pool), lowered.rings.clone(), lowered.depth as u64);
        let scene = Arc::new(Scene::new(lowered, plan, pool.machine()));
        Ok(Session {
            pool,
            program,
            executor,
            source,
            rings,
            depth,
            steps: 0,
            stop,
            clock: Clock::start(),
            scene,
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
            self.program.runner.watch();
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
        if let Some(error) = self.program.runner.failure() {
            return Err(error);
        }
        let lease = self.program.bind(store)?;
        let first = self.steps;
        let (mut fed, mut collected) = (first, first);
        let mut end = first + n_steps;
        // Whatever happens, the store is not given back before the workers are done with it.
        let mut running = Running { session: self, store, lease, released: first, is_lost: false };
        while collected < end {
            let session = &*running.session;
            if session.stop.swap(false, Ordering::Relaxed) {
                end = fed;
            }
            let room = end.min(collected + session.depth);
            for step in fed..room {
                feed(step - first, &mut Ports { session, step });
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
            let finished = session.executor.finished().min(fed);
            if let Some(error) = session.program.runner.failure() {
                return Err(error);
            }
            for step in collected..finished {
                collect(step - first, &Outputs { session, step });
            }
            collected = finished;
        }
        // Whoever asked to stop after the last step was fed meant this run.
        running.session.stop.store(false, Ordering::Relaxed);
        Ok(collected - first)
    }

    /// Something to end a run by, from another thread.
    pub fn handle(&self) -> Handle {
        Handle { program: Arc::downgrade(&self.program), stop: Arc::clone(&self.stop) }
    }

    /// The events since the last call.
    pub fn take_trace(&mut self) -> Trace {
        let mut trace = Trace {
            scene: Arc::clone(&self.scene),
            releases: self.releases.drain(..).collect(),
            ticks_per_second: self.clock.ticks_per_second(),
            ..Trace::default()
        };
        for taken in self.program.take_events() {
            trace.workers.push(taken.events);
            trace.transfers.push(taken.transfers);
            trace.n_dropped.push(taken.n_dropped);
        }
        // The program executes no tasks.
        trace.workers.pop();
        trace
    }

    /// Waits until `steps` steps are finished, or until the watchdog has seen enough.
    fn wait(&self, steps: u64) -> Result<()> {
        let Some(limit) = self.watchdog else {
            self.executor.wait(steps, None);
            return Ok(());
        };
        let runner = &self.program.runner;
        // Tasks that are passed over after a failure are seen in the steps that finish.
        let progress =
            || runner.looks().iter().map(|look| look.count).sum::<u64>() + self.executor.finished();
        let mut watch = Watch::new(limit, progress());
        while !self.executor.wait(steps, Some(watch.pause())) {
            if watch.is_over(progress()) {
                let looks = runner.looks();
                let error = stuck(runner, limit, &looks, &self.executor.blocked(&looks), &self.clock);
                runner.fail(error.clone());
                return Err(error);
            }
        }
        Ok(())
    }

    fn ring<T: Element>(&self, var: &Var, role: Role) -> usize {
        assert_eq!(var.dtype(), T::DTYPE, "the array has another element type");
        match self.rings.get(var.array) {
            Some(Some((buffer, found))) if *found == role => *buffer,
            _ => panic!("{var:?} is not a {role:?} of this graph"),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.pool.detach(&self.source);
    }
}

/// Ends the run of a [`Session`] from another thread.
#[derive(Clone)]
pub struct Handle {
    program: Weak<BoundGraph>,
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
        if let Some(program) = self.program.upgrade() {
            program.runner.cancel();
        }
    }
}

/// The scheduler of a dynamic run.
fn scheduler(kind: SchedulerKind, lowered: &Lowered, machine: &Machine) -> Box<dyn Scheduler> {
    let priorities = schedule::priorities(lowered, machine);
    match kind {
        SchedulerKind::Eager => Box::new(schedule::Eager::new(&priorities)),
        SchedulerKind::Steal => {
            let shares = lowered.shares(machine);
            let homes = lowered.tasks.iter().map(|task| shares.unit(task.position)).collect();
            Box::new(schedule::Steal::new(&priorities, homes, machine.units.len()))
        }
    }
}

/// A run under way. Dropping it, also while unwinding, waits until every released step is finished.
struct Running<'a> {
    session: &'a mut Session,
    store: &'a mut Store,
    /// Nobody else uses the workspace meanwhile.
    lease: Lease,
    released: u64,
    /// Whether nobody waits for the workers any more.
    is_lost: bool,
}

impl Running<'_> {
    fn release(&mut self, step: u64) {
        self.released = step;
        let releases = &mut self.session.releases;
        if releases.capacity() > 0 {
            if releases.len() == MAX_RELEASES.min(releases.capacity()) {
                releases.pop_front();
            }
            releases.push_back(Release { steps: step, ticks: ticks() });
        }
        self.session.executor.release(step);
    }

    /// Leaves the memory of the store to the workers, which may never be done with it.
    fn give_up(&mut self) {
        self.session.program.keep(self.store.abandon());
        self.session.pool.abandon();
        self.lease.lose();
        self.is_lost = true;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.is_lost && self.session.wait(self.released).is_err() {
            self.give_up();
        }
        if !self.is_lost {
            self.session.program.flush_state();
        }
        self.session.steps = self.released;
    }
}

/// The ports of a step that is about to be released.
pub struct Ports<'a> {
    session: &'a Session,
    step: u64,
}

impl Ports<'_> {
    /// The elements of a port, to be filled.
    ///
    /// # Panics
    /// If `var` is not a port or has another element type.
    pub fn get_mut<T: Element>(&mut self, var: &Var) -> &mut [T] {
        // SAFETY: `run` makes `Ports` only when the step `depth` before has been collected and this one is
        // not released yet; `&mut self` keeps the program from holding two slices of a port.
        let port = unsafe { self.session.program.port(self.session.ring::<T>(var, Role::Port), self.step) };
        &mut port[var.offset..][..var.shape.len()]
    }
}

/// The outputs of a finished step.
pub struct Outputs<'a> {
    session: &'a Session,
    step: u64,
}

impl Outputs<'_> {
    /// The elements of an output.
    ///
    /// # Panics
    /// If `var` is not an output or has another element type.
    pub fn get<T: Element>(&self, var: &Var) -> &[T] {
        // SAFETY: `run` makes `Outputs` for finished steps, and releases `step + depth` only after collecting
        // `step`.
        let output =
            unsafe { self.session.program.output(self.session.ring::<T>(var, Role::Output), self.step) };
        &output[var.offset..][..var.shape.len()]
    }
}
