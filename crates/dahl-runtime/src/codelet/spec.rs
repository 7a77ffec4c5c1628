//! What a call is on: shapes, regions and layouts of its arguments, and parameters.

use crate::shape::{Dtype, Layout, MAX_RANK, Region, Shape};
use std::ops::Range;

/// Everything about a call that does not change from run to run.
#[derive(Clone, Debug, Default)]
pub struct CallSpec {
    /// The arguments, inputs first, in the order of the relation line; an argument named on both sides
    /// appears once, among the outputs.
    pub args: Vec<ArgSpec>,
    /// How many of `args` are only read.
    pub n_inputs: usize,
    /// Integer parameters, in the order in which the relation line mentions them.
    pub ints: Vec<i64>,
    /// Floating-point parameters, as the codelet defines them.
    pub scalars: Vec<f64>,
    /// Whether accumulating outputs add to what is there (true) or start afresh (false).
    pub accumulate: bool,
    /// Whether an output may be the same memory as an input: the codelet [works in
    /// place](super::Codelet::in_place).
    pub in_place: bool,
}

impl CallSpec {
    /// The shapes, layouts and element types (where they are not `dtype`) of all arguments, the integer
    /// parameters and `+` for a call that accumulates. Dimensions that data index are `*`: how long they are
    /// plays no part.
    pub fn footprint(&self, dtype: Dtype, is_gathered: impl Fn(usize, usize) -> bool) -> String {
        let mut text = String::new();
        for (number, arg) in self.args.iter().enumerate() {
            if number == self.n_inputs {
                text.push_str("> ");
            }
            let extents = arg.region.shape();
            let dims = extents.iter().enumerate().map(|(dim, extent)| match is_gathered(number, dim) {
                true => "*".to_string(),
                false => extent.to_string(),
            });
            let dims: Vec<String> = dims.collect();
            text.push_str(if dims.is_empty() { "scalar" } else { "" });
            text.push_str(&dims.join("x"));
            match arg.layout {
                Layout::RowMajor => {}
                Layout::Lanes(lanes) => text.push_str(&format!("/{lanes}")),
                Layout::Strided(_) => text.push_str("/strided"),
            }
            if arg.dtype != dtype {
                text.push_str(&format!(":{}", arg.dtype));
            }
            text.push(' ');
        }
        for (i, int) in self.ints.iter().enumerate() {
            text.push_str(if i == 0 { "| " } else { "" });
            text.push_str(&format!("{int} "));
        }
        if self.accumulate {
            text.push('+');
        }
        text
    }
}

/// One argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgSpec {
    /// Element type.
    pub dtype: Dtype,
    /// Memory order of the tile.
    pub layout: Layout,
    /// The part of the array that the memory holds. A tile that reaches beyond `extent` only says how far
    /// apart the elements of the region lie: the memory is a window of a larger array, of which the call may
    /// touch nothing but the region (see [`ArgSpec::is_window`]).
    pub tile: Region,
    /// The part that this call reads or writes; inside `tile`.
    pub region: Region,
    /// The extents of the whole array.
    pub extent: Shape,
}

impl ArgSpec {
    /// Whether the memory is a window of a larger array: there is nothing but the region to look at.
    pub fn is_window(&self) -> bool {
        self.tile.hi().iter().zip(self.extent.iter()).any(|(end, extent)| end > extent)
    }

    /// How many elements, from the first one of the tile, a call may reach.
    pub(super) fn span(&self) -> usize {
        if !self.is_window() {
            return self.layout.len(&self.tile);
        }
        if self.region.is_empty() {
            return 0;
        }
        let mut last = [0; MAX_RANK];
        for (index, end) in last.iter_mut().zip(self.region.hi()) {
            *index = end - 1;
        }
        self.layout.offset(&self.tile, &last[..self.region.rank()]) + 1
    }

    /// Whether the region lies in one piece: the whole tile in lanes, a range in row-major order.
    pub fn is_contiguous(&self) -> bool {
        if self.region.is_empty() {
            return true;
        }
        match self.layout {
            Layout::Strided(_) => false,
            _ if self.region == self.tile => true,
            Layout::Lanes(_) => false,
            Layout::RowMajor => {
                // After the first dimension with more than one index, every dimension must be full.
                let (region, tile) = (self.region.shape(), self.tile.shape());
                let first = region.iter().position(|&extent| extent > 1).unwrap_or(region.rank());
                (first + 1..region.rank()).all(|i| region[i] == tile[i])
            }
        }
    }

    /// The elements of the memory that the region is.
    ///
    /// # Panics
    /// If it does not lie in one piece, or reaches beyond `len` elements.
    pub(super) fn contiguous_range(&self, len: usize) -> Range<usize> {
        assert!(self.is_contiguous(), "{} of {} is not contiguous", self.region, self.tile);
        let range = match self.layout {
            _ if self.region.is_empty() => 0..0,
            Layout::Lanes(_) | Layout::Strided(_) => 0..self.layout.len(&self.tile),
            Layout::RowMajor => {
                let start = self.layout.offset(&self.tile, self.region.lo());
                start..start + self.region.len()
            }
        };
        assert!(range.end <= len, "{} is outside of {}", self.region, self.tile);
        range
    }
}
