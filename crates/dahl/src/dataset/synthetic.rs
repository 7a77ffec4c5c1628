//! Images that need no file: a pattern for each class under noise, of any shape and number.
//!
//! They are there to try shapes, models and speed on, and to compare with other programs, so every pixel is a
//! whole number that another language can compute. [`Stream`] is dahl's generator by counter (`random.rs`).
//! For images of `C x H x W` pixels in `K` classes, image number `j` (from 0) of part `s` (0: training, 1:
//! testing) has
//!
//! - the label `k = j mod K`;
//! - a *pattern* that all images of its class share, 4 x 4 cells in each channel: at channel `c`, row `y`,
//!   column `x` it is `p = Stream::new(PATTERN, k).bits(16 c + 4 cy + cx) >> 56` with `cy = floor(4 y / H)`
//!   and `cx = floor(4 x / W)`;
//! - *noise* of its own: with `i = (c H + y) W + x`, the position of the pixel in its image, it is byte
//!   `i mod 8`, counted from the least significant, of `Stream::new(NOISE + s, j).bits(floor(i / 8))`, called
//!   `q`;
//! - the pixel `floor((p + 3 q + 2) / 4)`.
//!
//! `PATTERN` is 0x7061_7474 and `NOISE` is 0x6e6f_6973. Nothing depends on how many images there are, so a
//! larger set begins with the smaller one. Three parts of noise hide the pattern from the eye but not from a
//! network: accuracy rises within an epoch or two.

use std::sync::Arc;

use super::split::{ImageSource, Split};
use super::{Dataset, numbered};
use crate::error::{Error, Result};
use crate::random::Stream;

/// The seed of the patterns.
const PATTERN: u64 = 0x7061_7474;
/// The seed of the noise in training images; that of the test images is one more.
const NOISE: u64 = 0x6e6f_6973;
/// Cells of a pattern along each side.
const CELLS: usize = 4;

const DEFAULT_CLASSES: usize = 10;
const DEFAULT_COUNT: usize = 2000;
/// One test image for so many training images.
const TRAIN_PER_TEST: usize = 4;

/// The most values that one image may have.
const MAX_IMAGE_BYTES: usize = 1 << 26;
/// The most values that the patterns of all classes may have: they are all in memory.
const MAX_PATTERN_BYTES: usize = 1 << 26;
/// The most training images: labels and the order of images are in memory, whatever the images are.
const MAX_COUNT: usize = 1 << 24;

/// What a synthetic data set is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synthetic {
    /// Channels, height and width.
    pub shape: [usize; 3],
    /// The number of classes, 1 to 256.
    pub classes: usize,
    /// The number of training images; there is one test image for every four of them, rounded up.
    pub n_train: usize,
}

impl Synthetic {
    /// 2000 training images of a shape in 10 classes.
    pub fn new(shape: [usize; 3]) -> Self {
        Synthetic { shape, classes: DEFAULT_CLASSES, n_train: DEFAULT_COUNT }
    }

    /// What is asked for by `CxHxW[xCLASSES][:COUNT]`, as in `3x32x32`, `1x28x28x5` and `3x32x32:500`.
    ///
    /// # Errors
    ///
    /// Text of another form, and sizes of which no image can be made.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |what: &str| {
            Error::setting(format!(
                "synthetic:{text}: expected synthetic:CxHxW[xCLASSES][:COUNT], such as synthetic:3x32x32 or \
                 synthetic:1x28x28x5:500, but {what}"
            ))
        };
        let number = |text: &str| -> Result<usize> {
            text.trim().parse().map_err(|_| wrong(&format!("'{text}' is no number")))
        };
        let (sizes, count) = match text.split_once(':') {
            Some((sizes, count)) => (sizes, Some(number(count)?)),
            None => (text, None),
        };
        let sizes = sizes.split('x').map(number).collect::<Result<Vec<_>>>()?;
        let (shape, classes) = match sizes[..] {
            [c, h, w] => ([c, h, w], DEFAULT_CLASSES),
            [c, h, w, classes] => ([c, h, w], classes),
            _ => return Err(wrong(&format!("there are {} sizes", sizes.len()))),
        };
        let n_train = count.unwrap_or(DEFAULT_COUNT);
        let bytes = shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size));
        if bytes.is_none_or(|bytes| bytes == 0 || bytes > MAX_IMAGE_BYTES) {
            return Err(wrong(&format!("an image must have 1 to {MAX_IMAGE_BYTES} values")));
        }
        if !(1..=256).contains(&classes) {
            return Err(wrong(&format!("{classes} classes are not possible, only 1 to 256")));
        }
        let max_channels = MAX_PATTERN_BYTES / (CELLS * CELLS * classes);
        if shape[0] > max_channels {
            return Err(wrong(&format!(
                "{} channels are not possible with {classes} classes, only 1 to {max_channels}",
                shape[0]
            )));
        }
        if !(1..=MAX_COUNT).contains(&n_train) {
            return Err(wrong(&format!("{n_train} images are not possible, only 1 to {MAX_COUNT}")));
        }
        Ok(Synthetic { shape, classes, n_train })
    }

    /// The data set, computed image by image when it is used.
    pub(super) fn dataset(self) -> Dataset {
        let [c, h, w] = self.shape;
        let patterns = Arc::new(self.patterns());
        let part = |part: u64, n: usize| {
            let labels = (0..n).map(|j| (j % self.classes) as u8).collect();
            let source = Part { synthetic: self, part, patterns: Arc::clone(&patterns) };
            Split::from_source(source, labels, c * h * w)
        };
        Dataset {
            name: format!("synthetic {c}x{h}x{w}"),
            shape: self.shape,
            classes: self.classes,
            class_names: numbered(self.classes),
            train: part(0, self.n_train),
            test: part(1, self.n_train.div_ceil(TRAIN_PER_TEST)),
        }
    }

    /// The cells of every class, channel by channel.
    fn patterns(&self) -> Vec<Vec<u8>> {
        let n_cells = self.shape[0] * CELLS * CELLS;
        let pattern = |class: usize| {
            let stream = Stream::new(PATTERN, class as u64);
            (0..n_cells).map(|cell| (stream.bits(cell as u64) >> 56) as u8).collect()
        };
        (0..self.classes).map(pattern).collect()
    }
}

/// The training or the test images.
struct Part {
    synthetic: Synthetic,
    /// 0: training, 1: testing.
    part: u64,
    patterns: Arc<Vec<Vec<u8>>>,
}

impl ImageSource for Part {
    fn read(&self, image: usize, pixels: &mut [u8]) -> Result<()> {
        let [_, height, width] = self.synthetic.shape;
        let noise = Stream::new(NOISE + self.part, image as u64);
        for (i, pixels) in pixels.chunks_mut(8).enumerate() {
            pixels.copy_from_slice(&noise.bits(i as u64).to_le_bytes()[..pixels.len()]);
        }
        let pattern = &self.patterns[image % self.synthetic.classes];
        for (row, pixels) in pixels.chunks_exact_mut(width).enumerate() {
            let (c, y) = (row / height, row % height);
            let cells = &pattern[(c * CELLS + CELLS * y / height) * CELLS..][..CELLS];
            for (x, pixel) in pixels.iter_mut().enumerate() {
                let cell = cells[CELLS * x / width];
                *pixel = ((u32::from(cell) + 3 * u32::from(*pixel) + 2) / 4) as u8;
            }
        }
        Ok(())
    }

    fn place(&self, image: usize) -> String {
        format!("synthetic image {image}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formula of the header, pixel by pixel.
    fn pixel(shape: [usize; 3], classes: usize, part: u64, j: usize, [c, y, x]: [usize; 3]) -> u8 {
        let [_, h, w] = shape;
        let cell = (16 * c + 4 * (4 * y / h) + 4 * x / w) as u64;
        let p = Stream::new(0x7061_7474, (j % classes) as u64).bits(cell) >> 56;
        let i = (c * h + y) * w + x;
        let q = Stream::new(0x6e6f_6973 + part, j as u64).bits(i as u64 / 8) >> (8 * (i % 8)) & 255;
        u8::try_from((p + 3 * q + 2) / 4).unwrap()
    }

    #[test]
    fn pixels_follow_the_formula_also_in_odd_and_tiny_shapes() {
        for shape in [[1, 1, 1], [3, 32, 32], [2, 5, 7], [1, 3, 9], [4, 1, 2]] {
            let [c, h, w] = shape;
            let data = Synthetic { shape, classes: 3, n_train: 5 }.dataset();
            assert_eq!((data.train.len(), data.test.len()), (5, 2));
            for (part, split) in [(0, &data.train), (1, &data.test)] {
                for j in 0..split.len() {
                    assert_eq!(usize::from(split.labels()[j]), j % 3);
                    let image = split.image(j).unwrap();
                    for i in 0..c * h * w {
                        let at = [i / (h * w), i / w % h, i % w];
                        assert_eq!(image[i], pixel(shape, 3, part, j, at), "{shape:?} {part} {j} {at:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn values_are_fixed_for_ever() {
        let data = Synthetic::new([3, 32, 32]).dataset();
        let sum = |split: &Split, i| split.image(i).unwrap().iter().map(|&v| u64::from(v)).sum::<u64>();
        let start = |split: &Split, i| split.image(i).unwrap()[..6].to_vec();
        assert_eq!((start(&data.train, 0), sum(&data.train, 0)), (vec![81, 15, 171, 6, 146, 162], 380758));
        assert_eq!(
            (start(&data.train, 1999), sum(&data.train, 1999)),
            (vec![141, 143, 121, 90, 182, 160], 389827)
        );
        assert_eq!((start(&data.test, 0), sum(&data.test, 0)), (vec![27, 167, 79, 151, 159, 55], 378717));
    }

    #[test]
    fn text_is_parsed_or_refused_with_the_form_that_was_expected() {
        let ok = |text: &str| Synthetic::parse(text).unwrap();
        assert_eq!(ok("3x32x32"), Synthetic::new([3, 32, 32]));
        assert_eq!(ok("1x28x28x5"), Synthetic { shape: [1, 28, 28], classes: 5, n_train: 2000 });
        assert_eq!(ok("1x28x27:7"), Synthetic { shape: [1, 28, 27], classes: 10, n_train: 7 });
        assert_eq!(ok("1x2x3x256:1"), Synthetic { shape: [1, 2, 3], classes: 256, n_train: 1 });
        // The largest of each kind: only what is beyond is refused.
        assert_eq!(ok("16384x1x1x256").shape[0], 16384);
        assert_eq!(ok("1x8192x8192:16777216").n_train, 1 << 24);
        let faults = [
            ("", "'' is no number"),
            ("3x32", "2 sizes"),
            ("3x32x32x10x5", "5 sizes"),
            ("3x-1x32", "'-1' is no number"),
            ("axbxc", "'a' is no number"),
            ("3x32x32:", "'' is no number"),
            ("3x32x32:0", "0 images"),
            ("3x32x32:9999999999", "9999999999 images"),
            ("3x32x32:16777217", "only 1 to 16777216"),
            ("67108864x1x1x256", "67108864 channels are not possible with 256 classes, only 1 to 16384"),
            ("419431x1x1", "only 1 to 419430"),
            ("3x0x32", "must have 1 to"),
            ("99999999999x99999999999x99999999999", "must have 1 to"),
            ("1x8x8x0", "0 classes"),
            ("1x8x8x257", "257 classes"),
        ];
        for (text, part) in faults {
            let message = Synthetic::parse(text).unwrap_err().to_string();
            assert!(message.contains(part) && message.contains("synthetic:CxHxW"), "{text}: {message}");
        }
    }
}
