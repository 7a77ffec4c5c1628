//! Measuring a machine: the most that its cores can compute and move, and what the runtime needs for a task.
//!
//! Whatever disturbs a measurement makes it slower. So work is done in pieces of a fraction of a millisecond,
//! and what counts of a round is how fast the faster pieces were (a tenth of them faster still), and of
//! several rounds the best: a core that the system lends to others for most of the time is measured as if it
//! were free. Where all cores are measured they begin a round together, and their rates are added.

use crate::error::{Error, Result};
use crate::op::simd::{Streams, fma_flops};
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::relation::TileSize;
use dahl_runtime::codelet::{Call, Codelet, Implementation, Needs};
use dahl_runtime::engine::{Session, Store, native};
use dahl_runtime::graph::{Cut, CutOptions};
use dahl_runtime::graph::{Graph, lower};
use dahl_runtime::machine::{
    Bandwidth, Hardware, Machine, MeasuredRates, MemoryLevel, Rate, Stream, n_cores, pin_current_thread,
};
use dahl_runtime::plan::Plan;
use std::io;
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds, of which the best counts.
    pub n_rounds: usize,
    /// The time of a round.
    pub round: Duration,
}

impl Default for Effort {
    /// Some seconds in all.
    fn default() -> Self {
        Effort { n_rounds: 5, round: Duration::from_millis(30) }
    }
}

/// Measures this machine. `progress` is told how many of how many measurements are done, and which comes
/// next.
pub fn machine(
    hardware: &Hardware,
    effort: Effort,
    mut progress: impl FnMut(usize, usize, &str),
) -> Result<MeasuredRates> {
    let n_cores = n_cores();
    let levels = MemoryLevel::of(hardware, n_cores);
    let n_all = 2 + levels.len() * Stream::ALL.len() + 1;
    let mut n_done = 0;
    let mut next = |what: &str| {
        progress(n_done, n_all, what);
        n_done += 1;
    };
    let mut both = |what: &str, work: &(dyn Fn() -> Box<dyn FnMut() -> f64> + Sync)| -> Result<Rate> {
        next(what);
        Ok(Rate { one: best(effort, 1, work)?, all: best(effort, n_cores, work)? })
    };
    let flops_f32 = both("flops of f32", &|| Box::new(|| fma_flops(Dtype::F32)))?;
    let flops_f64 = both("flops of f64", &|| Box::new(|| fma_flops(Dtype::F64)))?;
    let mut bandwidths = Vec::new();
    for level in levels {
        let [a, b, c] = Stream::ALL.map(|stream| {
            let bytes = level.bytes as usize;
            both(&format!("{} of {}", stream.name(), level.name), &|| {
                let mut streams = Streams::new(stream, bytes);
                // Small arrays are gone through many times between two looks at the clock.
                let n_passes = (1_usize << 20).div_ceil(bytes.max(1)).min(1 << 12);
                Box::new(move || (0..n_passes).map(|_| streams.next_piece() as f64).sum())
            })
        });
        bandwidths.push(Bandwidth { level, rates: [a?, b?, c?] });
    }
    next("tasks");
    let task_seconds = Some(task_seconds(effort)?);
    progress(n_all, n_all, "");
    let date = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Ok(MeasuredRates { date, n_cores, flops_f32, flops_f64, bandwidths, task_seconds })
}

/// The most per second that `n` cores together did in a round. Each makes its work for itself, by `work`, and
/// calls it until the round is over; a call does a piece and returns how much that was.
fn best(effort: Effort, n: usize, work: &(dyn Fn() -> Box<dyn FnMut() -> f64> + Sync)) -> Result<f64> {
    let barrier = Barrier::new(n);
    // Whether all of them are there: none may wait for one that was never started.
    let is_complete = OnceLock::new();
    let of_core = |core: usize| {
        if !is_complete.wait() {
            return Vec::new();
        }
        pin_current_thread(core);
        let mut work = work();
        let mut pieces = Vec::new();
        // The first is to warm up.
        let rounds = (0..=effort.n_rounds).map(|_| {
            barrier.wait();
            pieces.clear();
            let start = Instant::now();
            let mut before = Duration::ZERO;
            while pieces.is_empty() || before < effort.round {
                let done = work();
                let now = start.elapsed();
                pieces.push(done / (now - before).as_secs_f64().max(1e-9));
                before = now;
            }
            pieces.sort_unstable_by(f64::total_cmp);
            pieces[(pieces.len() - 1) * 9 / 10]
        });
        rounds.collect::<Vec<f64>>()
    };
    let cores = thread::scope(|scope| {
        let of_core = &of_core;
        let start = |core: usize| thread::Builder::new().spawn_scoped(scope, move || of_core(core));
        let threads: io::Result<Vec<_>> = (0..n).map(start).collect();
        let _ = is_complete.set(threads.is_ok());
        let rounds = |threads: Vec<thread::ScopedJoinHandle<'_, Vec<f64>>>| -> Vec<Vec<f64>> {
            threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
        };
        threads.map(rounds)
    });
    let cores = cores.map_err(|error| {
        Error::setting(format!("cannot start a thread on each of {n} cores: end other programs"))
            .because_of(error)
    })?;
    let sum = |round: usize| cores.iter().filter_map(|rounds| rounds.get(round)).sum::<f64>();
    Ok((1..=effort.n_rounds).map(sum).fold(0.0, f64::max))
}

static EMPTY: Codelet = Codelet::new(
    "empty",
    "y[i] -> y[i]",
    0.0,
    &[Implementation::new("empty", 1, Dtype::F32, Needs::Nothing, empty)],
);

fn empty(call: &Call<'_>) -> dahl_runtime::Result<()> {
    std::hint::black_box(call);
    Ok(())
}

/// What a replayed task with an empty kernel costs one worker.
fn task_seconds(effort: Effort) -> Result<f64> {
    const N_TILES: usize = 64;
    const N_STEPS: u64 = 200;
    let mut store = Store::new();
    let state = store.add::<f32>("y", [N_TILES])?;
    let mut graph = Graph::new(4);
    let y = store.record(&mut graph, state);
    for _ in 0..8 {
        graph.task(&EMPTY, Dtype::F32, &[], &[y], &[], &[])?;
    }
    let options = CutOptions {
        tilings: vec![vec![("i".into(), TileSize::Size(1))]],
        implementations: vec!["empty".into()],
        ..CutOptions::default()
    };
    let lowered = lower(&graph, &Cut::heuristic(&graph, &options)?)?;
    let machine = Machine::with_workers(1);
    let mut session = Session::new(&native(&machine)?, &lowered, &Plan::fixed(&lowered, &machine)?, 1 << 12)?;
    let mut best = f64::MAX;
    for _ in 0..=effort.n_rounds {
        let start = Instant::now();
        session.run(&mut store, N_STEPS, |_, _| {}, |_, _| {})?;
        let n_tasks = N_STEPS as f64 * lowered.tasks().len() as f64;
        best = best.min(start.elapsed().as_secs_f64() / n_tasks);
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_measured_and_told() {
        let effort = Effort { n_rounds: 1, round: Duration::from_micros(100) };
        // Little memory, so that little is gone through.
        let hardware = Hardware { memory_bytes: Some(8 << 20), ..Hardware::default() };
        let mut told = Vec::new();
        let measured = machine(&hardware, effort, |done, all, what| {
            assert_eq!(done, told.len());
            told.push((all, what.to_string()));
        })
        .unwrap();
        let last = told.pop().unwrap();
        assert_eq!(last, (told.len(), String::new()));
        let rates = measured.bandwidths.iter().flat_map(|bandwidth| bandwidth.rates);
        for rate in rates.chain([measured.flops_f32, measured.flops_f64]) {
            assert!(rate.one > 0.0 && rate.all > 0.0, "{measured:?}");
        }
        assert!(measured.task_seconds.is_some_and(|seconds| seconds > 0.0));
        assert_eq!(measured.bandwidths.len(), 1);
    }
}
