//! The worker threads: pinned, spinning for a short while when out of work, then asleep.
//!
//! Workers serve [`WorkSource`]s. A worker asks each source in turn whether it has something for it; if none
//! has, it spins for about 2 ms (see `SPIN_ROUNDS`) and then sleeps on the pool's bell. A source that gets
//! new work, or that finishes work others wait for, rings that bell.

use super::bell::Bell;
use super::device::{Device, Devices};
use super::roster::Roster;
use crate::error::{Error, ErrorKind, Result};
use crate::machine::{Machine, MemoryId, ThreadId, n_cores, pin_current_thread};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, OnceLock, lock, spin_loop, thread, thread_local};
use std::cell::Cell;
use std::time::Duration;

thread_local! {
    static WORKER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The worker that the current thread is, if it is one.
pub fn current_worker() -> Option<usize> {
    WORKER.with(Cell::get)
}

/// Makes the current thread a worker for as long as it lives, for engines that start their own threads. A
/// worker is refused whatever would wait for tasks, since it might wait for itself.
pub fn become_worker(worker: usize) {
    WORKER.with(|current| current.set(Some(worker)));
}

/// Something that workers work on.
pub trait WorkSource: Send + Sync {
    /// Runs what is ready for this worker. Returns whether anything ran.
    fn poll(&self, worker: usize) -> bool;

    /// Whether [`WorkSource::poll`] would run something for this worker. Looked at before a worker falls
    /// asleep.
    fn has_work(&self, worker: usize) -> bool;

    /// Whether something that this worker has begun has not ended, so that it must come back to the source,
    /// and the source must stay.
    fn is_busy(&self, worker: usize) -> bool {
        let _ = worker;
        false
    }
}

struct Shared {
    sources: Mutex<Vec<Arc<dyn WorkSource>>>,
    /// Rises with every change of `sources`, so that workers need not lock to see that nothing changed.
    version: AtomicU64,
    stop: AtomicBool,
    bell: Arc<Bell>,
    roster: Arc<Roster>,
    /// The workers' threads, once they have begun.
    threads: Vec<OnceLock<Option<ThreadId>>>,
    spin_rounds: u32,
}

/// A group of worker threads, one per unit.
pub struct Pool {
    shared: Arc<Shared>,
    machine: Machine,
    devices: Devices,
    threads: Vec<thread::JoinHandle<()>>,
    /// Whether a worker may never come back.
    is_abandoned: AtomicBool,
}

impl Pool {
    /// Starts one thread per unit. Fails if the machine makes no sense (see [`Machine::check`]), and if the
    /// system has no more threads to give; those that were started end again.
    pub fn new(machine: &Machine) -> Result<Self> {
        Pool::with_devices(machine, [])
    }

    /// The same where some units, by number, are devices: their threads drive them. A device computes alone
    /// in a memory that is not the host's.
    pub fn with_devices(
        machine: &Machine,
        devices: impl IntoIterator<Item = (usize, Arc<dyn Device>)>,
    ) -> Result<Self> {
        machine.check()?;
        let devices = Devices::new(machine, devices)?;
        let units = &machine.units;
        // A worker that shares its core must not keep the one it waits for from running.
        let spin_rounds = if units.len() > n_cores() || cfg!(feature = "shuttle") { 0 } else { SPIN_ROUNDS };
        let shared = Arc::new(Shared {
            sources: Mutex::new(Vec::new()),
            version: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            bell: Arc::new(Bell::default()),
            roster: Arc::new(Roster::new(units.len())),
            threads: units.iter().map(|_| OnceLock::new()).collect(),
            spin_rounds,
        });
        let is_abandoned = AtomicBool::new(false);
        let mut pool = Pool { shared, machine: machine.clone(), devices, threads: Vec::new(), is_abandoned };
        for (worker, unit) in units.iter().enumerate() {
            let (shared, core) = (Arc::clone(&pool.shared), unit.core);
            let thread = thread::Builder::new().spawn(move || {
                if let Some(core) = core {
                    pin_current_thread(core);
                }
                become_worker(worker);
                shared.threads[worker].get_or_init(ThreadId::current);
                serve(&shared, worker);
            });
            pool.threads.push(thread.map_err(|error| {
                let (n, number) = (units.len(), worker + 1);
                let message = format!(
                    "cannot start worker {number} of {n} ({error}): use fewer workers, or end other programs"
                );
                Error::new(ErrorKind::Memory, message)
            })?);
        }
        Ok(pool)
    }

    /// Number of workers.
    pub fn n_workers(&self) -> usize {
        self.machine.units.len()
    }

    /// The machine whose units are the workers.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The devices among the units.
    pub(super) fn devices(&self) -> &Devices {
        &self.devices
    }

    /// The memory that worker `worker` computes in.
    pub fn memory_of(&self, worker: usize) -> MemoryId {
        self.machine.units[worker].memory
    }

    /// From now on, whoever drops the pool does not wait for its threads: one may be in a kernel that never
    /// ends. Threads hold what they work on, so it stays until they are done with it.
    pub(super) fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Release);
    }

    /// Lets the workers serve `source` from now on.
    pub fn attach(&self, source: Arc<dyn WorkSource>) {
        self.change_sources(|sources| sources.push(source));
    }

    /// Stops serving `source`. Returns at once; a worker may still be inside a last `poll`.
    pub fn detach(&self, source: &Arc<dyn WorkSource>) {
        self.change_sources(|sources| sources.retain(|s| !Arc::ptr_eq(s, source)));
    }

    fn change_sources(&self, change: impl FnOnce(&mut Vec<Arc<dyn WorkSource>>)) {
        change(&mut lock(&self.shared.sources));
        self.shared.version.fetch_add(1, Ordering::Release);
        self.ring();
    }

    /// What sleeping workers are woken by; for sources, which must not own the pool.
    pub fn bell(&self) -> Arc<Bell> {
        Arc::clone(&self.shared.bell)
    }

    /// Who does the work of whom at present.
    pub(super) fn roster(&self) -> Arc<Roster> {
        Arc::clone(&self.shared.roster)
    }

    /// Says for each worker who does its work from now on: itself, or one of the same memory, running the
    /// same code, that stands in for it. Steps may be under way; what a worker has begun it ends.
    ///
    /// # Panics
    /// If there is not one for each, or one that stands in has another memory or rests itself.
    pub fn assign(&self, hands: &[usize]) {
        assert_eq!(hands.len(), self.n_workers(), "every worker's work is done by somebody");
        for (worker, &hand) in hands.iter().enumerate() {
            let code = |worker: usize| &self.machine.kind_of(worker).code;
            let is_alike = self.memory_of(hand) == self.memory_of(worker) && code(hand) == code(worker);
            let is_able = hands[hand] == hand && is_alike;
            assert!(is_able, "worker {hand} cannot stand in for worker {worker}");
        }
        self.shared.roster.assign(hands.iter().copied());
        self.ring();
    }

    /// Lets at most one worker stay awake, spinning where it has nothing to do, so that one can see what it
    /// gets of its core.
    pub(super) fn keep_awake(&self, worker: Option<usize>) {
        self.shared.roster.keep_awake(worker);
        self.ring();
    }

    /// The thread of a worker, where the system numbers threads.
    pub(super) fn thread(&self, worker: usize) -> Option<ThreadId> {
        loop {
            // It was started, and says so as soon as it runs.
            match self.shared.threads[worker].get() {
                Some(thread) => return *thread,
                None => thread::yield_now(),
            }
        }
    }

    /// Wakes sleeping workers; to be called after a source got work that they may be asleep for.
    #[inline]
    pub fn ring(&self) {
        self.shared.bell.ring();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.ring();
        if self.is_abandoned.load(Ordering::Acquire) {
            return;
        }
        for thread in self.threads.drain(..) {
            // A worker catches the panics of kernels; if it died nevertheless, there is nothing left to join.
            let _ = thread.join();
        }
    }
}

/// Rounds of spinning before a worker falls asleep, about 2 ms: a round is a poll of idle sources and 16
/// pauses.
///
/// Waking up costs 50 to 90 µs when the machine is quiet but close to a millisecond when another system on
/// the same hardware takes cores away, which is just when workers wait long. Spinning for 100 µs then doubled
/// the time of a training step; 2 ms costs nothing while a run is under way and little energy after it.
const SPIN_ROUNDS: u32 = 8000;
/// Rounds of spinning, about 2 µs, between two offers to let another thread have the core.
const YIELD_ROUNDS: u32 = 8;

/// Serves these sources from now on, and those before in which something has not ended.
fn renew(sources: &mut Vec<Arc<dyn WorkSource>>, now: &[Arc<dyn WorkSource>], worker: usize) {
    sources.retain(|old| !now.iter().any(|new| Arc::ptr_eq(new, old)) && old.is_busy(worker));
    sources.extend(now.iter().cloned());
}

/// Stays until everything has ended that was begun: what that works on must not go before. Only a run that
/// was given up leaves such a thing behind.
fn leave(sources: &[Arc<dyn WorkSource>], worker: usize) {
    while sources.iter().any(|source| source.is_busy(worker)) {
        sources.iter().filter(|source| source.is_busy(worker)).for_each(|source| {
            source.poll(worker);
        });
        thread::sleep(Duration::from_millis(1));
    }
}

fn serve(shared: &Shared, worker: usize) {
    let mut sources: Vec<Arc<dyn WorkSource>> = Vec::new();
    let mut seen = u64::MAX;
    let mut idle_rounds = 0;
    loop {
        let version = shared.version.load(Ordering::Acquire);
        if version != seen {
            seen = version;
            renew(&mut sources, &lock(&shared.sources), worker);
        }
        if shared.stop.load(Ordering::Acquire) {
            return leave(&sources, worker);
        }
        let mut ran = false;
        for source in &sources {
            ran |= source.poll(worker);
        }
        if ran {
            idle_rounds = 0;
        } else if idle_rounds < shared.spin_rounds {
            idle_rounds += 1;
            for _ in 0..16 {
                spin_loop();
            }
            // A thread that submits tasks, or feeds a run, may be waiting for this very core. Who is to see
            // what it gets of its core gives nothing away.
            if idle_rounds.is_multiple_of(YIELD_ROUNDS) && !shared.roster.is_awake(worker) {
                thread::yield_now();
            }
        } else {
            shared.bell.sleep_until(|| {
                shared.stop.load(Ordering::Acquire)
                    || shared.version.load(Ordering::Acquire) != seen
                    || shared.roster.is_awake(worker)
                    || sources.iter().any(|source| source.has_work(worker))
            });
            idle_rounds = 0;
        }
    }
}
