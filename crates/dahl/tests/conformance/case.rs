//! The calls that codelets are tried on, drawn from what they say themselves.

use dahl::op::CODELETS;
use dahl_runtime::array::{Dtype, Region, Shape};
use dahl_runtime::codelet::relation::{Bound, Split, Tile, TileSize};
use dahl_runtime::codelet::{Codelet, Draw, Implementation, Sample, SampleArg, Values, for_each_index};
use std::fmt;
use std::ops::Range;

/// Samples per codelet. Each comes whole and as a random tile.
const N_SAMPLES: usize = 45;

/// One call of a kernel: a sample, the contents of its arguments, and the tile to compute.
#[derive(Clone)]
pub struct Case {
    pub codelet: &'static Codelet,
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
    /// Sample `number` of a codelet, whole.
    pub fn new(codelet: &'static Codelet, number: usize, draw: &mut Draw) -> Self {
        let sample = codelet.sample.unwrap_or_else(|| panic!("{} has no samples", codelet.name))(draw);
        let shapes: Vec<Shape> = sample.args.iter().map(|arg| arg.shape).collect();
        let bound = codelet.relation().bind(&shapes, &sample.ints);
        let bound = bound.unwrap_or_else(|error| panic!("sample {number} of {}: {error}", codelet.name));
        let data = sample.args.iter().map(|arg| contents(arg, draw)).collect();
        let regions = bound.regions(&Tile::whole(&bound));
        Case { codelet, sample, bound, data, regions, accumulate: false, is_special: false }
    }

    /// How many arguments are only read.
    pub fn n_inputs(&self) -> usize {
        self.codelet.relation().n_inputs()
    }

    /// The element type of an argument when this type is computed in.
    pub fn dtype_of(&self, arg: usize, dtype: Dtype) -> Dtype {
        self.sample.args[arg].dtype.unwrap_or(dtype)
    }

    /// The contents of an argument's region, row by row, as numbers that an array holds when `dtype` is
    /// computed in.
    pub fn data_in(&self, arg: usize, region: &Region, dtype: Dtype) -> Vec<f64> {
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
    pub fn with_special_values(mut self, draw: &mut Draw) -> Self {
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

/// The element types that a codelet computes in.
pub fn dtypes(codelet: &Codelet) -> impl Iterator<Item = Dtype> {
    codelet.implementations.iter().filter(|i| i.name == "reference").map(|i| i.dtype)
}

/// The implementations of a codelet other than the reference, in one element type.
pub fn fast(codelet: &Codelet, dtype: Dtype) -> impl Iterator<Item = &'static Implementation> {
    codelet.implementations.iter().filter(move |i| i.name != "reference" && i.dtype == dtype)
}

/// All cases of all codelets: whole calls and tiles, fresh and accumulating, with and without special values.
pub fn all_cases() -> impl Iterator<Item = Case> {
    CODELETS.iter().flat_map(|codelet| {
        let adds = codelet.relation().args().iter().any(|arg| arg.accumulate.is_some());
        (0..N_SAMPLES).flat_map(move |number| {
            let mut draw = Draw::new(number);
            let mut whole = Case::new(codelet, number, &mut draw);
            let mut tile = whole.clone().one_tile(&mut draw);
            // Sample counts repeat every nine draws, so these go by other periods.
            whole.accumulate = adds && number % 2 == 0;
            tile.accumulate = adds && number % 4 < 2;
            if number % 5 == 0 {
                whole = whole.with_special_values(&mut draw);
                tile = tile.with_special_values(&mut draw);
            }
            [whole, tile]
        })
    })
}

/// Cuts up to three axes, each into a few ranges.
pub fn random_cuts(bound: &Bound, draw: &mut Draw) -> Vec<(usize, Vec<Range<usize>>)> {
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
