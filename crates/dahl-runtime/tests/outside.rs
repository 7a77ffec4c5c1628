//! An engine of another crate: what it needs is public, and sessions run on it as on any other.
//!
//! It executes steps on one thread of its own, in the order of the plan, as they are released.

#![cfg(not(feature = "shuttle"))]
#![expect(unsafe_code, reason = "implements an engine")]

use dahl_runtime::array::Dtype;
use dahl_runtime::bytes::ALIGN;
use dahl_runtime::codelet::{Call, Codelet, Implementation, Needs};
use dahl_runtime::engine::{
    Abandoned, Blocked, Engine, Lease, Rings, Runner, Session, Steps, Store, Versions, Workspace,
    become_worker, native,
};
use dahl_runtime::graph::{BufferKind, Cut, CutOptions, Graph, Lowered, StateId, TaskId, Var, lower};
use dahl_runtime::machine::{HOST, Machine};
use dahl_runtime::plan::{Plan, Schedule};
use dahl_runtime::trace::Trace;
use dahl_runtime::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// An engine for one unit.
struct Outside {
    machine: Machine,
    /// The first step whose outputs it loses.
    loses: u64,
}

/// What its thread and the program share.
struct Shared {
    lowered: Lowered,
    /// All tasks, in the order of the plan.
    order: Vec<TaskId>,
    runner: Runner,
    versions: Vec<Versions>,
    /// Where the first version of each buffer lies.
    addresses: Mutex<Vec<usize>>,
    /// What kernels may use while they run.
    scratch: AtomicPtr<u8>,
    progress: Mutex<Progress>,
    changed: Condvar,
    workspace: Workspace,
    /// Like the workspace, for a kernel that may outlive the run.
    kept: Mutex<Vec<Abandoned>>,
}

#[derive(Default)]
struct Progress {
    released: u64,
    finished: u64,
    /// Tasks of the step after the finished ones that are done.
    n_done: usize,
    is_over: bool,
}

struct OutsideSteps {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
    offsets: Vec<Option<usize>>,
    scratch_offset: usize,
    lease: Option<Lease>,
    rings: Rings,
    loses: u64,
    is_lost: bool,
}

// SAFETY: one thread executes the tasks of released steps in an order that agrees with all edges, at the
// offsets of the plan.
unsafe impl Engine for Outside {
    fn machine(&self) -> &Machine {
        &self.machine
    }

    fn bind(
        self: Arc<Self>,
        lowered: &Lowered,
        plan: &Plan,
        workspace: &Workspace,
        trace_capacity: usize,
    ) -> Result<Box<dyn Steps>> {
        plan.check(lowered)?;
        plan.check_machine(&self.machine)?;
        workspace.reserve(&[plan.memory(HOST).bytes])?;
        let accesses = || lowered.tasks().iter().flat_map(|task| &task.accesses);
        let versions = |buffer: usize| {
            let is_written = accesses().any(|access| access.buffer == buffer && access.writes);
            let ages = accesses().filter(|access| access.buffer == buffer).map(|access| access.age);
            Versions::new(lowered, buffer, is_written, ages.max().unwrap_or(0))
        };
        let n_buffers = lowered.buffers().len();
        let all = (0..lowered.tasks().len() as TaskId).collect();
        let shared = Arc::new(Shared {
            lowered: lowered.clone(),
            order: plan.placement().map_or(all, |placement| placement.sequence.clone()),
            runner: Runner::new(lowered, &self.machine, trace_capacity),
            versions: (0..n_buffers).map(versions).collect(),
            addresses: Mutex::new(vec![0; n_buffers]),
            scratch: AtomicPtr::default(),
            progress: Mutex::default(),
            changed: Condvar::new(),
            workspace: workspace.clone(),
            kept: Mutex::default(),
        });
        let served = Arc::clone(&shared);
        Ok(Box::new(OutsideSteps {
            shared,
            thread: Some(thread::spawn(move || served.serve())),
            offsets: plan.memory(HOST).offsets.clone(),
            scratch_offset: plan.memory(HOST).scratch_offset(0),
            lease: None,
            rings: Rings::new(lowered),
            loses: self.loses,
            is_lost: false,
        }))
    }
}

impl Shared {
    fn serve(&self) {
        become_worker(0);
        loop {
            let is_idle =
                |progress: &mut Progress| progress.finished == progress.released && !progress.is_over;
            let progress = self.changed.wait_while(self.progress.lock().unwrap(), is_idle).unwrap();
            if progress.finished == progress.released {
                return;
            }
            let step = progress.finished;
            drop(progress);
            for &task in &self.order {
                if !self.runner.has_failed() {
                    self.execute(task as usize, step);
                }
                self.progress.lock().unwrap().n_done += 1;
            }
            let mut progress = self.progress.lock().unwrap();
            (progress.finished, progress.n_done) = (step + 1, 0);
            self.changed.notify_all();
        }
    }

    fn execute(&self, task: usize, step: u64) {
        let first = self.addresses.lock().unwrap().clone();
        let places = self.lowered.tasks()[task].places.iter();
        let addresses = places.map(|place| {
            let version = self.versions[place.buffer].number(step, place.age);
            let stride = self.lowered.buffers()[place.buffer].bytes.next_multiple_of(ALIGN);
            (first[place.buffer] + version * stride + place.offset) as *mut u8
        });
        let addresses: Vec<*mut u8> = addresses.collect();
        let scratch = self.scratch.load(Ordering::Acquire);
        // SAFETY: the memory plan has room for every version and for scratch, and tasks are executed in
        // order.
        unsafe { self.runner.call(0, task, step, &addresses, scratch) };
    }
}

// SAFETY: as above. The lease and the store are held until the end of the run.
unsafe impl Steps for OutsideSteps {
    fn begin(&mut self, store: &mut Store, first: u64) -> Result<()> {
        let mut addresses = self.shared.addresses.lock().unwrap();
        for (i, buffer) in self.shared.lowered.buffers().iter().enumerate() {
            let BufferKind::State(id) = buffer.kind else { continue };
            store.own(id)?;
            match store.raw(id) {
                Some((address, bytes)) if bytes == buffer.bytes => addresses[i] = address as usize,
                _ if store.is_lost() => return Err(Error::new(ErrorKind::Usage, "the store was lost")),
                _ => return Err(Error::new(ErrorKind::Usage, "the graph is of another store")),
            }
            self.shared.versions[i].begin(store.newest(id), first);
        }
        let (offsets, scratch_offset) = (&self.offsets, self.scratch_offset);
        self.lease = Some(self.shared.workspace.enter(|memory, base| {
            if memory != HOST {
                return;
            }
            for (address, offset) in addresses.iter_mut().zip(offsets) {
                *address = offset.map_or(*address, |offset| base as usize + offset);
            }
            self.shared.scratch.store(base.wrapping_add(scratch_offset), Ordering::Release);
        })?);
        // SAFETY: the memory plan has room for all versions of a ring, in memory that the lease keeps.
        unsafe { self.rings.set_addresses(|buffer| addresses[buffer] as *mut u8) };
        Ok(())
    }

    fn rings(&self) -> &Rings {
        &self.rings
    }

    fn own_ports(&self, _: u64) {}

    fn fetch_outputs(&self, step: u64) {
        if step >= self.loses {
            self.shared.runner.fail(Error::new(ErrorKind::Io, "the outputs were lost on their way"));
        }
    }

    fn release(&self, step: u64) {
        self.shared.progress.lock().unwrap().released = step;
        self.shared.changed.notify_all();
    }

    fn finished(&self) -> u64 {
        self.shared.progress.lock().unwrap().finished
    }

    fn wait(&self, steps: u64, limit: Option<Duration>) -> bool {
        let progress = self.shared.progress.lock().unwrap();
        let limit = limit.unwrap_or(Duration::from_secs(60));
        let is_early = |progress: &mut Progress| progress.finished < steps;
        !self.shared.changed.wait_timeout_while(progress, limit, is_early).unwrap().1.timed_out()
    }

    fn end(&mut self, store: &mut Store, n: u64) {
        for (buffer, versions) in self.shared.lowered.buffers().iter().zip(&self.shared.versions) {
            if let BufferKind::State(id) = buffer.kind
                && versions.advances
            {
                store.set_valid(id, []);
                store.advance(id, n);
            }
        }
        self.lease = None;
    }

    fn give_up(&mut self, store: &mut Store) {
        self.shared.kept.lock().unwrap().push(store.abandon());
        self.is_lost = true;
        if let Some(lease) = &mut self.lease {
            lease.lose();
        }
    }

    fn runner(&self) -> &Runner {
        &self.shared.runner
    }

    fn stuck(&self, limit: Duration) -> Error {
        let progress = self.shared.progress.lock().unwrap();
        let waiting = self.shared.order.iter().skip(progress.n_done + 1);
        let blocked = |&task: &TaskId| {
            let awaited = vec![(self.shared.order[progress.n_done], progress.finished, String::new())];
            Blocked { worker: Some(0), task, step: progress.finished, awaited }
        };
        self.shared.runner.stuck(limit, &waiting.map(blocked).collect::<Vec<_>>())
    }

    fn take_events(&mut self, trace: &mut Trace) {
        self.shared.runner.take_events(trace);
    }
}

impl Drop for OutsideSteps {
    fn drop(&mut self) {
        self.shared.progress.lock().unwrap().is_over = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take().filter(|_| !self.is_lost) {
            thread.join().unwrap();
        }
    }
}

const fn reference(kernel: dahl_runtime::codelet::Kernel) -> [Implementation; 1] {
    [Implementation { name: "reference", version: 1, dtype: Dtype::F32, needs: Needs::Nothing, kernel }]
}

static ADD: Codelet = Codelet::new("add", "x[i] y[i] -> z[i]", 1.0, &reference(add));
static ADD_TO: Codelet = Codelet::new("add to", "x[i] y[i] -> y[i]", 1.0, &reference(add_to));
static IS_HELD: AtomicBool = AtomicBool::new(true);

/// Refuses 1000, and waits at 2000 until it is let go.
fn add(call: &Call<'_>) -> Result<()> {
    let (x, y) = (call.input::<f32>(0), call.input::<f32>(1));
    let mut z = call.output::<f32>(0);
    for i in z.region().range(0) {
        if x.at([i]) == 1000.0 {
            return Err(Error::new(ErrorKind::Task, "one thousand"));
        }
        while x.at([i]) == 2000.0 && IS_HELD.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(1));
        }
        z.set([i], x.at([i]) + y.at([i]));
    }
    Ok(())
}

fn add_to(call: &Call<'_>) -> Result<()> {
    let (x, mut y) = (call.input::<f32>(0), call.output::<f32>(0));
    for i in y.region().range(0) {
        y.set([i], x.at([i]) + y.at([i]));
    }
    Ok(())
}

/// A step that adds a port to what the step before left in an array of two versions, and that to a sum.
struct Example {
    store: Store,
    sum: StateId,
    x: Var,
    z: Var,
    session: Session,
}

impl Example {
    fn new(engine: &Arc<dyn Engine>, schedule: Schedule) -> Result<Self> {
        let mut store = Store::new();
        let (before, sum) = (store.add::<f32>("before", [8])?, store.add::<f32>("sum", [8])?);
        store.set_versions(before, 2)?;
        let mut graph = Graph::new(3);
        let (x, z) = (graph.port("x", Dtype::F32, [8]), graph.output("z", Dtype::F32, [8]));
        let t = graph.temporary("t", Dtype::F32, [8]);
        let (before, total) = (store.record(&mut graph, before), store.record(&mut graph, sum));
        let tasks = [(x, before.aged(1), before), (before, x, t), (t, total, total), (total, t, z)];
        for (a, b, c) in tasks {
            // What is changed in place is told once.
            match b == c {
                true => graph.task(&ADD_TO, Dtype::F32, &[a], &[c], &[], &[])?,
                false => graph.task(&ADD, Dtype::F32, &[a, b], &[c], &[], &[])?,
            };
        }
        let options = CutOptions::parse("tiles:i=4")?;
        let lowered = lower(&graph, &Cut::heuristic(&graph, &options)?)?;
        let plan = schedule.plan(&lowered, engine.machine())?;
        let session = Session::new(engine, &lowered, &plan, 1 << 10)?;
        Ok(Example { store, sum, x, z, session })
    }

    fn run(&mut self, n: u64, first: f32) -> Result<Vec<f32>> {
        let (x, z, mut seen) = (self.x, self.z, Vec::new());
        self.session.run(
            &mut self.store,
            n,
            |step, ports| ports.get_mut::<f32>(&x).fill(first + step as f32),
            |_, outputs| seen.extend_from_slice(outputs.get::<f32>(&z)),
        )?;
        Ok(seen)
    }
}

fn outside() -> Arc<dyn Engine> {
    Arc::new(Outside { machine: Machine::with_workers(1), loses: u64::MAX })
}

#[test]
fn its_steps_come_to_the_same_as_those_of_the_native_engine() {
    for schedule in Schedule::ALL {
        let of = |engine: &Arc<dyn Engine>| {
            let mut example = Example::new(engine, schedule).unwrap();
            let seen: Vec<f32> = [1, 0, 5, 8].iter().flat_map(|&n| example.run(n, 2.0).unwrap()).collect();
            let trace = example.session.take_trace();
            assert_eq!(trace.workers.iter().map(Vec::len).collect::<Vec<_>>(), [14 * 8]);
            (seen, example.store.get::<f32>(example.sum).to_vec())
        };
        let ours = of(&outside());
        assert_eq!(ours.0.len(), 14 * 8);
        assert_eq!(ours, of(&native(&Machine::with_workers(1)).unwrap()));
    }
}

#[test]
fn its_failures_end_runs_and_what_it_cannot_execute_is_refused() {
    let mut example = Example::new(&outside(), Schedule::Replay).unwrap();
    let error = example.run(8, 997.0).unwrap_err();
    assert!(error.kind() == ErrorKind::Task && error.to_string().contains("one thousand"), "{error}");
    let losing: Arc<dyn Engine> = Arc::new(Outside { machine: Machine::with_workers(1), loses: 4 });
    let mut example = Example::new(&losing, Schedule::Replay).unwrap();
    assert_eq!(example.run(4, 1.0).unwrap().len(), 4 * 8);
    assert_eq!(example.run(4, 1.0).unwrap_err().kind(), ErrorKind::Io);
    let machine = Machine::with_workers(2);
    let mut graph = Graph::new(1);
    let (x, z) = (graph.port("x", Dtype::F32, [8]), graph.output("z", Dtype::F32, [8]));
    graph.task(&ADD, Dtype::F32, &[x, x], &[z], &[], &[]).unwrap();
    let lowered = lower(&graph, &Cut::heuristic(&graph, &CutOptions::default()).unwrap()).unwrap();
    let plan = Plan::fixed(&lowered, &machine).unwrap();
    let refused = Session::new(&outside(), &lowered, &plan, 0).err().map(|error| error.to_string());
    assert!(refused.unwrap().contains("for 2 workers and there are 1"));
}

#[test]
fn it_is_watched_and_what_it_was_stuck_in_outlives_the_run() {
    let mut example = Example::new(&outside(), Schedule::Replay).unwrap();
    example.session.set_watchdog(Some(Duration::from_millis(300)));
    let error = example.run(3, 2000.0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stuck);
    let text = error.to_string();
    assert!(text.contains("worker 0 has been executing add (reference)"), "{text}");
    assert!(text.contains("waits for add (reference)"), "{text}");
    assert!(example.store.is_lost());
    drop(example);
    IS_HELD.store(false, Ordering::Release);
}
