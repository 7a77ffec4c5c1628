//! Rounding beside that of the direct convolution.

use super::values;
use crate::convolve::{Axis, Convolution, Finish, PlaneSteps, RESIDENT, WeightSteps};
use crate::real::Real;
use crate::small_batch::SampleOrder;
use crate::window::Window;

/// Values of which half are zero, as behind a rectifier.
fn rectified(n: usize, seed: u64) -> Vec<f32> {
    values(n, seed).into_iter().map(|value| value.max(0.0)).collect()
}

/// The error of this and of the direct convolution, in root mean squares, for images of so many channels and
/// pixels.
fn errors(
    size: usize,
    n_channels: usize,
    pad: usize,
    image: [usize; 2],
    is_turned: bool,
    finish: usize,
) -> [f64; 2] {
    let (n_outputs, n_samples) = (10, 19);
    let axis = |n: usize| Axis {
        window: Window { stride: 1, pad },
        inputs: 0..n,
        taps: 0..size,
        outputs: 0..n + 2 * pad + 1 - size,
    };
    let [rows, columns] = image.map(axis);
    let [height, width] = image;
    let (n_down, n_across) = (rows.outputs.len(), columns.outputs.len());
    let x = rectified(n_channels * height * width * 32, 1);
    let w = values(n_outputs * n_channels * size * size, 2);
    let bias = values(n_outputs, 3);
    let rectified = rectified(n_outputs * n_down * n_across * 32, 4);
    let convolution = Convolution {
        order: SampleOrder::Lanes,
        x: &x,
        is_turned,
        w: &w,
        steps: WeightSteps::whole(n_channels, size, size),
        bias: Some(&bias),
        accumulate: true,
        finish: [Finish::Sum, Finish::Rectified, Finish::Where(&rectified)][finish],
        n_samples,
        n_inputs: n_channels,
        n_outputs,
        planes: PlaneSteps::whole(n_down, n_across),
        rows,
        columns,
        resident: RESIDENT,
    };
    assert!(convolution.suits_winograd());
    let mut winograd = vec![1.0; n_outputs * n_down * n_across * 32];
    let mut direct = winograd.clone();
    let mut scratch = vec![[f32::NAN; 16]; convolution.scratch_len()];
    assert!(convolution.run(&mut winograd, &mut scratch));
    convolution.direct(f32::lanes_mut(&mut direct), &mut scratch);
    assert!(winograd != direct, "other roundings");
    let mut squares = [0.0; 2];
    for (at, (&winograd, &direct)) in winograd.iter().zip(&direct).enumerate() {
        let (r, c, lane) = (at / 16 / n_across % n_down, at / 16 % n_across, at % 16);
        let (o, group) = (at / 16 / n_across / n_down % n_outputs, at / 16 / n_across / n_down / n_outputs);
        if group * 16 + lane >= n_samples {
            continue;
        }
        let mut sum = 1.0 + f64::from(bias[o]);
        for i in 0..n_channels {
            for ky in 0..size {
                for kx in 0..size {
                    let (Some(iy), Some(ix)) = ((r + ky).checked_sub(pad), (c + kx).checked_sub(pad)) else {
                        continue;
                    };
                    if iy < height && ix < width {
                        let pixel = iy * width + ix;
                        let pixel = if is_turned { height * width - 1 - pixel } else { pixel };
                        let x = x[((group * n_channels + i) * height * width + pixel) * 16 + lane];
                        sum += f64::from(x) * f64::from(w[((o * n_channels + i) * size + ky) * size + kx]);
                    }
                }
            }
        }
        let sum = match finish {
            1 => sum.max(0.0),
            2 if rectified[at] <= 0.0 => 1.0,
            _ => sum,
        };
        squares[0] += (f64::from(winograd) - sum).powi(2);
        squares[1] += (f64::from(direct) - sum).powi(2);
    }
    squares.map(|sum| (sum / direct.len() as f64).sqrt())
}

#[test]
fn it_rounds_about_as_the_direct_convolution_does() {
    for is_turned in [false, true] {
        for (size, n_channels, pad, image) in [
            (3, 29, 1, [8, 8]),
            (3, 32, 0, [5, 9]),
            (3, 64, 2, [1, 7]),
            (3, 130, 1, [7, 6]),
            (3, 128, 1, [9, 6]),
            (5, 1, 2, [28, 28]),
            (5, 6, 0, [14, 14]),
            (5, 6, 4, [10, 10]),
            (5, 16, 2, [9, 6]),
            (5, 70, 3, [6, 7]),
        ] {
            for finish in 0..3 {
                let [winograd, direct] = errors(size, n_channels, pad, image, is_turned, finish);
                println!(
                    "{size}x{size}, {n_channels} channels, {image:?}: {winograd:.2e} and {direct:.2e}, {:.2}",
                    winograd / direct
                );
                assert!(winograd < 1.5 * direct, "{n_channels} channels: {winograd:e} and {direct:e}");
            }
        }
    }
}
