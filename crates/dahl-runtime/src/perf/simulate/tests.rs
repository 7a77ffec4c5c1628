//! Random graphs on random plans: nothing happens too early, and nothing takes less time than it must.

use super::*;
use crate::graph::EdgeKind;
use crate::schedule::{Eager, Scheduler, Steal, n_turns, steps_under_way};
use crate::sync::Arc;
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Case {
    lists: Option<Vec<Vec<TaskId>>>,
    floating: Vec<TaskId>,
    edges: Vec<Edge>,
    n_workers: usize,
    seconds: Vec<f64>,
    depth: usize,
    costs: Costs,
}

impl Case {
    fn setup(&self, scale: f64) -> Setup<'_> {
        let seconds = self.seconds.iter().map(|&seconds| scale * seconds);
        Setup {
            order: match &self.lists {
                Some(lists) => Order::Planned {
                    lists: lists.clone(),
                    floating: &self.floating,
                    allowed: Allowed::all(),
                    seconds: seconds.map(|seconds| [seconds; 2]).collect(),
                },
                None => Order::Open {
                    appoint: Box::new(|| (self.appointed(), None)),
                    seconds: vec![seconds.collect()],
                    kinds: vec![0; self.n_workers],
                },
            },
            edges: &self.edges,
            memories: vec![0; self.n_workers],
            n_tasks: self.seconds.len(),
            depth: self.depth,
            costs: self.costs,
        }
    }

    fn appointed(&self) -> Appointed {
        let (n_tasks, n_turns) = (self.seconds.len(), n_turns(steps_under_way(&self.edges)));
        let priorities: Vec<f64> = (0..n_tasks).map(|task| -(task as f64)).collect();
        let homes = (0..n_tasks).map(|task| task % self.n_workers).collect();
        let scheduler: Box<dyn Scheduler> = match self.depth % 2 {
            0 => Box::new(Eager::new(&priorities, n_turns)),
            _ => Box::new(Steal::new(&priorities, homes, self.n_workers, n_turns)),
        };
        Appointed { name: "test".into(), scheduler, allowed: Arc::default(), may_rest: false }
    }

    fn run(&self, n_steps: usize) -> Simulated {
        simulate(&self.setup(1.0), n_steps).ok().expect("it can be executed")
    }

    /// The longest chain of tasks in so many steps.
    fn longest_chain(&self, n_steps: usize) -> f64 {
        let mut ends = vec![vec![0.0_f64; self.seconds.len()]; n_steps];
        for step in 0..n_steps {
            for task in 0..self.seconds.len() {
                let before = self.edges.iter().filter(|edge| edge.to as usize == task);
                let start = before.filter_map(|edge| {
                    let earlier = step.checked_sub(edge.distance as usize)?;
                    Some(ends[earlier][edge.from as usize])
                });
                ends[step][task] = start.fold(0.0, f64::max) + self.seconds[task];
            }
        }
        ends.into_iter().flatten().fold(0.0, f64::max)
    }

    fn total(&self) -> f64 {
        self.seconds.iter().sum()
    }
}

/// Edges within a step lead to later tasks, and lists are in ascending order, so that every case can be
/// executed.
fn cases(is_planned: bool) -> impl Strategy<Value = Case> {
    (0_usize..14, 1_usize..5).prop_flat_map(move |(n_tasks, n_workers)| {
        let n = n_tasks.max(1);
        let edges = prop::collection::vec((0..n, 0..n, 0_u32..3, any::<bool>()), 0..2 * n);
        let tasks = prop::collection::vec((0..n_workers, any::<bool>(), 0_u32..40), n_tasks);
        let costs = prop_oneof![Just(Costs::NONE), Just(Costs { task_seconds: 0.125, wait_seconds: 0.5 })];
        (edges, tasks, 1_usize..5, costs).prop_map(move |(edges, tasks, depth, costs)| {
            let edge = |(a, b, distance, is_data): (usize, usize, u32, bool)| {
                let (from, to) = if distance == 0 { (a.min(b), a.max(b)) } else { (a, b) };
                let kind = if is_data { EdgeKind::Data } else { EdgeKind::Memory };
                Edge { from: from as TaskId, to: to as TaskId, distance, kind }
            };
            let is_sound = |edge: &Edge| n_tasks > 0 && (edge.distance > 0 || edge.from != edge.to);
            let list = |worker: usize| {
                let tasks = tasks.iter().enumerate().filter(|(_, task)| task.0 == worker);
                tasks.map(|(id, _)| id as TaskId).collect()
            };
            Case {
                lists: is_planned.then(|| (0..n_workers).map(list).collect()),
                floating: (0..n_tasks as TaskId).filter(|&id| is_planned && tasks[id as usize].1).collect(),
                edges: edges.into_iter().map(edge).filter(is_sound).collect(),
                n_workers,
                seconds: tasks.iter().map(|task| f64::from(task.2) / 4.0).collect(),
                depth,
                costs,
            }
        })
    })
}

fn any_case() -> impl Strategy<Value = Case> {
    prop_oneof![cases(true), cases(false)]
}

const STEPS: usize = 5;

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_execution_happens_once_on_a_free_worker_and_after_what_it_needs(case in any_case()) {
        let run = case.run(STEPS);
        let n_tasks = case.seconds.len();
        prop_assert_eq!(run.executions.len(), n_tasks * STEPS);
        let mut of = vec![vec![None; n_tasks]; STEPS];
        for execution in &run.executions {
            let Execution { node: task, step, worker, start, seconds, end, .. } = *execution;
            prop_assert!(of[step][task as usize].replace(*execution).is_none());
            prop_assert_eq!(end, start + case.costs.task_seconds + seconds);
            if let Some(lists) = &case.lists {
                prop_assert!(case.floating.contains(&task) || lists[worker].contains(&task));
            }
        }
        let of = |step: usize, task: TaskId| of[step][task as usize].expect("executed");
        for edge in &case.edges {
            for step in edge.distance as usize..STEPS {
                let (from, to) = (of(step - edge.distance as usize, edge.from), of(step, edge.to));
                prop_assert!(from.end <= to.start, "{edge:?} in step {step}");
            }
        }
        for worker in 0..case.n_workers {
            let mut times: Vec<(f64, f64)> = run.executions.iter()
                .filter(|one| one.worker == worker).map(|one| (one.start, one.end)).collect();
            times.sort_by(|a, b| a.partial_cmp(b).expect("finite"));
            prop_assert!(times.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{times:?}");
        }
        for (step, end) in run.ends.iter().enumerate().take(STEPS.saturating_sub(case.depth)) {
            let later = run.executions.iter().filter(|one| one.step == step + case.depth);
            // The end of a step is that of all steps until then; this step's own may have come earlier.
            let own = run.executions.iter().filter(|one| one.step == step).map(|one| one.end).fold(0.0, f64::max);
            prop_assert!(own <= *end);
            prop_assert!(later.into_iter().all(|one| one.start >= own));
        }
        // What does not float is executed in the order of the lists.
        for list in case.lists.iter().flatten() {
            let fixed: Vec<TaskId> = list.iter().copied().filter(|&task| !case.floating.contains(&task)).collect();
            for step in 0..STEPS {
                prop_assert!(fixed.windows(2).all(|pair| of(step, pair[0]).end <= of(step, pair[1]).start));
            }
        }
    }

    #[test]
    fn causes_explain_every_start(case in any_case()) {
        let run = case.run(STEPS);
        for execution in &run.executions {
            let (cause, why) = execution.cause;
            prop_assert_eq!(cause.is_none(), why == Why::Start);
            let free = cause.map_or(0.0, |cause| run.executions[cause].end);
            // Nobody waits longer than it takes to see that something has ended. Where the order is open,
            // another worker that saw it first may have been faster.
            let limit = if case.lists.is_some() { 2.0 * case.costs.wait_seconds } else { f64::INFINITY };
            prop_assert!(free <= execution.start && execution.start - free <= limit, "{execution:?}, {free}");
        }
    }

    #[test]
    fn one_worker_takes_the_sum_of_everything(mut case in any_case()) {
        case.n_workers = 1;
        if let Some(lists) = &mut case.lists {
            *lists = vec![(0..case.seconds.len() as TaskId).collect()];
        }
        let run = case.run(STEPS);
        let step = case.total() + case.seconds.len() as f64 * case.costs.task_seconds;
        // All times are multiples of an eighth, so sums are exact.
        prop_assert_eq!(run.ends[STEPS - 1], STEPS as f64 * step);
    }

    #[test]
    fn nothing_takes_less_than_its_longest_chain_or_its_share_of_the_work(case in any_case()) {
        let run = case.run(STEPS);
        prop_assert!(run.ends[0] >= case.longest_chain(1));
        prop_assert!(run.ends[STEPS - 1] >= case.longest_chain(STEPS));
        prop_assert!(run.ends[STEPS - 1] >= STEPS as f64 * case.total() / case.n_workers as f64);
        for list in case.lists.iter().flatten() {
            let own = list.iter().filter(|&&task| !case.floating.contains(&task));
            let own: f64 = own.map(|&task| case.seconds[task as usize]).sum();
            prop_assert!(run.ends[STEPS - 1] >= STEPS as f64 * own);
        }
    }

    #[test]
    fn an_open_order_leaves_no_worker_idle_for_nothing(mut case in cases(false)) {
        case.costs = Costs::NONE;
        let run = case.run(1);
        // Graham's bound for whoever is free taking what is ready.
        let bound = case.total() / case.n_workers as f64 + case.longest_chain(1);
        prop_assert!(run.ends[0] <= bound + 1e-9, "{} > {bound}", run.ends[0]);
    }

    #[test]
    fn four_times_the_work_takes_four_times_as_long(mut case in any_case()) {
        case.costs = Costs::NONE;
        let (once, slow) = (case.run(STEPS), simulate(&case.setup(4.0), STEPS).ok().expect("executed"));
        let scaled: Vec<f64> = once.ends.iter().map(|end| 4.0 * end).collect();
        prop_assert_eq!(scaled, slow.ends);
    }
}

#[test]
fn a_circle_is_noticed() {
    // Each worker's first task needs the other's second.
    let edge = |from, to| Edge { from, to, distance: 0, kind: EdgeKind::Data };
    let case = Case {
        lists: Some(vec![vec![0, 1], vec![2, 3]]),
        floating: vec![],
        edges: vec![edge(3, 0), edge(1, 2)],
        n_workers: 2,
        seconds: vec![1.0; 4],
        depth: 1,
        costs: Costs::NONE,
    };
    assert!(matches!(simulate(&case.setup(1.0), 2), Err(Stop::Circle)));
}

#[test]
fn a_waiting_worker_takes_over_what_floats() {
    // Worker 0 has three tasks of a second, the last two of which float; worker 1 has nothing.
    let case = Case {
        lists: Some(vec![vec![0, 1, 2], vec![]]),
        floating: vec![1, 2],
        edges: vec![],
        n_workers: 2,
        seconds: vec![2.0, 1.0, 1.0],
        depth: 1,
        costs: Costs::NONE,
    };
    let run = case.run(3);
    assert_eq!(run.ends, [2.0, 4.0, 6.0]);
    assert!(run.executions.iter().all(|one| one.worker == usize::from(one.node > 0)));
    // In a memory of its own it cannot.
    let setup = Setup { memories: vec![0, 1], ..case.setup(1.0) };
    assert_eq!(simulate(&setup, 3).ok().expect("executed").ends, [4.0, 8.0, 12.0]);
}
