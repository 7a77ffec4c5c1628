//! Whether tasks of whole batches are worth computing one sample at a time: what the cut of a graph goes by.

use super::{Flat, SampleOrder};
use crate::convolve::Axis;
use crate::cut::FLAT;
use crate::real::Real;
use crate::window::Window;
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::{Implementation, Work};

/// Whether a convolution of the first argument by weights as in argument `weights`, or the gradient of those,
/// is worth computing one sample at a time, as `flat` does.
pub(crate) fn suits_convolution(by: &Implementation, task: &Work<'_>, weights: usize) -> bool {
    let (pixels, taps) = (task.shapes[0], task.shapes[weights]);
    by.name != FLAT
        || suits(task, weights, task.ints[1], |dim| {
            let covered = pixels[dim].saturating_add_signed(2 * task.ints[1] as isize);
            (covered + 1).saturating_sub(taps[dim])
        })
}

/// The same of the gradient of its input: from `dy` and `w` to the last argument.
pub(crate) fn suits_gradient(by: &Implementation, task: &Work<'_>) -> bool {
    let (taps, pixels) = (task.shapes[1], task.shapes[task.shapes.len() - 1]);
    let pad = taps[2] as i64 - 1 - task.ints[1];
    by.name != FLAT || taps[2] == taps[3] && suits(task, 1, pad, |dim| pixels[dim])
}

fn suits(task: &Work<'_>, weights: usize, pad: i64, outputs: impl Fn(usize) -> usize) -> bool {
    let Ok(pad) = usize::try_from(pad) else { return false };
    let (images, taps) = (task.shapes[0], task.shapes[weights]);
    let window = Window { stride: 1, pad };
    let axis =
        |dim: usize| Axis { window, inputs: 0..images[dim], taps: 0..taps[dim], outputs: 0..outputs(dim) };
    let (rows, columns) = (axis(2), axis(3));
    let (axes, channels) = ([&rows, &columns], (taps[0], taps[1]));
    fn pays<T: Real>(n_samples: usize, channels: (usize, usize), axes: [&Axis; 2]) -> bool {
        Flat::new::<T>((SampleOrder::Rows, n_samples), channels, axes)
            .is_some_and(|flat| flat.pays::<T>(n_samples))
    }
    task.ints[0] == 1
        && match task.dtype {
            Dtype::F32 => pays::<f32>(images[0], channels, axes),
            _ => pays::<f64>(images[0], channels, axes),
        }
}
