//! The calls that codelets are tried on, drawn from what they say themselves.

use super::compare::same_bits;
use super::{Arg, Prepared, Settings, failure};
use crate::codelet::relation::{Bound, Split, Tile, TileSize};
use crate::codelet::{Codelet, Draw, Needs, Sample, SampleArg, Values, for_each_index};
use crate::error::Result;
use crate::shape::{Dtype, Layout, Region, Shape};
use std::fmt;
use std::ops::Range;

/// Samples per codelet. Each comes whole and as a random tile.
const N_SAMPLES: usize = 45;

/// One call of a kernel: a sample, the contents of its arguments, and the tile to compute.
#[derive(Clone)]
pub struct Case {
    /// The codelet.
    pub codelet: &'static Codelet,
    /// Shapes and parameters.
    pub sample: Sample,
    /// The relation bound to the sample's shapes.
    pub bound: Bound,
    /// The contents of the whole arguments, row by row.
    pub data: Vec<Vec<f64>>,
    /// What the call reads and writes of each argument.
    pub regions: Vec<Region>,
    /// Whether it adds to what the outputs hold.
    pub accumulate: bool,
    /// Whether there are infinities and NaN among the inputs.
    pub is_special: bool,
}

impl Case {
    /// All cases of a codelet: whole calls and tiles, fresh and accumulating, with and without special
    /// values.
    ///
    /// # Errors
    ///
    /// A codelet without samples, and one whose samples do not fit its relation.
    pub fn all(codelet: &'static Codelet) -> Result<Vec<Case>> {
        let adds = codelet.relation().args().iter().any(|arg| arg.accumulate.is_some());
        let mut cases = Vec::with_capacity(2 * N_SAMPLES);
        for number in 0..N_SAMPLES {
            let mut draw = Draw::new(number);
            let mut whole = Case::new(codelet, number, &mut draw)?;
            let mut tile = whole.clone().one_tile(&mut draw);
            // Sample counts repeat every nine draws, so these go by other periods.
            whole.accumulate = adds && number % 2 == 0;
            tile.accumulate = adds && number % 4 < 2;
            if number % 5 == 0 {
                whole = whole.with_special_values(&mut draw);
                tile = tile.with_special_values(&mut draw);
            }
            cases.extend([whole, tile]);
        }
        Ok(cases)
    }

    /// Sample `number` of a codelet, whole.
    pub(super) fn new(codelet: &'static Codelet, number: usize, draw: &mut Draw) -> Result<Self> {
        let sample =
            codelet.sample.ok_or_else(|| failure(codelet.name, "it has no samples: add `.samples(…)`"))?;
        let sample = sample(draw);
        let shapes: Vec<Shape> = sample.args.iter().map(|arg| arg.shape).collect();
        let bound = codelet.relation().bind(&shapes, &sample.ints);
        let bound = bound.map_err(|error| failure(codelet.name, format!("sample {number}: {error}")))?;
        let data = sample.args.iter().map(|arg| contents(arg, draw)).collect();
        let regions = bound.regions(&Tile::whole(&bound));
        Ok(Case { codelet, sample, bound, data, regions, accumulate: false, is_special: false })
    }

    /// How many arguments are only read.
    pub fn n_inputs(&self) -> usize {
        self.codelet.relation().n_inputs()
    }

    /// The element type of an argument when this type is computed in.
    pub(super) fn dtype_of(&self, arg: usize, dtype: Dtype) -> Dtype {
        self.sample.args[arg].dtype.unwrap_or(dtype)
    }

    /// The contents of an argument's region, row by row, as numbers that an array holds when `dtype` is
    /// computed in.
    pub(super) fn data_in(&self, arg: usize, region: &Region, dtype: Dtype) -> Vec<f64> {
        let shape = self.sample.args[arg].shape;
        let is_integer = matches!(self.dtype_of(arg, dtype), Dtype::U8 | Dtype::U32);
        let spread = is_integer && matches!(self.sample.args[arg].values, Values::Any | Values::Few);
        let mut values = Vec::new();
        for_each_index(region, |index| {
            let at = index.iter().zip(shape.iter()).fold(0, |at, (i, extent)| at * extent + i);
            let value = self.data[arg][at];
            values.push(if spread { ((value + 2.0) * 50.0).floor() } else { value });
        });
        values
    }

    /// A few infinities and NaN in the inputs, where they may hold any number.
    pub(super) fn with_special_values(mut self, draw: &mut Draw) -> Self {
        self.is_special = true;
        let n_inputs = self.n_inputs();
        for (arg, data) in self.sample.args.iter().zip(&mut self.data).take(n_inputs) {
            if matches!(arg.values, Values::Any | Values::Few) && !data.is_empty() {
                for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                    data[draw.below(arg.shape.len())] = value;
                }
            }
        }
        self
    }

    /// Runs an implementation and returns its outputs.
    ///
    /// # Errors
    ///
    /// Those of the kernel.
    pub fn run(&self, name: &str, dtype: Dtype, window: Window) -> Result<Vec<Vec<f64>>> {
        let implementation = self.codelet.implementation(name, dtype);
        let implementation =
            implementation.ok_or_else(|| failure(self, format!("there is no '{name}' for {dtype}")))?;
        let args = (0..self.regions.len()).map(|i| {
            let layout = match implementation.needs {
                Needs::Layouts(layouts) => layouts[i],
                Needs::Nothing => Layout::RowMajor,
            };
            let region = self.regions[i];
            let mut arg = self.memory(i, dtype, layout, window.around(&region, layout));
            arg.fill(&self.data_in(i, &region, dtype));
            arg
        });
        let args = self.call(name, dtype, args.collect())?;
        Ok(args.iter().skip(self.n_inputs()).map(Arg::values).collect())
    }

    /// A tile in memory that holds the whole arrays must give the same bits whether the rest of them is there
    /// or poisoned, and leave the rest as it is: declared regions are sufficient.
    pub(super) fn check_regions(&self, dtype: Dtype) -> Result<()> {
        let args = |is_poisoned: bool| -> Vec<Arg> {
            let arg = |i: usize| {
                let whole = Region::whole(self.sample.args[i].shape);
                let mut arg = self.memory(i, dtype, Layout::RowMajor, whole);
                let held = if is_poisoned { self.regions[i] } else { whole };
                arg.fill_region(&held, &self.data_in(i, &held, dtype));
                arg
            };
            (0..self.regions.len()).map(arg).collect()
        };
        let poisoned = args(true);
        let before: Vec<_> = poisoned.iter().map(Arg::values_outside).collect();
        let poisoned = self.call("reference", dtype, poisoned)?;
        let full = self.call("reference", dtype, args(false))?;
        for i in 0..self.regions.len() {
            same_bits(self, "with all else poisoned", &full[i].values(), &poisoned[i].values())?;
            same_bits(self, "outside of its regions", &before[i], &poisoned[i].values_outside())?;
        }
        Ok(())
    }

    /// Argument `i` in memory that holds `tile` of it, all of it NaN or 255.
    fn memory(&self, i: usize, dtype: Dtype, layout: Layout, tile: Region) -> Arg {
        let shape = self.sample.args[i].shape;
        Arg::new(self.dtype_of(i, dtype), layout, shape, tile, self.regions[i])
    }

    /// Calls an implementation and returns the arguments.
    fn call(&self, name: &str, dtype: Dtype, args: Vec<Arg>) -> Result<Vec<Arg>> {
        let settings = Settings {
            n_inputs: self.n_inputs(),
            ints: &self.sample.ints,
            scalars: &self.sample.scalars,
            accumulate: self.accumulate,
        };
        let mut prepared = Prepared::new(self.codelet, name, dtype, args, &settings);
        prepared.run().map_err(|error| failure(self, format!("{name}, {dtype}: {error:#}")))?;
        Ok(prepared.into_args())
    }

    /// The call for one tile of a random tiling.
    fn one_tile(mut self, draw: &mut Draw) -> Self {
        let mut tile = Tile::whole(&self.bound);
        for (axis, ranges) in random_cuts(&self.bound, draw) {
            tile = tile.with(axis, ranges[draw.below(ranges.len())].clone());
        }
        self.regions = self.bound.regions(&tile);
        self
    }
}

/// Cuts up to three axes, each into a few ranges.
pub(super) fn random_cuts(bound: &Bound, draw: &mut Draw) -> Vec<(usize, Vec<Range<usize>>)> {
    let mut cuts = Vec::new();
    for (axis, bound_axis) in bound.axes().iter().enumerate() {
        if bound_axis.split == Split::Never || draw.below(3) == 0 {
            continue;
        }
        let extent = bound_axis.extent;
        let size = match draw.below(2) {
            0 => TileSize::Count(draw.between(1, 4)),
            _ => TileSize::Size(draw.between((extent / 4).max(1), extent.max(1))),
        };
        cuts.push((axis, size.cut(extent)));
    }
    while cuts.len() > 3 {
        cuts.remove(draw.below(cuts.len()));
    }
    cuts
}

/// How the regions of a call lie in their tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// Each fills its tile.
    Whole,
    /// Row-major tiles hold more along the first dimension, so that regions are still contiguous.
    Contiguous,
    /// Tiles hold more on all sides.
    Around,
}

impl Window {
    /// A tile that holds this region.
    fn around(self, region: &Region, layout: Layout) -> Region {
        let mut tile: Vec<_> = (0..region.rank()).map(|dim| region.range(dim)).collect();
        let n_wider = match self {
            Window::Around => tile.len(),
            Window::Contiguous if layout == Layout::RowMajor => tile.len().min(1),
            _ => 0,
        };
        for range in &mut tile[..n_wider] {
            *range = range.start.saturating_sub(1)..range.end + 2;
        }
        Region::new(&tile)
    }
}

fn contents(arg: &SampleArg, draw: &mut Draw) -> Vec<f64> {
    let mut value = || match &arg.values {
        Values::Any => draw.unit(),
        Values::Few => draw.below(4) as f64 - 1.0,
        Values::Within(range) => range.start + (draw.unit() + 1.0) / 2.0 * (range.end - range.start),
        Values::Below(n) => draw.below(*n) as f64,
    };
    (0..arg.shape.len()).map(|_| value()).collect()
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.codelet.name)?;
        for (region, arg) in self.regions.iter().zip(&self.sample.args) {
            write!(f, " {region} of {}", arg.shape)?;
        }
        let Sample { ints, scalars, .. } = &self.sample;
        write!(f, " {ints:?} {scalars:?}{}", if self.accumulate { " +=" } else { "" })?;
        write!(f, "{}", if self.is_special { " with infinities and NaN" } else { "" })
    }
}
