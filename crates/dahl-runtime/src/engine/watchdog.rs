//! The watchdog: ends a wait when nothing has happened for too long, and says who is stuck where.
//!
//! Whoever waits for tasks looks now and then whether any has finished since the last look. It reads what
//! workers write into their traces, so a traced run costs the same with it, and one that is not traced costs
//! as much as if it were; there is no thread of its own.
//!
//! A kernel cannot be stopped. What it works on must therefore outlive the run that is given up: its program
//! is shared with the worker, and the arrays of the store are taken out of it and kept with the program
//! ([`Store::abandon`](super::memory::Store)), so that neither the caller nor anybody else can reach what the
//! kernel may still write. The pool does not wait for its threads any more when it is dropped.

use super::runner::Runner;
use crate::error::{Error, ErrorKind};
use crate::graph::TaskId;
use crate::progress::Blocked;
use crate::trace::recorder::Look;
use crate::trace::{Clock, ticks};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Tasks that an error names, at most; the rest is counted.
const MAX_NAMED: usize = 6;

/// Looks whether anything happens.
pub(crate) struct Watch {
    limit: Duration,
    /// The time without progress, as far as somebody was there to look: not while the whole process was
    /// suspended.
    idle: Duration,
    looked: Instant,
    progress: u64,
}

impl Watch {
    /// Begins to watch something that has come this far.
    pub fn new(limit: Duration, progress: u64) -> Self {
        Watch { limit, idle: Duration::ZERO, looked: Instant::now(), progress }
    }

    /// How long to wait until the next look.
    pub fn pause(&self) -> Duration {
        (self.limit / 8).clamp(Duration::from_millis(1), Duration::from_secs(1))
    }

    /// Whether nothing has happened for too long.
    pub fn is_over(&mut self, progress: u64) -> bool {
        let passed = self.looked.elapsed().min(2 * self.pause());
        self.looked = Instant::now();
        self.idle = if progress == self.progress { self.idle + passed } else { Duration::ZERO };
        self.progress = progress;
        self.idle >= self.limit
    }
}

/// Says what a run is stuck in.
pub(super) fn stuck(
    runner: &Runner,
    limit: Duration,
    looks: &[Look],
    blocked: &[Blocked],
    clock: &Clock,
) -> Error {
    let mut text = format!("no task has finished for {:.1} s", limit.as_secs_f64());
    let name = |task: TaskId, step: u64| format!("{} of step {}", runner.name(task as usize), step + 1);
    let per_second = clock.ticks_per_second();
    let mut culprit = None;
    for (worker, look) in looks.iter().enumerate() {
        let Some((task, step, since)) = look.running else { continue };
        let seconds = ticks().saturating_sub(since) as f64 / per_second;
        let name = name(task, step.into());
        let _ = write!(text, "; worker {worker} has been executing {name} for {seconds:.1} s");
        culprit.get_or_insert((worker, task as usize, u64::from(step)));
    }
    for Blocked { worker, task, step, awaited } in blocked.iter().take(MAX_NAMED) {
        let by = worker.map_or(String::new(), |worker| format!("on worker {worker}, "));
        let _ = write!(text, "; {by}{} ", name(*task, *step));
        let awaited: Vec<String> =
            awaited.iter().map(|(task, step, note)| format!("{}{note}", name(*task, *step))).collect();
        let _ = match awaited.is_empty() {
            true => write!(text, "waits for nothing and is not executed"),
            false => write!(text, "waits for {}", awaited.join(" and ")),
        };
    }
    if blocked.len() > MAX_NAMED {
        let _ = write!(text, "; {} more tasks wait", blocked.len() - MAX_NAMED);
    }
    let _ = match culprit {
        Some(_) => write!(
            text,
            ". The kernel cannot be stopped, so what it works on is kept for it and lost to the program: if it is only \
             slow, allow more time"
        ),
        None => write!(text, ". The run is given up, and its state with it"),
    };
    if let Some(failure) = runner.failure() {
        let _ = write!(text, ". A task had failed before: {failure}");
    }
    let error = Error::new(ErrorKind::Stuck, text);
    match culprit {
        Some((worker, task, step)) => runner.in_context(error, worker, task, step),
        None => error,
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::codelet::{Call, Codelet, Implementation, Needs};
    use crate::engine::{Pool, Session, Store};
    use crate::error::Result;
    use crate::graph::{Cut, CutOptions};
    use crate::graph::{Edge, EdgeKind, Graph, lower};
    use crate::machine::Machine;
    use crate::plan::Plan;
    use crate::schedule::SchedulerKind;
    use crate::shape::Dtype;
    use std::sync::Arc;

    static NOTHING: Codelet = Codelet::new(
        "nothing",
        "x[i] -> y[i]",
        0.0,
        &[Implementation::new("reference", 1, Dtype::F32, Needs::Nothing, nothing)],
    );

    fn nothing(_: &Call<'_>) -> Result<()> {
        Ok(())
    }

    /// Two tasks on two workers, one row each, and edges that no run can meet: each waits for the other in
    /// step 1.
    fn impossible(is_planned: bool) -> Error {
        let mut graph = Graph::new(4);
        let (x, y) = (graph.port("x", Dtype::F32, [2]), graph.temporary("y", Dtype::F32, [2]));
        graph.task(&NOTHING, Dtype::F32, &[x], &[y], &[], &[]).unwrap();
        let options = CutOptions {
            tilings: vec![vec![("i".into(), crate::codelet::relation::TileSize::Size(1))]],
            implementations: vec!["reference".into()],
            ..CutOptions::default()
        };
        let mut lowered = lower(&graph, &Cut::heuristic(&graph, &options).unwrap()).unwrap();
        let machine = Machine::with_workers(2);
        let plan = if is_planned {
            Plan::heuristic(&lowered, &machine).unwrap()
        } else {
            Plan::open(&lowered, &machine, SchedulerKind::Eager).unwrap()
        };
        let edge = |from, to| Edge { from, to, distance: 0, kind: EdgeKind::Data };
        lowered.edges = vec![edge(0, 1), edge(1, 0)];
        let pool = Arc::new(Pool::new(&machine).unwrap());
        let mut session = Session::new(&pool, &lowered, &plan, 0).unwrap();
        session.set_watchdog(Some(Duration::from_millis(50)));
        session.run(&mut Store::new(), 2, |_, _| {}, |_, _| {}).unwrap_err()
    }

    #[test]
    fn an_impossible_wait_names_tasks_workers_and_clocks() {
        let error = impossible(true);
        assert_eq!(error.kind(), ErrorKind::Stuck);
        let text = error.to_string();
        for part in [
            "on worker 0, nothing (reference) tile 1 of 2 of step 1 waits for nothing (reference) tile 2 of 2 of step 1 \
             on worker 1, whose clock is at 0 and must reach 1",
            "on worker 1, nothing (reference) tile 2 of 2 of step 1 waits for nothing (reference) tile 1 of 2 of step 1 \
             on worker 0, whose clock is at 0 and must reach 1",
        ] {
            assert!(text.contains(part), "`{part}` is missing in: {text}");
        }
    }

    #[test]
    fn an_impossible_wait_of_an_open_run_names_the_predecessors() {
        let text = impossible(false).to_string();
        for part in [
            "; nothing (reference) tile 1 of 2 of step 1 waits for nothing (reference) tile 2 of 2 of step 1",
            "; nothing (reference) tile 2 of 2 of step 1 waits for nothing (reference) tile 1 of 2 of step 1",
        ] {
            assert!(text.contains(part), "`{part}` is missing in: {text}");
        }
    }

    #[test]
    fn a_watch_is_over_when_nothing_has_happened_for_the_limit() {
        let mut watch = Watch::new(Duration::from_millis(20), 5);
        let mut look_after = |pause: u64, progress: u64| {
            std::thread::sleep(Duration::from_millis(pause));
            watch.is_over(progress)
        };
        assert!(!look_after(25, 6), "something happened");
        assert!(!look_after(25, 6), "nobody looked all the time: the process may have been suspended");
        let n_looks = (0..20).take_while(|_| !look_after(5, 6)).count();
        assert!((1..20).contains(&n_looks), "{n_looks} looks");
        assert!(!look_after(1, 7) && !look_after(5, 7), "something happened again");
    }
}
