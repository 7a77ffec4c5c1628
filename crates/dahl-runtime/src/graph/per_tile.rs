//! Something that every tile has: an implementation, a layout.
//!
//! Nearly always all tiles have the same. Where they differ, long runs of neighbours do not, so runs are
//! kept, and not tiles.

/// A value for every tile of a task or an array, in the order of the tiles.
#[derive(Clone, Debug, PartialEq)]
pub struct PerTile<T> {
    /// Values of the first tiles, each with the number of the tile at which it ends.
    before: Vec<(usize, T)>,
    /// The value of all others.
    last: T,
}

impl<T> From<T> for PerTile<T> {
    fn from(of_all: T) -> Self {
        PerTile { before: Vec::new(), last: of_all }
    }
}

impl<T: Copy + PartialEq> PerTile<T> {
    /// A value for each tile. The last one holds for all tiles that may follow.
    pub fn of_runs(runs: impl IntoIterator<Item = (usize, T)>) -> Option<Self> {
        let mut ends: Vec<(usize, T)> = Vec::new();
        for (count, value) in runs.into_iter().filter(|(count, _)| *count > 0) {
            let end = ends.last().map_or(0, |(end, _)| *end).saturating_add(count);
            match ends.last_mut() {
                Some((last, known)) if *known == value => *last = end,
                _ => ends.push((end, value)),
            }
        }
        let (_, last) = ends.pop()?;
        Some(PerTile { before: ends, last })
    }

    /// The value of a tile.
    pub fn of(&self, tile: usize) -> T {
        self.before.iter().find(|(end, _)| tile < *end).map_or(self.last, |(_, value)| *value)
    }

    /// The value that all tiles have, if they have the same.
    pub fn only(&self) -> Option<T> {
        self.before.is_empty().then_some(self.last)
    }

    /// The values of all runs.
    pub fn values(&self) -> impl Iterator<Item = T> {
        self.before.iter().map(|(_, value)| *value).chain([self.last])
    }

    /// How many of so many tiles have which value, one run after the other.
    pub fn runs(&self, n_tiles: usize) -> Vec<(usize, T)> {
        let ends = self.before.iter().copied().chain([(usize::MAX, self.last)]);
        let mut start = 0;
        let mut runs = Vec::new();
        for (end, value) in ends {
            let end = end.min(n_tiles);
            if end > start {
                runs.push((end - start, value));
                start = end;
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_neighbours_are_one_run() {
        let all = PerTile::from('a');
        assert_eq!((all.only(), all.of(7), all.runs(3)), (Some('a'), 'a', vec![(3, 'a')]));
        let some = PerTile::of_runs([(2, 'a'), (0, 'c'), (1, 'a'), (2, 'b')]).unwrap();
        assert_eq!(some.only(), None);
        assert_eq!((0..6).map(|tile| some.of(tile)).collect::<String>(), "aaabbb");
        assert_eq!(some.runs(5), [(3, 'a'), (2, 'b')]);
        assert_eq!(some.runs(2), [(2, 'a')]);
        assert_eq!(some.values().collect::<String>(), "ab");
        assert_eq!(PerTile::of_runs(some.runs(5)), Some(some));
        assert_eq!(PerTile::of_runs([(4, 'a'), (1, 'a')]), Some(PerTile::from('a')));
        assert_eq!(PerTile::<char>::of_runs([]), None);
    }
}
