//! Rounding, overflow, and the same bits from a pool, from all gradients and on every instruction set.

use super::*;
use crate::simd::Isa;
use crate::window::Window;
use crate::winograd::values;

/// Pixels, the gradients of a pool and their places, and those of all outputs.
struct Example {
    n_samples: usize,
    channels: [usize; 2],
    axes: [Axis; 2],
    x: Vec<f32>,
    dy: Vec<f32>,
    arg: Vec<u8>,
    full: Vec<f32>,
}

impl Example {
    fn new(n_samples: usize, channels: [usize; 2], pad: usize, image: [usize; 2]) -> Self {
        let axes = image.map(|n| Axis {
            window: Window { stride: 1, pad },
            inputs: 0..n,
            taps: 0..WIDTH,
            outputs: 0..n + 2 * pad - 4,
        });
        let [height, width] = axes.each_ref().map(|axis| axis.outputs.len());
        let n_planes = n_samples.div_ceil(16) * channels[0];
        let x = values(n_samples.div_ceil(16) * channels[1] * image[0] * image[1] * 16, 1);
        let x = x.into_iter().map(|value| value.max(0.0)).collect();
        let n_windows = n_planes * (height / 2) * (width / 2);
        let (dy, arg) = (values(n_windows * 16, 2), values(n_windows * 16, 3));
        let arg: Vec<u8> = arg.iter().map(|value| (value.abs() * 16.0) as u8 % 5).collect();
        let mut full = vec![0.0; n_planes * height * width * 16];
        for (at, (&dy, &arg)) in dy.iter().zip(&arg).enumerate().filter(|(_, (_, arg))| **arg < 4) {
            let (window, lane) = (at / 16, at % 16);
            let (px, rest) = (window % (width / 2), window / (width / 2));
            let (py, plane) = (rest % (height / 2), rest / (height / 2));
            let (oy, ox) = (2 * py + usize::from(arg / 2), 2 * px + usize::from(arg % 2));
            full[((plane * height + oy) * width + ox) * 16 + lane] = dy;
        }
        Example { n_samples, channels, axes, x, dy, arg, full }
    }

    fn gradient(&self, gradients: &impl Gradients<f32>) -> Vec<f32> {
        let mut dw = vec![0.0; self.channels[0] * self.channels[1] * WIDTH * WIDTH];
        let (x, axes) = ((f32::lanes(&self.x), self.n_samples), self.axes.each_ref());
        let gradient = WeightGradient::new(&self.channels, x, self.channels, axes).expect("a usual form");
        assert!(gradient.add(gradients, &mut dw, &mut scratch(&gradient, gradients)));
        dw
    }

    fn full<'a>(&self, dy: &'a [f32]) -> Full<'a, f32> {
        let [height, width] = self.axes.each_ref().map(|axis| axis.outputs.len());
        Full { dy: f32::lanes(dy), height, width }
    }

    /// What `add` gives for each lane, and for the sum over lanes, of every pixel and gradient of a weight.
    fn plain(&self, dy: &[f32], at: [usize; 4]) -> (f32, f64) {
        let [k, c, ky, kx] = at;
        let [height, width] = self.axes.each_ref().map(|axis| axis.outputs.len());
        let [rows, columns] = self.axes.each_ref().map(|axis| axis.inputs.len());
        let pad = self.axes[0].window.pad;
        let (mut lanes, mut exact) = ([0.0f32; 16], 0.0);
        for sample in 0..self.n_samples {
            let (group, lane) = (sample / 16, sample % 16);
            let mut chain = 0.0f32;
            for (oy, ox) in (0..height).flat_map(|oy| (0..width).map(move |ox| (oy, ox))) {
                let (Some(iy), Some(ix)) = ((oy + ky).checked_sub(pad), (ox + kx).checked_sub(pad)) else {
                    continue;
                };
                if iy < rows && ix < columns {
                    let x = self.x[(((group * self.channels[1] + c) * rows + iy) * columns + ix) * 16 + lane];
                    let dy = dy[(((group * self.channels[0] + k) * height + oy) * width + ox) * 16 + lane];
                    chain = x.mul_add(dy, chain);
                    exact += f64::from(x) * f64::from(dy);
                }
            }
            lanes[lane] += chain;
        }
        for width in [8, 4, 2, 1] {
            for lane in 0..width {
                lanes[lane] += lanes[lane + width];
            }
        }
        (lanes[0], exact)
    }
}

/// As much scratch as it needs.
fn scratch<G: Gradients<f32>>(gradient: &WeightGradient<'_, f32>, _: &G) -> Vec<[f32; 16]> {
    vec![[f32::NAN; 16]; gradient.scratch_len::<G>()]
}

#[test]
fn it_rounds_about_as_the_plain_way_does() {
    for (n_samples, channels, pad, image) in [
        (16, [16, 6], 0, [14, 14]),
        (37, [9, 5], 2, [11, 12]),
        (16, [7, 3], 2, [28, 28]),
        (16, [6, 1], 2, [28, 28]),
    ] {
        let example = Example::new(n_samples, channels, pad, image);
        let all = values(example.full.len(), 4);
        for dy in [&example.full, &all] {
            let gradient = example.gradient(&example.full(dy));
            let mut squares = [0.0; 2];
            for (at, gradient) in gradient.iter().enumerate() {
                let place = [at / 25 / channels[1], at / 25 % channels[1], at / 5 % 5, at % 5];
                let (plain, exact) = example.plain(dy, place);
                squares[0] += (f64::from(*gradient) - exact).powi(2);
                squares[1] += (f64::from(plain) - exact).powi(2);
            }
            let [gradient, plain] = squares.map(|sum| (sum / gradient.len() as f64).sqrt());
            println!("{channels:?}, {image:?}: {gradient:.2e} and {plain:.2e}, {:.2}", gradient / plain);
            assert!(gradient < 1.5 * plain, "{channels:?}, {image:?}: {gradient:e} and {plain:e}");
        }
    }
}

#[test]
fn what_overflows_is_left_alone() {
    // Of one part, and of two.
    for channels in [[7, 3], [7, 13]] {
        for (pixel, value) in [(f32::INFINITY, 1.0), (1.0, f32::NAN), (3e38, 1.0), (1e30, 1e30)] {
            let mut example = Example::new(16, channels, 0, [12, 12]);
            // The middle of an image, of a sample whose window has a gradient.
            example.x[(2 * 144 + 6 * 12 + 6) * 16..][..16].fill(pixel);
            example.full[(4 * 64 + 3 * 8 + 3) * 16..][..16].fill(value);
            let mut dw = vec![1.0; channels[0] * channels[1] * WIDTH * WIDTH];
            let (x, axes) = ((f32::lanes(&example.x), 16), example.axes.each_ref());
            let gradient = WeightGradient::new(&channels, x, channels, axes).expect("a usual form");
            let full = example.full(&example.full);
            assert!(!gradient.add(&full, &mut dw, &mut scratch(&gradient, &full)), "{pixel} and {value}");
            assert!(dw.iter().all(|&value| value == 1.0));
        }
    }
}

/// From the pooled gradient and from the full one, on every instruction set, for odd sizes and groups, and
/// for a part of the channels.
#[test]
fn the_bits_are_the_same() {
    for (n_samples, channels, pad, image) in [
        (16, [16, 6], 0, [14, 14]),
        (5, [7, 3], 2, [9, 10]),
        (33, [13, 4], 3, [8, 7]),
        (17, [9, 14], 1, [23, 12]),
        (16, [70, 3], 0, [12, 13]),
        (19, [6, 1], 2, [28, 28]),
        (16, [3, 2], 2, [8, 9]),
        (16, [5, 1], 0, [12, 22]),
    ] {
        let mut example = Example::new(n_samples, channels, pad, image);
        // Lanes without a sample, and windows without a gradient.
        for group in [&mut example.x, &mut example.dy, &mut example.full] {
            let first = group.len() - group.len() / n_samples.div_ceil(16);
            for (i, value) in group[first..].iter_mut().enumerate() {
                *value = if i % 16 < (n_samples - 1) % 16 + 1 { *value } else { f32::NAN };
            }
        }
        for (value, arg) in example.dy.iter_mut().zip(&example.arg).filter(|(_, arg)| **arg == 4) {
            *value = f32::from(*arg) / 0.0;
        }
        let full = example.full(&example.full);
        let pooled = Pooled {
            dy: f32::lanes(&example.dy),
            arg: f32::bytes(&example.arg),
            height: full.height / 2,
            width: full.width / 2,
        };
        let expected = example.gradient(&full);
        assert!(expected.iter().all(|value| value.is_finite() && *value != 0.0));
        for isa in Isa::available() {
            let [from_full, from_pooled] = isa.force(|| [example.gradient(&full), example.gradient(&pooled)]);
            assert!(from_full == expected && from_pooled == expected, "{isa}, {channels:?}");
        }
    }
}
