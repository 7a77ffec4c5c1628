//! Arrays become buffers: each is cut as its first writer is.

use super::super::cut::{array_cuts, output_cuts, task_tiles};
use super::super::lowered::{Buffer, BufferKind};
use super::super::tiles::Tiles;
use super::super::{Graph, Role};
use super::Lowering;
use crate::error::{Error, ErrorKind, Result};
use crate::shape::{Layout, Shape};
use std::ops::Range;

impl Lowering<'_> {
    /// Cuts all arrays.
    pub fn cut_arrays(&mut self) -> Result<()> {
        let first_writers = first_writers(self.graph);
        first_writers.into_iter().enumerate().try_for_each(|(array, writer)| self.cut_array(array, writer))
    }

    /// Cuts an array as its first writer is cut, and makes its buffers.
    fn cut_array(&mut self, array: usize, first_writer: Option<(usize, usize)>) -> Result<()> {
        let info = &self.graph.arrays()[array];
        let layouts = &self.cut.layouts[array];
        let first_buffer = self.out.buffers.len();
        let cuts = match (info.role, first_writer) {
            (Role::Temporary, Some((task, arg))) => {
                let recorded = &self.graph.tasks()[task];
                array_cuts(info, recorded, arg, self.output_cuts(task, arg)?)
            }
            _ => None,
        };
        let tiles = match cuts {
            None => Tiles::uncut(info.shape, layouts.clone(), first_buffer),
            Some(cuts) => Tiles::grid(info.shape, cuts, layouts.clone(), first_buffer),
        };
        let kind = match info.role {
            Role::Temporary => BufferKind::Temporary,
            Role::Port | Role::Output => BufferKind::Ring,
            Role::State(id) => BufferKind::State(id),
        };
        // The program fills and reads versions of steps under way, while tasks read those before.
        let versions = match kind {
            BufferKind::Ring => self.graph.depth() + info.versions - 1,
            BufferKind::Temporary | BufferKind::State(_) => info.versions,
        };
        if kind != BufferKind::Temporary && layouts.only() != Some(Layout::RowMajor) {
            let message =
                format!("{} is shared with the program and must stay in row-major order", info.name);
            return Err(Error::new(ErrorKind::Plan, message));
        }
        let is_strange = |layout: &Layout| !matches!(layout, Layout::RowMajor | Layout::Lanes(1..));
        if let Some(layout) = layouts.values().find(is_strange) {
            let message =
                format!("{} lies as {layout:?}: use row-major order or at least one lane", info.name);
            return Err(Error::new(ErrorKind::Plan, message));
        }
        for (i, region) in tiles.regions().iter().enumerate() {
            let name = if tiles.n_tiles() == 1 { info.name.clone() } else { format!("{}.{i}", info.name) };
            let bytes = layouts.of(i).checked_bytes(region, info.dtype);
            let bytes = bytes.ok_or_else(|| too_large(&info.name, info.shape))?;
            self.out.buffers.push(Buffer { name, dtype: info.dtype, bytes, kind, versions });
        }
        self.out.rings.push((kind == BufferKind::Ring).then_some((first_buffer, info.role)));
        self.tiles.push(tiles);
        Ok(())
    }

    /// The ranges of each dimension of an output over all tiles of a task.
    pub fn output_cuts(&self, task: usize, arg: usize) -> Result<Vec<Vec<Range<usize>>>> {
        let recorded = &self.graph.tasks()[task];
        let tiles = task_tiles(recorded, &self.cut.tasks[task].tiles)?;
        Ok(output_cuts(recorded, &tiles, arg))
    }
}

/// For each array, the first task that writes it, and by which argument.
pub(super) fn first_writers(graph: &Graph) -> Vec<Option<(usize, usize)>> {
    let mut writers = vec![None; graph.arrays().len()];
    for (index, task) in graph.tasks().iter().enumerate() {
        for arg in task.codelet.relation().n_inputs()..task.args.len() {
            writers[task.args[arg].array].get_or_insert((index, arg));
        }
    }
    writers
}

/// An array, or a part of it that is put together, that no memory holds.
pub(super) fn too_large(name: &str, shape: Shape) -> Error {
    let message = format!("{name} of {shape} is too large for any memory: use smaller arrays");
    Error::new(ErrorKind::Memory, message)
}
