//! A set of ready tasks in order of priority, without a lock.
//!
//! Tasks are numbered by rank, the most urgent first, and the set is a bit per rank. Adding sets a bit;
//! taking finds the first (or last) bit that is set and clears it, which only one thread can do.
//!
//! Memory order: a bit is set with `Release` and cleared with `Acquire`, so whoever takes a task sees what
//! was done before it was added. Other bits of the same word are changed by read-modify-writes only, which
//! pass that on.

use super::Allowed;
use crate::graph::TaskId;
use crate::machine::Machine;
use crate::sync::atomic::{AtomicU64, Ordering};

/// A set of tasks.
#[derive(Debug)]
pub struct ReadySet {
    words: Vec<AtomicU64>,
}

/// Tasks by rank, and ranks by task.
#[derive(Clone, Debug)]
pub(super) struct Ranks {
    pub of: Vec<u32>,
    pub tasks: Vec<TaskId>,
}

impl Ranks {
    /// Ranks by descending priority, equal ones in order of their number.
    pub fn new(priorities: &[f64]) -> Self {
        let mut tasks: Vec<TaskId> = (0..priorities.len() as TaskId).collect();
        tasks.sort_by(|&a, &b| priorities[b as usize].total_cmp(&priorities[a as usize]));
        let mut of = vec![0; tasks.len()];
        for (rank, &task) in tasks.iter().enumerate() {
            of[task as usize] = rank as u32;
        }
        Ranks { of, tasks }
    }
}

impl ReadySet {
    /// An empty set with room for `n_tasks` tasks.
    pub fn new(n_tasks: usize) -> Self {
        ReadySet { words: (0..n_tasks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Adds a rank.
    pub fn add(&self, rank: u32) {
        self.words[rank as usize / 64].fetch_or(1 << (rank % 64), Ordering::Release);
    }

    /// Takes the lowest rank.
    pub fn take_first(&self) -> Option<u32> {
        self.take_first_of(&ALL_RANKS)
    }

    /// Takes the highest rank.
    pub fn take_last(&self) -> Option<u32> {
        self.take_last_of(&ALL_RANKS)
    }

    pub(super) fn take_first_of(&self, among: &Ranked) -> Option<u32> {
        (0..self.words.len()).find_map(|word| self.take(word, among, u64::trailing_zeros))
    }

    pub(super) fn take_last_of(&self, among: &Ranked) -> Option<u32> {
        (0..self.words.len()).rev().find_map(|word| self.take(word, among, |bits| 63 - bits.leading_zeros()))
    }

    fn take(&self, word: usize, among: &Ranked, choose: impl Fn(u64) -> u32) -> Option<u32> {
        let among = among.word(word);
        let mut bits = self.words[word].load(Ordering::Relaxed) & among;
        while bits != 0 {
            let bit = choose(bits);
            let before = self.words[word].fetch_and(!(1 << bit), Ordering::Acquire);
            if before >> bit & 1 == 1 {
                return Some(word as u32 * 64 + bit);
            }
            bits = before & among & !(1 << bit);
        }
        None
    }

    /// Whether there is nothing to take.
    pub fn is_empty(&self) -> bool {
        !self.has_any(&ALL_RANKS)
    }

    pub(super) fn has_any(&self, among: &Ranked) -> bool {
        (0..self.words.len()).any(|word| self.words[word].load(Ordering::Relaxed) & among.word(word) != 0)
    }
}

/// All ranks.
pub(super) static ALL_RANKS: Ranked = Ranked { words: Vec::new() };

/// Some ranks: those of the tasks that a unit may execute.
#[derive(Clone, Debug)]
pub(super) struct Ranked {
    /// A bit per rank; nothing where it is all of them.
    words: Vec<u64>,
}

impl Ranked {
    /// For each unit, the ranks of what it may execute; nothing where everybody may execute everything.
    pub fn of_units(ranks: &Ranks, allowed: &Allowed, machine: &Machine) -> Vec<Ranked> {
        if allowed.is_all() {
            return Vec::new();
        }
        let of = |unit: usize| {
            let mut words = vec![0; ranks.tasks.len().div_ceil(64)];
            for (rank, &task) in ranks.tasks.iter().enumerate().filter(|(_, task)| allowed.may(**task, unit))
            {
                debug_assert_eq!(ranks.of[task as usize], rank as u32);
                words[rank / 64] |= 1 << (rank % 64);
            }
            Ranked { words }
        };
        (0..machine.units.len()).map(of).collect()
    }

    #[inline(always)]
    fn word(&self, word: usize) -> u64 {
        self.words.get(word).copied().unwrap_or(u64::MAX)
    }
}
