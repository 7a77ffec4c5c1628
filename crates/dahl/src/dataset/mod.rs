//! Labelled images in memory: the start of the path, from which batches are cut.
//!
//! A data set is kept as it lies in its files, one byte per pixel, and becomes floating point only
//! when a batch is gathered: a quarter of the memory of `f32`, and one copy for every element type.
//! [`idx()`] reads the MNIST family from a folder, [`digits()`] needs no file at all.
//!
//! Invariants, kept by every loader here: both splits have images of the same shape, every image
//! has a label, every label is below [`Dataset::classes`], and no split is empty.

use std::fmt;

mod digits;
mod idx;

pub use digits::digits;
pub use idx::idx;

/// Labelled images, divided into a part to learn from and a part to be tested on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    /// A short name for reports, such as `fashion-mnist`.
    pub name: String,
    /// Channels, height and width of every image.
    pub shape: [usize; 3],
    /// How many classes there are; labels run from 0 to `classes - 1`.
    pub classes: usize,
    /// The images to learn from.
    pub train: Split,
    /// The images to measure accuracy on; no training step may see them.
    pub test: Split,
}

/// One part of a data set: images one after the other, and a label for each.
#[derive(Clone, PartialEq, Eq)]
pub struct Split {
    /// The pixels in NCHW order (column fastest, then row, channel and image).
    pub images: Vec<u8>,
    /// The class of each image.
    pub labels: Vec<u8>,
}

impl Split {
    /// How many images there are.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no images.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The pixels of image `i` in CHW order.
    ///
    /// # Panics
    ///
    /// Panics if `i` is not below [`Split::len`].
    pub fn image(&self, i: usize) -> &[u8] {
        let n = self.len();
        assert!(i < n, "image {i} was asked for, but the split has {n}");
        let pixels = self.images.len() / n;
        &self.images[i * pixels..(i + 1) * pixels]
    }

    /// Keeps the first `limit` images, or all of them if there are fewer.
    ///
    /// The memory of the others is given back, for a small part of a large data set may be kept for
    /// a long time.
    pub fn truncate(&mut self, limit: usize) {
        let n = self.len();
        if limit >= n {
            return;
        }
        let pixels = self.images.len() / n;
        self.images.truncate(limit * pixels);
        self.images.shrink_to_fit();
        self.labels.truncate(limit);
        self.labels.shrink_to_fit();
    }
}

/// Shows the sizes only: the millions of bytes behind them would drown any message.
impl fmt::Debug for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Split").field("images", &self.len()).field("bytes", &self.images.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::Split;

    fn split() -> Split {
        Split { images: (0..12).collect(), labels: vec![0, 1, 2] }
    }

    #[test]
    fn an_image_is_a_slice_of_its_own_pixels() {
        let split = split();
        assert_eq!(split.len(), 3);
        assert!(!split.is_empty());
        assert_eq!(split.image(0), [0, 1, 2, 3]);
        assert_eq!(split.image(2), [8, 9, 10, 11]);
    }

    #[test]
    #[should_panic(expected = "image 3 was asked for, but the split has 3")]
    fn an_image_past_the_end_is_refused_with_both_numbers() {
        split().image(3);
    }

    #[test]
    #[should_panic(expected = "image 0 was asked for, but the split has 0")]
    fn an_empty_split_has_no_image() {
        let mut split = split();
        split.truncate(0);
        split.image(0);
    }

    #[test]
    fn truncating_keeps_images_and_labels_together() {
        let mut split = split();
        split.truncate(7);
        assert_eq!(split.len(), 3);
        split.truncate(2);
        assert_eq!(split.labels, [0, 1]);
        assert_eq!(split.images, [0, 1, 2, 3, 4, 5, 6, 7]);
        split.truncate(0);
        assert!(split.is_empty());
        assert!(split.images.is_empty());
        split.truncate(0);
        assert!(split.is_empty());
    }

    #[test]
    fn debug_output_is_short() {
        assert_eq!(format!("{:?}", split()), "Split { images: 3, bytes: 12 }");
    }
}
