//! What a session needs of the way in which its graph is executed.

use super::pool::WorkSource;
use super::watchdog::Blocked;
use crate::trace::recorder::Look;
use std::time::Duration;

/// A graph under execution: [`Replay`](super::replay::Replay) of a plan, or a
/// [`Dynamic`](super::dynamic::Dynamic) run with a scheduler.
pub(super) trait Executor: WorkSource {
    /// Lets workers execute all steps before `step`.
    fn release(&self, step: u64);

    /// Steps that are finished; they finish in order.
    fn finished(&self) -> u64;

    /// Sleeps until `steps` steps are finished, for at most `limit`. Returns whether they are.
    fn wait(&self, steps: u64, limit: Option<Duration>) -> bool;

    /// The tasks that wait, and for what, for the watchdog. `looks` says what the workers are doing.
    fn blocked(&self, looks: &[Look]) -> Vec<Blocked>;
}
