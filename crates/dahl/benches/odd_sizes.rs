//! What tasks of odd sizes take: `cargo bench -p dahl --bench odd_sizes -- [f64]`.
//!
//! A small network (a convolution of 1×1, one of k×k with padding, ReLU, maxima, a dense layer) is trained on
//! one core, cut and computed as by default, and one size at a time is odd: the kernel, the channels, the
//! images, the batch. For every kind of task there is its median time, the least time
//! `max(flops / peak, bytes / bandwidth)` by measured peaks, and that plus 1 µs as a share of the time taken.
//! Bytes are those of the elements that a task reads and writes, without the padding of layouts; bandwidth is
//! that of memory, and in the last column that of the nearest cache that holds them all.

use dahl::layer::Conv2d;
use dahl::measure::{Effort, machine};
use dahl::model::Sequential;
use dahl::tune::Subject;
use dahl_runtime::array::Dtype;
use dahl_runtime::graph::Task;
use dahl_runtime::machine::Hardware;
use std::collections::BTreeMap;
use std::time::Duration;

/// What a task costs the runtime at most.
const MICROSECOND: f64 = 1e-6;
/// The share of the least time that is asked for.
const GOAL: f64 = 0.5;

fn main() {
    let dtype = if std::env::args().any(|argument| argument == "f64") { Dtype::F64 } else { Dtype::F32 };
    let effort = Effort { n_rounds: 3, round: Duration::from_millis(10) };
    let measured = machine(&Hardware::detect(), effort, |_, _, _| {}).expect("the machine can be measured");
    let peaks = measured.peaks(1);
    let memory = peaks.levels.last().expect("there is memory").bytes_per_second;
    println!(
        "one core, {dtype}: {:.1} GFLOP/s, memory {:.1} GB/s",
        peaks.flops(&dtype.to_string()) / 1e9,
        memory / 1e9
    );
    let (mut n_tasks, mut n_below) = (0, 0);
    for odd in Odd::ALL {
        println!("\n{}: {}", odd.name, odd.about());
        println!(
            "{:<40} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8}",
            "codelet", "median µs", "least µs", "GFLOP/s", "of peak", "GB/s", "+1 µs", "by cache"
        );
        for row in rows(&odd, dtype) {
            let seconds = row.seconds();
            let least = (row.flops / peaks.flops(&dtype.to_string())).max(row.bytes / memory);
            let by_cache = peaks.seconds(&dtype.to_string(), row.flops, row.bytes as usize, false);
            let share = |least: f64| (least + MICROSECOND) / seconds;
            (n_tasks, n_below) = (n_tasks + 1, n_below + usize::from(share(least) < GOAL));
            println!(
                "{:<40} {:>9.2} {:>9.2} {:>8.1} {:>6.0} % {:>8.1} {:>6.0} % {:>6.0} %{}",
                row.name,
                1e6 * seconds,
                1e6 * least,
                row.flops / seconds / 1e9,
                100.0 * row.flops / seconds / peaks.flops(&dtype.to_string()),
                row.bytes / seconds / 1e9,
                100.0 * share(least),
                100.0 * share(by_cache),
                if share(least) < GOAL { "  below" } else { "" },
            );
        }
    }
    println!(
        "\n{n_below} of {n_tasks} kinds of tasks are below {:.0} % of their least time and 1 µs",
        100.0 * GOAL
    );
}

/// A network and a batch with one odd size.
struct Odd {
    name: &'static str,
    kernel: usize,
    channels: usize,
    size: usize,
    batch: usize,
}

impl Odd {
    /// Nothing odd, to compare with.
    const PLAIN: Odd = Odd { name: "plain", kernel: 3, channels: 16, size: 12, batch: 64 };

    const ALL: [Odd; 9] = [
        Odd::PLAIN,
        Odd { name: "k1", kernel: 1, ..Odd::PLAIN },
        Odd { name: "k7", kernel: 7, ..Odd::PLAIN },
        Odd { name: "1 channel", channels: 1, ..Odd::PLAIN },
        Odd { name: "3 channels", channels: 3, ..Odd::PLAIN },
        Odd { name: "17 channels", channels: 17, ..Odd::PLAIN },
        Odd { name: "width 5", size: 5, ..Odd::PLAIN },
        Odd { name: "batch 1", batch: 1, ..Odd::PLAIN },
        Odd { name: "batch 17", batch: 17, ..Odd::PLAIN },
    ];

    fn about(&self) -> String {
        let Odd { kernel, channels, size, batch, .. } = self;
        format!("{channels} to {channels} channels, {size}x{size}, k{kernel}, batch {batch}")
    }

    fn model(&self) -> Sequential {
        let Odd { kernel, channels, size, .. } = *self;
        let convolution = |kernel: usize| Conv2d::new(channels, kernel).padding(kernel / 2);
        // The first has no gradient of its input, so the odd one is the second.
        let model = Sequential::new([channels, size, size]).layer(convolution(1)).layer(convolution(kernel));
        model.relu().max_pool(2).flatten().dense(10)
    }
}

/// Tasks of one kind.
struct Row {
    kind: (&'static str, String),
    name: String,
    times: Vec<f64>,
    flops: f64,
    bytes: f64,
}

impl Row {
    /// The median time.
    fn seconds(&self) -> f64 {
        let mut times = self.times.clone();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }
}

/// The kinds of tasks of a step, in the order of the plan.
fn rows(odd: &Odd, dtype: Dtype) -> Vec<Row> {
    let subject = Subject::new(&odd.model(), odd.batch, dtype).expect("a step");
    let cut = dahl::op::default_cut();
    let planned = subject.plan(&cut, 1).expect("a plan");
    let trace = subject.time(&cut, 1, 50, Duration::from_millis(200)).expect("steps run");
    let mut times: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for event in trace.workers.iter().flatten() {
        times.entry(event.task).or_default().push((event.end - event.start) as f64 / trace.ticks_per_second);
    }
    let mut rows: Vec<Row> = Vec::new();
    for (task, times) in times {
        let task = &planned.lowered.tasks()[task as usize];
        let kind = (task.codelet, task.footprint());
        match rows.iter_mut().find(|row| row.kind == kind) {
            Some(row) => row.times.extend(times),
            None => rows.push(Row { kind, name: name(task), times, flops: task.flops, bytes: bytes(task) }),
        }
    }
    rows
}

/// The codelet and the shape of its second argument: of weights going forward, of gradients coming back.
fn name(task: &Task) -> String {
    let shape = task.spec.args.get(1).map(|arg| arg.region.shape());
    let extents: Vec<String> = shape.iter().flat_map(|shape| shape.iter().map(usize::to_string)).collect();
    format!("{} {}", task.codelet, extents.join("x"))
}

/// The bytes of the elements that a task reads and writes.
fn bytes(task: &Task) -> f64 {
    let of_arg = |(i, arg): (usize, &dahl_runtime::codelet::ArgSpec)| {
        let all = arg.region.len() * arg.dtype.bytes();
        task.gathered
            .iter()
            .find(|gathered| gathered.arg == i)
            .map_or(all, |gathered| all.min(gathered.bytes))
    };
    task.spec.args.iter().enumerate().map(of_arg).sum::<usize>() as f64
}
