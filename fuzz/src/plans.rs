//! Plans: files of any kind for one step, and random plans of random steps, executed and compared with a
//! model.
//!
//! A step has square arrays whose elements are small whole numbers, so that sums in any order give the same
//! bits. Its tasks copy, turn and change arrays in place, sum rows, and update a state by the sums, so that
//! steps depend on one another.

use super::choices::Choices;
use dahl_runtime::Result;
use dahl_runtime::array::Dtype;
use dahl_runtime::bytes::ALIGN;
use dahl_runtime::codelet::relation::TileSize;
use dahl_runtime::codelet::{Call, Codelet, Implementation, Kernel, Needs};
use dahl_runtime::engine::{Pool, Session, Store};
use dahl_runtime::graph::{BufferKind, Graph, Lowered, StateId, Var, lower};
use dahl_runtime::graph::{Cut, CutOptions};
use dahl_runtime::machine::Machine;
use dahl_runtime::plan::{Plan, PlanFile, Planned};
use dahl_runtime::schedule::SchedulerKind;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const T: Dtype = Dtype::F64;
/// What all numbers are below, after every task.
const MODULUS: f64 = 1021.0;

const fn reference(kernel: Kernel) -> [Implementation; 1] {
    [Implementation::new("reference", 1, T, Needs::Nothing, kernel)]
}

static SHIFT: Codelet = Codelet::new("shift", "x[i,j] -> y[i,j]", 1.0, &reference(shift));
static TURN: Codelet = Codelet::new("turn", "x[j,i] -> y[i,j]", 1.0, &reference(turn));
static MIX: Codelet = Codelet::new("mix", "x[i,j] y[i,j] -> y[i,j]", 2.0, &reference(mix));
static SPREAD: Codelet = Codelet::new("spread", "x[i,j] w[j] -> y[i,j]", 1.0, &reference(spread));
static TOTAL: Codelet = Codelet::new("total", "x[i,j] -> s[j] +=", 1.0, &reference(total));
static UPDATE: Codelet = Codelet::new("update", "s[j] w[j] -> w[j]", 1.0, &reference(update));

/// What decides which kernels are late, and by how much; 0 for none.
static DELAYS: AtomicU64 = AtomicU64::new(0);

/// Is late, at times.
fn delay() {
    let state = DELAYS.load(Ordering::Relaxed);
    if state == 0 {
        return;
    }
    let next = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407) | 1;
    DELAYS.store(next, Ordering::Relaxed);
    match next >> 59 {
        0 => std::thread::sleep(Duration::from_micros(next >> 40 & 127)),
        1..6 => (0..next >> 40 & 15).for_each(|_| std::thread::yield_now()),
        _ => {}
    }
}

/// Every `y` from its index.
fn fill(call: &Call<'_>, value: impl Fn(usize, usize, f64) -> f64, is_changed: bool) -> Result<()> {
    delay();
    let mut y = call.output::<f64>(0);
    for i in y.region().range(0) {
        for j in y.region().range(1) {
            let before = if is_changed { y.at([i, j]) } else { 0.0 };
            y.set([i, j], value(i, j, before) % MODULUS);
        }
    }
    Ok(())
}

fn shift(call: &Call<'_>) -> Result<()> {
    let x = call.input::<f64>(0);
    fill(call, |i, j, _| x.at([i, j]) + 1.0, false)
}

fn turn(call: &Call<'_>) -> Result<()> {
    let x = call.input::<f64>(0);
    fill(call, |i, j, _| x.at([j, i]) * 3.0, false)
}

fn mix(call: &Call<'_>) -> Result<()> {
    let x = call.input::<f64>(0);
    fill(call, |i, j, y| 5.0 * y + x.at([i, j]), true)
}

fn spread(call: &Call<'_>) -> Result<()> {
    let (x, w) = (call.input::<f64>(0), call.input::<f64>(1));
    fill(call, |i, j, _| x.at([i, j]) + w.at([j]), false)
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
    delay();
    let (s, mut w) = (call.input::<f64>(0), call.output::<f64>(0));
    for j in w.region().range(0) {
        w.set([j], (7.0 * w.at([j]) + s.at([j])) % MODULUS);
    }
    Ok(())
}

/// A task, by the numbers of the arrays it takes.
#[derive(Clone, Copy, Debug)]
enum Op {
    Shift(usize),
    Turn(usize),
    Mix(usize, usize),
    Spread(usize),
    Update(usize),
}

/// A recorded step.
pub struct Step {
    pub graph: Graph,
    side: usize,
    ops: Vec<Op>,
    port: Var,
    output: Var,
    state: StateId,
}

const STEPS: u64 = 5;
const NAME: &str = "a step";

impl Step {
    /// Something of everything.
    pub fn small() -> Step {
        let ops = [Op::Turn(0), Op::Shift(1), Op::Mix(0, 2), Op::Spread(2), Op::Turn(3), Op::Update(4)];
        Step::new(8, 2, &ops)
    }

    fn random(choices: &mut Choices<'_>) -> Step {
        let (side, depth) = (choices.between(1, 9), choices.between(1, 4));
        let n = choices.between(1, 12);
        let ops: Vec<Op> = (0..n)
            .map(|_| {
                let (kind, a, b) = (choices.below(6), choices.below(16), choices.below(16));
                match kind {
                    0 => Op::Shift(a),
                    1 | 2 => Op::Turn(a),
                    3 => Op::Mix(a, b),
                    4 => Op::Spread(a),
                    _ => Op::Update(a),
                }
            })
            .collect();
        Step::new(side, depth, &ops)
    }

    fn new(side: usize, depth: usize, ops: &[Op]) -> Step {
        let mut graph = Graph::new(depth);
        let mut store = Store::new();
        let state = store.add::<f64>("w", [side]).expect("a small state");
        let w = store.record(&mut graph, state);
        let port = graph.port("x", T, [side, side]);
        let output = graph.output("y", T, [side]);
        let first = graph.temporary("t0", T, [side, side]);
        let mut arrays = vec![first];
        let task = |graph: &mut Graph, codelet, inputs: &[Var], outputs: &[Var]| {
            graph.task(codelet, T, inputs, outputs, &[], &[]).expect("shapes that fit");
        };
        task(&mut graph, &SHIFT, &[port], &[first]);
        for (number, op) in ops.iter().enumerate() {
            let array = |i: usize| arrays[i % arrays.len()];
            let name = format!("t{}", number + 1);
            match *op {
                Op::Shift(a) | Op::Turn(a) | Op::Spread(a) => {
                    let (x, y) = (array(a), graph.temporary(&name, T, [side, side]));
                    match op {
                        Op::Shift(_) => task(&mut graph, &SHIFT, &[x], &[y]),
                        Op::Turn(_) => task(&mut graph, &TURN, &[x], &[y]),
                        _ => task(&mut graph, &SPREAD, &[x, w], &[y]),
                    }
                    arrays.push(y);
                }
                // An argument that is read and written must be another one than that which is read.
                Op::Mix(a, b) if a % arrays.len() != b % arrays.len() => {
                    task(&mut graph, &MIX, &[array(a)], &[array(b)]);
                }
                Op::Mix(..) => {}
                Op::Update(a) => {
                    let sum = graph.temporary(&name, T, [side]);
                    task(&mut graph, &TOTAL, &[array(a)], &[sum]);
                    task(&mut graph, &UPDATE, &[sum], &[w]);
                }
            }
        }
        task(&mut graph, &TOTAL, &[arrays[arrays.len() - 1]], &[output]);
        Step { graph, side, ops: ops.to_vec(), port, output, state }
    }

    /// What goes in at a step.
    fn input(step: u64, element: usize) -> f64 {
        ((element as u64 * 7 + step * 13) % 97) as f64
    }

    /// The outputs of all steps and the state in the end, by the definition of every task.
    fn expected(&self) -> Vec<f64> {
        let n = self.side;
        let (mut w, mut seen) = (vec![1.0; n], Vec::new());
        for step in 0..STEPS {
            let first = (0..n * n).map(|e| (Step::input(step, e) + 1.0) % MODULUS).collect();
            let mut arrays: Vec<Vec<f64>> = vec![first];
            let sums =
                |x: &[f64]| -> Vec<f64> { (0..n).map(|j| (0..n).map(|i| x[i * n + j]).sum()).collect() };
            for op in &self.ops {
                let at = |i: usize| i % arrays.len();
                let new = |f: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
                    (0..n * n).map(|e| f(e / n, e % n) % MODULUS).collect()
                };
                match *op {
                    Op::Shift(a) => arrays.push(new(&|i, j| arrays[at(a)][i * n + j] + 1.0)),
                    Op::Turn(a) => arrays.push(new(&|i, j| arrays[at(a)][j * n + i] * 3.0)),
                    Op::Spread(a) => arrays.push(new(&|i, j| arrays[at(a)][i * n + j] + w[j])),
                    Op::Mix(a, b) if at(a) != at(b) => {
                        let mixed = new(&|i, j| 5.0 * arrays[at(b)][i * n + j] + arrays[at(a)][i * n + j]);
                        let b = at(b);
                        arrays[b] = mixed;
                    }
                    Op::Mix(..) => {}
                    Op::Update(a) => {
                        let sums = sums(&arrays[at(a)]);
                        w.iter_mut().zip(sums).for_each(|(w, s)| *w = (7.0 * *w + s) % MODULUS);
                    }
                }
            }
            seen.extend(sums(&arrays[arrays.len() - 1]));
        }
        seen.extend(w);
        seen
    }

    /// The same by executing a plan.
    fn run(&self, machine: &Machine, lowered: &Lowered, plan: &Plan) -> Vec<f64> {
        let pool = Arc::new(Pool::new(machine).expect("a few threads"));
        let mut store = Store::new();
        let w = store.add::<f64>("w", [self.side]).expect("a small state");
        assert_eq!(w, self.state);
        store.get_mut::<f64>(w).fill(1.0);
        let mut session = Session::new(&pool, lowered, plan, 0).expect("a plan for this graph");
        let mut seen = Vec::new();
        let done = session.run(
            &mut store,
            STEPS,
            |step, ports| {
                let x = ports.get_mut::<f64>(&self.port);
                x.iter_mut().enumerate().for_each(|(e, x)| *x = Step::input(step, e));
            },
            |_, outputs| seen.extend_from_slice(outputs.get::<f64>(&self.output)),
        );
        done.expect("kernels do not fail");
        seen.extend_from_slice(store.get::<f64>(w));
        seen
    }
}

/// A plan file, for [`Step::small`] on two workers. What is accepted is executed.
pub fn plan(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(file) = PlanFile::parse("fuzzed.plan", text) else { return };
    let again = PlanFile::parse("written.plan", &file.to_string()).expect("what dahl writes it reads");
    assert_eq!((again.hash(), again.was_edited()), (file.hash(), false));
    let (step, machine) = (Step::small(), Machine::with_workers(2));
    let Ok(planned) = file.plan(NAME, &step.graph, &machine) else { return };
    assert_eq!(step.run(&machine, &planned.lowered, &planned.plan), step.expected(), "{text}");
}

/// A plan file for [`plan`] that can be executed.
pub fn small_plan(cut: &str, workers: usize) -> String {
    let (step, machine) = (Step::small(), Machine::with_workers(workers));
    let options = CutOptions::parse(cut).expect("options");
    let planned = Planned::new(&step.graph, &options, |lowered| {
        Plan::heuristic(lowered, &Machine::with_workers(workers))
    });
    let mut file = PlanFile::new("heuristic");
    file.add(NAME, &step.graph, &planned.expect("a plan"), &machine).expect("one step");
    file.to_string()
}

/// A random step, cut at random and planned at random, computes the same as its definition, however late
/// kernels are.
pub fn plans(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let step = Step::random(&mut choices);
    let mut tiling = Vec::new();
    for axis in ["i", "j"] {
        let size = choices.between(1, step.side);
        match choices.below(4) {
            0 => {}
            1 => tiling.push((axis.to_string(), TileSize::AtMost(size))),
            2 => tiling.push((axis.to_string(), TileSize::Count(size))),
            _ => tiling.push((axis.to_string(), TileSize::Size(size))),
        }
    }
    let options = CutOptions {
        tilings: vec![tiling],
        tiles_per_group: choices.between(1, 3),
        max_groups: choices.between(1, 5),
        implementations: vec!["reference".into()],
        ..CutOptions::default()
    };
    let cut = Cut::heuristic(&step.graph, &options).expect("a cut");
    let lowered = lower(&step.graph, &cut).expect("it can be lowered");
    let workers = choices.between(1, 4);
    let machine = Machine::with_workers(workers);
    let machine = if choices.once_in(4) { machine.with_test_unit() } else { machine };
    let delays = u64::from(choices.byte()) << 8 | u64::from(choices.byte());
    let planned = match choices.below(8) {
        0 => Planned { plan: Plan::heuristic(&lowered, &machine).expect("a small plan"), cut, lowered },
        1 => Planned {
            plan: Plan::open(&lowered, &machine, SchedulerKind::Steal).expect("a small plan"),
            cut,
            lowered,
        },
        2 => Planned {
            plan: Plan::open(&lowered, &machine, SchedulerKind::Eager).expect("a small plan"),
            cut,
            lowered,
        },
        _ => {
            let plan = Plan::fixed(&lowered, &machine).expect("a small plan");
            let planned = Planned { plan, cut, lowered };
            let text = shuffled(&step, &planned, &machine, &mut choices);
            let file = PlanFile::parse("random.plan", &text).expect("lines as dahl writes them");
            let planned = file.plan(NAME, &step.graph, &machine);
            planned.unwrap_or_else(|error| panic!("a plan that is safe was refused: {error}\n{text}"))
        }
    };
    let expected = step.expected();
    // Those of others may be late as well, where several run at once: that does no harm.
    DELAYS.store(delays, Ordering::Relaxed);
    let found = step.run(&machine, &planned.lowered, &planned.plan);
    DELAYS.store(0, Ordering::Relaxed);
    assert_eq!(found, expected, "{:?}, {options}, {workers} workers", step.ops);
}

/// The text of a plan with the same cut and everything else at random: order, units, what floats, and
/// offsets.
fn shuffled(step: &Step, planned: &Planned, machine: &Machine, choices: &mut Choices<'_>) -> String {
    let lowered = &planned.lowered;
    let n = lowered.tasks().len();
    let mut file = PlanFile::new("random");
    file.add(NAME, &step.graph, planned, machine).expect("one step");
    let text = file.to_string();

    // An order that agrees with the edges: always any of the tasks that are ready.
    let mut missing = vec![0; n];
    let edges = || lowered.edges().iter().filter(|edge| edge.distance == 0);
    edges().for_each(|edge| missing[edge.to as usize] += 1);
    let mut ready: Vec<usize> = (0..n).filter(|&task| missing[task] == 0).collect();
    let mut runs: Vec<Run> = Vec::new();
    while !ready.is_empty() {
        let task = ready.swap_remove(choices.below(ready.len()));
        runs.push(Run { task, unit: choices.below(machine.units.len()), floats: choices.once_in(4) });
        for edge in edges().filter(|edge| edge.from as usize == task) {
            missing[edge.to as usize] -= 1;
            if missing[edge.to as usize] == 0 {
                ready.push(edge.to as usize);
            }
        }
    }
    assert_eq!(runs.len(), n, "edges within a step make no circle");
    let (offsets, bytes) = random_offsets(lowered, &runs, machine.units.len(), choices);

    let mut names = vec![String::new(); n];
    for line in text.lines().filter_map(|line| line.strip_prefix("run ")) {
        let (task, rest) = line.split_once(' ').expect("a number and a name");
        let (name, _) = rest.split_once(" on ").expect("a name and a unit");
        names[task.parse::<usize>().expect("a number")] = name.to_string();
    }
    let mut lines: VecDeque<String> = runs
        .iter()
        .map(|run| {
            let floating = if run.floats { " floating" } else { "" };
            format!("run {} {} on {}{floating}", run.task, names[run.task], run.unit)
        })
        .collect();
    // Offsets are the same in all memories, and copies follow from the order.
    let mut changed = String::new();
    let mut buffers = BTreeMap::new();
    for line in text.lines() {
        let line = match line.split(' ').next() {
            Some("run") => lines.pop_front().expect("a line for every task"),
            Some("memory") if changed.contains("\nmemory ") => continue,
            Some("memory") => format!("memory {bytes} bytes"),
            Some("copy") => continue,
            Some("buffer") => {
                let number: usize =
                    line.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a number");
                let (before, _) = line.rsplit_once(" at ").expect("an offset");
                let offset = offsets[number].expect("it has a place");
                buffers.insert(number, format!("{before} at {offset}\n"));
                continue;
            }
            _ => line.to_string(),
        };
        changed.push_str(&line);
        changed.push('\n');
    }
    buffers.values().for_each(|line| changed.push_str(line));
    changed
}

/// A task in its place in the order.
struct Run {
    task: usize,
    unit: usize,
    floats: bool,
}

/// An offset for each buffer, beside or over others wherever the definition allows it, and the bytes that
/// they take together.
fn random_offsets(
    lowered: &Lowered,
    runs: &[Run],
    n_units: usize,
    choices: &mut Choices<'_>,
) -> (Vec<Option<usize>>, usize) {
    let n = lowered.tasks().len();
    let mut before = vec![vec![false; n]; n];
    for edge in lowered.edges().iter().filter(|edge| edge.distance == 0) {
        before[edge.from as usize][edge.to as usize] = true;
    }
    for unit in 0..n_units {
        let own: Vec<usize> =
            runs.iter().filter(|run| run.unit == unit && !run.floats).map(|run| run.task).collect();
        own.windows(2).for_each(|pair| before[pair[0]][pair[1]] = true);
    }
    for k in 0..n {
        let after_k = before[k].clone();
        for row in before.iter_mut().filter(|row| row[k]) {
            row.iter_mut().zip(&after_k).for_each(|(reaches, &through_k)| *reaches |= through_k);
        }
    }
    let users = |buffer: usize| -> Vec<usize> {
        let touches = |task: &usize| lowered.tasks()[*task].places.iter().any(|place| place.buffer == buffer);
        (0..n).filter(touches).collect()
    };
    let users: Vec<Vec<usize>> = (0..lowered.buffers().len()).map(users).collect();
    let all = |a: &[usize], b: &[usize]| a.iter().all(|&x| b.iter().all(|&y| before[x][y]));
    let may_share = |a: usize, b: usize| {
        let both_may = [a, b].iter().all(|&b| lowered.buffers()[b].may_share());
        both_may && (all(&users[a], &users[b]) || all(&users[b], &users[a]))
    };
    let mut offsets = vec![None; lowered.buffers().len()];
    let mut placed: Vec<(usize, std::ops::Range<usize>)> = Vec::new();
    for buffer in choices.shuffled(lowered.buffers().len()) {
        if let BufferKind::State(_) = lowered.buffers()[buffer].kind {
            continue;
        }
        let size = lowered.buffers()[buffer].bytes.next_multiple_of(ALIGN) * lowered.versions(buffer);
        let fits = |&at: &usize| {
            let overlaps = |other: &std::ops::Range<usize>| at.max(other.start) < (at + size).min(other.end);
            placed.iter().all(|(other, range)| !overlaps(range) || may_share(buffer, *other))
        };
        let end = placed.iter().map(|(_, range)| range.end).max().unwrap_or(0);
        let odd = choices.below(end / ALIGN + 2) * ALIGN;
        let starts = placed.iter().flat_map(|(_, range)| [range.start, range.end]);
        let candidates: Vec<usize> = starts.chain([0, odd, end]).filter(fits).collect();
        let at = candidates[choices.below(candidates.len())];
        offsets[buffer] = Some(at);
        placed.push((buffer, at..at + size));
    }
    (offsets, placed.iter().map(|(_, range)| range.end).max().unwrap_or(0))
}
