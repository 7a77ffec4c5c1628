//! What the time of a task depends on: the key that measurements are kept by.
//!
//! A key is made from a task: codelet, implementation and version, element type, kind of unit, and
//! *footprint* (shapes, layouts and integer parameters of the tile). The rest is the condition: whether the
//! plan lets the task find its inputs in its worker's caches (`plan/reuse.rs`), and how many workers are at
//! work. Of arrays that data index, such as the images that a batch is gathered from, only what is read
//! counts as moved; otherwise every batch would move the whole data set.

use crate::graph::Task;
use crate::trace::{TaskInfo, code};
use crate::words::{Words, escaped, paired};
use std::fmt;
use std::str::FromStr;

/// What is computed, by which code, on what kind of unit, on which shapes. Executions with the same key are
/// expected to take the same time under the same [`Condition`].
///
/// The text form is six words in the order of the fields, the algorithm after the implementation and a slash,
/// where there is one; what is not a visible ASCII character is `%` and two digits.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The codelet's name.
    pub codelet: String,
    /// The implementation's name.
    pub implementation: String,
    /// The algorithms that its kernel takes for these shapes, where it chooses by itself; see
    /// [`Codelet::algorithms`](method@crate::codelet::Codelet::algorithms). What one took says nothing about
    /// another one.
    pub algorithm: String,
    /// The implementation's version. What another version of a kernel took says nothing about this one.
    pub version: u32,
    /// The kind of unit, such as `cpu`.
    pub unit: String,
    /// The element type it computes in.
    pub dtype: String,
    /// Shapes, layouts and integer parameters; see [`Task::footprint`].
    pub footprint: String,
}

impl Key {
    /// The key of a task of a trace, executed by a unit of this kind.
    pub fn of_info(info: &TaskInfo, unit: &str) -> Key {
        Key {
            codelet: info.codelet.clone(),
            implementation: info.implementation.clone(),
            algorithm: info.algorithm.clone(),
            version: info.version,
            unit: unit.to_string(),
            dtype: info.dtype.clone(),
            footprint: info.footprint.clone(),
        }
    }

    /// The key of a task of a lowered graph, executed by a unit of this kind.
    pub fn of_task(task: &Task, unit: &str) -> Key {
        Key {
            codelet: task.codelet.to_string(),
            implementation: task.implementation.to_string(),
            algorithm: task.algorithm.clone(),
            version: task.version,
            unit: unit.to_string(),
            dtype: task.dtype.to_string(),
            footprint: task.footprint(),
        }
    }

    /// The implementation's name, then a slash and the algorithm if there is one.
    pub fn code(&self) -> String {
        code(&self.implementation, &self.algorithm)
    }

    /// Whether the other key is the same code on other shapes: also the same algorithm.
    pub fn is_same_code(&self, other: &Key) -> bool {
        (&self.codelet, &self.implementation, &self.algorithm, self.version)
            == (&other.codelet, &other.implementation, &other.algorithm, other.version)
            && (&self.unit, &self.dtype) == (&other.unit, &other.dtype)
    }

    /// Reads the words of a key.
    pub(super) fn read(words: &mut Words<'_>) -> Result<Key, String> {
        let codelet = words.text("a codelet")?;
        let (implementation, algorithm) = words.pair("an implementation")?;
        Ok(Key {
            codelet,
            implementation,
            algorithm,
            version: words.number("a version")?,
            unit: words.text("a kind of unit")?,
            dtype: words.text("an element type")?,
            footprint: words.text("a footprint")?,
        })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (codelet, implementation) =
            (escaped(&self.codelet), paired(&self.implementation, &self.algorithm));
        let (unit, dtype, footprint) = (escaped(&self.unit), escaped(&self.dtype), escaped(&self.footprint));
        write!(f, "{codelet} {implementation} {} {unit} {dtype} {footprint}", self.version)
    }
}

impl FromStr for Key {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = Words::of(text);
        let key = Key::read(&mut words)?;
        words.finished()?;
        Ok(key)
    }
}

/// Under which circumstances a task was executed, or will be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Condition {
    /// Whether most of what it read had to come from outside of its worker's caches.
    pub is_cold: bool,
    /// How many workers were at work: they share caches, bandwidth and the clock.
    pub workers: u32,
}

impl Condition {
    /// How unlike another condition it is: one for twice the workers, two for three times, and one for the
    /// other warmth.
    pub(super) fn distance(self, other: Condition) -> f64 {
        let (a, b) = (f64::from(self.workers.max(1)), f64::from(other.workers.max(1)));
        a.max(b) / a.min(b) - 1.0 + f64::from(u8::from(self.is_cold != other.is_cold))
    }

    pub(super) fn read(words: &mut Words<'_>) -> Result<Condition, String> {
        let is_cold = match words.word("'cold' or 'warm'")? {
            COLD => true,
            WARM => false,
            other => return Err(format!("expected '{COLD}' or '{WARM}', not '{other}'")),
        };
        Ok(Condition { is_cold, workers: words.number("a number of workers")? })
    }
}

const COLD: &str = "cold";
const WARM: &str = "warm";

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", if self.is_cold { COLD } else { WARM }, self.workers)
    }
}
