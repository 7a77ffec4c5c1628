//! Cores that are busy with something else.
//!
//! A plan is made for workers that have a core each. If another program computes on one of these cores, its
//! worker is away for milliseconds at a time, and all others wait for it: with steps of 30 µs, a busy core
//! costs nine tenths of the speed and not half of it. The system does not help, because workers are pinned;
//! and if they were not, three threads on two cores would still take turns.
//!
//! So whoever runs a session for long keeps a [`Lookout`]. Now and then it looks how long each worker was
//! ready to run while its core did something else. A worker that is kept from running moves to a core that
//! nobody uses or, where there is none, rests while another one stands in for it (`../roster.rs`). Now and
//! then it tries its core by spinning there. All of that needs no memory and no other plan, and bits stay as
//! they are: the same lists are walked in the same order, by other threads. What is decided when is in
//! `decide.rs`, which knows neither threads nor clocks.
//!
//! Only what other programs take counts: threads of the own process, such as those that read images, cost
//! workers time that they need.

mod decide;
#[cfg(test)]
mod tests;

pub use decide::{Action, Notice};

use super::pool::Pool;
use crate::machine::{CoreClock, Unit, process_time, usable_cores};
use crate::sync::Arc;
use decide::{Decisions, Moment};
use std::time::{Duration, Instant};

/// Tells how long each worker was ready to run and did not, and returns how long all threads of this process
/// ran that are no workers. None where that is not known.
pub type Tell = dyn FnMut(&mut [Duration]) -> Option<Duration>;

/// Watches over the cores of a pool's workers, and lets workers evade those that are busy.
pub struct Lookout {
    pool: Arc<Pool>,
    tell: Box<Tell>,
    decisions: Decisions,
    /// The workers that are watched: all but devices that nobody has pinned.
    watched: Vec<usize>,
    /// Who does the work of each worker.
    hands: Vec<usize>,
    /// The system's numbers of the cores.
    cores: Vec<usize>,
    begun: Instant,
    /// When the steps began that are under way.
    resumed: Instant,
    moment: Moment,
    next: Duration,
}

impl Lookout {
    /// A lookout over these workers. None where they are not pinned, as where they are more than there are
    /// cores, or where the system does not tell who gets what of a core.
    pub fn new(pool: &Arc<Pool>) -> Option<Lookout> {
        // Who drives a device needs little of its core, so nothing is to be done for it.
        let clock = |&worker: &usize| match pool.devices().of_unit(worker) {
            Some(_) => Some(None),
            None => CoreClock::of(pool.thread(worker)?).map(Some),
        };
        let watched = watched(pool)?;
        let clocks = watched.iter().map(clock).collect::<Option<Vec<_>>>()?;
        let read = move |waited: &mut [Duration]| {
            let mut own = process_time()?;
            for (clock, waited) in clocks.iter().zip(waited) {
                let Some(clock) = clock else { continue };
                let time = clock.read()?;
                *waited = time.waited;
                own = own.saturating_sub(time.ran);
            }
            Some(own)
        };
        Lookout::told_by(pool, Box::new(read))
    }

    /// The same, told by somebody else what the workers got of their cores.
    pub fn told_by(pool: &Arc<Pool>, tell: Box<Tell>) -> Option<Lookout> {
        let units = &pool.machine().units;
        let watched = watched(pool)?;
        let homes: Vec<usize> = watched.iter().map(|&worker| units[worker].core).collect::<Option<_>>()?;
        let cores: Vec<usize> = usable_cores().collect();
        if homes.iter().any(|&core| core >= cores.len()) {
            return None;
        }
        let places = watched.iter().map(|&worker| (units[worker].kind, units[worker].memory));
        let decisions = Decisions::new(&homes, &classes(places), cores.len());
        let (moment, now) = (Moment::new(watched.len()), Instant::now());
        let (pool, next) = (Arc::clone(pool), Duration::ZERO);
        let hands = (0..units.len()).collect();
        let (begun, resumed) = (now, now);
        let mut lookout =
            Lookout { pool, tell, decisions, watched, hands, cores, begun, resumed, moment, next };
        lookout.read().then(|| {
            lookout.decisions.begin(&lookout.moment);
            lookout
        })
    }

    /// Steps begin: from now on, time is spent on them.
    pub fn resume(&mut self) {
        self.resumed = Instant::now();
    }

    /// Looks around after a step, if it is time to, and does what is to be done. `work` is what the step did,
    /// in any measure. Says what was noticed.
    pub fn look(&mut self, work: usize) -> Option<Notice> {
        let now = Instant::now();
        self.moment.steps += 1;
        self.moment.work += work as u64;
        self.moment.working += now - self.resumed;
        self.resumed = now;
        self.moment.now = now - self.begun;
        if self.moment.now < self.next {
            return None;
        }
        self.next = self.moment.now + PAUSE + PAUSE_PER_WORKER * self.pool.n_workers() as u32;
        if !self.read() {
            return None;
        }
        let notice = self.decisions.look(&self.moment);
        if self.decisions.take_changed() {
            self.apply();
        }
        notice.map(|notice| {
            let notice = notice.on_cores(&self.cores);
            Notice { worker: self.watched[notice.worker], ..notice }
        })
    }

    /// Reads the clocks; false where one does not go.
    fn read(&mut self) -> bool {
        let own = (self.tell)(&mut self.moment.waited);
        // They are read one after the other, so it might seem to fall.
        self.moment.own = self.moment.own.max(own.unwrap_or_default());
        own.is_some()
    }

    fn apply(&mut self) {
        for (&worker, core) in self.watched.iter().zip(self.decisions.cores()) {
            if let Some(thread) = self.pool.thread(worker) {
                thread.pin(core);
            }
        }
        for (&worker, &hand) in self.watched.iter().zip(self.decisions.hands()) {
            self.hands[worker] = self.watched[hand];
        }
        self.pool.assign(&self.hands);
        self.pool.keep_awake(self.decisions.trying().map(|worker| self.watched[worker]));
    }
}

impl Drop for Lookout {
    /// Everybody goes back to its own core and its own work.
    fn drop(&mut self) {
        self.decisions.undo();
        if self.decisions.take_changed() {
            self.apply();
        }
    }
}

/// Least time between two looks. A look takes about 2 µs for each worker.
const PAUSE: Duration = Duration::from_millis(2);
const PAUSE_PER_WORKER: Duration = Duration::from_micros(200);

/// The workers that are watched; none where one that computes by itself has no core of its own.
fn watched(pool: &Pool) -> Option<Vec<usize>> {
    let units = pool.machine().units.iter().enumerate();
    let has_core = |&(_, unit): &(usize, &Unit)| unit.core.is_some();
    let is_thread = |&(worker, _): &(usize, &Unit)| pool.devices().of_unit(worker).is_none();
    units
        .clone()
        .filter(is_thread)
        .all(|unit| has_core(&unit))
        .then(|| units.filter(has_core).map(|(worker, _)| worker).collect())
}

/// A number for each, the same for those that are equal.
fn classes<T: PartialEq>(things: impl Iterator<Item = T>) -> Vec<usize> {
    let mut known = Vec::new();
    let number = |thing: T| {
        known.iter().position(|other| *other == thing).unwrap_or_else(|| {
            known.push(thing);
            known.len() - 1
        })
    };
    things.map(number).collect()
}
