//! Work on several threads. A system that has no more threads to give is no error: then the thread that asks
//! does the work.

use std::panic;
use std::thread::{Builder, scope};

/// Does the same work for each of some things, at once; the results are in the order of the things.
pub(super) fn each<I, T, const N: usize>(things: [I; N], work: impl Fn(I) -> T + Sync) -> [T; N]
where
    I: Copy + Send,
    T: Send,
{
    scope(|scope| {
        let work = &work;
        things.map(|thing| Builder::new().spawn_scoped(scope, move || work(thing)).map_err(|_| thing)).map(
            |started| match started {
                Ok(thread) => thread.join().unwrap_or_else(|cause| panic::resume_unwind(cause)),
                Err(thing) => work(thing),
            },
        )
    })
}

/// Calls `work`, which ends when nothing is left to do, on so many threads, this one among them.
pub(super) fn crowd(n_threads: usize, work: impl Fn() + Sync) {
    scope(|scope| {
        for _ in 1..n_threads {
            if Builder::new().spawn_scoped(scope, &work).is_err() {
                break;
            }
        }
        work();
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn results_are_in_the_order_of_the_things() {
        assert_eq!(each([3, 1, 2], |i| i * i), [9, 1, 4]);
    }

    #[test]
    fn everybody_works_and_one_is_enough() {
        for n in [0, 1, 4] {
            let n_calls = AtomicUsize::new(0);
            crowd(n, || {
                n_calls.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(n_calls.into_inner(), n.max(1));
        }
    }
}
