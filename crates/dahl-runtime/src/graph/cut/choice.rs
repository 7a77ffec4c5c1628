//! Which implementations compute the tiles of a task.
//!
//! Each tile is of a code. Of the implementations of that code, the first is taken, in the order of
//! preference, whose layouts the outputs can have. What is written first decides how an array lies, tile by
//! tile; inputs in another layout are converted by lowering.

use super::super::tiles::regions;
use super::super::{Graph, PerTile, Recorded, Var};
use super::grid::{Grid, array_cuts, output_cuts, task_tiles};
use super::{CutOptions, Pieces, Ranges};
use crate::codelet::{CPU, Family, Implementation, Work};
use crate::error::{Error, ErrorKind, Result};
use crate::shape::{Layout, Region, Shape};

/// The layouts of arrays, as far as the tasks that were looked at have decided.
#[derive(Clone)]
enum Known {
    /// All tiles lie like this.
    All(Layout),
    /// Each tile lies in an order of its own; the regions are those of the array.
    Tiles(PerTile<Layout>, Vec<(Region, Layout)>),
}

/// Chooses implementations for the tasks of a graph, one task after the other.
pub(super) struct Chooser<'a> {
    graph: &'a Graph,
    options: &'a CutOptions,
    /// The families that the tasks agreed on, with their place among the preferences.
    families: Vec<(usize, &'static Family)>,
    layouts: Vec<Option<Known>>,
}

impl<'a> Chooser<'a> {
    /// Begins with arrays whose layouts are known.
    pub fn new(graph: &'a Graph, options: &'a CutOptions, layouts: Vec<Option<Layout>>) -> Self {
        let layouts = layouts.into_iter().map(|layout| layout.map(Known::All)).collect();
        Chooser { graph, options, families: families(graph, options), layouts }
    }

    /// The layouts of all arrays.
    pub fn into_layouts(self) -> Vec<PerTile<Layout>> {
        let layouts = |known| match known {
            Some(Known::All(layout)) => layout.into(),
            Some(Known::Tiles(layouts, _)) => layouts,
            None => Layout::RowMajor.into(),
        };
        self.layouts.into_iter().map(layouts).collect()
    }

    /// The implementations of a task that is cut like this. Its outputs lie as they need it.
    pub fn choose(
        &mut self,
        recorded: &Recorded,
        tiles: &[(usize, Pieces<'a>)],
    ) -> Result<PerTile<&'static Implementation>> {
        let name = self.options.forced.iter().find(|(codelet, _)| codelet == recorded.codelet.name);
        let name = name.map(|(_, name)| name.as_str());
        let forced_code = name.and_then(|name| name.split_once(':')).map(|(code, _)| code);
        let codes = tiles.iter().position(|(_, pieces)| !pieces.codes.is_empty());
        match (forced_code, codes) {
            (None, Some(axis)) => self.choose_tiles(recorded, tiles, (axis, name)),
            _ => self.choose_one(recorded, forced_code.unwrap_or(CPU), name).map(PerTile::from),
        }
    }

    /// One implementation for all tiles.
    fn choose_one(
        &mut self,
        recorded: &Recorded,
        code: &str,
        forced: Option<&str>,
    ) -> Result<&'static Implementation> {
        let fits = |implementation: &Implementation| {
            outputs(recorded).all(|(arg, var)| match (&self.layouts[var.array], implementation.need(arg)) {
                (Some(Known::All(layout)), Some(need)) => *layout == need,
                (Some(Known::Tiles(..)), Some(_)) => false,
                (None, _) | (_, None) => true,
            })
        };
        let implementation = self.pick(recorded, code, forced, fits)?;
        for (arg, var) in outputs(recorded) {
            let layout = implementation.need(arg).unwrap_or(Layout::RowMajor);
            self.layouts[var.array].get_or_insert(Known::All(layout));
        }
        Ok(implementation)
    }

    /// An implementation for the tiles of each code, which follow each other along a cut axis.
    fn choose_tiles(
        &mut self,
        recorded: &Recorded,
        pieces: &[(usize, Pieces<'a>)],
        (axis, forced): (usize, Option<&str>),
    ) -> Result<PerTile<&'static Implementation>> {
        let cut: Vec<(usize, Ranges)> =
            pieces.iter().map(|(axis, pieces)| (*axis, pieces.ranges.clone())).collect();
        let tiles = task_tiles(recorded, &cut)?;
        let regions: Vec<Vec<Region>> = tiles.iter().map(|(tile, _)| recorded.bound.regions(tile)).collect();
        let codes = &pieces[axis].1.codes;
        // A task without points may have other positions, and one code is as good as another.
        let code = |number: usize| {
            let place = tiles[number].1.get(axis);
            place.and_then(|&i| codes.get(i)).copied().unwrap_or(codes[0])
        };
        let mut new: Vec<New> = outputs(recorded)
            .filter(|(_, var)| self.layouts[var.array].is_none())
            .map(|(arg, _)| New::of(arg, output_cuts(recorded, &tiles, arg)))
            .collect();
        let mut chosen: Vec<Option<&'static Implementation>> = vec![None; tiles.len()];
        while let Some(first) = chosen.iter().position(Option::is_none) {
            let of_code: Vec<usize> =
                (first..tiles.len()).filter(|&tile| code(tile) == code(first)).collect();
            let fits = |implementation: &Implementation| {
                let fits = |(arg, var): (usize, &Var), region: &Region| {
                    let Some(need) = implementation.need(arg) else { return true };
                    match new.iter().find(|new| new.arg == arg) {
                        Some(new) => new.layouts[new.grid.number(region)].is_none_or(|layout| layout == need),
                        None => self.lies_in(var, region, need),
                    }
                };
                of_code
                    .iter()
                    .all(|&tile| outputs(recorded).all(|output| fits(output, &regions[tile][output.0])))
            };
            let implementation = self.pick(recorded, code(first), forced, fits)?;
            for tile in of_code {
                chosen[tile] = Some(implementation);
                for new in &mut new {
                    let layout = implementation.need(new.arg).unwrap_or(Layout::RowMajor);
                    new.layouts[new.grid.number(&regions[tile][new.arg])].get_or_insert(layout);
                }
            }
        }
        for new in new {
            let var = &recorded.args[new.arg];
            self.layouts[var.array] = Some(new.known(self.graph, recorded));
        }
        PerTile::of_runs(chosen.into_iter().flatten().map(|implementation| (1, implementation)))
            .ok_or_else(|| Error::new(ErrorKind::Plan, format!("{} has no tiles", recorded.codelet.name)))
    }

    /// Whether everything in a region of a view lies in this layout.
    fn lies_in(&self, var: &Var, region: &Region, layout: Layout) -> bool {
        let is_same = var.shape == self.graph.arrays()[var.array].shape;
        let overlaps = |tile: &Region| match is_same {
            true => tile.overlaps(region),
            // Only dimension 0 is cut, and both have it.
            false => {
                let (a, b) = (tile.range(0), region.range(0));
                a.start < b.end && b.start < a.end
            }
        };
        match &self.layouts[var.array] {
            None => true,
            Some(Known::All(known)) => *known == layout,
            Some(Known::Tiles(_, tiles)) => {
                tiles.iter().filter(|(tile, _)| overlaps(tile)).all(|(_, known)| *known == layout)
            }
        }
    }

    /// The first implementation of a code that is preferred and fits. What has none of that code is computed
    /// by cores.
    fn pick(
        &self,
        recorded: &Recorded,
        code: &str,
        forced: Option<&str>,
        fits: impl Fn(&Implementation) -> bool,
    ) -> Result<&'static Implementation> {
        let (codelet, dtype) = (recorded.codelet, recorded.dtype);
        let names_code = forced.is_some_and(|name| name.contains(':'));
        let is_there = names_code || codelet.of_code(code, dtype).next().is_some();
        let code = if is_there { code } else { CPU };
        let is_known = |name: &str| codelet.of_code(code, dtype).any(|known| has_name(known, name));
        // A name without a code says nothing about the tiles of a code that has none of this name.
        if let Some(name) = forced.filter(|name| names_code || code == CPU || is_known(name)) {
            return pick_forced(recorded, code, name, fits);
        }
        let preferred = &self.options.implementations;
        let rank = |implementation: &Implementation| {
            preferred.iter().position(|name| has_name(implementation, name))
        };
        let mut candidates: Vec<(usize, &'static Implementation)> =
            codelet.of_code(code, dtype).filter_map(|known| Some((rank(known)?, known))).collect();
        candidates.sort_by_key(|(rank, _)| *rank);
        // Preferences that say nothing about a code leave the choice to the codelet.
        if preferred.is_empty() || candidates.is_empty() && code != CPU {
            candidates = codelet.of_code(code, dtype).map(|known| (0, known)).collect();
        }
        let is_wanted = |&&(rank, implementation): &&(usize, &'static Implementation)| {
            let passes =
                |(place, family): &(usize, &'static Family)| rank < *place || (family.has)(implementation);
            self.families.iter().all(passes) && fits(implementation)
        };
        candidates.iter().find(is_wanted).map(|(_, implementation)| *implementation).ok_or_else(|| {
            let name = codelet.name;
            let of = if code == CPU { String::new() } else { format!(" of code {code}") };
            let message = match preferred.is_empty() {
                true => {
                    format!("{name} has no implementation{of} for {dtype} whose outputs lie as they must")
                }
                false => format!("{name} has none of the implementations {preferred:?}{of} for {dtype}"),
            };
            Error::new(ErrorKind::Plan, message)
        })
    }
}

/// An output that nobody has written before.
struct New {
    arg: usize,
    cuts: Vec<Ranges>,
    grid: Grid,
    /// How its tiles lie, as far as they were looked at.
    layouts: Vec<Option<Layout>>,
}

impl New {
    fn of(arg: usize, cuts: Vec<Ranges>) -> Self {
        let grid = Grid::new(&cuts);
        let layouts = vec![None; grid.n_tiles()];
        New { arg, cuts, grid, layouts }
    }

    /// How the array lies.
    fn known(self, graph: &Graph, recorded: &Recorded) -> Known {
        let info = &graph.arrays()[recorded.args[self.arg].array];
        let layouts = Grid::layouts(&self.layouts);
        if let Some(layout) = layouts.only() {
            return Known::All(layout);
        }
        let Some(cuts) = array_cuts(info, recorded, self.arg, self.cuts) else {
            return Known::All(Layout::RowMajor);
        };
        let regions = regions(&cuts);
        let tiles = regions.into_iter().enumerate().map(|(i, region)| (region, layouts.of(i))).collect();
        Known::Tiles(layouts, tiles)
    }
}

/// The outputs of a task, and which arguments they are.
fn outputs(recorded: &Recorded) -> impl Iterator<Item = (usize, &Var)> {
    recorded.args.iter().enumerate().skip(recorded.codelet.relation().n_inputs())
}

/// Whether an implementation is meant by a name, before which its code may stand.
fn has_name(implementation: &Implementation, name: &str) -> bool {
    let rest = name.strip_prefix(implementation.code).and_then(|rest| rest.strip_prefix(':'));
    rest.unwrap_or(name) == implementation.name
}

/// The families among the preferences that all tasks of a graph agree on, with their place there.
fn families(graph: &Graph, options: &CutOptions) -> Vec<(usize, &'static Family)> {
    let mut known: Vec<&'static Family> = Vec::new();
    for family in
        graph.tasks().iter().flat_map(|recorded| recorded.codelet.implementations).filter_map(|i| i.family)
    {
        if !known.iter().any(|other| other.name == family.name) {
            known.push(family);
        }
    }
    let agrees = |family: &Family, recorded: &Recorded| {
        let shapes: Vec<Shape> = recorded.args.iter().map(Var::shape).collect();
        let work = Work { dtype: recorded.dtype, shapes: &shapes, ints: &recorded.ints };
        (family.agrees)(recorded.codelet, &work)
    };
    let named = options.implementations.iter().enumerate();
    let named = named.filter_map(|(i, name)| Some((i, *known.iter().find(|family| family.name == *name)?)));
    named.filter(|(_, family)| graph.tasks().iter().all(|recorded| agrees(family, recorded))).collect()
}

/// The implementation that was asked for by name.
fn pick_forced(
    recorded: &Recorded,
    code: &str,
    name: &str,
    fits: impl Fn(&Implementation) -> bool,
) -> Result<&'static Implementation> {
    let (codelet, dtype) = (recorded.codelet, recorded.dtype);
    let Some(implementation) = codelet.of_code(code, dtype).find(|known| has_name(known, name)) else {
        let all = codelet.implementations.iter().filter(|i| i.dtype == dtype);
        let known: Vec<String> = all.map(Implementation::written).collect();
        let of = if code == CPU || name.contains(':') { String::new() } else { format!(" of code {code}") };
        let message = format!(
            "{} has no implementation '{name}'{of} for {dtype}, only {}",
            codelet.name,
            known.join(", ")
        );
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
