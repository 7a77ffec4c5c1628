//! Who gets which part of the work, where units are not equally fast.

use super::Machine;

/// Shares of units of a machine in a whole, in worker order: each unit has the places between where the ones
/// before it end and where its own share does.
///
/// A place is a number out of a whole: of a tile out of their count, or of a byte out of an array. The same
/// place of every task goes to the same unit, so that a chunk of samples stays where it is from the first
/// layer to the last and back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Where the share of each unit ends, in parts of the last of them.
    ends: Vec<u64>,
    /// The units.
    units: Vec<usize>,
}

/// Parts of the largest share, where shares differ.
const PARTS: f64 = 1e6;

impl Shares {
    /// Shares of all units of a machine, which take so many seconds for the same work. Equal times give equal
    /// shares, exactly.
    pub fn by_seconds(seconds: &[f64]) -> Shares {
        let least = seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let are_equal = seconds.iter().all(|&seconds| seconds == least);
        let share = |&seconds: &f64| match are_equal || least <= 0.0 {
            true => 1,
            // Whoever is a million times slower than the fastest gets nothing.
            false => (PARTS * least / seconds).round() as u64,
        };
        let end = |end: &mut u64, share: u64| {
            *end += share;
            Some(*end)
        };
        let units = (0..seconds.len()).collect();
        Shares { ends: seconds.iter().map(share).scan(0, end).collect(), units }
    }

    /// The shares of those units of a machine that run a code in the tasks of that code: by how long each
    /// would take for all of them, given as operations and bytes. None if no unit runs it.
    pub fn of(
        machine: &Machine,
        code: &str,
        tasks: impl Iterator<Item = (f64, f64)> + Clone,
    ) -> Option<Shares> {
        let of_kind: Vec<f64> = match &machine.kinds[..] {
            [_] => vec![1.0],
            kinds => {
                let seconds = |speed: super::Speed| {
                    tasks.clone().map(|(flops, bytes)| speed.seconds(flops, bytes)).sum::<f64>()
                };
                kinds.iter().map(|kind| seconds(kind.speed)).collect()
            }
        };
        let units: Vec<usize> = (0..machine.units.len()).filter(|&unit| machine.runs(unit, code)).collect();
        let seconds: Vec<f64> = units.iter().map(|&unit| of_kind[machine.units[unit].kind]).collect();
        (!units.is_empty()).then(|| Shares { units, ..Shares::by_seconds(&seconds) })
    }

    /// The unit that a place out of a whole goes to.
    pub fn unit(&self, (place, whole): (usize, usize)) -> usize {
        let Some(&all) = self.ends.last() else { return 0 };
        // Places may be bytes of a large array, so the product may not fit the type.
        let part = place as u128 * u128::from(all) / whole.max(1) as u128;
        self.units[self.ends.partition_point(|&end| u128::from(end) <= part).min(self.ends.len() - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_units_have_equal_shares() {
        for n in 1..9 {
            let shares = Shares::by_seconds(&vec![0.37; n]);
            for whole in [1, 2, 3, 4, 7, 64, 1000] {
                for place in 0..whole {
                    assert_eq!(shares.unit((place, whole)), place * n / whole);
                }
            }
        }
        let shares = Shares::by_seconds(&[1.0, 1.0]);
        assert_eq!(shares.unit((usize::MAX - 1, usize::MAX)), 1);
        assert_eq!((shares.unit((0, 0)), Shares::by_seconds(&[]).unit((3, 4))), (0, 0));
    }

    #[test]
    fn whoever_is_faster_gets_more() {
        let shares = Shares::by_seconds(&[1.0, 2.0, 4.0]);
        let mut count = [0; 3];
        (0..700).for_each(|place| count[shares.unit((place, 700))] += 1);
        assert_eq!(count, [400, 200, 100]);
        // Somebody who is hopelessly slow gets nothing, wherever it stands.
        for seconds in [[1e9, 1.0, 1.0], [1.0, 1e9, 1.0], [1.0, 1.0, 1e9]] {
            let shares = Shares::by_seconds(&seconds);
            let slow = seconds.iter().position(|&seconds| seconds > 1.0).unwrap();
            assert!((0..1000).all(|place| shares.unit((place, 1000)) != slow));
        }
        assert_eq!(Shares::by_seconds(&[0.0, 0.0]).unit((3, 4)), 1);
    }
}
