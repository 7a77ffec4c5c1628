//! Folders of images, one folder per class, of any size and in any number.
//!
//! `listing.rs` finds the files and divides them, `picture.rs` and `pnm.rs` decode one, `resize.rs` brings it
//! to the size that a model takes. Only names are kept in memory: images are read when they are used, so a
//! folder may be larger than memory.

mod listing;
mod picture;
mod pnm;
mod resize;

use std::path::{Path, PathBuf};

use dahl_runtime::shown;

use super::split::{ImageSource, Split};
use super::{Dataset, file};
use crate::error::{Error, Result};
use crate::memory;
pub(super) use listing::{ENDINGS, Listing, has_classes};
use picture::Picture;

/// Larger images than this are made smaller, if nobody says which size is wanted.
const DEFAULT_SIDE: usize = 64;

/// An image file in the shape that a model takes: channels (1 or 3), height and width; the pixels are in CHW
/// order.
///
/// PNG, JPEG, PGM and PPM are read. Colours become greys or greys colours as needed; the image is stretched
/// to the size, bilinearly, averaging where it shrinks. Orientation tags and transparency are left out.
///
/// # Errors
///
/// A file that cannot be read or is damaged, and a shape that images cannot have.
pub fn image_file(path: impl AsRef<Path>, shape: [usize; 3]) -> Result<Vec<u8>> {
    check_shape(shape)?;
    let mut pixels = memory::zeros(shape.iter().product(), "an image").map_err(Error::setting)?;
    read_into(path.as_ref(), shape, &mut pixels)?;
    Ok(pixels)
}

/// The images of a folder: `DIR/train/CLASS/*` and `DIR/test/CLASS/*` (or `val` for `test`), or
/// `DIR/CLASS/*`.
///
/// In the second form the 6th, 12th, … image of each class is for testing, or the last one of a class of 2
/// to 5. Classes and images are in the order of their names, the images of a class after each other. `limit`
/// training images are taken from the classes in turn. Without a shape the images take that of the first one,
/// but at most 64 pixels each way.
pub(super) fn folder(dir: &Path, shape: Option<[usize; 3]>, limit: Option<usize>) -> Result<Dataset> {
    let mut listing = Listing::read(dir)?;
    if let Some(limit) = limit {
        listing.limit(limit);
    }
    let shape = match shape {
        Some(shape) => shape,
        None => first_shape(&listing)?,
    };
    check_shape(shape)?;
    let image_bytes = shape.iter().product();
    let split = |files: Vec<(Box<Path>, u8)>| {
        let (files, labels): (Vec<_>, Vec<_>) = files.into_iter().unzip();
        let source = Files { root: dir.to_path_buf(), files, shape };
        Split::from_source(source, labels, image_bytes)
    };
    Ok(Dataset {
        name: file::name(dir),
        shape,
        classes: listing.classes.len(),
        class_names: listing.classes,
        train: split(listing.train),
        test: split(listing.test),
    })
}

/// Images are grey or coloured, and neither empty nor absurdly large.
fn check_shape(shape: [usize; 3]) -> Result<()> {
    let [channels, height, width] = shape;
    if ![1, 3].contains(&channels) {
        return Err(Error::setting(format!(
            "expected 1 channel (grey) or 3 (red, green, blue) for images from files, but {channels} are asked for"
        )));
    }
    picture::check_size(width, height, channels).map(|_| ()).map_err(|_| {
        Error::setting(format!("expected images of a possible size, but {height} x {width} is asked for"))
    })
}

/// The shape of the first image that can be decoded; that others cannot is told when they are used.
fn first_shape(listing: &Listing) -> Result<[usize; 3]> {
    let mut first_error = None;
    for (path, _) in listing.train.iter().take(100) {
        match Picture::read(&listing.root.join(path)) {
            Ok(Picture { width, height, channels, .. }) => {
                return Ok([channels, height.min(DEFAULT_SIDE), width.min(DEFAULT_SIDE)]);
            }
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.unwrap_or_else(|| Error::data(&listing.root, "expected images, but there are none")))
}

/// Reads, decodes and resizes one file.
fn read_into(path: &Path, [channels, height, width]: [usize; 3], pixels: &mut [u8]) -> Result<()> {
    let picture = Picture::read(path)?.with_channels(channels);
    let picture = picture.and_then(|picture| resize::resize(picture, height, width));
    let picture = picture.map_err(|sentence| Error::data(path, sentence))?;
    let n = height * width;
    for (i, value) in picture.values.iter().enumerate() {
        pixels[i % channels * n + i / channels] = *value;
    }
    Ok(())
}

/// Files that are images.
struct Files {
    root: PathBuf,
    /// Relative to the root.
    files: Vec<Box<Path>>,
    shape: [usize; 3],
}

impl ImageSource for Files {
    fn read(&self, image: usize, pixels: &mut [u8]) -> Result<()> {
        read_into(&self.root.join(&self.files[image]), self.shape, pixels)
    }

    fn place(&self, image: usize) -> String {
        shown::path(&self.root.join(&self.files[image])).to_string()
    }
}
