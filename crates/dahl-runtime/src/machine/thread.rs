//! What a thread gets of its core: how long it ran, and how long it was ready to run while others did.

#![cfg_attr(target_os = "linux", expect(unsafe_code, reason = "calls the C library"))]

use std::time::Duration;

/// What a thread got of its core since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreTime {
    /// How long it ran.
    pub ran: Duration,
    /// How long it was ready to run while its core did something else. Sleeping is not waiting.
    pub waited: Duration,
}

/// A thread of this process, for others to look at and to move. It must outlive what is asked about it: the
/// system may give its number to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadId(#[cfg(target_os = "linux")] libc::pid_t);

impl ThreadId {
    /// The calling thread, where the system numbers threads.
    pub fn current() -> Option<ThreadId> {
        #[cfg(target_os = "linux")]
        {
            // SAFETY: it returns a number and has no other effect.
            Some(ThreadId(unsafe { libc::gettid() }))
        }
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// Pins the thread to one of the cores that the caller may use, as
    /// [`pin_current_thread`](super::pin_current_thread) does.
    pub fn pin(self, core: usize) {
        #[cfg(target_os = "linux")]
        super::pin::keep_thread_to(self.0, core..core.saturating_add(1));
        #[cfg(not(target_os = "linux"))]
        let _ = core;
    }
}

/// Tells again and again what a thread got of its core, in about two microseconds and without allocating.
#[derive(Debug)]
pub struct CoreClock {
    #[cfg(target_os = "linux")]
    file: std::fs::File,
    #[cfg(target_os = "linux")]
    thread: libc::pid_t,
}

impl CoreClock {
    /// The clock of a thread; none where the system does not tell such things.
    pub fn of(thread: ThreadId) -> Option<CoreClock> {
        #[cfg(target_os = "linux")]
        {
            let path = format!("/proc/self/task/{}/schedstat", thread.0);
            let clock = CoreClock { file: crate::file::open_system(path.as_ref()).ok()?, thread: thread.0 };
            clock.read().map(|_| clock)
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = thread;
            None
        }
    }

    /// What the thread got until now.
    pub fn read(&self) -> Option<CoreTime> {
        #[cfg(target_os = "linux")]
        {
            use std::os::unix::fs::FileExt;
            // Three numbers: nanoseconds that it ran, as of the last tick, nanoseconds that it waited, turns.
            let mut text = [0_u8; 80];
            let n = self.file.read_at(&mut text, 0).ok()?;
            let mut numbers = str::from_utf8(&text[..n]).ok()?.split_ascii_whitespace();
            let waited = Duration::from_nanos(numbers.nth(1)?.parse().ok()?);
            // The kernel's number of a thread's clock: its inverted number, and that it is a thread's time as
            // the scheduler counts it. The C library has it for threads that it started itself, only.
            let ran = time_on((!self.thread << 3) | 6)?;
            Some(CoreTime { ran, waited })
        }
        #[cfg(not(target_os = "linux"))]
        None
    }
}

/// How long all threads of this process ran. None where the system does not tell.
pub fn process_time() -> Option<Duration> {
    #[cfg(target_os = "linux")]
    {
        time_on(libc::CLOCK_PROCESS_CPUTIME_ID)
    }
    #[cfg(not(target_os = "linux"))]
    None
}

#[cfg(target_os = "linux")]
fn time_on(clock: libc::clockid_t) -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the C library fills in the structure, which outlives the call, and keeps nothing.
    let failed = unsafe { libc::clock_gettime(clock, &mut time) } != 0;
    (!failed).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_thread_that_computes_runs_and_one_that_sleeps_does_not() {
        let (say, hear) = mpsc::channel();
        let (end, until_end) = mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            say.send(ThreadId::current()).unwrap();
            let _ = until_end.recv();
        });
        let (Some(other), Some(own)) = (hear.recv().unwrap(), ThreadId::current()) else {
            panic!("Linux numbers threads")
        };
        let (Some(other), Some(own)) = (CoreClock::of(other), CoreClock::of(own)) else {
            return eprintln!("skipped: this system has no schedstat");
        };
        std::thread::sleep(Duration::from_millis(2));
        let (before, asleep) = (own.read().unwrap(), other.read().unwrap());
        let mut now = before;
        while now.ran - before.ran < Duration::from_millis(5) {
            now = own.read().unwrap();
        }
        assert!(now.waited >= before.waited);
        assert_eq!(other.read().unwrap(), asleep);
        assert!(process_time().unwrap() >= now.ran);
        end.send(()).unwrap();
        sleeper.join().unwrap();
    }
}
