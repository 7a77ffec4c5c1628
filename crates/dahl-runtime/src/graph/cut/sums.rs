//! Sums over cut axes: how many partial results they have, and where they stay whole instead.

use super::super::{MAX_TASKS, Recorded, Var};
use super::{CutOptions, Pieces, Prospect, Ranges};
use crate::codelet::relation::{BoundAxis, Split, TileSize};
use crate::error::{Error, ErrorKind, Result};

/// Partial results of fewer bytes in all stay in caches.
const PARTIAL_BYTES: usize = 1 << 20;
/// How many times the bytes of what is summed the partial results must have before they are given up. What is
/// summed is copied, once written and once read; partial results are as well.
const PARTIALS_PER_INPUT: usize = 4;
/// Rows of a result that a tile has, where sums stay whole: so many that what it prepares for all its rows
/// counts for little.
const SUM_ROWS: usize = 64;

/// How many partial results there are where all cut axes are reduced.
pub(super) fn n_groups(tiles: &[(usize, Pieces<'_>)], options: &CutOptions) -> usize {
    let n_tiles = tiles.iter().fold(1, |n: usize, (_, pieces)| n.saturating_mul(pieces.ranges.len()));
    n_tiles.div_ceil(options.tiles_per_group.max(1)).min(options.max_groups)
}

/// The given tiles, unless they only cut sums, into partial results that are large beside what is summed (the
/// gradients of many weights by few samples): writing and adding those up would take longer than putting
/// together what is summed. Then the result is cut along its rows instead, and each tile sums over
/// everything. A sum that units of several codes share is added up from the parts of all.
pub(super) fn whole_sums<'o>(
    recorded: &Recorded,
    options: &CutOptions,
    tiles: Vec<(usize, Pieces<'o>)>,
) -> Result<Vec<(usize, Pieces<'o>)>> {
    let Some(rows) = rows(recorded) else { return Ok(tiles) };
    let axes = recorded.bound.axes();
    let is_sum = tiles.iter().all(|&(axis, _)| axes[axis].split == Split::Reduce);
    let is_shared = tiles.iter().any(|(_, pieces)| !pieces.codes.is_empty());
    if !is_sum || is_shared || !has_large_partials(recorded, n_groups(&tiles, options)) {
        return Ok(tiles);
    }
    let ranges = ranges(recorded, rows, TileSize::AtMost(SUM_ROWS))?;
    Ok(vec![(rows, Pieces { ranges, codes: Vec::new() })])
}

/// Whether a task may be cut along the rows of its result, by any tiles along the axes that are cut: what
/// fusion asks before it puts another task in its place, whose sums are added up from parts. Whoever fuses
/// for a plan file does not know the sizes of tiles, so they play no part.
pub(in super::super) fn may_sum_whole(recorded: &Recorded, prospect: &Prospect) -> bool {
    let is_cut = |axis: &&BoundAxis| axis.split == Split::Reduce && prospect.axes.contains(&axis.name);
    let cut = recorded.bound.axes().iter().filter(is_cut);
    let most = cut.fold(1, |n: usize, axis| n.saturating_mul(axis.extent));
    rows(recorded).is_some() && has_large_partials(recorded, most.min(prospect.max_groups))
}

/// The axis of the rows of a result, along which it can be cut.
fn rows(recorded: &Recorded) -> Option<usize> {
    let n_inputs = recorded.codelet.relation().n_inputs();
    let [_] = &recorded.args[n_inputs..] else { return None };
    let rows = recorded.bound.dims(n_inputs).first().copied().flatten()?;
    (recorded.bound.axes()[rows].split == Split::Free).then_some(rows)
}

/// Whether so many partial results of a task with one result are large beside what is summed.
fn has_large_partials(recorded: &Recorded, groups: usize) -> bool {
    let n_inputs = recorded.codelet.relation().n_inputs();
    let bytes = |var: &Var| var.shape.len().saturating_mul(var.dtype.bytes());
    let partials = if groups > 1 { bytes(&recorded.args[n_inputs]).saturating_mul(groups) } else { 0 };
    let inputs = recorded.args[..n_inputs].iter().map(bytes).fold(0, usize::saturating_add);
    partials >= PARTIAL_BYTES.max(inputs.saturating_mul(PARTIALS_PER_INPUT))
}

/// The ranges of an axis that is cut.
pub(super) fn ranges(recorded: &Recorded, axis: usize, size: TileSize) -> Result<Ranges> {
    let extent = recorded.bound.axes()[axis].extent;
    check_count(recorded, axis, size.n_tiles(extent))?;
    Ok(size.cut(extent))
}

/// Refuses more tiles than a graph has tasks.
pub(super) fn check_count(recorded: &Recorded, axis: usize, n_tiles: usize) -> Result<()> {
    if n_tiles <= MAX_TASKS {
        return Ok(());
    }
    let (codelet, name) = (recorded.codelet.name, &recorded.bound.axes()[axis].name);
    let message = format!(
        "{codelet} would be cut into {n_tiles} tiles along {name}, and a graph has at most {MAX_TASKS} tasks: use larger tiles"
    );
    Err(Error::new(ErrorKind::Plan, message))
}
