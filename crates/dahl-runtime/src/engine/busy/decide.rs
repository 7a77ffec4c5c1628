//! What is done about busy cores, as a function of what was seen.
//!
//! Everything is judged over a *window* of at least some milliseconds: schedulers take turns of about three.
//! Nothing is done before a second, longer window has said the same as the first: a program of low priority
//! takes a core for a turn now and then, and that is little in the end.
//!
//! - A worker that loses much of a window to other programs moves to a core that no worker has and that was
//!   not busy of late. Where there is none, it rests; where nobody can stand in for it, that is said, once.
//! - If less is done while it rests, it works again, and its core is endured for a while.
//! - If it has rested for a while, it tries its core by spinning there, while others still do its work. It
//!   works again if the core is free.
//!
//! Whether resting pays depends on the steps. Where they are short, all wait for whoever is away, and one
//! worker on a free core does ten times as much. Where they are longer than many turns of the scheduler,
//! tasks that float make up for much. So it is tried, and the faster stays.
//!
//! Reacting is quick and so is going back, so a mistake costs little. But every time that a core is found to
//! be busy soon again quadruples the time for which it is then endured, so whatever comes and goes, or has a
//! low priority and takes a turn now and then, is neither followed nor talked about for ever.

use std::fmt;
use std::time::Duration;

/// What is known at a moment, all of it counted since the beginning.
#[derive(Debug, Default)]
pub(super) struct Moment {
    pub now: Duration,
    /// How long each worker was ready to run and did not.
    pub waited: Vec<Duration>,
    /// How long other threads of this process ran.
    pub own: Duration,
    /// How many steps were done, and how much that is, in any measure.
    pub steps: u64,
    pub work: u64,
    /// How long that took; the program does other things as well.
    pub working: Duration,
}

impl Moment {
    /// Nothing has happened yet.
    pub fn new(n_workers: usize) -> Self {
        Moment { waited: vec![Duration::ZERO; n_workers], ..Moment::default() }
    }
}

/// Something that was noticed about a core, and what came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Notice {
    /// The worker.
    pub worker: usize,
    /// Its core, as the system numbers them.
    pub core: usize,
    /// The share of the time for which the worker had its core or did not need it.
    pub share: f64,
    /// What was done about it.
    pub action: Action,
}

/// What was done about a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The worker moved to this core.
    Moved(usize),
    /// The worker rests, and another one stands in for it.
    Rests,
    /// The worker goes on, because less would be done without it.
    Endures,
    /// The worker goes on, because there is no other core and no other worker.
    Alone,
    /// The core is free again, and so the worker works again.
    Works,
}

impl Action {
    /// The action in a word.
    pub fn name(self) -> &'static str {
        match self {
            Action::Moved(_) => "moved",
            Action::Rests => "rests",
            Action::Endures => "endures",
            Action::Alone => "alone",
            Action::Works => "works",
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Notice { worker, core, share, action } = *self;
        if action == Action::Works {
            return write!(f, "core {core} is free again, and worker {worker} works on it");
        }
        let percent = 100.0 * share;
        write!(
            f,
            "worker {worker} had core {core} for {percent:.0} % of the time, as other programs run there: "
        )?;
        match action {
            Action::Moved(other) => write!(f, "it moves to core {other}"),
            Action::Rests => write!(f, "others do its work until the core is free"),
            Action::Endures => write!(f, "it goes on, since that is faster than without it"),
            Action::Alone => write!(f, "it goes on, since there is no other core for it"),
            Action::Works => Ok(()),
        }
    }
}

impl Notice {
    /// The same with the system's numbers of these cores.
    pub(super) fn on_cores(self, cores: &[usize]) -> Notice {
        let action = match self.action {
            Action::Moved(core) => Action::Moved(cores[core]),
            other => other,
        };
        Notice { core: cores[self.core], action, ..self }
    }
}

/// A core is busy if its worker lost this much of a window, and this share of it.
pub(super) const LEAST_LOST: Duration = Duration::from_millis(3);
pub(super) const LOST_SHARE: f64 = 0.3;
/// A window is judged when it is as long as this, and another begins when it is as long as that.
pub(super) const LEAST_WINDOW: Duration = Duration::from_millis(6);
pub(super) const WINDOW: Duration = Duration::from_millis(16);
/// A window that is to confirm the first, and several steps: what was done in it is compared with later.
pub(super) const CONFIRMING: Duration = Duration::from_millis(20);
pub(super) const LEAST_STEPS: u64 = 4;
/// For so long a core is tried.
pub(super) const TRYING: Duration = Duration::from_millis(24);
/// What a worker has in hand when it begins to rest does not count.
pub(super) const SETTLING: Duration = Duration::from_millis(4);
/// For so long it is looked what is done without it, and less than this share of what was done with it is too
/// little.
pub(super) const COMPARING: Duration = Duration::from_millis(12);
pub(super) const LEAST_RATE: f64 = 0.95;
/// A busy core is tried after so long, and then again and again. That costs nothing but the core's time.
pub(super) const FIRST_TRIAL: Duration = Duration::from_millis(100);
pub(super) const NEXT_TRIAL: Duration = Duration::from_millis(300);
/// For how long a busy core is endured: at first, and at most.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);
pub(super) const LAST_PAUSE: Duration = Duration::from_secs(5);

/// Where a worker is, and what is known about its core.
#[derive(Clone, Copy, Debug)]
struct Post {
    /// The core that the plan gave it.
    home: usize,
    core: usize,
    /// Who may stand in for it: workers of the same class.
    class: usize,
    is_resting: bool,
    /// Nothing is done before then: it rests, or its core is endured.
    until: Duration,
    /// For how long it is endured, the next time.
    pause: Duration,
    /// When its core was last found busy.
    found: Option<Duration>,
    /// Whether it was said that nothing can be done.
    is_told: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Watching,
    /// A worker's core was busy, and may be so only for a moment.
    Suspecting {
        worker: usize,
    },
    /// A worker has begun to rest: what it had in hand comes to its end.
    Settling {
        worker: usize,
        rate: f64,
        share: f64,
    },
    /// It rests, and what is done is compared with the rate from before.
    Comparing {
        worker: usize,
        rate: f64,
        share: f64,
    },
    /// It rests and spins, to see what its core is like.
    Trying {
        worker: usize,
    },
}

/// Decides where workers work.
#[derive(Debug)]
pub(super) struct Decisions {
    posts: Vec<Post>,
    /// When each core may be moved to again.
    avoided: Vec<Duration>,
    /// Who does whose work.
    hands: Vec<usize>,
    state: State,
    /// What was known when the window began.
    start: Moment,
    is_changed: bool,
}

impl Decisions {
    /// For workers on these of `n_cores` cores, of which those of a class may stand in for each other.
    pub fn new(homes: &[usize], classes: &[usize], n_cores: usize) -> Self {
        let post = |(&home, &class): (&usize, &usize)| Post {
            home,
            core: home,
            class,
            is_resting: false,
            until: Duration::ZERO,
            pause: FIRST_PAUSE,
            found: None,
            is_told: false,
        };
        Decisions {
            posts: homes.iter().zip(classes).map(post).collect(),
            avoided: vec![Duration::ZERO; n_cores],
            hands: (0..homes.len()).collect(),
            state: State::Watching,
            start: Moment::new(homes.len()),
            is_changed: false,
        }
    }

    /// Begins a window.
    pub fn begin(&mut self, at: &Moment) {
        let Moment { now, ref waited, own, steps, work, working } = *at;
        // Copied, since cloning would allocate.
        self.start.waited.copy_from_slice(waited);
        (self.start.now, self.start.own) = (now, own);
        (self.start.steps, self.start.work, self.start.working) = (steps, work, working);
    }

    /// Whether cores, hands or who tries is another than at the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// The core of each worker.
    pub fn cores(&self) -> impl Iterator<Item = usize> {
        self.posts.iter().map(|post| post.core)
    }

    /// Who does the work of each worker.
    pub fn hands(&self) -> &[usize] {
        &self.hands
    }

    /// Who spins to see what its core is like.
    pub fn trying(&self) -> Option<usize> {
        match self.state {
            State::Trying { worker } => Some(worker),
            _ => None,
        }
    }

    /// Lets everybody work where it did at first.
    pub fn undo(&mut self) {
        self.state = State::Watching;
        if self.posts.iter().all(|post| !post.is_resting && post.core == post.home) {
            return;
        }
        for post in &mut self.posts {
            (post.is_resting, post.core) = (false, post.home);
        }
        self.share_work();
    }

    /// Decides what to do next. Says what is worth saying.
    pub fn look(&mut self, at: &Moment) -> Option<Notice> {
        let lasted = at.now.saturating_sub(self.start.now);
        let n_steps = at.steps - self.start.steps;
        match self.state {
            State::Watching => self.watch(at, lasted),
            State::Suspecting { worker } if lasted >= CONFIRMING && n_steps >= LEAST_STEPS => {
                if self.is_busy(worker, at, lasted) {
                    return self.react(worker, at, lasted);
                }
                self.enter(State::Watching, at);
                None
            }
            State::Settling { worker, rate, share } if lasted >= SETTLING => {
                self.enter(State::Comparing { worker, rate, share }, at);
                None
            }
            State::Comparing { worker, rate, share } if lasted >= COMPARING && n_steps >= LEAST_STEPS => {
                let is_slower = self.rate(at)? < LEAST_RATE * rate;
                let action = if is_slower { Action::Endures } else { Action::Rests };
                self.posts[worker].until = at.now + FIRST_TRIAL;
                if is_slower {
                    self.work(worker);
                    self.endure(worker, at);
                }
                self.enter(State::Watching, at);
                self.tell(worker, share, action)
            }
            // Not sooner: who wakes up waits for the end of a turn, whatever else wants the core.
            State::Trying { worker } if lasted >= TRYING => {
                if self.is_busy(worker, at, lasted) {
                    self.posts[worker].until = at.now + NEXT_TRIAL;
                    self.is_changed = true;
                    self.enter(State::Watching, at);
                    return None;
                }
                let share = self.share(worker, at, lasted);
                self.work(worker);
                self.endure(worker, at);
                self.enter(State::Watching, at);
                self.tell(worker, share, Action::Works)
            }
            _ => None,
        }
    }

    fn watch(&mut self, at: &Moment, lasted: Duration) -> Option<Notice> {
        let is_due = |post: &Post| post.is_resting && post.until <= at.now;
        if let Some(worker) = self.posts.iter().position(is_due) {
            self.is_changed = true;
            self.enter(State::Trying { worker }, at);
            return None;
        }
        if lasted < LEAST_WINDOW {
            return None;
        }
        let is_watched = |&worker: &usize| {
            let post = &self.posts[worker];
            !post.is_resting && post.until <= at.now && self.is_busy(worker, at, lasted)
        };
        let busy = (0..self.posts.len()).filter(is_watched).max_by_key(|&worker| self.waited(worker, at));
        match busy {
            Some(worker) => self.enter(State::Suspecting { worker }, at),
            None if lasted >= WINDOW => self.begin(at),
            None => {}
        }
        None
    }

    /// Does something about a core that is busy.
    fn react(&mut self, worker: usize, at: &Moment, lasted: Duration) -> Option<Notice> {
        let (share, core) = (self.share(worker, at, lasted), self.posts[worker].core);
        let post = &mut self.posts[worker];
        // What was quiet for long is not a failure that goes on.
        if post.found.is_none_or(|found| at.now - found > LAST_PAUSE + 2 * post.pause) {
            post.pause = FIRST_PAUSE;
        }
        post.found = Some(at.now);
        self.avoided[core] = at.now + 2 * post.pause;
        if let Some(free) = self.free_core(at) {
            (self.posts[worker].core, self.is_changed) = (free, true);
            let post = &mut self.posts[worker];
            post.pause = longer(post.pause);
            self.enter(State::Watching, at);
            let notice = self.tell(worker, share, Action::Moved(free));
            return notice.map(|notice| Notice { core, ..notice });
        }
        let class = self.posts[worker].class;
        let is_able =
            |(other, post): (usize, &Post)| other != worker && post.class == class && !post.is_resting;
        if self.posts.iter().enumerate().any(is_able) {
            let rate = self.rate(at)?;
            self.rest(worker);
            self.enter(State::Settling { worker, rate, share }, at);
            return None;
        }
        self.endure(worker, at);
        self.enter(State::Watching, at);
        self.tell(worker, share, Action::Alone)
    }

    /// A core that no worker has, and that was not busy of late.
    fn free_core(&self, at: &Moment) -> Option<usize> {
        let is_taken = |core: &usize| self.posts.iter().any(|post| post.core == *core);
        (0..self.avoided.len()).find(|core| !is_taken(core) && self.avoided[*core] <= at.now)
    }

    fn enter(&mut self, state: State, at: &Moment) {
        self.state = state;
        self.begin(at);
    }

    /// Lets a worker work for a while, whatever its core is like, and for longer the next time.
    fn endure(&mut self, worker: usize, at: &Moment) {
        let post = &mut self.posts[worker];
        post.until = at.now + post.pause;
        post.pause = longer(post.pause);
    }

    fn rest(&mut self, worker: usize) {
        self.posts[worker].is_resting = true;
        self.share_work();
    }

    fn work(&mut self, worker: usize) {
        self.posts[worker].is_resting = false;
        self.share_work();
    }

    /// Gives the work of those who rest to those of their class that have least.
    fn share_work(&mut self) {
        let posts = &self.posts;
        for (worker, post) in posts.iter().enumerate() {
            self.hands[worker] = if post.is_resting { usize::MAX } else { worker };
        }
        for (worker, post) in posts.iter().enumerate().filter(|(_, post)| post.is_resting) {
            let load = |other: usize| self.hands.iter().filter(|&&hand| hand == other).count();
            let able = (0..posts.len())
                .filter(|&other| !posts[other].is_resting && posts[other].class == post.class);
            // Somebody of every class works, or nobody would have been let to rest.
            self.hands[worker] = able.min_by_key(|&other| load(other)).unwrap_or(worker);
        }
        self.is_changed = true;
    }

    /// How long a worker waited in this window.
    fn waited(&self, worker: usize, at: &Moment) -> Duration {
        at.waited[worker].saturating_sub(self.start.waited[worker])
    }

    /// Whether other programs kept a worker from running for much of the window. Of what other threads of
    /// this process ran for, every core has its part.
    fn is_busy(&self, worker: usize, at: &Moment, lasted: Duration) -> bool {
        let own = at.own.saturating_sub(self.start.own) / self.avoided.len() as u32;
        let lost = self.waited(worker, at).saturating_sub(own);
        lost >= LEAST_LOST && lost >= lasted.mul_f64(LOST_SHARE)
    }

    fn share(&self, worker: usize, at: &Moment, lasted: Duration) -> f64 {
        1.0 - (self.waited(worker, at).as_secs_f64() / lasted.as_secs_f64()).min(1.0)
    }

    /// What was done per second in this window, if anything was.
    fn rate(&self, at: &Moment) -> Option<f64> {
        let seconds = at.working.saturating_sub(self.start.working).as_secs_f64();
        let work = at.work - self.start.work;
        (work > 0 && seconds > 0.0).then(|| work as f64 / seconds)
    }

    /// Says it, unless it was said before and nothing has happened since.
    fn tell(&mut self, worker: usize, share: f64, action: Action) -> Option<Notice> {
        let post = &mut self.posts[worker];
        let is_helpless = matches!(action, Action::Endures | Action::Alone);
        let is_said = is_helpless && post.is_told;
        post.is_told = is_helpless;
        (!is_said).then_some(Notice { worker, core: post.core, share, action })
    }
}

fn longer(pause: Duration) -> Duration {
    (4 * pause).min(LAST_PAUSE)
}
