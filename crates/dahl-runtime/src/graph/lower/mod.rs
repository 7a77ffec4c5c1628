//! From tasks on whole arrays to tasks on tile buffers.
//!
//! Every recorded task is cut into tiles as its [`TaskCut`] says. An array is cut the way its first writer is cut,
//! so an output tile always is (a contiguous part of) one buffer. An input region that lies within one buffer is
//! used where it is; one that spans several, or that a kernel needs in another form, is assembled into a buffer
//! of its own (this is how halos arise). Where a reduced axis is cut, the tiles are put into groups; the tiles of
//! a group accumulate one after the other into the group's partial result, and the partial results are reduced in
//! order just before somebody needs the sum. Neither depends on who executes what.

use super::cut::{Cut, TaskCut};
use super::edges::data_edges;
use super::lowered::{Access, Buffer, BufferKind, Gathered, Lowered, Place, Task};
use super::tiles::{TileOf, Tiles, View, whole};
use super::{Graph, Recorded, Role, StateId, Var};
use crate::bytes::ALIGN;
use crate::codelet::relation::{Accumulate, Mode, Split, Tile, TileSize};
use crate::codelet::{ArgSpec, CallSpec, Needs, builtin};
use crate::error::{Error, ErrorKind, Result};
use crate::shape::{Dtype, Layout, Region, Shape};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::panic::Location;

/// Elements that one reducing task handles: enough to outweigh its overhead, few enough to share the work out.
const REDUCE_ELEMENTS: usize = 4096;

/// Cuts the recorded tasks as `cut` says and orders the resulting tasks by their accesses.
pub fn lower(graph: &Graph, cut: &Cut) -> Result<Lowered> {
    if cut.tasks.len() != graph.tasks().len() || cut.layouts.len() != graph.arrays().len() {
        return Err(Error::new(ErrorKind::Plan, "the cut was made for another graph: make a new plan"));
    }
    check_states(graph)?;
    if graph.depth() > MAX_DEPTH {
        let message = format!(
            "the graph has a depth of {}, and at most {MAX_DEPTH} steps can be under way: use a smaller one",
            graph.depth()
        );
        return Err(Error::new(ErrorKind::Plan, message));
    }
    let mut lowering = Lowering::new(graph, cut)?;
    for index in 0..graph.tasks().len() {
        lowering.task(index)?;
    }
    for buffer in 0..lowering.out.buffers.len() {
        lowering.finish_partials(buffer, &(0..usize::MAX))?;
    }
    let mut lowered = lowering.out;
    check_bytes(&lowered)?;
    lowered.edges = data_edges(&lowered.buffers, &lowered.tasks);
    Ok(lowered)
}

/// Tasks that a graph may have. Their numbers fit 32 bits by far; a slip of the pen must not make billions.
pub(crate) const MAX_TASKS: usize = 1 << 22;

/// Steps that may be under way at a time: their number can be added to that of any step.
const MAX_DEPTH: usize = u32::MAX as usize;

/// Refuses two arrays that stand for the same state: no edge would order the tasks of the one and of the other.
fn check_states(graph: &Graph) -> Result<()> {
    let mut seen: HashMap<StateId, &str> = HashMap::new();
    for array in graph.arrays() {
        if let Role::State(id) = array.role
            && let Some(other) = seen.insert(id, &array.name)
        {
            let message = format!(
                "{other} and {} are both recorded for state {}: record it once, and use views of that array",
                array.name, id.0
            );
            return Err(Error::new(ErrorKind::Usage, message));
        }
    }
    Ok(())
}

/// Refuses a graph whose buffers have more bytes than any memory.
fn check_bytes(lowered: &Lowered) -> Result<()> {
    let add = |sum: usize, (i, buffer): (usize, &Buffer)| {
        let versions = buffer.bytes.checked_next_multiple_of(ALIGN)?.checked_mul(lowered.versions(i))?;
        sum.checked_add(versions).filter(|&sum| sum <= isize::MAX as usize)
    };
    match lowered.buffers.iter().enumerate().try_fold(0, add) {
        Some(_) => Ok(()),
        None => {
            let depth = lowered.depth;
            let message = format!(
                "a step of this graph, {depth} versions of each port and output included, takes more bytes than any memory \
                 has: use smaller arrays or a smaller depth"
            );
            Err(Error::new(ErrorKind::Memory, message))
        }
    }
}

/// An array, or a part of it that is put together, that no memory holds.
fn too_large(name: &str, shape: Shape) -> Error {
    let message = format!("{name} of {shape} is too large for any memory: use smaller arrays");
    Error::new(ErrorKind::Memory, message)
}

/// A line of the program.
type Line = Option<&'static Location<'static>>;

/// How many groups have a partial result, how they are combined, and the line that recorded the task.
type Pending = (usize, Accumulate, Line);

/// Partial results of one buffer, not yet reduced.
struct Partials {
    buffer: usize,
    dtype: Dtype,
    /// Bytes from one group's part to the next.
    stride: usize,
    /// What is pending for each byte range.
    pending: BTreeMap<(usize, usize), Pending>,
    /// The longest of these ranges so far.
    longest: usize,
}

impl Partials {
    /// Takes out what is pending for these bytes.
    fn take(&mut self, bytes: &Range<usize>) -> Vec<((usize, usize), Pending)> {
        // What begins earlier is too short to come so far.
        let from = (bytes.start.saturating_sub(self.longest), 0);
        let near = self.pending.range(from..(bytes.end, 0));
        let keys: Vec<(usize, usize)> = near
            .map(|(&key, _)| key)
            .filter(|&(start, end)| start < bytes.end && bytes.start < end)
            .collect();
        keys.into_iter().filter_map(|key| Some((key, self.pending.remove(&key)?))).collect()
    }
}

struct Lowering<'a> {
    graph: &'a Graph,
    cut: &'a Cut,
    tiles: Vec<Tiles>,
    partials: HashMap<usize, Partials>,
    /// Regions of each array assembled so far, until it is written again.
    assembled: HashMap<usize, HashMap<(Var, Region, Layout), Place>>,
    /// Which tile of the task is being lowered; what is assembled for it belongs to it.
    tile: (usize, usize),
    /// How urgent that task is; what is inserted for it is as urgent.
    priority: i32,
    /// The line that recorded that task.
    line: Line,
    out: Lowered,
}

/// An argument made ready for a call.
struct Ready {
    place: Place,
    spec: ArgSpec,
    access: Access,
}

impl<'a> Lowering<'a> {
    fn new(graph: &'a Graph, cut: &'a Cut) -> Result<Self> {
        let out = Lowered { depth: graph.depth(), ..Lowered::default() };
        let (tiles, partials, assembled) = (Vec::new(), HashMap::new(), HashMap::new());
        let mut lowering =
            Lowering { graph, cut, tiles, partials, assembled, tile: (0, 1), priority: 0, line: None, out };
        let first_writers = first_writers(graph);
        for (array, &writer) in first_writers.iter().enumerate() {
            lowering.cut_array(array, writer)?;
        }
        Ok(lowering)
    }

    /// Cuts an array as its first writer is cut, and makes its buffers.
    fn cut_array(&mut self, array: usize, first_writer: Option<(usize, usize)>) -> Result<()> {
        let info = &self.graph.arrays()[array];
        let layout = self.cut.layouts[array];
        let first_buffer = self.out.buffers.len();
        let tiles = match (info.role, first_writer) {
            (Role::Temporary, Some((task, arg))) => {
                let mut cuts = self.output_cuts(task, arg)?;
                let var = &self.graph.tasks()[task].args[arg];
                if var.shape != info.shape {
                    // A reshaped view keeps dimension 0; the others are then not cut. A part cuts nothing.
                    let uncut = cuts.iter().skip(1).all(|ranges| ranges.len() <= 1);
                    let is_whole = var.shape.len() == info.shape.len();
                    if !uncut || !is_whole || var.shape.first() != info.shape.first() {
                        cuts = Vec::new();
                    } else {
                        cuts.truncate(1);
                        cuts.extend(info.shape[1..].iter().map(|&extent| whole(extent)));
                    }
                }
                match cuts.is_empty() {
                    true => Tiles::uncut(info.shape, layout, first_buffer),
                    false => Tiles::grid(info.shape, cuts, layout, first_buffer),
                }
            }
            _ => Tiles::uncut(info.shape, layout, first_buffer),
        };
        let kind = match info.role {
            Role::Temporary => BufferKind::Temporary,
            Role::Port | Role::Output => BufferKind::Ring,
            Role::State(id) => BufferKind::State(id),
        };
        if kind != BufferKind::Temporary && layout != Layout::RowMajor {
            let message =
                format!("{} is shared with the program and must stay in row-major order", info.name);
            return Err(Error::new(ErrorKind::Plan, message));
        }
        if !matches!(layout, Layout::RowMajor | Layout::Lanes(1..)) {
            let message =
                format!("{} lies as {layout:?}: use row-major order or at least one lane", info.name);
            return Err(Error::new(ErrorKind::Plan, message));
        }
        for (i, region) in tiles.regions().iter().enumerate() {
            let name = if tiles.n_tiles() == 1 { info.name.clone() } else { format!("{}.{i}", info.name) };
            let bytes = layout.checked_bytes(region, info.dtype);
            let bytes = bytes.ok_or_else(|| too_large(&info.name, info.shape))?;
            self.out.buffers.push(Buffer { name, dtype: info.dtype, bytes, kind });
        }
        self.out.rings.push((kind == BufferKind::Ring).then_some((first_buffer, info.role)));
        self.tiles.push(tiles);
        Ok(())
    }

    /// The ranges of each dimension of an output over all tiles of a task.
    fn output_cuts(&self, task: usize, arg: usize) -> Result<Vec<Vec<Range<usize>>>> {
        let recorded = &self.graph.tasks()[task];
        let rank = recorded.args[arg].shape.rank();
        let (mut cuts, mut known) = (vec![Vec::new(); rank], vec![HashSet::new(); rank]);
        for (tile, _) in task_tiles(recorded, &self.cut.tasks[task])? {
            let region = recorded.bound.regions(&tile)[arg];
            for dim in 0..rank {
                if known[dim].insert(region.range(dim)) {
                    cuts[dim].push(region.range(dim));
                }
            }
        }
        Ok(cuts)
    }

    fn task(&mut self, index: usize) -> Result<()> {
        let recorded = &self.graph.tasks()[index];
        self.line = Some(recorded.location);
        let cut = &self.cut.tasks[index];
        let relation = recorded.codelet.relation();
        let n_inputs = relation.n_inputs();
        let tiles = task_tiles(recorded, cut)?;
        self.priority = recorded.priority;
        let reductions = reductions(recorded, cut);
        // All accumulating outputs of a call start afresh or add; where they disagree, no tile adds.
        let reduced: Vec<&Reduction> = reductions.iter().flatten().collect();
        let agree = reduced.windows(2).all(|pair| pair[0].axes == pair[1].axes);
        // What was left to be reduced where this task writes is settled before its first tile.
        for var in &recorded.args[n_inputs..] {
            for tile in self.tiles[var.array].through(var).iter().flat_map(View::tiles) {
                self.finish_partials(tile.buffer, &tile.bytes(var.dtype))?;
            }
        }
        let mut views: Vec<Option<View>> = vec![None; recorded.args.len()];
        for (number, (tile, position)) in tiles.iter().enumerate() {
            self.tile = (number, tiles.len());
            let regions = recorded.bound.regions(tile);
            let (mut specs, mut places, mut accesses) = (Vec::new(), Vec::new(), Vec::new());
            let mut accumulate = false;
            let mut lies_at = self.tile;
            for (arg, var) in recorded.args.iter().enumerate() {
                let need = match cut.implementation.needs {
                    Needs::Nothing => None,
                    Needs::Layouts(layouts) => Some(layouts[arg]),
                };
                let fail = |error: Error| {
                    let argument = &relation.args()[arg].name;
                    error.of_codelet(recorded.codelet.name).with_arguments(argument).at(recorded.location)
                };
                if views[arg].is_none() {
                    views[arg] = match arg < n_inputs {
                        true => Some(self.view_to_read(var).map_err(fail)?),
                        false => self.tiles[var.array].through(var),
                    };
                }
                let ready = if let (Some(view), true) = (&views[arg], arg < n_inputs) {
                    self.input(var, view, regions[arg], need).map_err(fail)?
                } else {
                    let mut ready =
                        self.output(var, views[arg].as_ref(), regions[arg], need).map_err(fail)?;
                    let declared = &relation.args()[arg];
                    match &reductions[arg] {
                        Some(reduction) if reduction.n_tiles > 1 => {
                            let q = reduction.tile_number(position);
                            let groups = if agree {
                                cut.groups.clamp(1, reduction.n_tiles)
                            } else {
                                reduction.n_tiles
                            };
                            let group = q * groups / reduction.n_tiles;
                            let adds = q > 0 && (q - 1) * groups / reduction.n_tiles == group;
                            accumulate |= adds;
                            ready.access.reads = adds;
                            if groups > 1 {
                                self.divert_to_partials(&mut ready, groups, group, reduction.how)
                                    .map_err(fail)?;
                            }
                        }
                        _ => {
                            ready.access.reads = declared.mode == Mode::ReadWrite;
                            let is_part = var.shape.len() < self.graph.arrays()[var.array].shape.len();
                            if is_part && tiles.len() > 1 {
                                lies_at =
                                    (ready.access.range.start, self.out.buffers[ready.place.buffer].bytes);
                            }
                        }
                    }
                    ready
                };
                specs.push(ready.spec);
                places.push(ready.place);
                if !ready.access.range.is_empty() {
                    accesses.push(Access { arg, ..ready.access });
                }
            }
            let spec = CallSpec {
                args: specs,
                n_inputs,
                ints: recorded.ints.clone(),
                scalars: recorded.scalars.clone(),
                accumulate,
                in_place: recorded.codelet.in_place,
            };
            let points = recorded.bound.points_in(tile);
            self.reserve(1)?;
            self.out.tasks.push(Task {
                codelet: recorded.codelet.name,
                implementation: cut.implementation.name,
                version: cut.implementation.version,
                dtype: recorded.dtype,
                origin: Some(index),
                tile: self.tile,
                position: lies_at,
                kernel: cut.implementation.kernel,
                spec,
                places,
                accesses,
                gathered: gathered(recorded, points),
                flops: recorded.codelet.flops_per_point * points as f64,
                priority: recorded.priority,
                location: self.line,
            });
        }
        for var in &recorded.args[n_inputs..] {
            self.assembled.remove(&var.array);
        }
        Ok(())
    }

    /// The tiles of a view that is read, once per task. Where the cut of the array does not go with the view's shape, the whole
    /// array is assembled first.
    fn view_to_read(&mut self, var: &Var) -> Result<View> {
        if let Some(view) = self.tiles[var.array].through(var) {
            return Ok(view);
        }
        let info = &self.graph.arrays()[var.array];
        let whole = Var { offset: 0, shape: info.shape, ..*var };
        let tiles: Vec<TileOf> = self.tiles[var.array].through(&whole).iter().flat_map(View::tiles).collect();
        for tile in &tiles {
            self.finish_partials(tile.buffer, &tile.bytes(var.dtype))?;
        }
        let ready = self.assemble(&whole, &tiles, Region::whole(whole.shape), Layout::RowMajor)?;
        Ok(View::uncut(var, ready.place.buffer))
    }

    fn ready(var: &Var, tile: &TileOf, region: Region) -> Ready {
        let layout = tile.layout;
        let spec = ArgSpec { dtype: var.dtype, layout, tile: tile.region, region, extent: var.shape };
        let size = var.dtype.bytes();
        let elements = match (layout, region.is_empty()) {
            (_, true) => 0..0,
            (Layout::RowMajor, _) => {
                let last: Vec<usize> = region.hi().iter().map(|hi| hi - 1).collect();
                layout.offset(&tile.region, region.lo())..layout.offset(&tile.region, &last) + 1
            }
            (Layout::Lanes(_) | Layout::Strided(_), _) => 0..layout.len(&tile.region),
        };
        let offset = tile.offset * size;
        let range = offset + elements.start * size..offset + elements.end * size;
        Ready {
            place: Place { buffer: tile.buffer, offset },
            spec,
            access: Access { arg: 0, buffer: tile.buffer, range, reads: true, writes: false },
        }
    }

    fn input(&mut self, var: &Var, view: &View, region: Region, need: Option<Layout>) -> Result<Ready> {
        let touched: Vec<TileOf> = view.overlapping(&region).collect();
        for tile in &touched {
            self.finish_partials(tile.buffer, &tile.bytes(var.dtype))?;
        }
        let one = match touched.as_slice() {
            [] => view.tiles().next(),
            [tile] => Some(*tile),
            _ => None,
        };
        if let Some(tile) = one {
            let inside = if touched.is_empty() { Region::new(&vec![0..0; region.rank()]) } else { region };
            let ready = Self::ready(var, &tile, inside);
            let fits = need.is_none_or(|layout| layout == ready.spec.layout && ready.spec.is_contiguous());
            if fits || touched.is_empty() {
                return Ok(ready);
            }
        }
        self.assemble(var, &touched, region, need.unwrap_or(Layout::RowMajor))
    }

    /// Copies a region out of several tiles, or into another layout, once for all who need it.
    fn assemble(&mut self, var: &Var, tiles: &[TileOf], region: Region, layout: Layout) -> Result<Ready> {
        let key = (*var, region, layout);
        let spec = ArgSpec { dtype: var.dtype, layout, tile: region, region, extent: var.shape };
        let name = &self.graph.arrays()[var.array].name;
        let bytes =
            layout.checked_bytes(&region, var.dtype).ok_or_else(|| too_large(name, region.shape()))?;
        let known = self.assembled.get(&var.array).and_then(|regions| regions.get(&key));
        let place = match known {
            Some(&place) => place,
            None => {
                let (name, kind) = (format!("{name}{region}"), BufferKind::Temporary);
                self.out.buffers.push(Buffer { name, dtype: var.dtype, bytes, kind });
                let place = Place { buffer: self.out.buffers.len() - 1, offset: 0 };
                let pieces: Vec<Ready> = tiles
                    .iter()
                    .map(|tile| Self::ready(var, tile, tile.region.intersection(&region)))
                    .collect();
                let ranges: Option<Vec<Range<usize>>> =
                    pieces.iter().map(|piece| range_within(&region, layout, &piece.spec.region)).collect();
                match ranges {
                    // Pieces that lie one after the other are each copied where they come from, as soon as they are there.
                    Some(ranges) if pieces.len() > 1 => {
                        let all = &self.tiles[var.array];
                        let numbers = tiles.iter().map(|tile| tile.buffer.wrapping_sub(all.first_buffer));
                        let (numbers, n_tiles) = (numbers.collect::<Vec<_>>(), all.n_tiles());
                        for ((piece, range), number) in pieces.into_iter().zip(ranges).zip(numbers) {
                            let own = if number < n_tiles { (number, n_tiles) } else { self.tile };
                            let spec = ArgSpec { region: piece.spec.region, ..spec.clone() };
                            let size = var.dtype.bytes();
                            self.push_assemble(
                                vec![piece],
                                spec,
                                place,
                                range.start * size..range.end * size,
                                own,
                            )?;
                        }
                    }
                    _ => self.push_assemble(pieces, spec.clone(), place, 0..bytes, self.tile)?,
                }
                self.assembled.entry(var.array).or_default().insert(key, place);
                place
            }
        };
        let access = Access { arg: 0, buffer: place.buffer, range: 0..bytes, reads: true, writes: false };
        Ok(Ready { place, spec, access })
    }

    /// Makes room for so many tasks.
    fn reserve(&mut self, n_tasks: usize) -> Result<()> {
        let tasks = &mut self.out.tasks;
        if n_tasks > MAX_TASKS - tasks.len() || tasks.try_reserve(n_tasks).is_err() {
            let n = n_tasks.saturating_add(tasks.len());
            let message = format!(
                "the graph is cut into {n} tasks or more, and there is room for {MAX_TASKS} at most: use larger tiles"
            );
            return Err(Error::new(ErrorKind::Plan, message));
        }
        Ok(())
    }

    /// Appends a task that copies pieces into a range of an assembled buffer.
    fn push_assemble(
        &mut self,
        pieces: Vec<Ready>,
        spec: ArgSpec,
        place: Place,
        range: Range<usize>,
        tile: (usize, usize),
    ) -> Result<()> {
        let dtype = spec.dtype;
        let mut task = Task {
            codelet: builtin::ASSEMBLE,
            implementation: "reference",
            version: builtin::VERSION,
            dtype,
            origin: None,
            tile,
            position: tile,
            kernel: builtin::assemble(dtype),
            spec: CallSpec { n_inputs: pieces.len(), ..CallSpec::default() },
            places: Vec::new(),
            accesses: Vec::new(),
            gathered: Vec::new(),
            flops: 0.0,
            priority: self.priority,
            location: self.line,
        };
        let access = Access { arg: pieces.len(), buffer: place.buffer, range, reads: false, writes: true };
        for (arg, piece) in pieces.into_iter().enumerate() {
            task.spec.args.push(piece.spec);
            task.places.push(piece.place);
            task.accesses.push(Access { arg, ..piece.access });
        }
        task.spec.args.push(spec);
        task.places.push(place);
        task.accesses.push(access);
        self.reserve(1)?;
        self.out.tasks.push(task);
        Ok(())
    }

    fn output(
        &mut self,
        var: &Var,
        view: Option<&View>,
        region: Region,
        need: Option<Layout>,
    ) -> Result<Ready> {
        let tile = view.and_then(|view| view.containing(&region));
        let name = &self.graph.arrays()[var.array].name;
        let Some(tile) = tile else {
            let message =
                format!("the region {region} of {name} is written in one piece but lies in several tiles");
            return Err(Error::new(ErrorKind::Plan, message));
        };
        let region = if region.is_empty() { Region::new(&vec![0..0; region.rank()]) } else { region };
        let mut ready = Self::ready(var, &tile, region);
        if !ready.spec.is_contiguous() || need.is_some_and(|layout| layout != ready.spec.layout) {
            let message = format!("the region {region} of {name} must be written contiguously in {need:?}");
            return Err(Error::new(ErrorKind::Plan, message));
        }
        ready.access.writes = true;
        Ok(ready)
    }

    /// Lets an output go to the partial result of `group` instead of the array itself.
    fn divert_to_partials(
        &mut self,
        ready: &mut Ready,
        groups: usize,
        group: usize,
        how: Accumulate,
    ) -> Result<()> {
        let target = ready.access.buffer;
        let bytes = self.out.buffers[target].bytes.next_multiple_of(ALIGN);
        let buffers = &mut self.out.buffers;
        let partials = self.partials.entry(target).or_insert_with(|| {
            let name = format!("{}.parts", buffers[target].name);
            let dtype = ready.spec.dtype;
            buffers.push(Buffer { name, dtype, bytes: 0, kind: BufferKind::Temporary });
            let (buffer, pending) = (buffers.len() - 1, BTreeMap::new());
            Partials { buffer, dtype, stride: bytes, pending, longest: 0 }
        });
        let bytes = groups.checked_mul(partials.stride).filter(|&bytes| bytes <= isize::MAX as usize);
        let Some(bytes) = bytes else {
            let message = format!(
                "{groups} partial results of {} are too large for any memory: use fewer groups or smaller arrays",
                buffers[target].name
            );
            return Err(Error::new(ErrorKind::Memory, message));
        };
        let size = &mut buffers[partials.buffer].bytes;
        *size = (*size).max(bytes);
        let range = (ready.access.range.start, ready.access.range.end);
        partials.longest = partials.longest.max(ready.access.range.len());
        partials.pending.insert(range, (groups, how, self.line));
        let shift = group * partials.stride;
        ready.place = Place { buffer: partials.buffer, offset: ready.place.offset + shift };
        ready.access.buffer = partials.buffer;
        ready.access.range = ready.access.range.start + shift..ready.access.range.end + shift;
        Ok(())
    }

    /// Reduces what is pending for these bytes of a buffer, neighbouring ranges together.
    fn finish_partials(&mut self, target: usize, bytes: &Range<usize>) -> Result<()> {
        let Some(partials) = self.partials.get_mut(&target) else { return Ok(()) };
        let size = partials.dtype.bytes();
        let mut ranges: Vec<(Range<usize>, usize, Accumulate, Line)> = Vec::new();
        for ((start, end), (groups, how, line)) in partials.take(bytes) {
            match ranges.last_mut() {
                Some((range, g, h, _)) if range.end == start && *g == groups && *h == how => range.end = end,
                _ => ranges.push((start..end, groups, how, line)),
            }
        }
        let (source, dtype, stride) = (partials.buffer, partials.dtype, partials.stride);
        let total = self.out.buffers[target].bytes / size;
        for (range, groups, how, location) in ranges {
            let elements = range.start / size..range.end / size;
            let cut = TileSize::AtMost(REDUCE_ELEMENTS);
            let n_tiles = cut.n_tiles(elements.len());
            self.reserve(n_tiles)?;
            for tile in 0..n_tiles {
                let part = cut.tile(elements.len(), tile);
                let part = elements.start + part.start..elements.start + part.end;
                let arg = |tile: Region, region: Region, extent: Shape| ArgSpec {
                    dtype,
                    layout: Layout::RowMajor,
                    tile,
                    region,
                    extent,
                };
                let (parts, sum) = (Shape::new(&[groups, stride / size]), Shape::new(&[total]));
                let bytes =
                    |group: usize| group * stride + part.start * size..group * stride + part.end * size;
                let read = |group: usize| Access {
                    arg: 0,
                    buffer: source,
                    range: bytes(group),
                    reads: true,
                    writes: false,
                };
                let mut accesses: Vec<Access> = (0..groups).map(read).collect();
                accesses.push(Access { arg: 1, buffer: target, range: bytes(0), reads: false, writes: true });
                self.out.tasks.push(Task {
                    codelet: builtin::REDUCE,
                    implementation: "reference",
                    version: builtin::VERSION,
                    dtype,
                    origin: None,
                    tile: (tile, n_tiles),
                    position: (tile, n_tiles),
                    kernel: builtin::reduce(dtype, how),
                    spec: CallSpec {
                        args: vec![
                            arg(Region::whole(parts), Region::new(&[0..groups, part.clone()]), parts),
                            arg(Region::whole(sum), Region::new(std::slice::from_ref(&part)), sum),
                        ],
                        n_inputs: 1,
                        ..CallSpec::default()
                    },
                    places: vec![Place { buffer: source, offset: 0 }, Place { buffer: target, offset: 0 }],
                    accesses,
                    gathered: Vec::new(),
                    flops: (part.len() * (groups - 1)) as f64,
                    priority: self.priority,
                    location,
                });
            }
        }
        Ok(())
    }
}

/// For each array, the first task that writes it, and by which argument.
fn first_writers(graph: &Graph) -> Vec<Option<(usize, usize)>> {
    let mut writers = vec![None; graph.arrays().len()];
    for (index, task) in graph.tasks().iter().enumerate() {
        for arg in task.codelet.relation().n_inputs()..task.args.len() {
            writers[task.args[arg].array].get_or_insert((index, arg));
        }
    }
    writers
}

/// Which elements of a buffer that holds the region `all` a part of it takes up, if they are a range: samples, in whole groups where they
/// lie in lanes, with all that belongs to them.
fn range_within(all: &Region, layout: Layout, part: &Region) -> Option<Range<usize>> {
    let is_whole = all.rank() > 0 && (1..all.rank()).all(|dim| all.range(dim) == part.range(dim));
    let before = part.lo().first()? - all.lo()[0];
    let is_last = part.hi()[0] == all.hi()[0];
    let lanes = match layout {
        Layout::RowMajor => 1,
        Layout::Lanes(lanes) => lanes,
        Layout::Strided(_) => return None,
    };
    let in_groups = before.is_multiple_of(lanes) && (is_last || part.shape()[0].is_multiple_of(lanes));
    let start = before * part.shape()[1..].iter().product::<usize>();
    (is_whole && in_groups).then(|| start..start + layout.len(part))
}

/// The tiles of a task, with their position along each cut axis.
fn task_tiles(recorded: &Recorded, cut: &TaskCut) -> Result<Vec<(Tile, Vec<usize>)>> {
    let axes = cut_axes(recorded, cut);
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

/// The cut axes and their ranges. A task without points has nothing to share out along its reduced axes; they stay
/// whole, because its tiles could not tell by their (empty) inputs which of them is the first and applies the bias.
fn cut_axes(recorded: &Recorded, cut: &TaskCut) -> Vec<(usize, Vec<Range<usize>>)> {
    let is_empty = recorded.bound.points() == 0;
    let stays = |axis: usize| is_empty && recorded.bound.axes()[axis].split == Split::Reduce;
    cut.tiles.iter().filter(|(axis, _)| !stays(*axis)).cloned().collect()
}

/// How the tiles of a task come together in one accumulating output.
struct Reduction {
    how: Accumulate,
    /// Which of the cut axes are reduced for this output, and into how many ranges each is cut.
    axes: Vec<Option<usize>>,
    n_tiles: usize,
}

impl Reduction {
    /// The number of a tile among those that are reduced into the same output elements.
    fn tile_number(&self, position: &[usize]) -> usize {
        let reduced = self.axes.iter().zip(position);
        reduced.fold(0, |number, (count, &i)| count.map_or(number, |count| number * count + i))
    }
}

/// For each argument that accumulates, over which of the cut axes.
fn reductions(recorded: &Recorded, cut: &TaskCut) -> Vec<Option<Reduction>> {
    let whole = Tile::whole(&recorded.bound);
    let args = recorded.codelet.relation().args();
    let of_arg = |arg: usize| {
        let how = args[arg].accumulate?;
        let axes: Vec<Option<usize>> = cut_axes(recorded, cut)
            .iter()
            .map(|(axis, ranges)| {
                let reduced = recorded.bound.axes()[*axis].split == Split::Reduce;
                let region = |range: &Range<usize>| {
                    recorded.bound.regions(&whole.clone().with(*axis, range.clone()))[arg]
                };
                // The output has the axis if cutting it cuts the output.
                (reduced && ranges.iter().all(|range| region(range) == region(&ranges[0])))
                    .then_some(ranges.len())
            })
            .collect();
        let n_tiles = axes.iter().flatten().product();
        Some(Reduction { how, axes, n_tiles })
    };
    (0..args.len()).map(of_arg).collect()
}

/// The arguments that data index; each point of the iteration reads one element of them.
fn gathered(recorded: &Recorded, points: usize) -> Vec<Gathered> {
    let of = |(arg, var): (usize, &Var)| {
        let dims: Vec<bool> = recorded.bound.dims(arg).iter().map(Option::is_none).collect();
        dims.contains(&true).then(|| Gathered { arg, dims, bytes: points.saturating_mul(var.dtype.bytes()) })
    };
    recorded.args.iter().enumerate().filter_map(of).collect()
}
