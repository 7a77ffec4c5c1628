//! A recorded task becomes one task per tile.

use super::super::cut::{TaskCut, task_tiles};
use super::super::lowered::{Gathered, Task};
use super::super::tiles::View;
use super::super::{Recorded, Var};
use super::Lowering;
use super::arguments::Ready;
use super::partials::{Reduction, reductions};
use super::stage::Stage;
use crate::codelet::relation::{Mode, Tile};
use crate::codelet::{CallSpec, Implementation};
use crate::error::{Error, Result};
use crate::shape::{Layout, Region};

/// What all tiles of a task share.
struct Whole<'a> {
    index: usize,
    recorded: &'a Recorded,
    cut: &'a TaskCut,
    /// For each argument that accumulates, over which axes.
    reductions: Vec<Option<Reduction>>,
    /// All accumulating outputs of a call start afresh or add; where they disagree, no tile adds.
    agree: bool,
    /// How the arguments lie in tiles, once the first tile has asked.
    views: Vec<Option<View>>,
    /// The outputs that are put together from their tiles.
    stages: Vec<Option<Stage>>,
}

impl<'a> Whole<'a> {
    fn new(index: usize, recorded: &'a Recorded, cut: &'a TaskCut) -> Self {
        let reductions = reductions(recorded, cut);
        let reduced: Vec<&Reduction> = reductions.iter().flatten().collect();
        let agree = reduced.windows(2).all(|pair| pair[0].axes == pair[1].axes);
        let (views, stages) = (vec![None; recorded.args.len()], Vec::new());
        Whole { index, recorded, cut, reductions, agree, views, stages }
    }

    /// Who computes a tile.
    fn implementation(&self, tile: usize) -> &'static Implementation {
        self.cut.implementations.of(tile)
    }

    /// The number of a tile among those of its code, and how many of these there are.
    fn among_its_code(&self, (number, n_tiles): (usize, usize)) -> (usize, usize) {
        let code = self.implementation(number).code;
        if self.cut.implementations.values().all(|other| other.code == code) {
            return (number, n_tiles);
        }
        let count = |n: usize| {
            let runs = self.cut.implementations.runs(n);
            runs.iter().filter(|(_, of)| of.code == code).map(|(count, _)| count).sum()
        };
        (count(number), count(n_tiles))
    }

    /// The task of a tile, without its arguments.
    fn task(&self, number: (usize, usize), tile: &Tile) -> Task {
        let (recorded, implementation) = (self.recorded, self.implementation(number.0));
        let points = recorded.bound.points_in(tile);
        Task {
            codelet: recorded.codelet.name,
            implementation: implementation.name,
            version: implementation.version,
            code: implementation.code,
            algorithm: String::new(),
            dtype: recorded.dtype,
            origin: Some(self.index),
            tile: number,
            position: self.among_its_code(number),
            kernel: implementation.kernel,
            spec: CallSpec {
                n_inputs: recorded.codelet.relation().n_inputs(),
                ints: recorded.ints.clone(),
                scalars: recorded.scalars.clone(),
                in_place: recorded.codelet.in_place,
                ..CallSpec::default()
            },
            scratch_bytes: 0,
            places: Vec::new(),
            accesses: Vec::new(),
            gathered: gathered(recorded, points),
            flops: recorded.codelet.flops_per_point * points as f64,
            priority: recorded.priority,
            location: Some(recorded.location),
            scopes: recorded.scopes.clone(),
        }
    }

    /// The layout that the implementation of a tile needs an argument in.
    fn need(&self, arg: usize, tile: usize) -> Option<Layout> {
        self.implementation(tile).need(arg)
    }

    /// An error about an argument.
    fn of_argument(&self, arg: usize, error: Error) -> Error {
        let Recorded { codelet, location, .. } = self.recorded;
        let argument = &codelet.relation().args()[arg].name;
        error.of_codelet(codelet.name).with_arguments(argument).at(location)
    }
}

impl Lowering<'_> {
    /// Appends the tasks of a recorded task's tiles, and whatever they need before them.
    pub fn task(&mut self, index: usize) -> Result<()> {
        let (graph, cut) = (self.graph, self.cut);
        let recorded = &graph.tasks()[index];
        (self.line, self.priority) = (Some(recorded.location), recorded.priority);
        self.scopes = &recorded.scopes;
        let outputs = &recorded.args[recorded.codelet.relation().n_inputs()..];
        // What was left to be reduced where this task writes is settled before its first tile.
        for var in outputs {
            for tile in self.tiles[var.array].through(var).iter().flat_map(View::tiles) {
                self.finish_partials(tile.buffer, &tile.bytes(var.dtype))?;
            }
        }
        for arg in recorded.codelet.relation().n_inputs()..recorded.args.len() {
            self.carry(recorded, arg)?;
        }
        let mut whole = Whole::new(index, recorded, &cut.tasks[index]);
        let tiles = task_tiles(recorded, &whole.cut.tiles)?;
        for arg in 0..recorded.args.len() {
            let is_output = arg >= recorded.codelet.relation().n_inputs();
            whole.stages.push(if is_output { self.stage((index, recorded), arg, &tiles)? } else { None });
        }
        for (number, (tile, position)) in tiles.iter().enumerate() {
            self.tile = (number, tiles.len());
            self.tile(&mut whole, tile, position)?;
        }
        for (var, stage) in recorded.args.iter().zip(&whole.stages) {
            stage.iter().try_for_each(|stage| self.unstage(var, stage))?;
        }
        for var in outputs {
            self.assembled.remove(&var.array);
            self.is_behind[var.array] = false;
        }
        Ok(())
    }

    /// Appends the task of one tile.
    fn tile(&mut self, whole: &mut Whole<'_>, tile: &Tile, position: &[usize]) -> Result<()> {
        let regions = whole.recorded.bound.regions(tile);
        let mut task = whole.task(self.tile, tile);
        for (arg, region) in regions.into_iter().enumerate() {
            let ready = match arg < task.spec.n_inputs {
                true => self.argument_to_read(whole, arg, region),
                false => self.argument_to_write(whole, arg, region, position, &mut task),
            };
            let ready = ready.map_err(|error| whole.of_argument(arg, error))?;
            let access = (!ready.access.range.is_empty()).then_some(ready.access);
            task.argument(ready.spec, ready.place, access);
        }
        let implementation = whole.implementation(self.tile.0);
        task.algorithm = (whole.recorded.codelet.algorithms)(implementation, &task.spec);
        task.scratch_bytes = (whole.recorded.codelet.scratch)(implementation, &task.spec);
        self.push(task)
    }

    fn argument_to_read(&mut self, whole: &mut Whole<'_>, arg: usize, region: Region) -> Result<Ready> {
        let (var, need) = (self.as_left(&whole.recorded.args[arg]), whole.need(arg, self.tile.0));
        let view = match &mut whole.views[arg] {
            Some(view) => view,
            unknown => unknown.insert(self.view_to_read(&var)?),
        };
        self.input(&var, view, region, need)
    }

    /// Likewise; a sum over several tiles goes to the partial result of its group.
    fn argument_to_write(
        &mut self,
        whole: &mut Whole<'_>,
        arg: usize,
        region: Region,
        position: &[usize],
        task: &mut Task,
    ) -> Result<Ready> {
        let (var, need) = (&whole.recorded.args[arg], whole.need(arg, self.tile.0));
        let stage = whole.stages[arg].as_ref();
        if whole.views[arg].is_none() {
            whole.views[arg] = match stage {
                Some(stage) => Some(stage.view().clone()),
                None => self.tiles[var.array].through(var),
            };
        }
        let mut ready = self.output(var, whole.views[arg].as_ref(), region, need)?;
        match &whole.reductions[arg] {
            Some(reduction) if reduction.n_tiles > 1 => {
                let most = reduction.n_tiles;
                let groups = if whole.agree { whole.cut.groups.clamp(1, most) } else { most };
                let number = reduction.tile_number(position);
                let group = number * groups / most;
                let adds = number > 0 && (number - 1) * groups / most == group;
                task.spec.accumulate |= adds;
                ready.access.reads = adds;
                if groups > 1 {
                    self.divert_to_partials(&mut ready, groups, group, reduction.how)?;
                }
            }
            _ => {
                let declared = &whole.recorded.codelet.relation().args()[arg];
                ready.access.reads = declared.mode == Mode::ReadWrite;
                let is_part = var.shape.len() < self.graph.arrays()[var.array].shape.len();
                // Where codes share the tiles, those of each are counted for themselves.
                let is_of_all = task.position == task.tile;
                if is_part && task.tile.1 > 1 && stage.is_none() && is_of_all {
                    task.position = (ready.access.range.start, self.out.buffers[ready.place.buffer].bytes);
                }
            }
        }
        Ok(ready)
    }
}

/// The arguments that data index; each point of the iteration reads one element of them.
fn gathered(recorded: &Recorded, points: usize) -> Vec<Gathered> {
    let of = |(arg, var): (usize, &Var)| {
        let dims: Vec<bool> = recorded.bound.dims(arg).iter().map(Option::is_none).collect();
        dims.contains(&true).then(|| Gathered { arg, dims, bytes: points.saturating_mul(var.dtype.bytes()) })
    };
    recorded.args.iter().enumerate().filter_map(of).collect()
}
