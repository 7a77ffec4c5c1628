use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

fn schedulers(priorities: &[f64], n_workers: usize, n_turns: usize) -> Vec<Box<dyn Scheduler>> {
    let homes = (0..priorities.len()).map(|task| task % n_workers).collect();
    let classes = Classes::one(priorities.len(), n_workers);
    vec![
        Box::new(Eager::new(priorities, classes.clone(), n_turns)),
        Box::new(Steal::new(priorities, classes, homes, n_workers, n_turns)),
    ]
}

#[test]
fn the_most_urgent_task_of_the_older_step_comes_first() {
    for scheduler in schedulers(&[1.0, 3.0, 2.0, 3.0], 1, 2) {
        for turn in [0, 1] {
            (0..4).for_each(|task| scheduler.push(task, turn, Some(0)));
        }
        let order: Vec<_> = std::iter::from_fn(|| scheduler.pop(0, 1)).collect();
        assert_eq!(order, [(1, 1), (3, 1), (2, 1), (0, 1), (1, 0), (3, 0), (2, 0), (0, 0)]);
        assert!(!scheduler.has_ready(0));
    }
}

#[test]
fn of_many_steps_the_oldest_comes_first_and_the_youngest_last() {
    for scheduler in schedulers(&[0.0, 1.0], 2, 4) {
        for turn in [1, 0, 3, 2] {
            (0..2).for_each(|task| scheduler.push(task, turn, Some(0)));
        }
        let turns: Vec<_> = std::iter::from_fn(|| Some(scheduler.pop(0, 2)?.1)).collect();
        assert_eq!(turns, [2, 2, 3, 3, 0, 0, 1, 1]);
        // So do thieves.
        (0..4).for_each(|turn| scheduler.push(1, turn, Some(0)));
        let stolen: Vec<_> = std::iter::from_fn(|| Some(scheduler.pop(1, 3)?.1)).collect();
        assert_eq!(stolen, [3, 0, 1, 2]);
    }
}

#[test]
fn so_many_steps_are_under_way_as_edges_reach_back_and_one() {
    let edge = |distance| Edge { from: 0, to: 0, distance, kind: crate::graph::EdgeKind::Data };
    assert_eq!(steps_under_way(&[]), 2);
    assert_eq!(steps_under_way(&[edge(0), edge(1)]), 2);
    assert_eq!(steps_under_way(&[edge(3), edge(1)]), 4);
    assert_eq!([2, 3, 4, 5].map(n_turns), [2, 4, 4, 8]);
}

#[test]
fn a_worker_keeps_what_it_made_ready_and_thieves_take_the_least_urgent() {
    let scheduler = Steal::new(&[3.0, 2.0, 1.0, 0.0], Classes::one(4, 2), vec![0, 0, 1, 1], 2, 2);
    scheduler.push(0, 0, Some(0));
    scheduler.push(1, 0, Some(0));
    scheduler.push(2, 0, Some(0));
    scheduler.push(3, 0, None);
    assert_eq!(scheduler.pop(0, 0), Some((0, 0)));
    assert_eq!(scheduler.pop(1, 0), Some((3, 0)));
    assert_eq!(scheduler.pop(1, 0), Some((2, 0)));
    assert_eq!(scheduler.pop(0, 0), Some((1, 0)));
    assert_eq!(scheduler.pop(0, 0), None);
}

#[test]
fn workers_get_tasks_of_their_own_class_only() {
    use crate::graph::{Lowered, Task};
    use crate::machine::{Kind, Machine};
    let codes = ["cpu", "other", "cpu", "other"];
    let tasks = codes.iter().map(|code| Task { code, ..Task::untouching((0, 1)) }).collect();
    let lowered = Lowered { tasks, depth: 1, ..Lowered::default() };
    let other = Kind { code: "other".to_string(), ..Kind::cpu().named("other") };
    let machine = Machine::with_workers(3).with_kind(2, other);
    let classes = Classes::new(&lowered, &machine).unwrap();
    let (priorities, homes) = ([0.0, 1.0, 2.0, 3.0], vec![0, 2, 1, 2]);
    let schedulers: [Box<dyn Scheduler>; 2] = [
        Box::new(Eager::new(&priorities, classes.clone(), 2)),
        Box::new(Steal::new(&priorities, classes, homes, 3, 2)),
    ];
    for scheduler in schedulers {
        // Whoever made them ready.
        (0..4).for_each(|task| scheduler.push(task, 0, [None, Some(0), Some(2), Some(1)][task as usize]));
        assert!((0..3).all(|worker| scheduler.has_ready(worker)));
        let taken = |worker| std::iter::from_fn(|| Some(scheduler.pop(worker, 0)?.0)).collect::<HashSet<_>>();
        assert_eq!([taken(1), taken(0)], [HashSet::from([0, 2]), HashSet::new()]);
        assert_eq!([0, 1, 2].map(|worker| scheduler.has_ready(worker)), [false, false, true]);
        assert_eq!(taken(2), HashSet::from([1, 3]));
        assert!(scheduler.may_run(1, 2) && !scheduler.may_run(1, 3) && scheduler.may_run(2, 3));
    }
    assert!(Classes::new(&lowered, &Machine::with_workers(3)).is_err());
}

proptest! {
    #[test]
    fn every_task_is_taken_once(
        n_tasks in 1..300_usize,
        n_workers in 1..4_usize,
        n_turns in 1..5_usize,
        seed: u64,
    ) {
        let priorities: Vec<f64> = (0..n_tasks).map(|i| (i * 7919 % 101) as f64).collect();
        for scheduler in schedulers(&priorities, n_workers, n_turns) {
            let taken = std::thread::scope(|scope| {
                let scheduler = &*scheduler;
                let workers: Vec<_> = (0..n_workers)
                    .map(|worker| {
                        scope.spawn(move || {
                            let mut taken = Vec::new();
                            for task in (worker..n_tasks).step_by(n_workers) {
                                let by = (!(seed >> (task % 64)).is_multiple_of(2)).then_some(worker);
                                scheduler.push(task as TaskId, task % n_turns, by);
                                taken.extend(scheduler.pop(worker, 0));
                            }
                            taken
                        })
                    })
                    .collect();
                workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
            });
            let rest: Vec<_> = std::iter::from_fn(|| scheduler.pop(0, n_turns - 1)).collect();
            let all: HashSet<_> = taken.iter().chain(&rest).copied().collect();
            prop_assert_eq!(taken.len() + rest.len(), n_tasks);
            prop_assert!((0..n_tasks).all(|task| all.contains(&(task as TaskId, task % n_turns))));
        }
    }
}
