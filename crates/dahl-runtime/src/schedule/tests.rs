use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

fn schedulers(priorities: &[f64], n_workers: usize, n_turns: usize) -> Vec<Box<dyn Scheduler>> {
    let homes = (0..priorities.len()).map(|task| task % n_workers).collect();
    vec![
        Box::new(Eager::new(priorities, n_turns)),
        Box::new(Steal::new(priorities, homes, n_workers, n_turns)),
    ]
}

#[test]
fn the_most_urgent_task_of_the_older_step_comes_first() {
    for scheduler in schedulers(&[1.0, 3.0, 2.0, 3.0], 1, 2) {
        for turn in [0, 1] {
            (0..4).for_each(|task| scheduler.ready(task, turn, Some(0), &Everywhere));
        }
        let order: Vec<_> = std::iter::from_fn(|| scheduler.take(0, 1, &Everywhere)).collect();
        assert_eq!(order, [(1, 1), (3, 1), (2, 1), (0, 1), (1, 0), (3, 0), (2, 0), (0, 0)]);
        assert!(!scheduler.has_ready(0));
    }
}

#[test]
fn of_many_steps_the_oldest_comes_first_and_the_youngest_last() {
    for scheduler in schedulers(&[0.0, 1.0], 2, 4) {
        for turn in [1, 0, 3, 2] {
            (0..2).for_each(|task| scheduler.ready(task, turn, Some(0), &Everywhere));
        }
        let turns: Vec<_> = std::iter::from_fn(|| Some(scheduler.take(0, 2, &Everywhere)?.1)).collect();
        assert_eq!(turns, [2, 2, 3, 3, 0, 0, 1, 1]);
        // So do thieves.
        (0..4).for_each(|turn| scheduler.ready(1, turn, Some(0), &Everywhere));
        let stolen: Vec<_> = std::iter::from_fn(|| Some(scheduler.take(1, 3, &Everywhere)?.1)).collect();
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
    let scheduler = Steal::new(&[3.0, 2.0, 1.0, 0.0], vec![0, 0, 1, 1], 2, 2);
    scheduler.ready(0, 0, Some(0), &Everywhere);
    scheduler.ready(1, 0, Some(0), &Everywhere);
    scheduler.ready(2, 0, Some(0), &Everywhere);
    scheduler.ready(3, 0, None, &Everywhere);
    assert_eq!(scheduler.take(0, 0, &Everywhere), Some((0, 0)));
    assert_eq!(scheduler.take(1, 0, &Everywhere), Some((3, 0)));
    assert_eq!(scheduler.take(1, 0, &Everywhere), Some((2, 0)));
    assert_eq!(scheduler.take(0, 0, &Everywhere), Some((1, 0)));
    assert_eq!(scheduler.take(0, 0, &Everywhere), None);
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
                                scheduler.ready(task as TaskId, task % n_turns, by, &Everywhere);
                                taken.extend(scheduler.take(worker, 0, &Everywhere));
                            }
                            taken
                        })
                    })
                    .collect();
                workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
            });
            let rest: Vec<_> = std::iter::from_fn(|| scheduler.take(0, n_turns - 1, &Everywhere)).collect();
            let all: HashSet<_> = taken.iter().chain(&rest).copied().collect();
            prop_assert_eq!(taken.len() + rest.len(), n_tasks);
            prop_assert!((0..n_tasks).all(|task| all.contains(&(task as TaskId, task % n_turns))));
        }
    }
}
