//! The boundary between a run and whoever executes it: what an engine promises, and what it is asked.
//!
//! An [`Engine`] binds a planned graph, and gives back [`Steps`] that a [`Session`](super::Session) runs: it
//! lends them the store, has ports filled, releases steps, waits, and has outputs read. Sessions, training
//! and tools know nothing else of an engine, so worker threads, a virtual clock or somebody else's runtime
//! are alike to them.
//!
//! An engine of another crate finds here and beside it what it needs: a [`Runner`] calls kernels, turns
//! panics into errors, records events and says who is stuck; [`Rings`] are the addresses of ports and
//! outputs; a [`Store`] has the state, a [`Workspace`] the memory of steps; [`Versions`](super::Versions) say
//! which version a step uses. Threads that it starts itself [become workers](super::become_worker).

#![expect(unsafe_code, reason = "implementing an engine is a promise")]

use super::busy::Lookout;
use super::memory::Store;
use super::rings::Rings;
use super::runner::Runner;
use super::workspace::Workspace;
use crate::error::{Error, Result};
use crate::graph::Lowered;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::sync::Arc;
use crate::trace::Trace;
use std::fmt;
use std::time::Duration;

/// Something that executes planned graphs on the units of a machine.
///
/// # Safety
/// Kernels are called with the addresses that an engine chooses, and may do anything there. Whoever
/// implements it promises, for every step that was released, that each task is executed exactly once, or
/// passed over after a [failure](Runner::has_failed), after everything that it depends on by the edges of the
/// graph, and where offsets are those of the plan, by the edges of the plan; that kernels get addresses as
/// [`Runner::call`] asks for; and that the [`Steps`] it makes keep what their methods say.
pub unsafe trait Engine: Send + Sync {
    /// The machine whose units execute tasks.
    fn machine(&self) -> &Machine;

    /// Makes a planned graph ready to run, and keeps the newest `trace_capacity` events of each unit. Refuses
    /// a plan that is not for this graph ([`Plan::check`]) and machine.
    ///
    /// An engine keeps to the units and the order of a plan, and to its offsets, in memory that it takes from
    /// the workspace ([`Workspace::reserve`], [`Workspace::enter`]); then the plan's copies are its to make,
    /// and the plan's edges its to wait for. Or it has memory of its own, where every version of every buffer
    /// has a place that it shares with nothing; then the edges of the graph are all there is to wait for.
    fn bind(
        self: Arc<Self>,
        lowered: &Lowered,
        plan: &Plan,
        workspace: &Workspace,
        trace_capacity: usize,
    ) -> Result<Box<dyn Steps>>;

    /// Somebody to see which cores other programs use, where units are threads of this process on cores.
    fn lookout(self: Arc<Self>) -> Option<Lookout> {
        None
    }
}

impl fmt::Debug for dyn Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("machine", self.machine()).finish_non_exhaustive()
    }
}

/// The steps of a graph that an engine has bound. Steps are numbered from 0 over all runs, and finish in
/// order.
///
/// # Safety
/// As for [`Engine`], whose promise this is a part of: between [`Steps::begin`] and [`Steps::end`] tasks
/// touch the arrays of the store and the memory of the workspace, and at no other time; what
/// [`Steps::rings`] points at is valid in between, and no task touches a version of a port or an output
/// while the program may (see [`Rings`]).
pub unsafe trait Steps: Send {
    /// Begins a run with step `first` on the arrays of a store, which nobody else uses until its end. Refuses
    /// a store that lacks the state of the graph, and a workspace that is in use.
    fn begin(&mut self, store: &mut Store, first: u64) -> Result<()>;

    /// The ports and outputs in the host's memory.
    fn rings(&self) -> &Rings;

    /// Notes that the program is about to fill the ports of a step, none of whose tasks is released. They are
    /// the program's until it is, or until the run ends without it: a program that panics releases nothing.
    fn own_ports(&self, step: u64);

    /// Brings the outputs of a finished step into the host's memory, for the program, whose they are until
    /// the step that uses these versions next is released. What goes wrong is a
    /// [failure](Runner::fail), and ends the run.
    fn fetch_outputs(&self, step: u64);

    /// Lets all steps before `step` be executed. It is called on the program's thread, and may take as long
    /// as an engine needs to be given their tasks.
    fn release(&self, step: u64);

    /// Steps that are finished.
    fn finished(&self) -> u64;

    /// Sleeps until `steps` steps are finished, for at most `limit`. Returns whether they are.
    fn wait(&self, steps: u64, limit: Option<Duration>) -> bool;

    /// Ends a run of `n` steps, all of which are finished: state is back in the store.
    fn end(&mut self, store: &mut Store, n: u64);

    /// Gives up a run whose tasks may never finish. What they work on is taken out of the store
    /// ([`Store::abandon`]) and kept for them, as is the workspace ([`Lease::lose`](super::Lease::lose)),
    /// also after the steps were dropped.
    fn give_up(&mut self, store: &mut Store);

    /// Whoever calls kernels, for failures, cancelling and watching.
    fn runner(&self) -> &Runner;

    /// Says what a run is stuck in, in which no task has finished for so long; see [`Runner::stuck`].
    fn stuck(&self, limit: Duration) -> Error;

    /// Adds the events since the last call to a trace, with the length of its ticks; see
    /// [`Runner::take_events`].
    fn take_events(&mut self, trace: &mut Trace);
}
