//! How fast a worker can be at best, and what follows for a task: never faster than its arithmetic, nor than
//! its data.

use super::Speed;
use crate::shape::Dtype;

/// A place that data comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// `L1`, `L2`, … or `memory`.
    pub name: String,
    /// What it holds; none for memory.
    pub bytes: Option<u64>,
    /// Whether it is one worker's own: a cold task does not find its data there.
    pub is_own: bool,
    /// Bytes that one worker can read from it per second.
    pub bytes_per_second: f64,
}

/// The best that one worker can do while as many others are at work.
#[derive(Clone, Debug, PartialEq)]
pub struct Peaks {
    /// Operations per second on f32.
    pub flops_f32: f64,
    /// Operations per second on f64.
    pub flops_f64: f64,
    /// Where data comes from, nearest first.
    pub levels: Vec<Level>,
}

impl Peaks {
    /// Round numbers of an ordinary core, for machines that have not been measured: good for comparing tasks
    /// with each other, not for saying how good they are.
    pub fn nominal() -> Peaks {
        let Speed { flops_per_second, bytes_per_second, .. } = Speed::NOMINAL;
        let memory = Level { name: "memory".to_string(), bytes: None, is_own: false, bytes_per_second };
        Peaks { flops_f32: flops_per_second, flops_f64: flops_per_second / 2.0, levels: vec![memory] }
    }

    /// Operations per second on elements of this type.
    pub fn flops(&self, dtype: &str) -> f64 {
        if dtype == Dtype::F64.to_string() { self.flops_f64 } else { self.flops_f32 }
    }

    /// The nearest level that can hold a task's data: all of it for a warm task, and not a worker's own for a
    /// cold one.
    pub fn level(&self, bytes: usize, is_cold: bool) -> Option<&Level> {
        let fits = |level: &&Level| {
            level.bytes.is_none_or(|capacity| bytes as u64 <= capacity) && !(is_cold && level.is_own)
        };
        self.levels.iter().find(fits).or(self.levels.last())
    }

    /// The least seconds that a task could take: those of its arithmetic or of its data, whichever is more.
    pub fn seconds(&self, dtype: &str, flops: f64, bytes: usize, is_cold: bool) -> f64 {
        let data = self.level(bytes, is_cold).map_or(0.0, |level| bytes as f64 / level.bytes_per_second);
        (flops / self.flops(dtype)).max(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peaks() -> Peaks {
        let level = |name: &str, bytes, is_own, rate| Level {
            name: name.to_string(),
            bytes,
            is_own,
            bytes_per_second: rate,
        };
        let levels = vec![
            level("L1", Some(1000), true, 100.0),
            level("L3", Some(10_000), false, 50.0),
            level("memory", None, false, 10.0),
        ];
        Peaks { flops_f32: 200.0, flops_f64: 100.0, levels }
    }

    #[test]
    fn a_task_takes_at_least_the_longer_of_arithmetic_and_data() {
        let peaks = peaks();
        assert_eq!(peaks.seconds("f32", 400.0, 100, false), 2.0);
        assert_eq!(peaks.seconds("f64", 400.0, 100, false), 4.0);
        assert_eq!(peaks.seconds("f32", 0.0, 500, false), 5.0);
        assert_eq!(peaks.seconds("f32", 0.0, 500, true), 10.0, "not from a cache of its own");
        assert_eq!(peaks.seconds("f32", 0.0, 20_000, false), 2000.0);
        assert_eq!(peaks.seconds("f32", 0.0, 0, true), 0.0);
        assert_eq!(Peaks { levels: Vec::new(), ..peaks }.seconds("f32", 100.0, 1, false), 0.5);
    }
}
