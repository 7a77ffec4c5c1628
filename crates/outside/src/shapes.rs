//! Images that are drawn when they are asked for: lines in four directions, anywhere, in noise.

use dahl::dataset::{Dataset, ImageSource, Split, numbered};
use dahl::random::Stream;

/// Height and width of an image.
const SIDE: usize = 10;

/// Pixels of a line.
const LENGTH: usize = 7;

/// What a class is: the step from one pixel of its line to the next, down and to the right, and the first
/// row and column that a line may begin in, and how many there are.
const DIRECTIONS: [([isize; 2], [usize; 2], [usize; 2]); 4] = [
    ([0, 1], [0, 0], [SIDE, SIDE - LENGTH + 1]),
    ([1, 0], [0, 0], [SIDE - LENGTH + 1, SIDE]),
    ([1, 1], [0, 0], [SIDE - LENGTH + 1, SIDE - LENGTH + 1]),
    ([-1, 1], [LENGTH - 1, 0], [SIDE - LENGTH + 1, SIDE - LENGTH + 1]),
];

/// Lines in four directions, drawn from a seed.
#[derive(Clone, Copy, Debug)]
pub struct Shapes {
    seed: u64,
}

impl Shapes {
    /// A data set of so many images to learn from, and half as many to be tested on.
    pub fn dataset(n_train: usize) -> Dataset {
        let split = |seed: u64, n: usize| {
            let labels = (0..n).map(|image| (image % DIRECTIONS.len()) as u8).collect();
            Split::from_source(Shapes { seed }, labels, SIDE * SIDE)
        };
        Dataset {
            name: "lines".to_string(),
            shape: [1, SIDE, SIDE],
            classes: DIRECTIONS.len(),
            class_names: numbered(DIRECTIONS.len()),
            train: split(1, n_train),
            test: split(2, n_train.div_ceil(2)),
        }
    }
}

impl ImageSource for Shapes {
    fn read(&self, image: usize, pixels: &mut [u8]) -> dahl::Result<()> {
        let stream = Stream::new(self.seed, image as u64);
        for (i, pixel) in pixels.iter_mut().enumerate() {
            *pixel = (stream.bits(2 + i as u64) >> 57) as u8;
        }
        let ([down, right], first, count) = DIRECTIONS[image % DIRECTIONS.len()];
        let begin = |dim: usize| first[dim] + stream.bits(dim as u64) as usize % count[dim];
        let (row, column) = (begin(0), begin(1));
        for i in 0..LENGTH as isize {
            let (row, column) = (row.wrapping_add_signed(i * down), column.wrapping_add_signed(i * right));
            pixels[row * SIDE + column] = 255;
        }
        Ok(())
    }

    fn place(&self, image: usize) -> String {
        format!("line {image} of seed {}", self.seed)
    }
}
