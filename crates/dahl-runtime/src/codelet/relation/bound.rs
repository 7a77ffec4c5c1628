//! A relation with its shapes: which axes may be split, and what each tile touches.

use super::interval::{Affine, Interval, hull};
use super::{Mode, Tile};
use crate::shape::{Region, Shape};
use std::ops::Range;

/// A relation whose axes have extents; made by [`Relation::bind`](super::Relation::bind).
#[derive(Clone, Debug)]
pub struct Bound {
    pub(super) axes: Vec<BoundAxis>,
    pub(super) args: Vec<BoundArg>,
    pub(super) roles: Vec<Role>,
    /// The equations, grouped into those that share axes.
    pub(super) components: Vec<Vec<Affine>>,
}

/// An axis with its extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundAxis {
    /// The name in the line; dimension `i` of `..` is called `.i`.
    pub name: String,
    /// How many values it takes.
    pub extent: usize,
    /// Whether and how it may be split.
    pub split: Split,
}

/// Whether and how an axis may be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// It indexes every output, so tiles write disjoint parts.
    Free,
    /// It is missing in at least one output, and every output where it is missing accumulates.
    Reduce,
    /// It must stay whole, or follows from other axes.
    Never,
}

/// What the iteration does with an axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Role {
    /// Where it stands in the equations, if in any.
    pub component: Option<usize>,
    /// Whether it runs freely, rather than being defined by an equation.
    pub independent: bool,
    /// Whether it goes wherever its equation says, rather than being limited to its extent. Such axes index
    /// inputs only, and a tile does not restrict them.
    pub follows: bool,
    /// The values it takes in some point.
    pub reach: Interval,
}

/// An argument with its shape.
#[derive(Clone, Debug)]
pub(super) struct BoundArg {
    pub mode: Mode,
    pub shape: Shape,
    /// The axis of each dimension; none where data index it.
    pub dims: Vec<Option<usize>>,
}

/// The interval of an index below `extent`.
pub(super) fn whole(extent: usize) -> Interval {
    Interval { lo: 0, hi: extent as i64 - 1 }
}

impl Bound {
    /// The axes: those with names in the order of the line, then those of `..`.
    pub fn axes(&self) -> &[BoundAxis] {
        &self.axes
    }

    /// The number of the axis with this name.
    pub fn axis(&self, name: &str) -> Option<usize> {
        self.axes.iter().position(|axis| axis.name == name)
    }

    /// The axis of each dimension of argument `arg`; none where data index it.
    pub fn dims(&self, arg: usize) -> &[Option<usize>] {
        &self.args[arg].dims
    }

    /// The shape of argument `arg`.
    pub fn shape(&self, arg: usize) -> Shape {
        self.args[arg].shape
    }

    /// The number of points of the iteration space: the product of the extents of all axes that are not
    /// defined by an equation. A number that does not fit is saturated.
    pub fn points(&self) -> usize {
        self.independent().fold(1, |points, axis| points.saturating_mul(self.axes[axis].extent))
    }

    /// The share of the points that belong to a tile. Where an axis that an equation defines is split, its
    /// points are taken to be spread evenly.
    pub fn points_in(&self, tile: &Tile) -> usize {
        let mut points = self.points() as u128;
        for (axis, range) in self.axes.iter().zip(tile.ranges()) {
            if range.len() != axis.extent {
                points = points * range.len() as u128 / axis.extent.max(1) as u128;
            }
        }
        points as usize
    }

    fn independent(&self) -> impl Iterator<Item = usize> {
        (0..self.axes.len()).filter(|&axis| self.roles[axis].independent)
    }

    /// What a tile touches of every argument, in call order.
    ///
    /// Outputs: all that the tile is responsible for, also elements to which nothing contributes (they are
    /// set to the start value). Inputs: the bounding box of what is read inside of the array; nothing if the
    /// tile has no output element. Empty regions have the range `0..0` in every dimension.
    pub fn regions(&self, tile: &Tile) -> Vec<Region> {
        let at: Vec<Interval> = (0..self.axes.len()).map(|axis| self.interval(tile, axis)).collect();
        let mut has_output = false;
        let mut regions = vec![Region::default(); self.args.len()];
        for (region, arg) in regions.iter_mut().zip(&self.args).filter(|(_, arg)| arg.mode != Mode::Read) {
            let ranges = arg.dims.iter().zip(arg.shape.iter());
            *region = region_of(ranges.map(|(dim, &extent)| dim.map_or(0..extent, |axis| tile.range(axis))));
            has_output |= !region.is_empty();
        }
        for (region, arg) in regions.iter_mut().zip(&self.args).filter(|(_, arg)| arg.mode == Mode::Read) {
            *region = if has_output { self.read(arg, &at) } else { region_of(arg.dims.iter().map(|_| 0..0)) };
        }
        regions
    }

    fn interval(&self, tile: &Tile, axis: usize) -> Interval {
        let Range { start, end } = tile.range(axis);
        if self.roles[axis].follows {
            debug_assert_eq!(
                start..end,
                0..self.axes[axis].extent,
                "{} cannot be split",
                self.axes[axis].name
            );
            return self.roles[axis].reach;
        }
        Interval { lo: start as i64, hi: end as i64 - 1 }
    }

    /// The bounding box of what an input is read for, when the axes have these intervals.
    fn read(&self, arg: &BoundArg, at: &[Interval]) -> Region {
        // Only what lies inside of this array counts, which in turn limits the other axes of its equations.
        let mut at = at.to_vec();
        for (dim, &extent) in arg.dims.iter().zip(arg.shape.iter()) {
            if let Some(axis) = *dim {
                at[axis] = at[axis].intersection(whole(extent));
            }
        }
        region_of(arg.dims.iter().zip(arg.shape.iter()).map(|(dim, &extent)| {
            let Some(axis) = *dim else {
                return 0..extent;
            };
            let values = match self.roles[axis].component {
                Some(component) => hull(&self.components[component], &at, axis),
                None => Some(at[axis]),
            };
            values.map_or(0..0, |values| values.lo as usize..(values.hi + 1) as usize)
        }))
    }
}

/// The region of these ranges, in the one form that empty regions have.
fn region_of(ranges: impl Iterator<Item = Range<usize>>) -> Region {
    let mut ranges: Vec<Range<usize>> = ranges.collect();
    if ranges.iter().any(Range::is_empty) {
        ranges.fill(0..0);
    }
    Region::new(&ranges)
}
