//! Decisions, on a machine that is made up.

use super::classes;
use super::decide::{Action, Decisions, FIRST_TRIAL, Moment, NEXT_TRIAL, Notice};
use std::time::Duration;

const TICK: Duration = Duration::from_millis(2);

/// A machine on which other programs take shares of cores.
struct Machine {
    decisions: Decisions,
    /// What other programs take of each core.
    taken: Vec<f64>,
    /// What other threads of the same process take of every core.
    own: f64,
    /// What is done per millisecond, by how many workers rest and whether one that works is kept from it.
    rate: fn(usize, bool) -> u64,
    at: Moment,
    notices: Vec<(Duration, Notice)>,
    n_changes: usize,
}

/// Steps so short that all wait for whoever is away.
fn short_steps(n_resting: usize, is_disturbed: bool) -> u64 {
    match (n_resting, is_disturbed) {
        (_, true) => 10,
        (0, false) => 100,
        (_, false) => 60,
    }
}

/// Steps so long that floating tasks make up for much of it.
fn long_steps(n_resting: usize, is_disturbed: bool) -> u64 {
    match (n_resting, is_disturbed) {
        (0, true) => 70,
        (0, false) => 100,
        (_, _) => 55,
    }
}

impl Machine {
    fn new(homes: &[usize], memories: &[usize], n_cores: usize) -> Machine {
        Machine {
            decisions: Decisions::new(homes, &classes(memories.iter()), n_cores),
            taken: vec![0.0; n_cores],
            own: 0.0,
            rate: short_steps,
            at: Moment::new(homes.len()),
            notices: Vec::new(),
            n_changes: 0,
        }
    }

    /// Lets time pass.
    fn pass(&mut self, millis: u64) {
        let end = self.at.now + Duration::from_millis(millis);
        while self.at.now < end {
            self.at.now += TICK;
            self.at.working += TICK;
            self.at.steps += 1;
            let hands = self.decisions.hands().to_vec();
            let is_resting = |worker: usize| hands[worker] != worker;
            let mut is_disturbed = false;
            for (worker, core) in self.decisions.cores().enumerate() {
                let lost = (self.taken[core] + self.own).min(1.0);
                // Who rests sleeps unless it tries its core, and who sleeps does not wait.
                if !is_resting(worker) || self.decisions.trying() == Some(worker) {
                    self.at.waited[worker] += TICK.mul_f64(lost);
                }
                is_disturbed |= !is_resting(worker) && lost > 0.1;
            }
            self.at.own += TICK.mul_f64(self.own * self.taken.len() as f64);
            let n_resting = (0..hands.len()).filter(|&worker| is_resting(worker)).count();
            self.at.work += (self.rate)(n_resting, is_disturbed) * TICK.as_millis() as u64;
            let notice = self.decisions.look(&self.at);
            self.notices.extend(notice.map(|notice| (self.at.now, notice)));
            self.n_changes += usize::from(self.decisions.take_changed());
        }
    }

    fn actions(&self) -> Vec<(usize, Action)> {
        self.notices.iter().map(|(_, notice)| (notice.worker, notice.action)).collect()
    }
}

#[test]
fn nothing_happens_where_nothing_is_wrong() {
    let mut machine = Machine::new(&[0, 1], &[0, 0], 2);
    machine.pass(10_000);
    // What others take of a core at the lowest priority is little.
    machine.taken = vec![0.02, 0.15];
    machine.pass(10_000);
    assert!(machine.notices.is_empty() && machine.n_changes == 0);
}

#[test]
fn what_is_over_soon_is_not_followed() {
    let mut machine = Machine::new(&[0, 1], &[0, 0], 2);
    for _ in 0..100 {
        machine.taken[1] = 1.0;
        machine.pass(4);
        machine.taken[1] = 0.0;
        machine.pass(36);
    }
    assert!(machine.notices.is_empty() && machine.n_changes == 0, "{:?}", machine.notices);
}

#[test]
fn turns_that_are_taken_now_and_then_are_endured() {
    let mut machine = Machine::new(&[0, 1], &[0, 0], 2);
    for _ in 0..500 {
        machine.taken[1] = 1.0;
        machine.pass(6);
        machine.taken[1] = 0.0;
        machine.pass(20);
    }
    assert!(machine.notices.is_empty() && machine.n_changes == 0, "{:?}", machine.notices);
}

#[test]
fn a_program_of_low_priority_costs_little_in_the_end() {
    let mut machine = Machine::new(&[0, 1], &[0, 0], 2);
    for _ in 0..1000 {
        // A worker that works gives its core away and waits for a turn; one that tries its core keeps it.
        let is_working = machine.decisions.hands() == [0, 1];
        machine.taken[1] = if is_working { 0.6 } else { 0.02 };
        machine.pass(20);
    }
    let n_rests = machine.actions().iter().filter(|(_, action)| *action == Action::Rests).count();
    assert!((1..10).contains(&n_rests), "{:?}", machine.notices);
}

#[test]
fn who_is_woken_may_wait_for_a_turn() {
    let mut machine = Machine::new(&[0, 1], &[0, 0], 2);
    machine.taken[1] = 0.5;
    machine.pass(200);
    // From now on, only the first turn of each trial is another program's.
    let mut n_ticks = 0;
    for _ in 0..500 {
        n_ticks = if machine.decisions.trying().is_some() { n_ticks + 1 } else { 0 };
        machine.taken[1] = if n_ticks <= 2 { 1.0 } else { 0.0 };
        if machine.decisions.hands() == [0, 1] {
            return;
        }
        machine.pass(2);
    }
    panic!("{:?}", machine.notices);
}

#[test]
fn a_worker_on_a_busy_core_rests_until_the_core_is_free() {
    for busy in [0, 1] {
        let mut machine = Machine::new(&[0, 1], &[0, 0], 2);
        machine.pass(1000);
        machine.taken[busy] = 0.5;
        machine.pass(60);
        let other = 1 - busy;
        assert_eq!(machine.decisions.hands(), [other, other]);
        machine.pass(20_000);
        assert_eq!(machine.actions(), [(busy, Action::Rests)]);
        let notice = machine.notices[0].1;
        assert!((notice.share - 0.5).abs() < 0.01 && notice.core == busy, "{notice:?}");
        // It tries its core again and again, while the other one does all the work.
        assert!((100..150).contains(&machine.n_changes), "{}", machine.n_changes);
        assert!(machine.at.work > 1000 * 100 + 20_000 * 59, "{}", machine.at.work);
        machine.taken[busy] = 0.0;
        machine.pass(NEXT_TRIAL.as_millis() as u64 + 50);
        assert_eq!(machine.decisions.hands(), [0, 1]);
        assert_eq!(machine.actions(), [(busy, Action::Rests), (busy, Action::Works)]);
    }
}

#[test]
fn a_disturbance_of_a_second_is_left_behind_soon() {
    let mut machine = Machine::new(&[0, 1], &[0, 0], 2);
    machine.taken[1] = 0.5;
    machine.pass(1000);
    machine.taken[1] = 0.0;
    machine.pass(NEXT_TRIAL.as_millis() as u64 + 50);
    assert_eq!(machine.actions(), [(1, Action::Rests), (1, Action::Works)]);
}

#[test]
fn where_less_is_done_without_it_a_worker_goes_on() {
    let mut machine = Machine::new(&[0, 1], &[0, 0], 2);
    machine.rate = long_steps;
    machine.taken[1] = 0.5;
    machine.pass(20_000);
    assert_eq!(machine.actions(), [(1, Action::Endures)]);
    assert!(machine.n_changes < 30);
    // Nearly all the time it works.
    assert!(machine.at.work > 20_000 * 69, "{}", machine.at.work);
}

#[test]
fn a_worker_moves_to_a_core_that_nobody_uses() {
    let mut machine = Machine::new(&[0], &[0], 2);
    machine.taken[0] = 0.5;
    machine.pass(60);
    assert_eq!(machine.actions(), [(0, Action::Moved(1))]);
    assert_eq!(machine.notices[0].1.core, 0);
    assert_eq!(machine.decisions.cores().collect::<Vec<_>>(), [1]);
    machine.pass(10_000);
    assert_eq!(machine.notices.len(), 1);
    // That one becomes busy, and the other is free by now.
    machine.taken = vec![0.0, 0.5];
    machine.pass(1000);
    assert_eq!(machine.actions(), [(0, Action::Moved(1)), (0, Action::Moved(0))]);
}

#[test]
fn two_of_four_cores_are_left_for_the_other_two() {
    let mut machine = Machine::new(&[0, 1], &[0, 0], 4);
    machine.taken = vec![0.5, 0.5, 0.0, 0.0];
    machine.pass(200);
    assert_eq!(machine.decisions.cores().collect::<Vec<_>>(), [3, 2]);
    assert_eq!(machine.decisions.hands(), [0, 1]);
}

#[test]
fn who_is_alone_on_the_only_core_says_so_once() {
    let mut machine = Machine::new(&[0], &[0], 1);
    machine.taken[0] = 0.5;
    machine.pass(20_000);
    assert_eq!(machine.actions(), [(0, Action::Alone)]);
    assert_eq!(machine.n_changes, 0);
}

#[test]
fn somebody_always_works() {
    let mut machine = Machine::new(&[0, 1, 2], &[0, 0, 0], 3);
    machine.taken = vec![0.5; 3];
    for _ in 0..10_000 {
        machine.pass(2);
        let hands = machine.decisions.hands();
        assert!(hands.iter().all(|&hand| hands[hand] == hand));
    }
}

#[test]
fn nobody_stands_in_for_a_worker_of_another_memory() {
    let mut machine = Machine::new(&[0, 1, 2], &[0, 0, 1], 3);
    machine.taken = vec![0.0, 0.0, 0.5];
    machine.pass(1000);
    assert_eq!(machine.decisions.hands(), [0, 1, 2]);
    assert_eq!(machine.actions(), [(2, Action::Alone)]);
    machine.taken = vec![0.5, 0.0, 0.5];
    machine.pass(1000);
    assert_eq!(machine.decisions.hands(), [1, 1, 2]);
}

#[test]
fn the_work_of_those_who_rest_is_shared() {
    let mut machine = Machine::new(&[0, 1, 2, 3, 4], &[0; 5], 5);
    machine.rate = |_, is_disturbed| if is_disturbed { 10 } else { 60 };
    machine.taken = vec![0.0, 0.5, 0.0, 0.0, 0.5];
    let mut most = 0;
    for _ in 0..500 {
        machine.pass(2);
        let hands = machine.decisions.hands();
        let resting = (0..5).filter(|&worker| hands[worker] != worker).count();
        let load = |worker| hands.iter().filter(|&&hand| hand == worker).count();
        most = most.max(resting);
        assert!((0..5).all(|worker| load(worker) <= 2), "{hands:?}");
    }
    // Without the one, there is still the other, so it takes both.
    assert_eq!(most, 2, "{:?}", machine.notices);
}

#[test]
fn what_threads_of_the_same_process_take_is_no_disturbance() {
    let mut machine = Machine::new(&[0, 1], &[0, 0], 2);
    machine.own = 0.5;
    machine.pass(10_000);
    assert!(machine.notices.is_empty() && machine.n_changes == 0);
}

#[test]
fn what_comes_and_goes_is_not_talked_about_for_ever() {
    let mut machine = Machine::new(&[0, 1], &[0, 0], 2);
    for _ in 0..300 {
        machine.taken[1] = 0.5;
        machine.pass(500);
        machine.taken[1] = 0.0;
        machine.pass(500);
    }
    let per_minute = machine.notices.len() as f64 / 5.0;
    assert!(per_minute < 40.0, "{per_minute} notices per minute");
    // Long after, it begins anew.
    machine.pass(60_000);
    assert_eq!(machine.decisions.hands(), [0, 1]);
    machine.notices.clear();
    machine.taken[1] = 0.5;
    machine.pass(100);
    machine.taken[1] = 0.0;
    machine.pass(2 * FIRST_TRIAL.as_millis() as u64);
    assert_eq!(machine.actions(), [(1, Action::Rests), (1, Action::Works)]);
}

#[test]
fn at_last_everybody_is_where_it_was() {
    let mut machine = Machine::new(&[0, 1, 2], &[0; 3], 4);
    machine.taken = vec![0.5, 0.5, 0.0, 0.0];
    machine.pass(200);
    assert_eq!(machine.decisions.cores().collect::<Vec<_>>(), [0, 3, 2]);
    assert_ne!(machine.decisions.hands(), [0, 1, 2]);
    machine.decisions.undo();
    assert!(machine.decisions.take_changed());
    assert_eq!(machine.decisions.hands(), [0, 1, 2]);
    assert!(machine.decisions.cores().eq(0..3));
    machine.decisions.undo();
    assert!(!machine.decisions.take_changed());
}
