//! Rounding beside one chain per pixel, and what is left to others.

use super::*;
use crate::simd::Isa;
use crate::winograd::values;

/// Which rows and columns there are of `dy` and `dx`.
struct Parts {
    outputs: [Range<usize>; 2],
    pixels: [Range<usize>; 2],
    pad: usize,
}

impl Parts {
    /// All of so many outputs.
    fn whole(outputs: [usize; 2], pad: usize) -> Self {
        Parts { outputs: outputs.map(|n| 0..n), pixels: outputs.map(|n| 0..n + 4 - 2 * pad), pad }
    }
}

/// The error of it and of one chain per pixel, in root mean squares.
fn errors(parts: &Parts, [n_kernels, n_channels]: [usize; 2], accumulate: bool, is_where: bool) -> [f64; 2] {
    let n_samples = 19;
    let Parts { outputs: [oys, oxs], pixels: [rows, columns], pad } = parts;
    let n_pixels = n_channels * rows.len() * columns.len();
    let dy = values(n_kernels * oys.len() * oxs.len() * 32, 1);
    let w = values(n_kernels * n_channels * 25, 2);
    let y = values(n_pixels * 32, 3);
    let gradient = InputGradient {
        dy: f32::lanes(&dy),
        w: &w,
        n_samples,
        n_kernels,
        n_channels,
        pad: *pad,
        oys: oys.clone(),
        oxs: oxs.clone(),
        rows: rows.clone(),
        columns: columns.clone(),
        accumulate,
        finish: if is_where { Finish::Where(&y) } else { Finish::Sum },
    };
    let mut dx = vec![1.0; n_pixels * 32];
    let mut scratch = vec![[f32::NAN; 16]; gradient.scratch_len()];
    assert!(gradient.run(f32::lanes_mut(&mut dx), &mut scratch), "it pays");
    for isa in Isa::available() {
        let mut other = vec![1.0; n_pixels * 32];
        assert!(isa.force(|| gradient.run(f32::lanes_mut(&mut other), &mut scratch)));
        assert!(dx == other, "{isa}");
    }
    let window = Window { stride: 1, pad: *pad };
    let mut squares = [0.0; 2];
    for (at, &found) in dx.iter().enumerate() {
        let (lane, column, row) = (at % 16, at / 16 % columns.len(), at / 16 / columns.len() % rows.len());
        let plane = at / 16 / columns.len() / rows.len();
        let (c, group) = (plane % n_channels, plane / n_channels);
        if group * 16 + lane >= n_samples {
            continue;
        }
        let before = if accumulate { 1.0 } else { 0.0 };
        let (mut exact, mut plain) = (f64::from(before), before);
        for k in 0..n_kernels {
            for ky in 0..5 {
                for kx in 0..5 {
                    let oy = window.output(row + rows.start, ky, oys);
                    let ox = window.output(column + columns.start, kx, oxs);
                    let (Some(oy), Some(ox)) = (oy, ox) else { continue };
                    let plane = (group * n_kernels + k) * oys.len() * oxs.len();
                    let dy = dy[(plane + (oy - oys.start) * oxs.len() + ox - oxs.start) * 16 + lane];
                    let w = w[(k * n_channels + c) * 25 + ky * 5 + kx];
                    exact += f64::from(dy) * f64::from(w);
                    plain = dy.mul_add(w, plain);
                }
            }
        }
        if is_where && y[at] <= 0.0 {
            assert!(found.to_bits() == before.to_bits());
            continue;
        }
        squares[0] += (f64::from(found) - exact).powi(2);
        squares[1] += (f64::from(plain) - exact).powi(2);
    }
    squares.map(|sum| (sum / dx.len() as f64).sqrt())
}

#[test]
fn it_rounds_about_as_one_chain_per_pixel_does() {
    let cut = Parts { outputs: [1..9, 2..9], pixels: [2..14, 0..10], pad: 1 };
    let apart = Parts { outputs: [4..8, 0..6], pixels: [0..14, 0..14], pad: 0 };
    let whole = [([10, 10], 0), ([4, 4], 0), ([9, 11], 2), ([12, 16], 3), ([13, 7], 1), ([2, 12], 0)];
    let whole = whole.map(|(outputs, pad)| Parts::whole(outputs, pad));
    for parts in whole.iter().chain([&cut, &apart]) {
        for channels in [[16, 2], [4, 1], [19, 1]] {
            for (accumulate, is_where) in [(false, false), (true, true)] {
                let [gradient, plain] = errors(parts, channels, accumulate, is_where);
                let Parts { outputs, pixels, pad } = parts;
                let case = format!("{outputs:?} {pixels:?} {pad} {channels:?} {accumulate} {is_where}");
                println!("{case}: {gradient:.2e} and {plain:.2e}, {:.2}", gradient / plain);
                assert!(gradient < 1.5 * plain, "{case}: {gradient:e} and {plain:e}");
            }
        }
    }
}

#[test]
fn what_is_infinite_or_very_large_is_left_to_others() {
    let (w, mut dx) = ([1.0f32; 4 * 25], [0.0f32; 8 * 8 * 16]);
    let mut run = |at: usize, value: f32| {
        let mut dy = vec![1.0; 4 * 4 * 4 * 16];
        dy[at] = value;
        let gradient = InputGradient {
            dy: f32::lanes(&dy),
            w: &w,
            n_samples: 15,
            n_kernels: 4,
            n_channels: 1,
            pad: 0,
            oys: 0..4,
            oxs: 0..4,
            rows: 0..8,
            columns: 0..8,
            accumulate: false,
            finish: Finish::Sum,
        };
        gradient.run(f32::lanes_mut(&mut dx), &mut vec![[f32::NAN; 16]; gradient.scratch_len()])
    };
    for value in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e30, -1e17] {
        assert!(!run(37 * 16 + 3, value), "{value}");
        assert!(run(37 * 16 + 15, value), "{value} of a sample that does not exist");
    }
    assert!(run(5, 1e16) && run(6, 1e-30));
}
