//! How recorded tasks are cut: tiles, implementations, layouts and reduction groups. Bits depend on these
//! alone.
//!
//! By default, tasks with a sample axis are cut into chunks of 16 samples (in large batches 32 or 64, as long
//! as 16 chunks are left), and updates into ranges of at most 4096 weights. A task without named axes, such
//! as ReLU, is cut like the array it works on. Two cases differ:
//!
//! - A batch that would fill at most half of the lanes is computed without lanes (`has_few_samples`), if
//!   every task of the step has an implementation for that.
//! - A sum over samples whose partial results would be large beside its inputs is cut along the rows of its
//!   result instead (`whole_sums`): each tile sums over the whole batch. For the gradients of `mlp`'s
//!   weights, chunks of samples would write, read and add eight partial results of 2.7 MB, which is what made
//!   it slow.

mod options;

pub use options::{CutOptions, FEW, Tiling};

use super::{Graph, MAX_TASKS, Recorded, Role, Var};
use crate::codelet::relation::{Split, TileSize};
use crate::codelet::{Implementation, Needs, Work};
use crate::error::{Error, ErrorKind, Result};
use crate::shape::{Layout, Shape};
use options::{FLAT, LANES};
use std::ops::Range;

/// How one recorded task is cut.
#[derive(Clone, Debug)]
pub struct TaskCut {
    /// The cut axes (indices into the bound relation's axes) and their ranges.
    pub tiles: Vec<(usize, Vec<Range<usize>>)>,
    /// Who computes it.
    pub implementation: &'static Implementation,
    /// Number of partial results where a reduced axis is cut.
    pub groups: usize,
}

/// How a graph is cut.
#[derive(Clone, Debug)]
pub struct Cut {
    /// One entry per recorded task.
    pub tasks: Vec<TaskCut>,
    /// The memory order of each array's tiles.
    pub layouts: Vec<Layout>,
}

/// How an array came to be cut: dimension, its extent, and the ranges.
type ArrayCut = Vec<(usize, usize, Ranges)>;
type Ranges = Vec<Range<usize>>;

impl Cut {
    /// Cuts every task by the first of `options.tilings` that applies (a task to which none does is cut like
    /// the arrays it works on), and takes the first implementation whose layouts its outputs can have. Inputs
    /// in another layout are converted by lowering. The number of workers plays no part.
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
        let mut array_cuts: Vec<Option<ArrayCut>> = vec![None; graph.arrays().len()];
        let is_few = has_few_samples(graph, options);
        let mut tasks = Vec::with_capacity(graph.tasks().len());
        for recorded in graph.tasks() {
            let implementation = choose(recorded, options, is_few, &layouts)?;
            let n_inputs = recorded.codelet.relation().n_inputs();
            // What is updated must be cut as it was written; otherwise the options decide, otherwise the
            // inputs.
            let updated = inherited_tiles(recorded, n_inputs..recorded.args.len(), &array_cuts);
            let tiles = match updated {
                Some(tiles) => tiles,
                None => match named_tiles(recorded, options)? {
                    Some(tiles) => whole_sums(recorded, options, tiles)?,
                    None => inherited_tiles(recorded, 0..n_inputs, &array_cuts).unwrap_or_default(),
                },
            };
            for arg in n_inputs..recorded.args.len() {
                let array = recorded.args[arg].array;
                let layout = match implementation.needs {
                    Needs::Nothing => Layout::RowMajor,
                    Needs::Layouts(needed) => needed[arg],
                };
                layouts[array].get_or_insert(layout);
                let info = &graph.arrays()[array];
                if info.role != Role::Temporary || recorded.args[arg].shape.len() != info.shape.len() {
                    // Shared with the program, or one of several arrays in a flat one: never cut.
                    continue;
                }
                array_cuts[array].get_or_insert_with(|| {
                    let dims = recorded.bound.dims(arg).iter().enumerate();
                    let cut = dims.filter_map(|(dim, axis)| {
                        let (_, ranges) = tiles.iter().find(|(cut, _)| Some(*cut) == *axis)?;
                        Some((dim, recorded.args[arg].shape[dim], ranges.clone()))
                    });
                    cut.collect()
                });
            }
            let groups = n_groups(&tiles, options);
            tasks.push(TaskCut { tiles, implementation, groups });
        }
        let layouts = layouts.into_iter().map(|layout| layout.unwrap_or(Layout::RowMajor)).collect();
        Ok(Cut { tasks, layouts })
    }
}

/// Whether all tasks are computed without lanes: at most half of the lanes of any would be full, and each has
/// an implementation that suits it. A part of them would have to convert what the others left.
fn has_few_samples(graph: &Graph, options: &CutOptions) -> bool {
    let rank = |name: &str| options.implementations.iter().position(|known| known == name);
    let is_wanted = rank(FEW).is_some_and(|few| rank(LANES).is_none_or(|lanes| few < lanes));
    let is_few = |recorded: &Recorded| {
        let lanes = recorded.codelet.implementation(LANES, recorded.dtype);
        let Some(Needs::Layouts(layouts)) = lanes.map(|lanes| lanes.needs) else { return true };
        let is_half_empty = recorded.args.iter().zip(layouts).all(|(arg, layout)| match *layout {
            Layout::Lanes(lanes) => arg.shape.first().is_none_or(|&n_samples| n_samples <= lanes / 2),
            _ => true,
        });
        let flat = || recorded.codelet.implementation(FLAT, recorded.dtype);
        !has_lanes(lanes) || is_half_empty && flat().is_some() && suits_few(recorded)
    };
    is_wanted && graph.tasks().iter().all(is_few)
}

/// Whether a task may be computed without lanes.
fn suits_few(recorded: &Recorded) -> bool {
    let shapes: Vec<Shape> = recorded.args.iter().map(Var::shape).collect();
    (recorded.codelet.few)(&Work { dtype: recorded.dtype, shapes: &shapes, ints: &recorded.ints })
}

/// Whether an implementation has some argument in lanes.
fn has_lanes(implementation: Option<&Implementation>) -> bool {
    implementation.is_some_and(|implementation| match implementation.needs {
        Needs::Nothing => false,
        Needs::Layouts(layouts) => layouts.iter().any(|layout| matches!(layout, Layout::Lanes(_))),
    })
}

fn choose(
    recorded: &Recorded,
    options: &CutOptions,
    is_few: bool,
    layouts: &[Option<Layout>],
) -> Result<&'static Implementation> {
    let outputs = recorded.codelet.relation().n_inputs()..recorded.args.len();
    let fits = |implementation: &Implementation| match implementation.needs {
        Needs::Nothing => true,
        Needs::Layouts(needed) => outputs
            .clone()
            .all(|arg| layouts[recorded.args[arg].array].is_none_or(|layout| layout == needed[arg])),
    };
    if let Some((_, name)) = options.forced.iter().find(|(codelet, _)| codelet == recorded.codelet.name) {
        return forced(recorded, name, fits);
    }
    let mut named =
        options.implementations.iter().filter_map(|n| recorded.codelet.implementation(n, recorded.dtype));
    let is_wanted = |implementation: &Implementation| !(is_few && has_lanes(Some(implementation)));
    named.find(|implementation| is_wanted(implementation) && fits(implementation)).ok_or_else(|| {
        let (name, dtype) = (recorded.codelet.name, recorded.dtype);
        let message =
            format!("{name} has none of the implementations {:?} for {dtype}", options.implementations);
        Error::new(ErrorKind::Plan, message)
    })
}

/// The implementation that was asked for by name.
fn forced(
    recorded: &Recorded,
    name: &str,
    fits: impl Fn(&Implementation) -> bool,
) -> Result<&'static Implementation> {
    let (codelet, dtype) = (recorded.codelet, recorded.dtype);
    let Some(implementation) = codelet.implementation(name, dtype) else {
        let all = codelet.implementations.iter().filter(|i| i.dtype == dtype);
        let known: Vec<&str> = all.map(|implementation| implementation.name).collect();
        let message =
            format!("{} has no implementation '{name}' for {dtype}, only {}", codelet.name, known.join(", "));
        return Err(Error::new(ErrorKind::Plan, message));
    };
    if fits(implementation) {
        return Ok(implementation);
    }
    let message = format!(
        "{} cannot be computed by '{name}' here: an array that it writes lies in another order, which an earlier task or the \
         program decides; force that one too, or leave the choice open",
        codelet.name
    );
    Err(Error::new(ErrorKind::Plan, message))
}

/// The cut by the first tiling that applies.
fn named_tiles(recorded: &Recorded, options: &CutOptions) -> Result<Option<Vec<(usize, Ranges)>>> {
    for tiling in &options.tilings {
        let mut cut = Vec::new();
        for (name, size) in tiling {
            if let Some(axis) = recorded.bound.axis(name)
                && recorded.bound.axes()[axis].split != Split::Never
            {
                cut.push((axis, ranges(recorded, axis, *size)?));
            }
        }
        if !cut.is_empty() {
            return Ok(Some(cut));
        }
    }
    Ok(None)
}

/// The ranges of an axis that is cut.
fn ranges(recorded: &Recorded, axis: usize, size: TileSize) -> Result<Ranges> {
    let axis = &recorded.bound.axes()[axis];
    let n_tiles = size.n_tiles(axis.extent);
    if n_tiles > MAX_TASKS {
        let (codelet, name) = (recorded.codelet.name, &axis.name);
        let message = format!(
            "{codelet} would be cut into {n_tiles} tiles along {name}, and a graph has at most {MAX_TASKS} tasks: use larger tiles"
        );
        return Err(Error::new(ErrorKind::Plan, message));
    }
    Ok(size.cut(axis.extent))
}

/// How many partial results there are where all cut axes are reduced.
fn n_groups(tiles: &[(usize, Ranges)], options: &CutOptions) -> usize {
    let n_tiles = tiles.iter().fold(1, |n: usize, (_, ranges)| n.saturating_mul(ranges.len()));
    n_tiles.div_ceil(options.tiles_per_group.max(1)).min(options.max_groups)
}

/// Partial results of fewer bytes in all stay in caches.
const PARTIAL_BYTES: usize = 1 << 20;
/// How many times the bytes of what is summed the partial results must have before they are given up. What is
/// summed is copied, once written and once read; partial results are as well.
const PARTIALS_PER_INPUT: usize = 4;
/// Rows of a result that a tile has, where sums stay whole: so many that what it prepares for all its rows
/// counts for little.
const SUM_ROWS: usize = 64;

/// The given tiles, unless they only cut sums, into partial results that are large beside what is summed (the
/// gradients of many weights by few samples): writing and adding those up would take longer than putting
/// together what is summed. Then the result is cut along its rows instead, and each tile sums over
/// everything.
fn whole_sums(
    recorded: &Recorded,
    options: &CutOptions,
    tiles: Vec<(usize, Ranges)>,
) -> Result<Vec<(usize, Ranges)>> {
    let (axes, n_inputs) = (recorded.bound.axes(), recorded.codelet.relation().n_inputs());
    let [result] = &recorded.args[n_inputs..] else { return Ok(tiles) };
    let Some(rows) = recorded.bound.dims(n_inputs).first().copied().flatten() else { return Ok(tiles) };
    let is_sum = tiles.iter().all(|&(axis, _)| axes[axis].split == Split::Reduce);
    if !is_sum || axes[rows].split != Split::Free {
        return Ok(tiles);
    }
    let bytes = |var: &Var| var.shape.len().saturating_mul(var.dtype.bytes());
    let groups = n_groups(&tiles, options);
    let partials = if groups > 1 { bytes(result).saturating_mul(groups) } else { 0 };
    let inputs = recorded.args[..n_inputs].iter().map(bytes).fold(0, usize::saturating_add);
    match partials >= PARTIAL_BYTES.max(inputs.saturating_mul(PARTIALS_PER_INPUT)) {
        true => Ok(vec![(rows, ranges(recorded, rows, TileSize::AtMost(SUM_ROWS))?)]),
        false => Ok(tiles),
    }
}

/// The cut of the first of these arguments whose array is already cut or known to be whole, as far as the
/// task can follow it.
fn inherited_tiles(
    recorded: &Recorded,
    args: Range<usize>,
    array_cuts: &[Option<ArrayCut>],
) -> Option<Vec<(usize, Ranges)>> {
    args.into_iter().find_map(|arg| {
        let var = &recorded.args[arg];
        let follow = |(dim, extent, ranges): &(usize, usize, Ranges)| {
            let axis = recorded.bound.dims(arg).get(*dim).copied().flatten()?;
            let fits = var.shape[*dim] == *extent && recorded.bound.axes()[axis].split != Split::Never;
            fits.then(|| (axis, ranges.clone()))
        };
        Some(array_cuts[var.array].as_ref()?.iter().filter_map(follow).collect())
    })
}
