//! What a session needs of the way in which its graph is executed.

use super::pool::Source;

/// A graph under execution: [`Replay`](super::replay::Replay) of a plan, or a
/// [`Dynamic`](super::dynamic::Dynamic) run with a scheduler.
pub(super) trait Executor: Source {
    /// Lets workers execute all steps before `step`.
    fn release(&self, step: u64);

    /// Steps that are finished; they finish in order.
    fn finished(&self) -> u64;

    /// Sleeps until `steps` steps are finished.
    fn wait(&self, steps: u64);
}
