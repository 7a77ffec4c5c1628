//! The tiles of a task, and the tiles of the arrays that it writes: what a cut and lowering must see alike.

use super::super::tiles::whole;
use super::super::{ArrayInfo, MAX_TASKS, PerTile, Recorded};
use super::Ranges;
use crate::codelet::relation::{Split, Tile};
use crate::error::{Error, ErrorKind, Result};
use crate::shape::{Layout, Region};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// The tiles of a task, with their position along each cut axis.
pub(in super::super) fn task_tiles(
    recorded: &Recorded,
    tiles: &[(usize, Ranges)],
) -> Result<Vec<(Tile, Vec<usize>)>> {
    let axes = cut_axes(recorded, tiles);
    let n_tiles = axes.iter().try_fold(1, |n: usize, (_, ranges)| n.checked_mul(ranges.len()));
    if n_tiles.is_none_or(|n_tiles| n_tiles > MAX_TASKS) {
        let name = recorded.codelet.name;
        let message = format!("{name} is cut into more than {MAX_TASKS} tiles: use larger ones");
        return Err(Error::new(ErrorKind::Plan, message).at(recorded.location));
    }
    let mut tiles = vec![(Tile::whole(&recorded.bound), Vec::new())];
    for (axis, ranges) in &axes {
        tiles = tiles
            .iter()
            .flat_map(|(tile, position)| {
                ranges.iter().enumerate().map(move |(i, range)| {
                    (tile.clone().with(*axis, range.clone()), [&position[..], &[i]].concat())
                })
            })
            .collect();
    }
    Ok(tiles)
}

/// The cut axes and their ranges. A task without points has nothing to share out along its reduced axes; they
/// stay whole, because its tiles could not tell by their (empty) inputs which of them is the first and
/// applies the bias.
pub(in super::super) fn cut_axes(recorded: &Recorded, tiles: &[(usize, Ranges)]) -> Vec<(usize, Ranges)> {
    let is_empty = recorded.bound.points() == 0;
    let stays = |axis: usize| is_empty && recorded.bound.axes()[axis].split == Split::Reduce;
    tiles.iter().filter(|(axis, _)| !stays(*axis)).cloned().collect()
}

/// The ranges of each dimension of an output over all tiles of a task.
pub(in super::super) fn output_cuts(
    recorded: &Recorded,
    tiles: &[(Tile, Vec<usize>)],
    arg: usize,
) -> Vec<Ranges> {
    let rank = recorded.args[arg].shape.rank();
    let (mut cuts, mut known) = (vec![Vec::new(); rank], vec![HashSet::new(); rank]);
    for (tile, _) in tiles {
        let region = recorded.bound.regions(tile)[arg];
        for dim in 0..rank {
            if known[dim].insert(region.range(dim)) {
                cuts[dim].push(region.range(dim));
            }
        }
    }
    cuts
}

/// The cut of an array that is cut as an output of its first writer is, in ranges of each dimension of the
/// array; none where it stays whole.
pub(in super::super) fn array_cuts(
    info: &ArrayInfo,
    recorded: &Recorded,
    arg: usize,
    mut cuts: Vec<Ranges>,
) -> Option<Vec<Ranges>> {
    let var = &recorded.args[arg];
    if var.shape != info.shape {
        // A reshaped view keeps dimension 0; the others are then not cut. A part cuts nothing.
        let uncut = cuts.iter().skip(1).all(|ranges| ranges.len() <= 1);
        let is_whole = var.shape.len() == info.shape.len();
        if !uncut || !is_whole || var.shape.first() != info.shape.first() {
            return None;
        }
        cuts.truncate(1);
        cuts.extend(info.shape[1..].iter().map(|&extent| whole(extent)));
    }
    (!cuts.is_empty()).then_some(cuts)
}

/// The tiles of an output by their ranges: a grid, numbered in row-major order.
pub(in super::super) struct Grid {
    numbers: Vec<HashMap<Range<usize>, usize>>,
}

impl Grid {
    /// The grid of these ranges of each dimension.
    pub fn new(cuts: &[Ranges]) -> Self {
        let number =
            |ranges: &Ranges| ranges.iter().cloned().enumerate().map(|(i, range)| (range, i)).collect();
        Grid { numbers: cuts.iter().map(number).collect() }
    }

    /// How many tiles there are.
    pub fn n_tiles(&self) -> usize {
        self.numbers.iter().map(HashMap::len).product()
    }

    /// The number of a tile.
    pub fn number(&self, region: &Region) -> usize {
        let dims = self.numbers.iter().enumerate();
        dims.fold(0, |number, (dim, ranges)| {
            number * ranges.len() + ranges.get(&region.range(dim)).copied().unwrap_or(0)
        })
    }

    /// Layouts of all tiles, of which some are known; the others lie in row-major order.
    pub fn layouts(known: &[Option<Layout>]) -> PerTile<Layout> {
        let layouts = known.iter().map(|layout| (1, layout.unwrap_or(Layout::RowMajor)));
        PerTile::of_runs(layouts).unwrap_or(Layout::RowMajor.into())
    }
}
