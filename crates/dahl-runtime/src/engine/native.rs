//! The native engine: a pool of worker threads, which replay a plan or take tasks as they become ready.

#![expect(unsafe_code, reason = "implements the engine")]

use super::bound::BoundGraph;
use super::busy::Lookout;
use super::device::Device;
use super::memory::Store;
use super::pool::{Pool, WorkSource};
use super::rings::Rings;
use super::runner::Runner;
use super::steps::{Engine, Steps};
use super::threads::Threads;
use super::workspace::{Lease, Workspace};
use crate::error::{Error, Result};
use crate::graph::{Lowered, Role};
use crate::machine::Machine;
use crate::plan::{Interleaved, Order, Plan};
use crate::progress::{Doing, Dynamic, Progress, Replay};
use crate::schedule::Allowed;
use crate::sync::Arc;
use crate::trace::Trace;
use crate::trace::recorder::Look;
use std::time::Duration;

/// The native engine for a machine: one thread per unit.
pub fn native(machine: &Machine) -> Result<Arc<dyn Engine>> {
    Ok(Arc::new(Pool::new(machine)?))
}

/// The same where some units, by number, are devices; see [`Pool::with_devices`].
pub fn native_with(
    machine: &Machine,
    devices: impl IntoIterator<Item = (usize, Arc<dyn Device>)>,
) -> Result<Arc<dyn Engine>> {
    Ok(Arc::new(Pool::with_devices(machine, devices)?))
}

// SAFETY: replay and dynamic runs execute each task of a released step once, when everything it waits for has
// happened (see `../progress/`), through `BoundGraph::execute` or `enqueue`, which take addresses from the
// memory plan.
unsafe impl Engine for Pool {
    fn machine(&self) -> &Machine {
        Pool::machine(self)
    }

    fn bind(
        self: Arc<Self>,
        lowered: &Lowered,
        plan: &Plan,
        workspace: &Workspace,
        trace_capacity: usize,
    ) -> Result<Box<dyn Steps>> {
        plan.check(lowered)?;
        let machine = Pool::machine(&self);
        plan.check_machine(machine)?;
        let graph =
            Arc::new(BoundGraph::new(lowered, plan, (machine, self.devices()), trace_capacity, workspace)?);
        let edges = plan.edges(lowered);
        let n_tasks = lowered.tasks.len();
        let threads = Threads::new(Arc::clone(&graph), &self);
        let progress = Arc::new(match plan.order() {
            Order::Planned(placement) => {
                let copies = Interleaved::new(n_tasks, plan.copies());
                let order: Vec<_> = placement.order.iter().map(|tasks| copies.of(tasks)).collect();
                let memories = machine.units.iter().map(|unit| unit.memory).collect();
                let allowed = Allowed::of_codes(lowered, machine)?;
                Progress::Replay(Replay::new(threads, &order, &placement.floating, &edges, memories, allowed))
            }
            Order::Open(policy) => {
                let allowed = Allowed::of_codes(lowered, machine)?;
                let appointed = policy.appoint(lowered, machine, &edges, allowed);
                let n_workers = machine.units.len();
                Progress::Dynamic(Dynamic::new(threads, n_tasks, n_workers, &edges, appointed))
            }
        });
        let source = Arc::clone(&progress) as Arc<dyn WorkSource>;
        self.attach(Arc::clone(&source));
        let rings = Rings::new(lowered);
        Ok(Box::new(NativeSteps { pool: self, graph, progress, source, rings, first: 0, lease: None }))
    }

    fn lookout(self: Arc<Self>) -> Option<Lookout> {
        Lookout::new(&self)
    }
}

/// A graph that workers of a pool execute.
struct NativeSteps {
    pool: Arc<Pool>,
    graph: Arc<BoundGraph>,
    progress: Arc<Progress<Threads>>,
    source: Arc<dyn WorkSource>,
    rings: Rings,
    /// The first step of the run.
    first: u64,
    /// Nobody else uses the workspace during a run.
    lease: Option<Lease>,
}

// SAFETY: see `Engine for Pool`. Workers are between tasks when no step is released, and `bind` points at the
// store and the workspace for as long as the lease lasts.
unsafe impl Steps for NativeSteps {
    fn begin(&mut self, store: &mut Store, first: u64) -> Result<()> {
        self.lease = Some(self.graph.bind(store, first)?);
        self.first = first;
        if let Some(error) = self.graph.runner.failure() {
            // A device has refused what was to be copied to it.
            self.lease = None;
            return Err(error);
        }
        // SAFETY: the memory plan has room for all versions of a ring, in memory that the lease keeps.
        unsafe { self.rings.set_addresses(|buffer| self.graph.host_address(buffer)) };
        Ok(())
    }

    fn rings(&self) -> &Rings {
        &self.rings
    }

    fn own_ports(&self, step: u64) {
        self.rings.buffers(Role::Port).for_each(|buffer| self.graph.own(buffer, step));
    }

    fn fetch_outputs(&self, step: u64) {
        self.rings.buffers(Role::Output).for_each(|buffer| self.graph.fetch(buffer, step));
    }

    fn release(&self, step: u64) {
        self.progress.release(step);
    }

    fn finished(&self) -> u64 {
        self.progress.finished()
    }

    fn wait(&self, steps: u64, limit: Option<Duration>) -> bool {
        self.progress.driver().wait(steps, limit, || self.progress.finished())
    }

    fn end(&mut self, store: &mut Store, n: u64) {
        self.graph.flush_state(store, self.first, n);
        self.graph.advance_state(store, n);
        self.lease = None;
    }

    fn give_up(&mut self, store: &mut Store) {
        self.graph.keep(store.abandon());
        self.pool.abandon();
        if let Some(mut lease) = self.lease.take() {
            lease.lose();
        }
    }

    fn runner(&self) -> &Runner {
        &self.graph.runner
    }

    fn stuck(&self, limit: Duration) -> Error {
        let runner = &self.graph.runner;
        let doing: Vec<Doing> = runner.looks().iter().map(doing).collect();
        runner.stuck(limit, &self.progress.blocked(&doing))
    }

    fn take_events(&mut self, trace: &mut Trace) {
        self.graph.runner.take_events(trace);
    }
}

/// What a worker is doing.
fn doing(look: &Look) -> Doing {
    Doing { running: look.running.map(|(task, step, _)| (task, step)), last: look.last }
}

impl Drop for NativeSteps {
    fn drop(&mut self) {
        self.pool.detach(&self.source);
    }
}
