//! A session: a lowered graph, planned and bound to a pool of workers, run step after step.

#![expect(unsafe_code, reason = "hands out ring versions while no task uses them")]

use super::dynamic::Dynamic;
use super::executor::Executor;
use super::memory::Store;
use super::pool::{Pool, Source};
use super::program::Program;
use super::replay::Replay;
use crate::array::Element;
use crate::error::{Error, ErrorKind, Result};
use crate::graph::{Lowered, Role, Var};
use crate::plan::{Order, Plan};
use crate::schedule::{self, Policy, Scheduler};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::trace::{Clock, Trace};

/// A lowered graph that is ready to run. Memory is allocated when it is made and given back when it is dropped;
/// running allocates nothing.
pub struct Session {
    pool: Arc<Pool>,
    program: Arc<Program>,
    executor: Arc<dyn Executor>,
    source: Arc<dyn Source>,
    rings: Vec<Option<(usize, Role)>>,
    depth: u64,
    steps: u64,
    stop: Arc<AtomicBool>,
    clock: Clock,
}

impl Session {
    /// Prepares a graph for the pool's workers, keeping the newest `trace_capacity` events of each.
    pub fn new(pool: &Arc<Pool>, lowered: &Lowered, plan: &Plan, trace_capacity: usize) -> Result<Self> {
        if let Some(placement) = plan.placement().filter(|p| p.order.len() != pool.n_workers()) {
            let (planned, there) = (placement.order.len(), pool.n_workers());
            let message = format!("the plan is for {planned} workers and there are {there}: make a new plan");
            return Err(Error::new(ErrorKind::Plan, message));
        }
        plan.check(lowered)?;
        let memory = plan.memory();
        let program = Arc::new(Program::new(lowered, memory, pool.units(), trace_capacity)?);
        let edges = [&lowered.edges[..], &memory.edges[..]].concat();
        let executor: Arc<dyn Executor> = match plan.order() {
            Order::Planned(placement) => {
                Arc::new(Replay::new(Arc::clone(&program), placement, &edges, pool.bell()))
            }
            Order::Open(policy) => {
                let scheduler = scheduler(*policy, lowered, pool.n_workers());
                let n_tasks = lowered.tasks.len();
                Arc::new(Dynamic::new(Arc::clone(&program), n_tasks, &edges, scheduler, pool.bell()))
            }
        };
        let source = Arc::clone(&executor) as Arc<dyn Source>;
        pool.attach(Arc::clone(&source));
        let stop = Arc::new(AtomicBool::new(false));
        let (pool, rings, depth) = (Arc::clone(pool), lowered.rings.clone(), lowered.depth as u64);
        Ok(Session { pool, program, executor, source, rings, depth, steps: 0, stop, clock: Clock::start() })
    }

    /// Runs `n_steps` steps. Before each, `feed` fills its ports; after each, in order, `collect` reads its outputs.
    /// Several steps are under way at a time, so `feed` is up to the graph's depth ahead of `collect`.
    ///
    /// Returns the number of steps, which is smaller than asked for only if a [`Handle`] was told to stop.
    pub fn run(
        &mut self,
        store: &mut Store,
        n_steps: u64,
        mut feed: impl FnMut(u64, &mut Ports<'_>),
        mut collect: impl FnMut(u64, &Outputs<'_>),
    ) -> Result<u64> {
        if let Some(error) = self.program.runner.failure() {
            return Err(error);
        }
        self.program.bind(store)?;
        let first = self.steps;
        let (mut fed, mut collected) = (first, first);
        let mut end = first + n_steps;
        // Whatever happens, the store is not given back before the workers are done with it.
        let mut running = Running { session: self, released: first };
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
            session.executor.wait(enough);
            if let Some(error) = session.program.runner.failure() {
                return Err(error);
            }
            let finished = session.executor.finished().min(fed);
            for step in collected..finished {
                collect(step - first, &Outputs { session, step });
            }
            collected = finished;
        }
        Ok(collected - first)
    }

    /// Something to end a run by, from another thread.
    pub fn handle(&self) -> Handle {
        Handle { program: Arc::clone(&self.program), stop: Arc::clone(&self.stop) }
    }

    /// The events since the last call.
    pub fn take_trace(&mut self) -> Trace {
        // SAFETY: `&mut self` means that no run is under way, and `run` waits for all workers before it returns.
        let workers = unsafe { self.program.runner.take_events() };
        Trace { workers, ticks_per_second: self.clock.ticks_per_second() }
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
    program: Arc<Program>,
    stop: Arc<AtomicBool>,
}

impl Handle {
    /// Lets the steps that are under way end, and no others begin. [`Session::run`] returns how many there were; the
    /// state is as if no more had been asked for. Without a run under way, it is the next one that stops.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Passes over every task that has not started. [`Session::run`] returns an error of kind
    /// [`Cancelled`](ErrorKind::Cancelled), and the session cannot be used any more.
    pub fn cancel(&self) {
        self.program.runner.cancel();
    }
}

/// The scheduler of a dynamic run.
fn scheduler(policy: Policy, lowered: &Lowered, n_workers: usize) -> Box<dyn Scheduler> {
    let priorities = schedule::priorities(lowered);
    match policy {
        Policy::Eager => Box::new(schedule::Eager::new(&priorities)),
        Policy::Steal => {
            let homes = lowered.tasks.iter().map(|task| task.home(n_workers)).collect();
            Box::new(schedule::Steal::new(&priorities, homes, n_workers))
        }
    }
}

/// A run under way. Dropping it, also while unwinding, waits until every released step is finished.
struct Running<'a> {
    session: &'a mut Session,
    released: u64,
}

impl Running<'_> {
    fn release(&mut self, step: u64) {
        self.released = step;
        self.session.executor.release(step);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.session.executor.wait(self.released);
        self.session.program.flush_state();
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
        // SAFETY: `run` makes `Ports` only when the step `depth` before has been collected and this one is not
        // released yet; `&mut self` keeps the program from holding two slices of a port.
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
        // SAFETY: `run` makes `Outputs` for finished steps, and releases `step + depth` only after collecting `step`.
        let output =
            unsafe { self.session.program.output(self.session.ring::<T>(var, Role::Output), self.step) };
        &output[var.offset..][..var.shape.len()]
    }
}
