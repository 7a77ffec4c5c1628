//! What a model consists of: shapes, parameters, work and memory of each layer, from a recorded step.

use super::Sequential;
use crate::error::Result;
use crate::layer::{Chain, Mode, Tape};
use crate::op;
use dahl_runtime::array::{Dtype, Shape};
use dahl_runtime::graph::Graph;
use std::collections::BTreeMap;

/// A line of a summary. Flops and bytes are for one image; what does not grow with the batch is left out.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryRow {
    /// The layer, as in `block1.conv1`.
    pub name: String,
    /// What it is, as in model files.
    pub kind: &'static str,
    /// The extents of its output.
    pub output: Shape,
    /// Its parameters; those of a block are its layers'.
    pub n_parameters: usize,
    /// Floating-point operations forward.
    pub forward_flops: f64,
    /// Floating-point operations backward.
    pub backward_flops: f64,
    /// Bytes of the arrays that its forward pass writes in `f32`, also for the backward pass.
    pub bytes: usize,
}

/// What one layer does in a recorded step.
#[derive(Clone, Copy, Default)]
struct Work {
    forward_flops: f64,
    backward_flops: f64,
    bytes: usize,
}

impl Sequential {
    /// The layers in order; those inside of a block come before it.
    pub fn summary(&self) -> Result<Vec<SummaryRow>> {
        // The difference of two batches is the work for the images by which they differ.
        let (small, large) = (self.work(2)?, self.work(3)?);
        let mut rows = Vec::new();
        describe(&mut rows, "", &self.chain, self.input)?;
        for row in &mut rows {
            let [small, large] =
                [&small, &large].map(|work| work.get(&row.name).copied().unwrap_or_default());
            row.forward_flops = large.forward_flops - small.forward_flops;
            row.backward_flops = large.backward_flops - small.backward_flops;
            row.bytes = large.bytes - small.bytes;
        }
        Ok(rows)
    }

    /// What each layer does in a training step with `n` images.
    fn work(&self, n: usize) -> Result<BTreeMap<String, Work>> {
        let mut graph = Graph::new(1);
        let weights = graph.temporary("weights", Dtype::F32, [self.n_weights()?]);
        let gradients = graph.temporary("gradients", Dtype::F32, [self.n_weights()?]);
        let statistics = graph.temporary("statistics", Dtype::F32, [self.n_statistics()?]);
        let x = graph.temporary("x", Dtype::F32, self.batch_shape(n));
        let mut tape = Tape::new(&mut graph, Dtype::F32, Mode::Train);
        let recording = self.forward(&mut tape, &[weights], Some(statistics), x)?;
        let (n_forward, n_arrays) = (tape.graph().tasks().len(), tape.graph().arrays().len());
        let dy = tape.array("dy", recording.output.shape());
        tape.task_with(&op::fill::CODELET, &[], &[dy], &[1.0])?;
        self.backward(&mut tape, &[weights], &[gradients], &recording, dy)?;

        let layers: Vec<String> =
            (0..tape.graph().tasks().len()).map(|task| tape.layer_of(task).to_string()).collect();
        let mut work: BTreeMap<String, Work> = BTreeMap::new();
        for (i, (task, layer)) in graph.tasks().iter().zip(layers).enumerate() {
            let flops = task.flops();
            let work = work.entry(layer).or_default();
            let part = if i < n_forward { &mut work.forward_flops } else { &mut work.backward_flops };
            *part += flops;
        }
        for array in &graph.arrays()[..n_arrays] {
            let layer = array.name.rsplit_once('.').map_or("", |(layer, _)| layer);
            work.entry(layer.to_string()).or_default().bytes += array.shape.len() * array.dtype.bytes();
        }
        Ok(work)
    }
}

/// Rows of a chain whose layers have names below `path`, without their work.
fn describe(rows: &mut Vec<SummaryRow>, path: &str, chain: &Chain, input: Shape) -> Result<()> {
    for place in chain.places(input)? {
        let name = format!("{path}{}", place.name);
        let inner = place.layer.branches();
        for (branch, chain) in &inner {
            let path = if branch.is_empty() { format!("{name}.") } else { format!("{name}.{branch}.") };
            describe(rows, &path, chain, place.input)?;
        }
        let parameters = if inner.is_empty() { place.layer.parameters(place.input)? } else { Vec::new() };
        rows.push(SummaryRow {
            name,
            kind: place.layer.kind(),
            output: place.output,
            n_parameters: parameters.iter().map(|parameter| parameter.shape.len()).sum(),
            forward_flops: 0.0,
            backward_flops: 0.0,
            bytes: 0,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_by_hand() {
        let rows = Sequential::seed([1, 28, 28], 10).summary().unwrap();
        let row = |name: &str| rows.iter().find(|row| row.name == name).unwrap();
        let conv = row("conv1");
        assert_eq!((conv.kind, conv.output, conv.n_parameters), ("conv2d", Shape::new(&[8, 26, 26]), 80));
        assert_eq!(conv.forward_flops, 2.0 * 9.0 * 8.0 * 676.0);
        // The weights' gradient and the bias's; the input's is not needed.
        assert_eq!(conv.backward_flops, 2.0 * 9.0 * 8.0 * 676.0 + 8.0 * 676.0);
        assert_eq!(conv.bytes, 4 * 8 * 676);
        let fc = row("fc1");
        assert_eq!((fc.forward_flops, fc.backward_flops), (27_040.0, 2.0 * 27_040.0 + 10.0));
        // In place, after the maximum.
        assert_eq!((row("relu1").forward_flops, row("relu1").bytes), (1352.0, 0));
        assert_eq!(row("pool1").bytes, 1352 * 5);
        assert_eq!((row("flatten1").forward_flops, row("flatten1").bytes), (0.0, 0));
        assert_eq!(rows.len(), 5);
    }

    #[test]
    fn rows_have_all_parameters_and_blocks_are_opened() {
        let model = Sequential::builtin("resnet8", [3, 32, 32], 10).unwrap();
        let rows = model.summary().unwrap();
        let sum: usize = rows.iter().map(|row| row.n_parameters).sum();
        assert_eq!(sum, model.n_weights().unwrap());
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert!(names.contains(&"block2.shortcut.conv1") && names.contains(&"block3"));
        let block = rows.iter().find(|row| row.name == "block1").unwrap();
        assert_eq!((block.forward_flops, block.backward_flops), (16.0 * 1024.0, 16.0 * 1024.0));
        let conv = rows.iter().find(|row| row.name == "block2.shortcut.conv1").unwrap();
        assert_eq!(conv.forward_flops, 2.0 * 32.0 * 16.0 * 256.0);
    }
}
