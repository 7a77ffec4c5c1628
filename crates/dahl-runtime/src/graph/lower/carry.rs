//! State with several versions keeps what a step does not write.
//!
//! Each step has a version of its own, which holds nothing of use when the step begins. What is read before
//! the step writes the array is therefore what the step before left, in that step's version. A task that
//! overwrites all of the array needs nothing more. Before one that writes a part of it, or that changes it in
//! place, all of it is carried over from the version before.

use super::super::lowered::{Access, Place, Task};
use super::super::{ArrayInfo, Graph, Recorded, Role, Var};
use super::Lowering;
use super::arrays::first_writers;
use super::partials::REDUCE_ELEMENTS;
use crate::codelet::relation::{Mode, Tile, TileSize};
use crate::codelet::{ArgSpec, builtin};
use crate::error::Result;
use crate::shape::{Layout, Region, Shape};

/// For each array, whether a step begins without what the step before left in it: state with several
/// versions, where the steps of this graph write it. What they do not write stays where it is.
pub(super) fn behind(graph: &Graph) -> Vec<bool> {
    let is_behind = |(array, writer): (&ArrayInfo, Option<(usize, usize)>)| {
        matches!(array.role, Role::State(_)) && array.versions > 1 && writer.is_some()
    };
    graph.arrays().iter().zip(first_writers(graph)).map(is_behind).collect()
}

impl Lowering<'_> {
    /// The view through which an argument is really read: until this step has written the array, what is
    /// there is what the step before left.
    pub fn as_left(&self, var: &Var) -> Var {
        if self.is_behind[var.array] && var.age == 0 { var.aged(1) } else { *var }
    }

    /// Carries an array over from the step before, if an argument of a task is the first to write it and
    /// does not overwrite all of it.
    pub fn carry(&mut self, recorded: &Recorded, arg: usize) -> Result<()> {
        let var = &recorded.args[arg];
        let whole = recorded.bound.regions(&Tile::whole(&recorded.bound))[arg];
        let overwrites_all = recorded.codelet.relation().args()[arg].mode == Mode::Write
            && var.shape.len() == self.graph.arrays()[var.array].shape.len()
            && whole == Region::whole(var.shape);
        if !self.is_behind[var.array] || overwrites_all {
            return Ok(());
        }
        // State lies in one buffer, in row-major order.
        let (buffer, dtype) = (self.tiles[var.array].first_buffer, var.dtype);
        let (total, size) = (self.graph.arrays()[var.array].shape.len(), dtype.bytes());
        let cut = TileSize::AtMost(REDUCE_ELEMENTS);
        let n_tiles = cut.n_tiles(total);
        self.reserve(n_tiles)?;
        for tile in 0..n_tiles {
            let part = cut.tile(total, tile);
            let range = part.start * size..part.end * size;
            let extent = Shape::new(&[total]);
            let (layout, region) = (Layout::RowMajor, Region::new(std::slice::from_ref(&part)));
            let spec = ArgSpec { dtype, layout, tile: Region::whole(extent), region, extent };
            let mut task = Task::inserted(builtin::CARRY, builtin::assemble(dtype), dtype, (tile, n_tiles));
            task.spec.n_inputs = 1;
            (task.priority, task.location) = (self.priority, self.line);
            task.scopes = self.scopes.to_vec();
            for (age, writes) in [(1, false), (0, true)] {
                let access = Access { arg: 0, buffer, age, range: range.clone(), reads: !writes, writes };
                task.argument(spec.clone(), Place { buffer, age, offset: 0 }, [access]);
            }
            self.out.tasks.push(task);
        }
        self.is_behind[var.array] = false;
        Ok(())
    }
}
