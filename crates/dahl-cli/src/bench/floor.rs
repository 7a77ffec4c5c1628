//! What the machine allows: the time of a step's arithmetic at the measured peak, and of the bytes that it
//! cannot do without.
//!
//! Arithmetic is that of direct convolutions and matrix products; images come out of memory, weights from the
//! nearest cache that holds them. What tasks move beyond that is not in the floor. A convolution with fewer
//! multiplications (Winograd) may be faster than the floor of its arithmetic: its rate is then *effective*
//! GFLOP/s, counted by the direct algorithm.

use dahl::tune::Least;
use dahl_runtime::machine::Peaks;

/// The least seconds of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floor {
    /// Of its products, at the peak of all workers.
    pub flop_seconds: f64,
    /// Of its images, out of memory, and of its weights, which every worker reads at least once from wherever
    /// they find room.
    pub byte_seconds: f64,
    /// The peak of all workers.
    pub flops_per_second: f64,
    /// What all workers together can read from memory.
    pub bytes_per_second: f64,
}

impl Floor {
    /// The floor of a step on workers that have these peaks each.
    pub fn new(least: &Least, peaks: &Peaks, dtype: &str, workers: usize) -> Floor {
        let all = |per_worker: f64| per_worker * workers as f64;
        let flops_per_second = all(peaks.flops(dtype));
        let bytes_per_second =
            all(peaks.levels.last().map_or(f64::INFINITY, |memory| memory.bytes_per_second));
        let weights = peaks.level(least.weight_bytes, false);
        let weights = weights.map_or(0.0, |level| least.weight_bytes as f64 / level.bytes_per_second);
        Floor {
            flop_seconds: least.flops / flops_per_second,
            byte_seconds: least.image_bytes as f64 / bytes_per_second + weights,
            flops_per_second,
            bytes_per_second,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dahl_runtime::machine::Level;

    #[test]
    fn images_come_from_memory_and_weights_from_the_nearest_place() {
        let level =
            |bytes, bytes_per_second| Level { name: "L".into(), bytes, is_own: false, bytes_per_second };
        let levels = vec![level(Some(1000), 100.0), level(None, 10.0)];
        let peaks = Peaks { flops_f32: 200.0, flops_f64: 100.0, levels };
        let least = Least { flops: 4000.0, image_bytes: 400, weight_bytes: 1000 };
        let floor = Floor::new(&least, &peaks, "f32", 2);
        assert_eq!((floor.flop_seconds, floor.byte_seconds), (10.0, 20.0 + 10.0));
        let large = Floor::new(&Least { weight_bytes: 1001, ..least }, &peaks, "f64", 1);
        assert_eq!((large.flop_seconds, large.byte_seconds), (40.0, 40.0 + 100.1));
    }
}
