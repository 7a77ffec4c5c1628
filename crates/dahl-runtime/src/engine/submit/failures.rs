//! What failed tasks leave behind: regions whose content must not be used, with the cause.
//!
//! A task that fails poisons its outputs before it finishes, so whoever depends on it sees that. A task that
//! reads poisoned data does not run and poisons its own outputs with the same cause; one that overwrites
//! poisoned data without reading it heals it. As long as nothing has failed, all of this costs one load per
//! task.

use super::templates::Argument;
use crate::error::Error;
use crate::graph::deps::subtract;
use crate::shape::Region;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, lock};

#[derive(Default)]
pub(crate) struct Failures {
    n: AtomicUsize,
    poisoned: Mutex<Vec<Poisoned>>,
}

struct Poisoned {
    base: usize,
    region: Region,
    cause: Error,
}

impl Failures {
    /// Whether anything is poisoned. Whoever depends on a failed task sees its poison: the counter was raised
    /// before that task finished.
    #[inline]
    pub fn any(&self) -> bool {
        self.n.load(Ordering::Relaxed) > 0
    }

    /// Why this region must not be used, if it must not.
    pub fn cause(&self, base: usize, region: &Region) -> Option<Error> {
        if !self.any() {
            return None;
        }
        let poisoned = lock(&self.poisoned);
        let hit = poisoned.iter().find(|p| p.base == base && p.region.overlaps(region));
        hit.map(|p| p.cause.clone())
    }

    /// Why a task must not run, if it must not: `reads` says which arguments' former content it needs.
    pub fn cause_of(&self, args: &[Argument], reads: &[bool]) -> Option<Error> {
        let needed = args.iter().zip(reads).filter(|(_, reads)| **reads);
        needed.into_iter().find_map(|(arg, _)| self.cause(arg.base, &arg.region))
    }

    /// Records how a task with these outputs ended.
    pub fn record(&self, outputs: &[Argument], outcome: Result<(), Error>) {
        if outcome.is_ok() && !self.any() {
            return;
        }
        let mut poisoned = lock(&self.poisoned);
        for output in outputs {
            // A view whose region holds more than its own elements has not overwritten all of it.
            if outcome.is_ok() && output.shape.len() != output.region.len() {
                continue;
            }
            cut(&mut poisoned, output.base, &output.region);
            if let Err(cause) = &outcome {
                poisoned.push(Poisoned { base: output.base, region: output.region, cause: cause.clone() });
            }
        }
        self.n.store(poisoned.len(), Ordering::Relaxed);
    }

    /// Forgets a base whose number will stand for another allocation.
    pub fn drop_base(&self, base: usize) {
        if self.any() {
            let mut poisoned = lock(&self.poisoned);
            poisoned.retain(|p| p.base != base);
            self.n.store(poisoned.len(), Ordering::Relaxed);
        }
    }
}

/// Takes a region out of what is poisoned.
fn cut(poisoned: &mut Vec<Poisoned>, base: usize, region: &Region) {
    let mut rest = Vec::new();
    poisoned.retain(|p| {
        let met = p.base == base && p.region.overlaps(region);
        if met {
            let mut boxes = Vec::new();
            subtract(&p.region, region, &mut boxes);
            rest.extend(boxes.into_iter().map(|region| Poisoned { base, region, cause: p.cause.clone() }));
        }
        !met
    });
    poisoned.append(&mut rest);
}
