//! Resizing: bilinear, averaging over the area when it shrinks.
//!
//! Each side is resized by itself, first the rows, then the columns. A new pixel is centred over the old
//! ones; those within `max(1, old / new)` pixels of the centre count, with weights that fall to zero along a
//! straight line, and sum to one. Enlarged, that is linear interpolation; shrunk, every old pixel counts, so
//! nothing flickers or gets lost. PIL's `BILINEAR` is the same, but for the order of rows and columns, which
//! there depends on the sizes and can change a value by 1.
//!
//! Weights are whole multiples of 2⁻²² and sums are integers: the same bits on every machine.

use super::picture::{PICTURE, Picture};
use crate::memory;

const FRACTION: u32 = 22;

/// The old pixels that make up one new pixel: the first of them, and their weights.
struct Window {
    first: usize,
    weights: Vec<u32>,
}

/// The windows of `to` new pixels over `from` old ones.
fn windows(from: usize, to: usize) -> Vec<Window> {
    let scale = from as f64 / to as f64;
    let reach = scale.max(1.0);
    let window = |i: usize| {
        let centre = (i as f64 + 0.5) * scale;
        // Beyond these the weights are zero.
        let first = (centre - reach + 0.5).max(0.0) as usize;
        let end = ((centre + reach + 0.5) as usize).min(from).max(first + 1);
        let weight = |old: usize| (1.0 - ((old as f64 + 0.5 - centre) / reach).abs()).max(0.0);
        let weights: Vec<f64> = (first..end).map(weight).collect();
        let sum: f64 = weights.iter().sum();
        let whole = f64::from(1_u32 << FRACTION);
        Window { first, weights: weights.iter().map(|w| (w / sum * whole + 0.5) as u32).collect() }
    };
    (0..to).map(window).collect()
}

/// The weighted sum of values that lie `stride` apart.
fn sum(values: &[u8], stride: usize, weights: &[u32]) -> u8 {
    let half = 1_u32 << (FRACTION - 1);
    let terms = values.iter().step_by(stride).zip(weights);
    let sum = terms.fold(half, |sum, (&value, &weight)| sum + u32::from(value) * weight);
    (sum >> FRACTION).min(255) as u8
}

/// The picture in another size, or a sentence if there is not enough memory for it.
pub(super) fn resize(picture: Picture, height: usize, width: usize) -> Result<Picture, String> {
    columns(rows(picture, width)?, height)
}

/// Makes every row `width` pixels long.
fn rows(picture: Picture, width: usize) -> Result<Picture, String> {
    if picture.width == width {
        return Ok(picture);
    }
    let channels = picture.channels;
    let windows = windows(picture.width, width);
    let mut values = memory::room(picture.height * width * channels, PICTURE)?;
    for row in picture.values.chunks_exact(picture.width * channels) {
        for window in &windows {
            for channel in 0..channels {
                values.push(sum(&row[window.first * channels + channel..], channels, &window.weights));
            }
        }
    }
    Ok(Picture { width, values, ..picture })
}

/// Makes every column `height` pixels long.
fn columns(picture: Picture, height: usize) -> Result<Picture, String> {
    if picture.height == height {
        return Ok(picture);
    }
    let stride = picture.width * picture.channels;
    let mut values = memory::room(height * stride, PICTURE)?;
    for window in windows(picture.height, height) {
        for at in 0..stride {
            values.push(sum(&picture.values[window.first * stride + at..], stride, &window.weights));
        }
    }
    Ok(Picture { height, values, ..picture })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resize(picture: Picture, height: usize, width: usize) -> Picture {
        super::resize(picture, height, width).unwrap()
    }

    fn grey(width: usize, height: usize, values: &[u8]) -> Picture {
        Picture { width, height, channels: 1, values: values.to_vec() }
    }

    #[test]
    fn halving_weighs_neighbours_and_doubling_interpolates() {
        // By hand: the centre of the first new pixel lies between the first two old ones, at distances 1/2,
        // 1/2 and 3/2 of a reach of 2: weights 3/4, 3/4, 1/4.
        let small = resize(grey(4, 1, &[0, 70, 140, 210]), 1, 2);
        assert_eq!(small.values, [50, 160]);
        let large = resize(grey(2, 1, &[0, 100]), 1, 4);
        assert_eq!(large.values, [0, 25, 75, 100]);
    }

    #[test]
    fn columns_are_resized_like_rows() {
        let values: Vec<u8> = (0..35).map(|i| (i * 37 % 251) as u8).collect();
        let turned: Vec<u8> = (0..35).map(|i| values[i % 5 * 7 + i / 5]).collect();
        for to in [1, 2, 3, 5, 8, 13] {
            let a = resize(grey(7, 5, &values), 5, to);
            let b = resize(grey(5, 7, &turned), to, 5);
            let again: Vec<u8> = (0..5 * to).map(|i| b.values[i % to * 5 + i / to]).collect();
            assert_eq!(a.values, again, "{to}");
        }
    }

    #[test]
    fn a_flat_picture_stays_flat_in_every_size() {
        for value in [0, 1, 127, 254, 255] {
            for (w, h) in [(1, 1), (3, 2), (100, 7), (1, 999)] {
                for (to_w, to_h) in [(1, 1), (2, 5), (64, 64), (7, 100)] {
                    let picture =
                        Picture { width: w, height: h, channels: 3, values: vec![value; 3 * w * h] };
                    let picture = resize(picture, to_h, to_w);
                    assert_eq!((picture.width, picture.height), (to_w, to_h));
                    assert_eq!(picture.values, vec![value; 3 * to_w * to_h], "{w}x{h} to {to_w}x{to_h}");
                }
            }
        }
    }

    #[test]
    fn the_same_size_is_left_as_it_is() {
        let picture = grey(3, 2, &[1, 2, 3, 4, 5, 6]);
        assert_eq!(resize(picture.clone(), 2, 3), picture);
    }
}
