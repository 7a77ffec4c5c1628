//! How recorded tasks are cut: tiles, the implementation that computes each of them, layouts and reduction
//! groups. Bits depend on these alone.
//!
//! A task is cut along the axes that [`CutOptions`] name. One without such an axis, such as ReLU, is cut like
//! the array it works on. Three rules go beyond that:
//!
//! - Shares of an axis may go to units of other codes ([`Part`]), in tiles of their own size. Then each tile
//!   has an implementation of its own code (`choice.rs`), and an array that is written so has its tiles in
//!   the layouts of their implementations. Tasks that are cut like an array have its codes too.
//! - A family of implementations computes all tasks of a graph or none
//!   ([`Family`](crate::codelet::Family)): a batch that would leave most lanes empty is computed without
//!   lanes, if every task of the step agrees.
//! - A sum over samples whose partial results would be large beside its inputs is cut along the rows of its
//!   result instead (`sums.rs`): each tile sums over the whole batch. For the gradients of `mlp`'s
//!   weights, chunks of samples would write, read and add eight partial results of 2.7 MB, which is what made
//!   it slow.
//!
//! No rule knows the units of a machine, so bits do not depend on them.

mod choice;
mod grid;
mod options;
mod sums;

pub(super) use grid::{Grid, array_cuts, cut_axes, output_cuts, task_tiles};
pub use options::{CutOptions, Part, Prospect, Share, Tiling};
pub(super) use sums::may_sum_whole;

use super::{Graph, PerTile, Recorded, Role};
use crate::codelet::relation::{Split, TileSize};
use crate::codelet::{CPU, Implementation};
use crate::error::Result;
use crate::shape::Layout;
use choice::Chooser;
use std::ops::Range;
use sums::{check_count, n_groups, whole_sums};

/// How one recorded task is cut.
#[derive(Clone, Debug)]
pub struct TaskCut {
    /// The cut axes (indices into the bound relation's axes) and their ranges.
    pub tiles: Vec<(usize, Vec<Range<usize>>)>,
    /// Who computes each tile. Tiles are numbered with the last of the cut axes fastest.
    pub implementations: PerTile<&'static Implementation>,
    /// Number of partial results where a reduced axis is cut.
    pub groups: usize,
}

impl TaskCut {
    /// How many tiles there are, if that can be counted.
    pub fn n_tiles(&self) -> Option<usize> {
        self.tiles.iter().try_fold(1, |n: usize, (_, ranges)| n.checked_mul(ranges.len()))
    }
}

/// How a graph is cut.
#[derive(Clone, Debug)]
pub struct Cut {
    /// One entry per recorded task.
    pub tasks: Vec<TaskCut>,
    /// The memory order of each array's tiles, in the order of its buffers.
    pub layouts: Vec<PerTile<Layout>>,
}

/// How an array came to be cut: dimension, its extent, and the pieces.
type ArrayCut<'o> = Vec<(usize, usize, Pieces<'o>)>;
type Ranges = Vec<Range<usize>>;

/// An axis that is cut.
#[derive(Clone, Debug)]
struct Pieces<'o> {
    ranges: Ranges,
    /// The code of each range; nothing where cores compute all of them.
    codes: Vec<&'o str>,
}

impl Cut {
    /// Cuts every task by the first of `options.tilings` that applies (a task to which none does is cut like
    /// the arrays it works on), and takes for each tile the first implementation of its code whose layouts
    /// the outputs can have. Inputs in another layout are converted by lowering. The units of a machine play
    /// no part.
    pub fn heuristic(graph: &Graph, options: &CutOptions) -> Result<Cut> {
        options.check()?;
        // What is shared with the program, or holds several arrays in one, stays in row-major order.
        let mut layouts: Vec<Option<Layout>> =
            graph.arrays().iter().map(|a| (a.role != Role::Temporary).then_some(Layout::RowMajor)).collect();
        for var in graph.tasks().iter().flat_map(|recorded| &recorded.args) {
            if var.shape.len() != graph.arrays()[var.array].shape.len() {
                layouts[var.array] = Some(Layout::RowMajor);
            }
        }
        let mut chooser = Chooser::new(graph, options, layouts);
        let mut array_cuts: Vec<Option<ArrayCut<'_>>> = vec![None; graph.arrays().len()];
        let mut tasks = Vec::with_capacity(graph.tasks().len());
        for recorded in graph.tasks() {
            let n_inputs = recorded.codelet.relation().n_inputs();
            // What is updated must be cut as it was written; otherwise the options decide, otherwise the
            // inputs.
            let updated = inherited_tiles(recorded, n_inputs..recorded.args.len(), &array_cuts);
            let pieces = match updated {
                Some(tiles) => tiles,
                None => match named_tiles(recorded, options)? {
                    Some(tiles) => whole_sums(recorded, options, tiles)?,
                    None => inherited_tiles(recorded, 0..n_inputs, &array_cuts).unwrap_or_default(),
                },
            };
            let implementations = chooser.choose(recorded, &pieces)?;
            for arg in n_inputs..recorded.args.len() {
                let array = recorded.args[arg].array;
                let info = &graph.arrays()[array];
                if info.role != Role::Temporary || recorded.args[arg].shape.len() != info.shape.len() {
                    // Shared with the program, or one of several arrays in a flat one: never cut.
                    continue;
                }
                array_cuts[array].get_or_insert_with(|| {
                    let dims = recorded.bound.dims(arg).iter().enumerate();
                    let cut = dims.filter_map(|(dim, axis)| {
                        let (_, pieces) = pieces.iter().find(|(cut, _)| Some(*cut) == *axis)?;
                        Some((dim, recorded.args[arg].shape[dim], pieces.clone()))
                    });
                    cut.collect()
                });
            }
            let groups = n_groups(&pieces, options);
            let tiles = pieces.into_iter().map(|(axis, pieces)| (axis, pieces.ranges)).collect();
            tasks.push(TaskCut { tiles, implementations, groups });
        }
        Ok(Cut { tasks, layouts: chooser.into_layouts() })
    }
}

impl Cut {
    /// How many tiles an array has.
    pub(crate) fn array_tiles(&self, graph: &Graph, array: usize) -> Result<usize> {
        let info = &graph.arrays()[array];
        let writes = |recorded: &Recorded| {
            let outputs = recorded.codelet.relation().n_inputs()..recorded.args.len();
            outputs.into_iter().find(|&arg| recorded.args[arg].array == array)
        };
        let writer = graph.tasks().iter().enumerate().find_map(|(i, task)| Some((i, task, writes(task)?)));
        let Some((i, recorded, arg)) = writer.filter(|_| info.role == Role::Temporary) else { return Ok(1) };
        let tiles = task_tiles(recorded, &self.tasks[i].tiles)?;
        let cuts = array_cuts(info, recorded, arg, output_cuts(recorded, &tiles, arg));
        Ok(cuts.map_or(1, |cuts| cuts.iter().map(Vec::len).product()))
    }
}

/// The cut by the first tiling that applies.
fn named_tiles<'o>(recorded: &Recorded, options: &'o CutOptions) -> Result<Option<Vec<(usize, Pieces<'o>)>>> {
    for tiling in &options.tilings {
        let mut cut = Vec::new();
        for (name, size) in tiling {
            if let Some(axis) = recorded.bound.axis(name)
                && recorded.bound.axes()[axis].split != Split::Never
            {
                cut.push((axis, pieces(recorded, axis, *size, options)?));
            }
        }
        if !cut.is_empty() {
            return Ok(Some(cut));
        }
    }
    Ok(None)
}

/// The pieces of an axis: those of cores first, then those of other codes, each in tiles of its size.
fn pieces<'o>(
    recorded: &Recorded,
    axis: usize,
    size: TileSize,
    options: &'o CutOptions,
) -> Result<Pieces<'o>> {
    let bound = &recorded.bound.axes()[axis];
    let parts = options.parts.iter().filter(|part| part.axis == bound.name);
    let given = Share::sum(parts.clone().map(|part| part.share)).of(bound.extent);
    let own = bound.extent - given;
    let mut shares = vec![(0..own, CPU, size)];
    let mut so_far = Share::default();
    for part in parts {
        let start = own + so_far.of(bound.extent);
        so_far = Share::sum([so_far, part.share]);
        let end = own + so_far.of(bound.extent);
        shares.push((start..end, &part.code[..], part.size));
    }
    if shares.len() > 1 {
        // What is too small for its share gets nothing; an axis without elements has one empty tile.
        let is_empty = bound.extent == 0;
        shares.truncate(if is_empty { 1 } else { shares.len() });
        shares.retain(|(range, ..)| is_empty || !range.is_empty());
    }
    let n_tiles = shares.iter().map(|(range, _, size)| size.n_tiles(range.len()));
    check_count(recorded, axis, n_tiles.fold(0, usize::saturating_add))?;
    let mut pieces = Pieces { ranges: Vec::new(), codes: Vec::new() };
    let is_shared = shares.iter().any(|(_, code, _)| *code != CPU);
    for (range, code, size) in shares {
        let cut = size.cut(range.len());
        if is_shared {
            pieces.codes.extend(cut.iter().map(|_| code));
        }
        pieces.ranges.extend(cut.into_iter().map(|tile| range.start + tile.start..range.start + tile.end));
    }
    Ok(pieces)
}

/// The cut of the first of these arguments whose array is already cut or known to be whole, as far as the
/// task can follow it.
fn inherited_tiles<'o>(
    recorded: &Recorded,
    args: Range<usize>,
    array_cuts: &[Option<ArrayCut<'o>>],
) -> Option<Vec<(usize, Pieces<'o>)>> {
    args.into_iter().find_map(|arg| {
        let var = &recorded.args[arg];
        let follow = |(dim, extent, pieces): &(usize, usize, Pieces<'o>)| {
            let axis = recorded.bound.dims(arg).get(*dim).copied().flatten()?;
            let fits = var.shape[*dim] == *extent && recorded.bound.axes()[axis].split != Split::Never;
            fits.then(|| (axis, pieces.clone()))
        };
        Some(array_cuts[var.array].as_ref()?.iter().filter_map(follow).collect())
    })
}
