//! Scratch of kernels: what codelets declare is planned, counted and handed out, to the byte.

#![cfg(not(feature = "shuttle"))]

mod kernels;

use dahl_runtime::array::{Dtype, Params, submit};
use dahl_runtime::bytes::ALIGN;
use dahl_runtime::codelet::relation::TileSize;
use dahl_runtime::codelet::{Call, Codelet};
use dahl_runtime::engine::{Pool, Session, Store, Workspace};
use dahl_runtime::graph::{CutOptions, Graph, Lowered, Var};
use dahl_runtime::machine::{HOST, Kind, Machine};
use dahl_runtime::plan::{MemoryPlan, Plan, PlanFile, Planned};
use dahl_runtime::schedule::SchedulerKind;
use dahl_runtime::{Error, ErrorKind, Result, Runtime};
use kernels::reference;
use std::sync::Arc;

/// `y = 2 x`, with a row of `x` in its scratch.
static TWICE: Codelet = Codelet::new("twice", "x[i,j] -> y[i,j]", 1.0, &[reference(twice)])
    .scratch(|_, spec| spec.args[0].region.shape()[1] * size_of::<f32>());

/// The same, which declares room for half a row.
static GREEDY: Codelet = Codelet::new("greedy", "x[i,j] -> y[i,j]", 1.0, &[reference(greedy)])
    .scratch(|_, spec| spec.args[0].region.shape()[1] / 2 * size_of::<f32>());

fn twice(call: &Call<'_>) -> Result<()> {
    let declared = call.input::<f32>(0).region().shape()[1];
    let row = call.scratch::<f32>();
    assert_eq!((row.len(), row.as_ptr() as usize % ALIGN), (declared, 0), "what was declared, aligned");
    by_row(call, row);
    Ok(())
}

fn greedy(call: &Call<'_>) -> Result<()> {
    by_row(call, call.scratch::<f32>());
    Ok(())
}

fn by_row(call: &Call<'_>, row: &mut [f32]) {
    let (x, mut y) = (call.input::<f32>(0), call.output::<f32>(0));
    let columns = y.region().range(1);
    for i in y.region().range(0) {
        let row = &mut row[..columns.len()];
        row.iter_mut().zip(columns.clone()).for_each(|(value, j)| *value = x.at([i, j]));
        // Whoever had the same scratch would write to it meanwhile.
        std::thread::yield_now();
        row.iter().zip(columns.clone()).for_each(|(value, j)| y.set([i, j], 2.0 * value));
    }
}

/// A step of two tasks, each cut into eight rows: one of 16 elements, one of 100.
struct Step {
    graph: Graph,
    arrays: [[Var; 2]; 2],
}

const WIDTHS: [usize; 2] = [16, 100];

impl Step {
    fn new(codelet: &'static Codelet) -> Step {
        let mut graph = Graph::new(2);
        let arrays = WIDTHS.map(|width| {
            let port = graph.port(&format!("x{width}"), Dtype::F32, [8, width]);
            let output = graph.output(&format!("y{width}"), Dtype::F32, [8, width]);
            graph.task(codelet, Dtype::F32, &[port], &[output], &[], &[]).expect("the shapes agree");
            [port, output]
        });
        Step { graph, arrays }
    }

    fn planned(&self, plan: impl FnOnce(&Lowered) -> Result<Plan>) -> Planned {
        let tilings = vec![vec![("i".into(), TileSize::Size(1))]];
        Planned::new(&self.graph, &CutOptions { tilings, ..CutOptions::default() }, plan).expect("a plan")
    }

    /// Every way in which tasks come to workers.
    fn all_planned(&self, machine: &Machine) -> [Planned; 4] {
        [
            self.planned(|lowered| Plan::heuristic(lowered, machine)),
            self.planned(|lowered| Plan::fixed(lowered, machine)),
            self.planned(|lowered| Plan::open(lowered, machine, SchedulerKind::Eager)),
            self.planned(|lowered| Plan::open(lowered, machine, SchedulerKind::Steal)),
        ]
    }

    /// Runs some steps and checks every output.
    fn run(&self, session: &mut Session) -> Result<u64> {
        let value = |step: u64, i: usize| step as f32 + i as f32 / 1024.0;
        session.run(
            &mut Store::new(),
            50,
            |step, ports| {
                for [port, _] in &self.arrays {
                    let port = ports.get_mut::<f32>(port);
                    port.iter_mut().enumerate().for_each(|(i, x)| *x = value(step, i));
                }
            },
            |step, outputs| {
                for [_, output] in &self.arrays {
                    let output = outputs.get::<f32>(output);
                    assert!(
                        output.iter().enumerate().all(|(i, &y)| y == 2.0 * value(step, i)),
                        "step {step}"
                    );
                }
            },
        )
    }
}

fn unequal() -> Machine {
    Machine::with_workers(4)
        .with_unit_apart(1, Kind::cpu().named("slow").times_as_fast(0.5))
        .with_unit_apart(3, Kind::cpu().named("fast").times_as_fast(3.0))
}

/// Bytes that a unit of a memory needs at most, by the definition.
fn largest(planned: &Planned, machine: &Machine, memory: usize) -> usize {
    let workers = planned.plan.placement().map(|placement| placement.workers());
    let may_run = |task: usize| match &workers {
        Some(workers) => machine.units[workers[task]].memory == memory,
        None => machine.units.iter().any(|unit| unit.memory == memory),
    };
    let tasks = planned.lowered.tasks().iter().enumerate().filter(|(task, _)| may_run(*task));
    tasks.map(|(_, task)| task.scratch_bytes).max().unwrap_or(0)
}

#[test]
fn every_unit_has_what_the_largest_of_its_tasks_declares() {
    let step = Step::new(&TWICE);
    // In one of them nobody computes in the host's memory.
    let apart = [unequal(), Machine::with_workers(1).with_test_unit()];
    for machine in [1, 2, 3].map(Machine::with_workers).into_iter().chain(apart) {
        let pool = Arc::new(Pool::new(&machine).unwrap());
        for planned in step.all_planned(&machine) {
            let bytes = WIDTHS.map(|width| width * size_of::<f32>());
            let tasks = planned.lowered.tasks();
            assert!(bytes.iter().all(|bytes| tasks.iter().any(|task| task.scratch_bytes == *bytes)));
            let workspace = Workspace::new();
            let mut session = Session::new_in(&workspace, &pool, &planned.lowered, &planned.plan, 0).unwrap();
            for (id, memory) in planned.plan.memories().iter().enumerate() {
                let n_units = machine.units.iter().filter(|unit| unit.memory == id).count();
                let MemoryPlan { unit_scratch_bytes, scratch_bytes, .. } = *memory;
                assert_eq!(unit_scratch_bytes, largest(&planned, &machine, id).next_multiple_of(ALIGN));
                assert_eq!(scratch_bytes, n_units * unit_scratch_bytes);
                assert_eq!(memory.scratch_offset(n_units), memory.bytes);
                let profile = planned.memory_profile(id);
                assert_eq!((profile.scratch_bytes, profile.peak()), (scratch_bytes, memory.bytes));
                assert_eq!(workspace.memory_use(id).0, memory.bytes.max(1));
            }
            assert_eq!(step.run(&mut session).unwrap(), 50);
        }
    }
}

#[test]
fn a_limit_counts_it() {
    let step = Step::new(&TWICE);
    let machine = unequal();
    for planned in step.all_planned(&machine) {
        for (id, memory) in planned.plan.memories().iter().enumerate() {
            assert!(memory.scratch_bytes > 0);
            let limited = |bytes| planned.plan.check_machine(&machine.clone().with_limit(id, bytes));
            limited(memory.bytes).unwrap();
            assert_eq!(limited(memory.bytes - 1).unwrap_err().kind(), ErrorKind::Memory);
        }
    }
}

#[test]
fn a_plan_for_fewer_units_is_refused() {
    let step = Step::new(&TWICE);
    let (two, three) = (Machine::with_workers(2), Machine::with_workers(3));
    let planned = step.planned(|lowered| Plan::open(lowered, &two, SchedulerKind::Eager));
    let refuse = |machine: &Machine| -> Option<Error> {
        let pool = Arc::new(Pool::new(machine).unwrap());
        Session::new(&pool, &planned.lowered, &planned.plan, 0).err()
    };
    let error = refuse(&three).expect("there is no room for the third");
    assert_eq!(error.kind(), ErrorKind::Plan);
    assert!(error.to_string().contains("scratch"), "{error}");
    assert!(refuse(&two).is_none() && refuse(&Machine::with_workers(1)).is_none());
}

#[test]
fn plan_files_do_without_it_and_plans_from_files_have_it() {
    let step = Step::new(&TWICE);
    for machine in [Machine::with_workers(2), unequal()] {
        for planned in step.all_planned(&machine) {
            let mut file = PlanFile::new("heuristic");
            file.add("a step", &step.graph, &planned, &machine).unwrap();
            let text = file.to_string();
            let host = planned.plan.memory(HOST);
            assert!(text.contains(&format!(" {} bytes\n", host.buffer_bytes())), "{text}");
            let read = PlanFile::parse("p.plan", &text).unwrap();
            let read = read.plan("a step", &step.graph, &machine).unwrap();
            assert_eq!(read.plan.memories(), planned.plan.memories());
        }
    }
}

#[test]
fn a_kernel_that_takes_more_than_was_declared_fails() {
    let step = Step::new(&GREEDY);
    let machine = Machine::with_workers(2);
    let pool = Arc::new(Pool::new(&machine).unwrap());
    for planned in step.all_planned(&machine) {
        let mut session = Session::new(&pool, &planned.lowered, &planned.plan, 0).unwrap();
        let error = step.run(&mut session).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Task);
        assert!(error.to_string().contains("greedy"), "{error}");
    }
}

#[test]
fn sessions_that_take_turns_have_their_own_in_one_workspace() {
    let (step, machine) = (Step::new(&TWICE), Machine::with_workers(2));
    let (pool, workspace) = (Arc::new(Pool::new(&machine).unwrap()), Workspace::new());
    let planned = step.all_planned(&machine);
    let session =
        |planned: &Planned| Session::new_in(&workspace, &pool, &planned.lowered, &planned.plan, 0).unwrap();
    let mut sessions: Vec<Session> = planned.iter().map(session).collect();
    for _ in 0..3 {
        sessions.iter_mut().for_each(|session| assert_eq!(step.run(session).unwrap(), 50));
    }
    let bytes = planned.iter().map(|planned| planned.plan.memory(HOST).bytes).max();
    assert_eq!(Some(workspace.memory_use(HOST).0), bytes);
}

/// More and more of it, while tasks that need less are under way.
#[test]
fn submitted_tasks_have_theirs() -> Result<()> {
    let runtime = Runtime::new(&Machine::with_workers(3))?;
    let arena = runtime.arena("work");
    let mut results = Vec::new();
    for width in [1, 0, 3, 2000, 17, 100, 5000, 4999, 20_000] {
        let x = arena.filled([4, width], width as f32)?;
        for _ in 0..8 {
            let mut y = arena.filled([4, width], 0.0f32)?;
            submit(&TWICE, "reference", &[&x], &mut [&mut y], Params::default())?;
            results.push((width, y));
        }
    }
    for (width, y) in &results {
        assert!(y.read()?.to_vec().iter().all(|&value| value == 2.0 * *width as f32));
    }
    let x = arena.filled([1, 8], 1.0f32)?;
    let mut y = arena.filled([1, 8], 0.0f32)?;
    submit(&GREEDY, "reference", &[&x], &mut [&mut y], Params::default())?;
    assert_eq!(y.read().err().map(|error| error.kind()), Some(ErrorKind::Task));
    submit(&TWICE, "reference", &[&x], &mut [&mut y], Params::default())?;
    assert_eq!(y.read()?.to_vec(), [2.0; 8]);
    Ok(())
}

#[test]
fn more_than_there_is_is_an_error_before_the_task_is_queued() -> Result<()> {
    static HUGE: Codelet = Codelet::new("huge", "x[i,j] -> y[i,j]", 1.0, &[reference(twice)])
        .scratch(|_, _| isize::MAX as usize - 127);
    let runtime = Runtime::new(&Machine::with_workers(2))?;
    let arena = runtime.arena("work");
    let (x, mut y) = (arena.filled([1, 8], 1.0f32)?, arena.filled([1, 8], 0.0f32)?);
    let refused = submit(&HUGE, "reference", &[&x], &mut [&mut y], Params::default());
    assert_eq!(refused.err().map(|error| error.kind()), Some(ErrorKind::Memory));
    submit(&TWICE, "reference", &[&x], &mut [&mut y], Params::default())?;
    assert_eq!(y.read()?.to_vec(), [2.0; 8]);
    let step = Step::new(&HUGE);
    let cut = dahl_runtime::graph::Cut::heuristic(&step.graph, &CutOptions::default())?;
    let lowered = dahl_runtime::graph::lower(&step.graph, &cut)?;
    let refused = Plan::heuristic(&lowered, &Machine::with_workers(2));
    assert_eq!(refused.err().map(|error| error.kind()), Some(ErrorKind::Memory));
    Ok(())
}
