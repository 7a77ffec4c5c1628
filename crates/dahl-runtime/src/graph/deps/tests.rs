//! The tracker against a model that compares every pair of accesses.

use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

fn edges(accesses: &[(Region, bool)]) -> Vec<Vec<usize>> {
    let mut tracker = Tracker::new();
    let one = |(task, (region, writes)): (usize, &(Region, bool))| {
        let mut preds = Vec::new();
        tracker.access(0, region, *writes, task, &mut preds);
        preds
    };
    accesses.iter().enumerate().map(one).collect()
}

/// Every true conflict follows from the edges, and every edge is a true conflict.
fn check(accesses: &[(Region, bool)]) {
    let edges = edges(accesses);
    let mut before: Vec<HashSet<usize>> = Vec::new();
    for (task, preds) in edges.iter().enumerate() {
        let mut all = HashSet::new();
        for &pred in preds {
            assert!(pred < task && preds.iter().filter(|&&p| p == pred).count() == 1);
            let ((a, a_writes), (b, b_writes)) = (&accesses[pred], &accesses[task]);
            assert!(a.overlaps(b) && (*a_writes || *b_writes), "edge {pred} -> {task} is no conflict");
            all.insert(pred);
            all.extend(&before[pred]);
        }
        for earlier in 0..task {
            let ((a, a_writes), (b, b_writes)) = (&accesses[earlier], &accesses[task]);
            if (*a_writes || *b_writes) && a.overlaps(b) {
                assert!(all.contains(&earlier), "conflict {earlier} -> {task} is missed");
            }
        }
        before.push(all);
    }
}

fn region(rank: usize) -> impl Strategy<Value = Region> {
    prop::collection::vec((0..8usize, 1..8usize), rank)
        .prop_map(|dims| Region::new(&dims.iter().map(|&(lo, len)| lo..lo + len).collect::<Vec<_>>()))
}

proptest! {
    #[test]
    fn random_vectors(accesses in prop::collection::vec((region(1), any::<bool>()), 1..60)) {
        check(&accesses);
    }

    #[test]
    fn random_matrices(accesses in prop::collection::vec((region(2), any::<bool>()), 1..60)) {
        check(&accesses);
    }

    #[test]
    fn mostly_reads(accesses in prop::collection::vec((region(2), prop::bool::weighted(0.15)), 1..60)) {
        check(&accesses);
    }

    #[test]
    fn random_blocks(accesses in prop::collection::vec((region(3), any::<bool>()), 1..40)) {
        check(&accesses);
    }

    #[test]
    fn finished_tasks_are_neither_reported_nor_missed(
        accesses in prop::collection::vec((region(2), any::<bool>(), 0..4usize), 1..60)
    ) {
        // Tasks finish in order, a few behind the newest; what is left must be a superset of the conflicts
        // among the unfinished.
        let (mut tracker, mut finished) = (Tracker::new(), 0);
        let mut before: Vec<HashSet<usize>> = Vec::new();
        for (task, (region, writes, lag)) in accesses.iter().enumerate() {
            let mut preds = Vec::new();
            tracker.access_alive(0, region, *writes, task, &mut preds, |t| t >= finished);
            prop_assert!(preds.iter().all(|&p| p >= finished));
            let mut all: HashSet<usize> = preds.iter().copied().collect();
            preds.iter().for_each(|&p| all.extend(&before[p]));
            let unfinished = accesses.iter().enumerate().take(task).skip(finished);
            for (earlier, (other, other_writes, _)) in unfinished {
                if (*writes || *other_writes) && other.overlaps(region) {
                    prop_assert!(all.contains(&earlier));
                }
            }
            before.push(all);
            finished = finished.max(task.saturating_sub(*lag));
            if task % 7 == 0 {
                tracker.retain(|t| t >= finished);
            }
        }
    }
}

#[test]
fn a_scalar_is_one_cell() {
    let scalar = Region::new(&[]);
    check(&[(scalar, true), (scalar, false), (scalar, false), (scalar, true), (scalar, true)]);
}

#[test]
fn an_array_that_is_split_and_merged_again_keeps_one_cell_per_tile() {
    let mut tracker = Tracker::new();
    let whole = Region::new(&[0..64, 0..8]);
    let mut task = 0;
    for _ in 0..10 {
        let mut step = |region: &Region, writes: bool| {
            let mut preds = Vec::new();
            tracker.access(3, region, writes, task, &mut preds);
            task += 1;
            preds.len()
        };
        step(&whole, true);
        for i in 0..16 {
            assert_eq!(step(&Region::new(&[4 * i..4 * i + 4, 0..8]), true), 1);
        }
        assert_eq!(step(&whole, false), 16);
        assert_eq!(tracker.n_cells(3), 16);
    }
}

#[test]
fn memory_stays_bounded_when_tasks_finish() {
    let mut tracker = Tracker::new();
    for task in 0..10_000usize {
        let region = Region::new(&[task % 97..task % 97 + 1 + task % 13]);
        let mut preds = Vec::new();
        tracker.access_alive(0, &region, task % 3 == 0, task, &mut preds, |t| t + 8 > task);
        tracker.access_alive(1, &Region::new(&[0..4]), false, task, &mut preds, |t| t + 8 > task);
        assert!(preds.iter().all(|&pred| pred + 8 > task));
    }
    assert!(tracker.n_cells(0) < 200);
    assert!(tracker.bases[1].cells[0].readers.len() < 64);
}

#[test]
fn a_dropped_base_starts_afresh() {
    let mut tracker = Tracker::new();
    let mut preds = Vec::new();
    tracker.access(0, &Region::new(&[0..4]), true, 1, &mut preds);
    tracker.drop_base(0);
    tracker.access(0, &Region::new(&[0..2, 0..2]), true, 2, &mut preds);
    assert!(preds.is_empty());
}
