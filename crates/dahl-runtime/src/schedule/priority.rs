//! How urgent tasks are: what the program says, and else how much work comes after them.

use crate::graph::Lowered;
use crate::machine::Machine;

/// A priority for every task: higher goes first.
///
/// Priorities that were recorded (see [`Graph::set_priority`](crate::graph::Graph::set_priority)) come before
/// everything else. Among equal ones, the longest chain of estimated work from the task to the end of the
/// step decides: what much work waits for must not wait itself.
pub fn priorities(lowered: &Lowered, machine: &Machine) -> Vec<f64> {
    let (tasks, speed) = (lowered.tasks(), machine.mean_speed());
    let seconds: Vec<f64> = tasks.iter().map(|task| task.seconds(&speed)).collect();
    let mut chain = seconds.clone();
    // Edges are sorted by where they start and go to higher numbers.
    for edge in lowered.edges().iter().rev().filter(|edge| edge.distance == 0) {
        let (from, to) = (edge.from as usize, edge.to as usize);
        chain[from] = chain[from].max(seconds[from] + chain[to]);
    }
    let longest = chain.iter().fold(0.0, |a: f64, &b| a.max(b)) + 1.0;
    chain.iter().zip(tasks).map(|(chain, task)| chain + f64::from(task.priority) * longest).collect()
}
