//! Random steps whose arrays have up to four versions and are read as they were up to three steps ago,
//! against a model that executes one step after the other and remembers everything.
//!
//! Elements are small whole numbers, so that sums in any order give the same bits. Kernels are late at times.

#![cfg(not(feature = "shuttle"))]

use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::relation::TileSize;
use dahl_runtime::codelet::{Call, Codelet, Implementation, Kernel, Needs};
use dahl_runtime::engine::{Delay, Device, Pool, QueueDevice, QueueOptions, Session, Store};
use dahl_runtime::graph::{Cut, CutOptions, Graph, Lowered, StateId, Var, lower};
use dahl_runtime::machine::{HOST, Machine};
use dahl_runtime::perf::{Costs, Models, predict};
use dahl_runtime::plan::{Plan, PlanFile, Planned, Schedule};
use dahl_runtime::{ErrorKind, Result};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const T: Dtype = Dtype::F64;
/// What all numbers are below, after every task.
const MODULUS: f64 = 1021.0;
/// Versions of an array, at most.
const MOST: usize = 4;

const fn reference(kernel: Kernel) -> [Implementation; 1] {
    [Implementation::new("reference", 1, T, Needs::Nothing, kernel)]
}

static BLEND: Codelet = Codelet::new("blend", "x[i,j] y[i,j] -> z[i,j]", 1.0, &reference(blend));
static TURN: Codelet = Codelet::new("turn", "x[j,i] y[i,j] -> z[i,j]", 1.0, &reference(turn));
static SPREAD: Codelet = Codelet::new("spread", "x[i,j] w[j] -> z[i,j]", 1.0, &reference(spread));
static MIX: Codelet = Codelet::new("mix", "x[i,j] y[i,j] -> y[i,j]", 1.0, &reference(mix));
static TOTAL: Codelet = Codelet::new("total", "x[i,j] -> s[j] +=", 1.0, &reference(total));
static UPDATE: Codelet = Codelet::new("update", "s[j] w[j] -> w[j]", 1.0, &reference(update));
static REPLACE: Codelet = Codelet::new("replace", "s[j] v[j] -> w[j]", 1.0, &reference(replace));
static COPY: Codelet = Codelet::new("copy", "x[j] -> y[j]", 1.0, &reference(copy));

/// Is late, at times.
fn delay() {
    static STATE: AtomicU64 = AtomicU64::new(1);
    let state = STATE.load(Ordering::Relaxed);
    let next = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    STATE.store(next, Ordering::Relaxed);
    match next >> 59 {
        0 => std::thread::yield_now(),
        1..8 => (0..next >> 50 & 255).for_each(|_| std::hint::spin_loop()),
        _ => {}
    }
}

fn fill(call: &Call<'_>, value: impl Fn(usize, usize) -> f64) -> Result<()> {
    delay();
    let mut z = call.output::<f64>(0);
    for i in z.region().range(0) {
        for j in z.region().range(1) {
            z.set([i, j], value(i, j) % MODULUS);
        }
    }
    Ok(())
}

fn fill_row(call: &Call<'_>, value: impl Fn(usize, f64) -> f64, is_changed: bool) -> Result<()> {
    delay();
    let mut w = call.output::<f64>(0);
    for j in w.region().range(0) {
        let before = if is_changed { w.at([j]) } else { 0.0 };
        w.set([j], value(j, before) % MODULUS);
    }
    Ok(())
}

fn blend(call: &Call<'_>) -> Result<()> {
    let (x, y) = (call.input::<f64>(0), call.input::<f64>(1));
    fill(call, |i, j| 3.0 * x.at([i, j]) + y.at([i, j]) + 1.0)
}

fn turn(call: &Call<'_>) -> Result<()> {
    let (x, y) = (call.input::<f64>(0), call.input::<f64>(1));
    fill(call, |i, j| 2.0 * x.at([j, i]) + y.at([i, j]))
}

fn spread(call: &Call<'_>) -> Result<()> {
    let (x, w) = (call.input::<f64>(0), call.input::<f64>(1));
    fill(call, |i, j| x.at([i, j]) + 5.0 * w.at([j]))
}

fn mix(call: &Call<'_>) -> Result<()> {
    delay();
    let (x, mut y) = (call.input::<f64>(0), call.output::<f64>(0));
    for i in y.region().range(0) {
        for j in y.region().range(1) {
            y.set([i, j], (5.0 * y.at([i, j]) + x.at([i, j])) % MODULUS);
        }
    }
    Ok(())
}

fn total(call: &Call<'_>) -> Result<()> {
    delay();
    let (x, mut s) = (call.input::<f64>(0), call.output::<f64>(0));
    for j in s.region().range(0) {
        let start = if call.accumulate() { s.at([j]) } else { 0.0 };
        s.set([j], x.region().range(0).fold(start, |sum, i| sum + x.at([i, j])));
    }
    Ok(())
}

fn update(call: &Call<'_>) -> Result<()> {
    let s = call.input::<f64>(0);
    fill_row(call, |j, w| 7.0 * w + s.at([j]), true)
}

fn replace(call: &Call<'_>) -> Result<()> {
    let (s, v) = (call.input::<f64>(0), call.input::<f64>(1));
    fill_row(call, |j, _| s.at([j]) + 11.0 * v.at([j]), false)
}

fn copy(call: &Call<'_>) -> Result<()> {
    let x = call.input::<f64>(0);
    fill_row(call, |j, _| x.at([j]), false)
}

/// A task. Numbers stand for arrays and ages, modulo how many there are.
#[derive(Clone, Copy, Debug)]
enum Op {
    Blend(Read, Read),
    Turn(Read, Read),
    Spread(Read, Read),
    /// Changes the newest array in place.
    Mix(Read),
    /// Changes a state in place by the sums of an array, or the first half of it.
    Update {
        state: usize,
        by: Read,
        half: bool,
    },
    /// Overwrites all of a state.
    Replace {
        state: usize,
        by: Read,
        from: Read,
    },
}

/// Which array is read, and how old.
type Read = (usize, usize);

#[derive(Clone, Debug)]
struct Case {
    side: usize,
    depth: usize,
    /// Versions of the port, of the output, of the states, and of the temporary arrays.
    port: usize,
    output: usize,
    states: Vec<usize>,
    arrays: Vec<usize>,
    ops: Vec<Op>,
    tiling: (usize, usize),
    groups: usize,
    /// The steps of each run, and whether the program writes the states before it.
    runs: Vec<(u64, bool)>,
    workers: usize,
    last: Last,
}

/// What the last unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    /// A core as any other.
    Core,
    /// One with a memory of its own.
    Apart,
    /// One that finishes later, at any time.
    Later,
}

/// The workers of a machine whose last unit finishes later, or does not.
fn pool(machine: &Machine, last: Last) -> Arc<Pool> {
    if last != Last::Later {
        return Arc::new(Pool::new(machine).unwrap());
    }
    let delay = Delay::Random(Duration::from_micros(20));
    let device = QueueDevice::with_options(QueueOptions { delay, ..QueueOptions::default() }).unwrap();
    let device = (machine.units.len() - 1, Arc::new(device) as Arc<dyn Device>);
    Arc::new(Pool::with_devices(machine, [device]).unwrap())
}

/// What a task reads: an array of the step, a state, the port or the output, and how many steps ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Array(usize),
    Port,
    Output,
}

/// What a task does, with everything resolved.
#[derive(Clone, Copy, Debug)]
enum Task {
    Blend((Source, usize), (Source, usize), usize),
    Turn((Source, usize), (Source, usize), usize),
    Spread((Source, usize), (usize, usize), usize),
    Mix((Source, usize), usize),
    Update((Source, usize), usize, bool),
    Replace((Source, usize), (usize, usize), usize),
}

impl Case {
    /// The tasks: each array is written once, in order, and changed in place after that.
    fn tasks(&self) -> Vec<Task> {
        let mut n_written = 0;
        let mut tasks = Vec::new();
        for op in &self.ops {
            let read = |(array, age): Read| self.source(array, age, n_written);
            let state = |(state, age): Read| {
                (state % self.states.len(), age % self.states[state % self.states.len()])
            };
            let can_write = n_written < self.arrays.len();
            let task = match *op {
                Op::Blend(x, y) if can_write => Task::Blend(read(x), read(y), n_written),
                Op::Turn(x, y) if can_write => Task::Turn(read(x), read(y), n_written),
                Op::Spread(x, w) if can_write => Task::Spread(read(x), state(w), n_written),
                Op::Mix(x) if n_written > 0 && read(x) != (Source::Array(n_written - 1), 0) => {
                    Task::Mix(read(x), n_written - 1)
                }
                Op::Update { state, by, half } => Task::Update(read(by), state % self.states.len(), half),
                Op::Replace { state: to, by, from } => {
                    let (from, to) = (state(from), to % self.states.len());
                    // What is overwritten cannot be read by the same task.
                    if from == (to, 0) { continue } else { Task::Replace(read(by), from, to) }
                }
                _ => continue,
            };
            n_written += usize::from(matches!(task, Task::Blend(..) | Task::Turn(..) | Task::Spread(..)));
            tasks.push(task);
        }
        // Arrays that no task has written yet are, so that what earlier steps left in them can be read.
        tasks.extend(
            (n_written..self.arrays.len()).map(|i| Task::Blend((Source::Port, 0), (Source::Port, 0), i)),
        );
        tasks
    }

    /// What is read through two numbers by a task before which so many arrays have been written.
    fn source(&self, array: usize, age: usize, n_written: usize) -> (Source, usize) {
        let n = self.arrays.len();
        match array % (n + 2) {
            i if i < n_written => (Source::Array(i), age % self.arrays[i]),
            // Of what is written later, earlier steps' values.
            i if i < n && self.arrays[i] > 1 => (Source::Array(i), 1 + age % (self.arrays[i] - 1)),
            i if i == n + 1 && self.output > 1 => (Source::Output, 1 + age % (self.output - 1)),
            _ => (Source::Port, age % self.port),
        }
    }

    /// What goes into a step.
    fn input(step: u64, element: usize) -> f64 {
        ((element as u64 * 7 + step * 13) % 97) as f64
    }
}

struct Recorded {
    graph: Graph,
    port: Var,
    output: Var,
    sums: Var,
    states: Vec<StateId>,
}

fn record(case: &Case, store: &mut Store) -> Recorded {
    let n = case.side;
    let mut graph = Graph::new(case.depth);
    let port = graph.port("x", T, [n, n]);
    graph.set_versions(&port, case.port).unwrap();
    let output = graph.output("y", T, [n, n]);
    graph.set_versions(&output, case.output).unwrap();
    let sums = graph.output("sums", T, [n]);
    let mut states = Vec::new();
    let mut vars = Vec::new();
    for &versions in &case.states {
        let state = store.add::<f64>("w", [n]).unwrap();
        store.get_mut::<f64>(state).fill(states.len() as f64 + 1.0);
        store.set_versions(state, versions).unwrap();
        vars.push(store.record(&mut graph, state));
        states.push(state);
    }
    let mut arrays = Vec::new();
    for (i, &versions) in case.arrays.iter().enumerate() {
        let array = graph.temporary(&format!("t{i}"), T, [n, n]);
        graph.set_versions(&array, versions).unwrap();
        arrays.push(array);
    }
    let var = |(source, age): (Source, usize)| match source {
        Source::Array(i) => arrays[i].aged(age),
        Source::Port => port.aged(age),
        Source::Output => output.aged(age),
    };
    let state = |(state, age): (usize, usize)| vars[state].aged(age);
    let mut task = |codelet, inputs: &[Var], outputs: &[Var]| {
        graph.task(codelet, T, inputs, outputs, &[], &[]).unwrap();
    };
    let mut last = port;
    for one in case.tasks() {
        let sum = match one {
            Task::Update(by, ..) | Task::Replace(by, ..) => {
                task(&TOTAL, &[var(by)], &[sums]);
                Some(sums)
            }
            _ => None,
        };
        match (one, sum) {
            (Task::Blend(x, y, z), _) => task(&BLEND, &[var(x), var(y)], &[arrays[z]]),
            (Task::Turn(x, y, z), _) => task(&TURN, &[var(x), var(y)], &[arrays[z]]),
            (Task::Spread(x, w, z), _) => task(&SPREAD, &[var(x), state(w)], &[arrays[z]]),
            (Task::Mix(x, y), _) => task(&MIX, &[var(x)], &[arrays[y]]),
            (Task::Update(_, w, half), Some(sums)) => {
                let len = if half { n.div_ceil(2) } else { n };
                let part = |var: Var| var.part(0, [len]).unwrap();
                task(&UPDATE, &[part(sums)], &[part(vars[w])]);
            }
            (Task::Replace(_, v, w), Some(sums)) => task(&REPLACE, &[sums, state(v)], &[vars[w]]),
            _ => unreachable!("sums are there"),
        }
        if let Task::Blend(.., z) | Task::Turn(.., z) | Task::Spread(.., z) = one {
            last = arrays[z];
        }
    }
    task(&BLEND, &[last, port], &[output]);
    task(&TOTAL, &[last], &[sums]);
    Recorded { graph, port, output, sums, states }
}

/// The outputs of all steps, and after each run all versions of all states, the newest first.
fn expected(case: &Case) -> Vec<f64> {
    let n = case.side;
    let tasks = case.tasks();
    let sums = |x: &[f64]| -> Vec<f64> { (0..n).map(|j| (0..n).map(|i| x[i * n + j]).sum()).collect() };
    let mut seen = Vec::new();
    // The values that steps left, the newest first.
    let mut states: Vec<Vec<Vec<f64>>> =
        (0..case.states.len()).map(|i| vec![vec![i as f64 + 1.0; n]; MOST]).collect();
    for (run, &(steps, writes)) in case.runs.iter().enumerate() {
        if writes {
            let values = |state: &mut Vec<Vec<f64>>| *state = vec![vec![run as f64 + 40.0; n]; MOST];
            states.iter_mut().for_each(values);
        }
        let past = || vec![vec![0.0; n * n]; MOST];
        let (mut port, mut output) = (past(), past());
        let mut arrays: Vec<Vec<Vec<f64>>> = case.arrays.iter().map(|_| past()).collect();
        for step in 0..steps {
            let shift = |values: &mut Vec<Vec<f64>>| {
                values.insert(0, values[0].clone());
                values.truncate(MOST);
            };
            states.iter_mut().chain(&mut arrays).chain([&mut port, &mut output]).for_each(shift);
            port[0] = (0..n * n).map(|e| Case::input(step, e)).collect();
            let mut last = port[0].clone();
            for task in &tasks {
                let of = |(source, age): (Source, usize)| match source {
                    Source::Array(i) => arrays[i][age].clone(),
                    Source::Port => port[age].clone(),
                    Source::Output => output[age].clone(),
                };
                let new = |f: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
                    (0..n * n).map(|e| f(e / n, e % n) % MODULUS).collect()
                };
                match *task {
                    Task::Blend(x, y, z) => {
                        let (x, y) = (of(x), of(y));
                        arrays[z][0] = new(&|i, j| 3.0 * x[i * n + j] + y[i * n + j] + 1.0);
                        last = arrays[z][0].clone();
                    }
                    Task::Turn(x, y, z) => {
                        let (x, y) = (of(x), of(y));
                        arrays[z][0] = new(&|i, j| 2.0 * x[j * n + i] + y[i * n + j]);
                        last = arrays[z][0].clone();
                    }
                    Task::Spread(x, (w, age), z) => {
                        let (x, w) = (of(x), &states[w][age]);
                        arrays[z][0] = new(&|i, j| x[i * n + j] + 5.0 * w[j]);
                        last = arrays[z][0].clone();
                    }
                    Task::Mix(x, y) => {
                        let x = of(x);
                        let before = &arrays[y][0];
                        arrays[y][0] = new(&|i, j| 5.0 * before[i * n + j] + x[i * n + j]);
                        last = arrays[y][0].clone();
                    }
                    Task::Update(by, w, half) => {
                        let by = sums(&of(by));
                        let len = if half { n.div_ceil(2) } else { n };
                        for j in 0..len {
                            states[w][0][j] = (7.0 * states[w][0][j] + by[j]) % MODULUS;
                        }
                    }
                    Task::Replace(by, (v, age), w) => {
                        let (by, from) = (sums(&of(by)), states[v][age].clone());
                        states[w][0] = (0..n).map(|j| (by[j] + 11.0 * from[j]) % MODULUS).collect();
                    }
                }
            }
            output[0] = (0..n * n).map(|e| (3.0 * last[e] + port[0][e] + 1.0) % MODULUS).collect();
            seen.extend(&output[0]);
            seen.extend(sums(&last));
        }
        for (state, &versions) in states.iter().zip(&case.states) {
            seen.extend(state[..versions].iter().flatten());
        }
    }
    seen
}

/// All versions of a state, by a graph that only reads it.
fn versions(pool: &Arc<Pool>, store: &mut Store, state: StateId, schedule: Schedule) -> Vec<f64> {
    let mut graph = Graph::new(2);
    let var = store.record(&mut graph, state);
    let mut outputs = Vec::new();
    for age in 0..store.versions(state) {
        let output = graph.output(&format!("v{age}"), T, var.shape());
        graph.task(&COPY, T, &[var.aged(age)], &[output], &[], &[]).unwrap();
        outputs.push(output);
    }
    let lowered = lower(&graph, &Cut::heuristic(&graph, &CutOptions::default()).unwrap()).unwrap();
    let plan = schedule.plan(&lowered, pool.machine()).unwrap();
    let mut session = Session::new(pool, &lowered, &plan, 0).unwrap();
    let mut seen = Vec::new();
    let collect = |step: u64, out: &dahl_runtime::engine::Outputs<'_>| {
        let values = outputs.iter().flat_map(|output| out.get::<f64>(output).to_vec());
        // Every step reads the same.
        if step == 0 { seen.extend(values) } else { assert!(values.eq(seen.iter().copied())) }
    };
    session.run(store, 3, |_, _| (), collect).unwrap();
    seen
}

fn lowered(case: &Case, graph: &Graph) -> (Cut, Lowered) {
    let (i, j) = case.tiling;
    let tilings = vec![vec![("i".into(), TileSize::Size(i)), ("j".into(), TileSize::Size(j))]];
    let options = CutOptions {
        tilings,
        tiles_per_group: 1,
        max_groups: case.groups,
        implementations: vec!["reference".into()],
        ..CutOptions::default()
    };
    let cut = Cut::heuristic(graph, &options).unwrap();
    let lowered = lower(graph, &cut).unwrap();
    (cut, lowered)
}

/// The same as [`expected`], by running the step.
fn found(case: &Case, schedule: Schedule) -> Vec<f64> {
    let mut store = Store::new();
    let Recorded { graph, port, output, sums, states } = record(case, &mut store);
    let machine = Machine::with_workers(case.workers);
    let machine = if case.last == Last::Core { machine } else { machine.with_test_unit() };
    let (cut, lowered) = lowered(case, &graph);
    let plan = schedule.plan(&lowered, &machine).unwrap();
    predict(&lowered, &plan, &machine, &Models::default(), Costs::default()).unwrap();
    // What is written to a file is what is read.
    let mut file = PlanFile::new("test");
    file.add("step", &graph, &Planned { cut, lowered, plan }, &machine).unwrap();
    let text = file.to_string();
    let is_new = graph.arrays().iter().any(|array| array.versions > 1) || text.contains(" in 1\n");
    assert!(text.starts_with(if is_new { "dahl plan 2\n" } else { "dahl plan 1\n" }), "{text}");
    let Planned { lowered, plan, .. } =
        PlanFile::parse("a file", &text).unwrap().plan("step", &graph, &machine).unwrap();
    check_bytes(&lowered, &plan);
    let pool = pool(&machine, case.last);
    let mut session = Session::new(&pool, &lowered, &plan, 0).unwrap();
    let mut seen = Vec::new();
    for (run, &(steps, writes)) in case.runs.iter().enumerate() {
        if writes {
            states.iter().for_each(|&state| store.get_mut::<f64>(state).fill(run as f64 + 40.0));
        }
        let done = session.run(
            &mut store,
            steps,
            |step, ports| {
                let x = ports.get_mut::<f64>(&port);
                x.iter_mut().enumerate().for_each(|(e, x)| *x = Case::input(step, e));
            },
            |_, out| {
                seen.extend_from_slice(out.get::<f64>(&output));
                seen.extend_from_slice(out.get::<f64>(&sums));
            },
        );
        assert_eq!(done.unwrap(), steps);
        for &state in &states {
            let all = versions(&pool, &mut store, state, schedule);
            assert_eq!(store.get::<f64>(state), &all[..case.side], "the newest version");
            seen.extend(all);
        }
    }
    seen
}

/// Everything that has versions has room for all of them, and shares it with nobody.
fn check_bytes(lowered: &Lowered, plan: &Plan) {
    let memory = plan.memory(HOST);
    let ranges: Vec<_> = lowered
        .buffers()
        .iter()
        .zip(&memory.offsets)
        .map(|(buffer, offset)| {
            offset.map(|at| (buffer, at..at + buffer.bytes.next_multiple_of(64) * buffer.versions))
        })
        .collect();
    for (i, (buffer, range)) in ranges.iter().flatten().enumerate() {
        assert!(range.end <= memory.bytes);
        for (other, (_, beside)) in ranges.iter().flatten().enumerate() {
            let is_apart = range.end <= beside.start || beside.end <= range.start;
            assert!(i == other || buffer.may_share() || is_apart || range.is_empty(), "{}", buffer.name);
        }
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let read = || (0..16_usize, 0..MOST);
    let op = prop_oneof![
        (read(), read()).prop_map(|(x, y)| Op::Blend(x, y)),
        (read(), read()).prop_map(|(x, y)| Op::Turn(x, y)),
        (read(), read()).prop_map(|(x, w)| Op::Spread(x, w)),
        read().prop_map(Op::Mix),
        (0..2_usize, read(), any::<bool>()).prop_map(|(state, by, half)| Op::Update { state, by, half }),
        (0..2_usize, read(), read()).prop_map(|(state, by, from)| Op::Replace { state, by, from }),
    ];
    let versions = || 1..=MOST;
    let arrays = (
        versions(),
        versions(),
        prop::collection::vec(versions(), 1..3),
        prop::collection::vec(versions(), 1..6),
        prop::collection::vec(op, 1..12),
    );
    let sizes = (1..7_usize, 1..6_usize, (1..7_usize, 1..7_usize), 1..4_usize);
    let runs = prop::collection::vec((0..9_u64, any::<bool>()), 1..4);
    let last = prop_oneof![Just(Last::Core), Just(Last::Apart), Just(Last::Later)];
    (arrays, sizes, runs, 1..5_usize, last).prop_map(
        |((port, output, states, arrays, ops), (side, depth, tiling, groups), runs, workers, last)| Case {
            side,
            depth,
            port,
            output,
            states,
            arrays,
            ops,
            tiling,
            groups,
            runs,
            workers,
            last,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn steps_with_versions_compute_what_the_model_does(case in cases()) {
        let expected = expected(&case);
        for schedule in Schedule::ALL {
            prop_assert!(found(&case, schedule) == expected, "{schedule:?}");
        }
    }
}

/// A port, a temporary array with so many versions that is read at an age, and an output.
fn chain(versions: usize, age: usize) -> (Graph, [Var; 3]) {
    let mut graph = Graph::new(8);
    let (port, output) = (graph.port("p", T, [1]), graph.output("out", T, [1]));
    let array = graph.temporary("a", T, [1]);
    graph.set_versions(&array, versions).unwrap();
    graph.task(&WRITE, T, &[port], &[array], &[], &[]).unwrap();
    graph.task(&READ, T, &[array.aged(age)], &[output], &[], &[]).unwrap();
    (graph, [port, array, output])
}

fn whole(graph: &Graph) -> Result<Lowered> {
    lower(graph, &Cut::heuristic(graph, &CutOptions::default()).unwrap())
}

#[test]
fn edges_reach_back_as_far_as_versions_and_ages() {
    for versions in 1..=MOST {
        for age in 0..versions {
            let lowered = whole(&chain(versions, age).0).unwrap();
            let edges: Vec<_> =
                lowered.edges().iter().map(|edge| (edge.from, edge.to, edge.distance as usize)).collect();
            // Reading after writing, and writing again after both.
            let mut expected = vec![(0, 0, versions), (0, 1, age), (1, 0, versions - age)];
            expected.sort_unstable();
            assert_eq!(edges, expected);
        }
    }
    // So they do where nothing but an output has several versions.
    let mut graph = Graph::new(1);
    let (port, output, old) =
        (graph.port("p", T, [1]), graph.output("out", T, [1]), graph.output("old", T, [1]));
    graph.set_versions(&output, MOST).unwrap();
    graph.task(&READ, T, &[output.aged(MOST - 1)], &[old], &[], &[]).unwrap();
    graph.task(&WRITE, T, &[port], &[output], &[], &[]).unwrap();
    let edges = whole(&graph).unwrap().edges().to_vec();
    assert_eq!(edges.len(), 1);
    assert_eq!((edges[0].from, edges[0].to, edges[0].distance as usize), (1, 0, MOST - 1));
}

/// How many steps have written.
static WRITTEN: AtomicU64 = AtomicU64::new(0);
/// How many steps have to be ahead of one that reads, and how many steps there are.
static AHEAD: AtomicU64 = AtomicU64::new(0);
const STEPS: u64 = 40;

static WRITE: Codelet = Codelet::new("write", "x[i] -> y[i]", 1.0, &reference(write));
static READ: Codelet = Codelet::new("read", "x[i] -> y[i]", 1.0, &reference(read));

fn write(call: &Call<'_>) -> Result<()> {
    copy(call)?;
    WRITTEN.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Waits until steps further ahead have written.
fn read(call: &Call<'_>) -> Result<()> {
    let step = call.input::<f64>(0).at([0]) as u64;
    while WRITTEN.load(Ordering::Relaxed) < (step + AHEAD.load(Ordering::Relaxed)).min(STEPS) {
        std::thread::yield_now();
    }
    copy(call)
}

#[test]
fn so_many_steps_are_under_way_as_there_are_versions() {
    const VERSIONS: usize = 4;
    let (graph, [port, _, output]) = chain(VERSIONS, 0);
    let lowered = whole(&graph).unwrap();
    let pool = Arc::new(Pool::new(&Machine::with_workers(VERSIONS)).unwrap());
    for schedule in [Schedule::Eager, Schedule::Steal] {
        let plan = schedule.plan(&lowered, pool.machine()).unwrap();
        let mut session = Session::new(&pool, &lowered, &plan, 0).unwrap();
        session.set_watchdog(Some(Duration::from_secs(60)));
        WRITTEN.store(0, Ordering::Relaxed);
        AHEAD.store(VERSIONS as u64, Ordering::Relaxed);
        let mut seen = Vec::new();
        let done = session.run(
            &mut Store::new(),
            STEPS,
            |step, ports| ports.get_mut::<f64>(&port)[0] = step as f64,
            |_, out| seen.push(out.get::<f64>(&output)[0]),
        );
        assert_eq!(done.unwrap(), STEPS);
        assert!(seen.iter().copied().eq((0..STEPS).map(|step| step as f64)));
    }
    AHEAD.store(0, Ordering::Relaxed);
}

#[test]
fn mistakes_are_refused_with_a_sentence() {
    let refused = |result: Result<()>, pieces: &[&str]| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        let message = error.to_string();
        assert!(pieces.iter().all(|piece| message.contains(piece)), "{message}");
    };
    let (mut graph, [port, array, output]) = chain(3, 2);
    let task = |graph: &mut Graph, x: Var, y: Var| graph.task(&READ, T, &[x], &[y], &[], &[]);
    refused(
        task(&mut graph, array.aged(3), output),
        &["a cannot be read as it was 3 steps ago", "give it 4 or more"],
    );
    refused(
        task(&mut graph, port.aged(1), output),
        &["p cannot be read as it was 1 steps ago", "versions.rs"],
    );
    refused(
        task(&mut graph, port, array.aged(1)),
        &["what a was in an earlier step can be read and not written"],
    );
    refused(graph.set_versions(&array, 2), &["a cannot be read as it was 2 steps ago"]);
    refused(graph.set_versions(&array, 0), &["a cannot have 0 versions: use 1 to 256"]);
    refused(graph.set_versions(&array, 257), &["a cannot have 257 versions"]);
    let unwritten = graph.temporary("b", T, [1]);
    graph.set_versions(&unwritten, 2).unwrap();
    task(&mut graph, unwritten.aged(1), output).unwrap();
    refused(
        whole(&graph).map(drop),
        &["b is read as it was 1 steps ago, and no task writes it", "versions.rs"],
    );

    let mut store = Store::new();
    let state = store.add::<f64>("w", [1]).unwrap();
    refused(store.set_versions(state, 0), &["w cannot have 0 versions"]);
    refused(store.set_versions(StateId(7), 2), &["there is no state 7"]);
    // A graph knows the versions that there were when it was recorded.
    let mut graph = Graph::new(1);
    let (w, output) = (store.record(&mut graph, state), graph.output("out", T, [1]));
    task(&mut graph, w, output).unwrap();
    store.set_versions(state, 2).unwrap();
    let lowered = whole(&graph).unwrap();
    let pool = Arc::new(Pool::new(&Machine::with_workers(1)).unwrap());
    let plan = Plan::fixed(&lowered, pool.machine()).unwrap();
    let mut session = Session::new(&pool, &lowered, &plan, 0).unwrap();
    refused(session.run(&mut store, 1, |_, _| (), |_, _| ()).map(drop), &["recorded for another store"]);
}

#[test]
fn versions_and_ages_are_lines_of_a_plan_file() {
    let (graph, _) = chain(3, 2);
    let machine = Machine::with_workers(1);
    let planned = Planned::new(&graph, &CutOptions::default(), |lowered| {
        Plan::heuristic(lowered, &Machine::with_workers(1))
    })
    .unwrap();
    let mut file = PlanFile::new("test");
    file.add("step", &graph, &planned, &machine).unwrap();
    let text = file.to_string();
    assert!(text.contains("\nversions 2 3\nage 1 0 2\norder"), "{text}");
    let read = |text: &str| PlanFile::parse("p.plan", text)?.plan("step", &graph, &machine).map(drop);
    read(&text).unwrap();
    let refused = |text: String, pieces: &[&str]| {
        let message = read(&text).unwrap_err().to_string();
        assert!(pieces.iter().all(|piece| message.contains(piece)), "{message}");
    };
    refused(text.replace("dahl plan 2", "dahl plan 1"), &["version 1 of the format has no line 'versions'"]);
    refused(text.replace("versions 2 3", "versions 2 4"), &["'versions 2 4'", "would be 'versions 2 3'"]);
    refused(text.replace("age 1 0 2\n", ""), &["the line 'age 1 0 2' is missing"]);
    refused(text.replace("age 1 0 2", "age 1 0 2\nage 1 0 2"), &["would be 'none'"]);
    refused(text.replace("age 1 0 2", "age 1 0"), &["expected a number of steps, found the end of the line"]);
}
