//! What planned memory is worth: `cargo bench -p dahl --bench memory -- [ROUNDS]`.
//!
//! The same training steps, with the same kernels in the same order on one core, with three kinds of memory
//! for everything that lives within a step:
//!
//! - *planned*: one block; buffers that are never needed at the same time share a place (what dahl does);
//! - *arena*: one block, with a place of its own for every buffer;
//! - *malloc*: every buffer is allocated before its first use and freed after its last, in each step.
//!
//! Each kind trains in a process of its own, so that page faults and peak memory are its own, and they take
//! turns in short rounds, so that what else happens on the machine meets all alike. Losses must be the same
//! bits as those of the engine. The peak of a process has everything in it: weights, images, and what
//! planning left behind, which malloc uses again and blocks do not.

#![expect(unsafe_code, reason = "calls kernels as an engine does, on memory of its own")]

use dahl::dataset::Dataset;
use dahl::model::Sequential;
use dahl::{Trainer, dataset};
use dahl_runtime::codelet::Call;
use dahl_runtime::graph::{BufferKind, Lowered};
use dahl_runtime::machine::{HOST, Machine, peak_resident_bytes, pin_current_thread};
use dahl_runtime::plan::Planned;
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::ptr::slice_from_raw_parts_mut;
use std::time::Instant;

const ALIGN: usize = 64;
const RATE: f32 = 0.05;
const N_IMAGES: usize = 1024;
const N_ROUNDS: usize = 40;
/// About what a round computes.
const ROUND_FLOPS: f64 = 1e9;

/// Model, images, and batch.
const CASES: [(&str, &str, usize); 3] = [
    ("lenet5", "synthetic:1x28x28:1024", 64),
    ("seed", "synthetic:1x28x28:1024", 64),
    ("vggish", "synthetic:3x32x32:1024", 16),
];
const KINDS: [&str; 3] = ["planned", "arena", "malloc"];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["child", case, kind] => child(case.parse().expect("a case"), kind),
        [] => (0..CASES.len()).for_each(|case| compare(case, N_ROUNDS)),
        [rounds] => {
            (0..CASES.len()).for_each(|case| compare(case, rounds.parse().expect("a number of rounds")))
        }
        _ => panic!("cargo bench -p dahl --bench memory -- [ROUNDS]"),
    }
}

/// Memory that begins on a cache line.
struct Block {
    pointer: *mut u8,
    layout: Layout,
}

impl Block {
    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes.max(1), ALIGN).expect("a size that exists")
    }

    fn zeroed(bytes: usize) -> Block {
        let layout = Block::layout(bytes);
        // SAFETY: the size is not 0.
        let pointer = unsafe { alloc_zeroed(layout) };
        if pointer.is_null() { handle_alloc_error(layout) } else { Block { pointer, layout } }
    }

    /// With anything in it.
    fn new(bytes: usize) -> Block {
        let layout = Block::layout(bytes);
        // SAFETY: the size is not 0.
        let pointer = unsafe { alloc(layout) };
        if pointer.is_null() { handle_alloc_error(layout) } else { Block { pointer, layout } }
    }

    fn of<T: Copy>(values: &[T]) -> Block {
        let block = Block::zeroed(size_of_val(values));
        // SAFETY: the block has room for all values, and is nobody else's.
        unsafe { values.as_ptr().copy_to_nonoverlapping(block.pointer.cast(), values.len()) };
        block
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, by `zeroed` or `new`.
        unsafe { dealloc(self.pointer, self.layout) }
    }
}

/// Where the buffers that live within a step are.
enum Temporaries {
    /// In one block, at these offsets.
    Block(Block),
    /// Each for itself: what to allocate before each task, what to free after it, what is there now, and the
    /// most bytes that were.
    Heap { begin: Vec<Vec<usize>>, end: Vec<Vec<usize>>, now: HashMap<usize, Block>, most: usize },
}

impl Temporaries {
    /// The most bytes that were taken for them at a time.
    fn bytes(&self) -> usize {
        match self {
            Temporaries::Block(block) => block.layout.size(),
            Temporaries::Heap { most, .. } => *most,
        }
    }
}

/// A training step with its memory.
struct Step {
    planned: Planned,
    order: Vec<u32>,
    /// The address of each buffer; that of a temporary in a heap is set when it is allocated.
    addresses: Vec<*mut u8>,
    temporaries: Temporaries,
    /// What kernels need while they run.
    scratch: Block,
    /// What outlives steps, and ports and outputs, by the name of the array.
    kept: HashMap<String, Block>,
    batch: usize,
    number: usize,
    /// Page faults that giving the temporaries their memory took, which are told with the first steps.
    new_faults: u64,
}

impl Step {
    fn new(case: usize, kind: &str) -> Step {
        let (name, images, batch) = CASES[case];
        let (model, data) = subject(name, images);
        let planned = trainer(batch).plan_step(&model, &data).expect("the step can be planned");
        let lowered = &planned.lowered;
        let order = planned.plan.placement().expect("one worker has an order").sequence.clone();
        let weights: Vec<f32> = model.weights().expect("weights").iter().map(|&w| w as f32).collect();
        let mut kept = HashMap::new();
        let mut addresses = vec![std::ptr::null_mut(); lowered.buffers().len()];
        for (buffer, address) in lowered.buffers().iter().zip(&mut addresses) {
            if buffer.kind == BufferKind::Temporary {
                continue;
            }
            let block = match buffer.name.as_str() {
                "weights" => Block::of(&weights),
                "train_images" => Block::of(data.train.resident().expect("images in memory")),
                "train_labels" => Block::of(data.train.labels()),
                _ => Block::zeroed(buffer.bytes),
            };
            assert!(block.layout.size() >= buffer.bytes, "{}", buffer.name);
            *address = block.pointer;
            kept.insert(buffer.name.clone(), block);
        }
        let before = page_faults();
        let temporaries = match kind {
            "planned" => {
                // Ports and outputs come first in a plan, and have memory of their own here.
                let (memory, rings) = (planned.plan.memory(HOST), planned.memory_profile(HOST).ring_bytes);
                place(lowered, &mut addresses, memory.buffer_bytes() - rings, |buffer| {
                    memory.offsets[buffer].expect("a temporary has an offset") - rings
                })
            }
            "arena" => {
                let (mut offsets, mut end) = (Vec::new(), 0);
                for buffer in lowered.buffers() {
                    offsets.push(end);
                    if buffer.kind == BufferKind::Temporary {
                        end += buffer.bytes.next_multiple_of(ALIGN);
                    }
                }
                place(lowered, &mut addresses, end, |buffer| offsets[buffer])
            }
            _ => lifetimes(lowered, &order),
        };
        let new_faults = page_faults() - before;
        let scratch = Block::zeroed(planned.plan.memory(HOST).unit_scratch_bytes);
        Step { order, addresses, temporaries, scratch, kept, batch, number: 0, new_faults, planned }
    }

    /// The memory of a port or an output.
    fn ring<T>(&mut self, name: &str) -> &mut [T] {
        let block = self.kept.get_mut(name).unwrap_or_else(|| panic!("there is no {name}"));
        let n = block.layout.size() / size_of::<T>();
        // SAFETY: the block is aligned for every element type, was zeroed, and no kernel is running.
        unsafe { std::slice::from_raw_parts_mut(block.pointer.cast(), n) }
    }

    /// Trains on the next batch, and returns the loss.
    fn run(&mut self) -> f32 {
        let first = self.number * self.batch;
        let batch = self.batch;
        self.ring::<u32>("index")[..batch]
            .iter_mut()
            .enumerate()
            .for_each(|(i, index)| *index = ((first + i) % N_IMAGES) as u32);
        self.ring::<f32>("learning_rate")[0] = RATE;
        let mut arguments = Vec::new();
        for at in 0..self.order.len() {
            let lowered = &self.planned.lowered;
            let task = &lowered.tasks()[self.order[at] as usize];
            if let Temporaries::Heap { begin, now, most, .. } = &mut self.temporaries {
                for &buffer in &begin[at] {
                    let block = Block::new(lowered.buffers()[buffer].bytes);
                    self.addresses[buffer] = block.pointer;
                    now.insert(buffer, block);
                }
                // Once is enough: all steps are alike.
                if self.number == 0 {
                    *most = (*most).max(now.values().map(|block| block.layout.size()).sum());
                }
            }
            arguments.clear();
            let address = |buffer: usize, offset| self.addresses[buffer].wrapping_add(offset);
            arguments.extend(task.places.iter().map(|place| address(place.buffer, place.offset)));
            // SAFETY: every buffer is as large as lowering asks for and lives until its last task; tasks are
            // executed one at a time in an order that the plan allows, so nobody else uses what this one
            // writes, nor the scratch, which is as large as the largest task needs.
            let call = unsafe {
                let scratch = slice_from_raw_parts_mut(self.scratch.pointer, task.scratch_bytes);
                Call::new(&task.spec, &arguments, scratch)
            };
            (task.kernel)(&call).expect("the kernel succeeds");
            if let Temporaries::Heap { end, now, .. } = &mut self.temporaries {
                end[at].iter().for_each(|buffer| drop(now.remove(buffer)));
            }
        }
        self.number += 1;
        self.ring::<f32>("metrics")[0]
    }
}

/// Gives every temporary buffer its place in one block.
fn place(
    lowered: &Lowered,
    addresses: &mut [*mut u8],
    bytes: usize,
    offset: impl Fn(usize) -> usize,
) -> Temporaries {
    let block = Block::zeroed(bytes);
    for (i, buffer) in lowered.buffers().iter().enumerate() {
        if buffer.kind == BufferKind::Temporary {
            assert!(offset(i) + buffer.bytes <= bytes);
            addresses[i] = block.pointer.wrapping_add(offset(i));
        }
    }
    Temporaries::Block(block)
}

/// Before which task each temporary buffer must be there, and after which it is no longer needed.
fn lifetimes(lowered: &Lowered, order: &[u32]) -> Temporaries {
    let (mut begin, mut end) = (vec![Vec::new(); order.len()], vec![Vec::new(); order.len()]);
    let mut span: HashMap<usize, (usize, usize)> = HashMap::new();
    for (at, &task) in order.iter().enumerate() {
        let task = &lowered.tasks()[task as usize];
        let places = task.places.iter().map(|place| place.buffer);
        for buffer in places.chain(task.accesses.iter().map(|access| access.buffer)) {
            span.entry(buffer).or_insert((at, at)).1 = at;
        }
    }
    let mut spans: Vec<_> = span.into_iter().collect();
    spans.sort_unstable();
    for (buffer, (first, last)) in spans {
        if lowered.buffers()[buffer].kind == BufferKind::Temporary {
            begin[first].push(buffer);
            end[last].push(buffer);
        }
    }
    Temporaries::Heap { begin, end, now: HashMap::new(), most: 0 }
}

fn subject(name: &str, images: &str) -> (Sequential, Dataset) {
    let data = dataset::open(images, &dataset::Options::default()).expect("synthetic images");
    let mut model = Sequential::builtin(name, data.shape, data.classes).expect("a built-in model");
    model.initialise(1).expect("weights");
    (model, data)
}

fn trainer(batch: usize) -> Trainer {
    Trainer::new(&Machine::with_workers(1)).batch(batch).sgd(f64::from(RATE))
}

/// Waits for a line with a number of steps, runs them, and answers with seconds, page faults, bytes of
/// temporaries, peak bytes and losses.
fn child(case: usize, kind: &str) {
    pin_current_thread(0);
    let mut step = Step::new(case, kind);
    for line in std::io::stdin().lines() {
        let n_steps: usize = line.expect("a line").parse().expect("a number of steps");
        let (faults, start) = (page_faults(), Instant::now());
        let losses: Vec<String> = (0..n_steps).map(|_| step.run().to_bits().to_string()).collect();
        let seconds = start.elapsed().as_secs_f64();
        let faults = page_faults() - faults + std::mem::take(&mut step.new_faults);
        let bytes = step.temporaries.bytes();
        println!("{seconds} {faults} {bytes} {} {}", peak_resident_bytes(), losses.join(","));
    }
}

/// Pages that this process was given so far without reading a file, where the system tells (Linux).
fn page_faults() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program is in parentheses and may have spaces in it; the number is the eighth after it.
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_whitespace().nth(7).and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// A process that trains with one kind of memory.
struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<std::process::ChildStdout>,
    seconds: Vec<f64>,
    /// Page faults per step, and of the first round.
    faults: Vec<f64>,
    first_faults: f64,
    temporaries: usize,
    peak: usize,
    losses: Vec<f32>,
}

impl Process {
    fn start(case: usize, kind: &str) -> Process {
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program)
            .args(["child", &case.to_string(), kind])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it can be started again");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (seconds, faults, losses) = (Vec::new(), Vec::new(), Vec::new());
        Process { child, input, output, seconds, faults, first_faults: 0.0, temporaries: 0, peak: 0, losses }
    }

    /// Some steps, of which the time counts if asked for.
    fn round(&mut self, n_steps: usize, counts: bool) {
        writeln!(self.input, "{n_steps}").expect("the process listens");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the process answers");
        let words: Vec<&str> = line.split_whitespace().collect();
        let [seconds, faults, temporaries, peak, losses] = words[..] else { panic!("it answered '{line}'") };
        let number = |text: &str| text.parse::<f64>().expect("a number") / n_steps as f64;
        if counts {
            self.seconds.push(number(seconds));
            self.faults.push(number(faults));
        } else {
            self.first_faults = faults.parse().expect("a number");
        }
        self.temporaries = temporaries.parse().expect("bytes");
        self.peak = peak.parse().expect("bytes");
        let bits = losses.split(',').map(|bits| bits.parse().expect("bits"));
        self.losses.extend(bits.map(f32::from_bits));
    }

    fn finish(mut self) {
        drop(self.input);
        self.child.wait().expect("it ends");
    }
}

/// Trains with all three kinds in turn, and prints what it took.
fn compare(case: usize, n_rounds: usize) {
    let (name, images, batch) = CASES[case];
    let (mut model, data) = subject(name, images);
    let planned = trainer(batch).plan_step(&model, &data).expect("the step can be planned");
    let flops: f64 = planned.lowered.tasks().iter().map(|task| task.flops).sum();
    let n_steps = ((ROUND_FLOPS / flops) as usize).clamp(2, 100);
    let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);

    let mut processes = KINDS.map(|kind| Process::start(case, kind));
    processes.iter_mut().for_each(|process| process.round(n_steps, false));
    for round in 0..n_rounds {
        // Whoever comes later finds the machine as the ones before have left it.
        for i in 0..KINDS.len() {
            processes[(round + i) % KINDS.len()].round(n_steps, true);
        }
    }
    let batches: Vec<Vec<u32>> = (0..n_steps)
        .map(|step| (0..batch).map(|i| ((step * batch + i) % N_IMAGES) as u32).collect())
        .collect();
    let engine = trainer(batch).replay_batches(&mut model, &data, &batches).expect("training succeeds");
    for (kind, process) in KINDS.iter().zip(&processes) {
        let same = |a: &[f32], b: &[f32]| a.iter().map(|x| x.to_bits()).eq(b.iter().map(|x| x.to_bits()));
        assert!(same(&process.losses, &processes[0].losses), "{kind} memory gives other bits");
        let expected: Vec<f32> = engine.losses.iter().map(|&loss| loss as f32).collect();
        assert!(
            same(&process.losses[..n_steps], &expected),
            "{kind} memory gives other bits than the engine"
        );
    }

    println!(
        "{name}, batch {batch}: {n_rounds} rounds of {n_steps} steps, one core; the same bits in all, as the engine's"
    );
    println!(
        "{:<8} {:>12} {:>9} {:>16} {:>15} {:>15} {:>12}",
        "", "us per step", "beside", "temporaries MiB", "faults at first", "faults per step", "process MiB"
    );
    let first = processes[0].seconds.clone();
    for (kind, process) in KINDS.iter().zip(&mut processes) {
        // Rounds that followed each other are compared with each other.
        let mut ratios: Vec<f64> =
            process.seconds.iter().zip(&first).map(|(own, first)| own / first).collect();
        let faults = process.faults.iter().sum::<f64>() / process.faults.len().max(1) as f64;
        println!(
            "{kind:<8} {:>12.1} {:>8.3}x {:>16.2} {:>15} {:>15.2} {:>12.1}",
            1e6 * median(&mut process.seconds),
            median(&mut ratios),
            mib(process.temporaries),
            process.first_faults,
            faults,
            mib(process.peak)
        );
    }
    println!();
    processes.into_iter().for_each(Process::finish);
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
