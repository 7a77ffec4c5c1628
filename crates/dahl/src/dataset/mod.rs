//! Labelled images: the start of the path, from which batches are cut.
//!
//! [`open()`] finds out what a data set is: the built-in [`digits()`], [`Synthetic`] images, or a folder of
//! IDX files, of CIFAR-10 or of images. Pixels are one byte each and become floating point only when a batch
//! is gathered: a quarter of the memory of `f32`, and one copy for every element type. Where they do not fit
//! into memory they are decoded ahead of their use ([`Batches`]).
//!
//! Invariants, kept by every loader here: both splits have images of the same shape, every image
//! has a label, every label is below [`Dataset::classes`], and no split is empty.

mod batches;
mod cifar;
mod check;
mod digits;
mod file;
mod folder;
mod idx;
mod open;
mod split;
mod synthetic;
mod threads;

pub use batches::Batches;
pub use check::{Check, Fault, PartCheck, Summary, check, summary};
pub use cifar::cifar10;
pub use digits::digits;
pub use folder::image_file;
pub use idx::idx;
pub use open::{Kind, Options, Progress, open, open_with};
pub use split::{ImageSource, Split};
pub use synthetic::Synthetic;

/// Labelled images, divided into a part to learn from and a part to be tested on.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// A short name for reports, such as `fashion-mnist`.
    pub name: String,
    /// Channels, height and width of every image.
    pub shape: [usize; 3],
    /// How many classes there are; labels run from 0 to `classes - 1`.
    pub classes: usize,
    /// A name for each class; its number, where the source has no names.
    pub class_names: Vec<String>,
    /// The images to learn from.
    pub train: Split,
    /// The images to measure accuracy on; no training step may see them.
    pub test: Split,
}

/// Names for classes that have none: their numbers.
pub fn numbered(classes: usize) -> Vec<String> {
    (0..classes).map(|class| class.to_string()).collect()
}
