//! One part of a data set: labels in memory, pixels in memory or read when they are used.

use std::borrow::Cow;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use super::batches::Batches;
use crate::error::{Error, Result};
use crate::memory;
use dahl_runtime::error::panic_message;

/// Where images come from that are not kept in memory: files, or whatever a program makes them of.
///
/// Images are read by several threads at once and in any order, so a source has no position. The same image
/// has the same pixels whenever it is read, since runs are repeated to the last bit.
pub trait ImageSource: Send + Sync {
    /// Writes the pixels of an image in CHW order.
    fn read(&self, image: usize, pixels: &mut [u8]) -> Result<()>;

    /// Where an image is, for messages: the path of its file, where it has one.
    fn place(&self, image: usize) -> String;
}

/// The pixels of all images.
#[derive(Clone)]
enum Pixels {
    /// All of them one after the other. Shared, so that a stream can outlive its split.
    Resident(Arc<Vec<u8>>),
    /// Read one by one.
    Streamed(Arc<dyn ImageSource>),
}

/// Labelled images, either all in memory or read when they are used.
#[derive(Clone)]
pub struct Split {
    pixels: Pixels,
    labels: Arc<Vec<u8>>,
    image_bytes: usize,
}

impl Split {
    /// Images that are in memory: their pixels in NCHW order (column fastest, then row, channel and image)
    /// and the class of each.
    ///
    /// # Errors
    ///
    /// Pixels that cannot be divided evenly among the labels.
    pub fn new(images: Vec<u8>, labels: Vec<u8>) -> Result<Self> {
        let (n_bytes, n) = (images.len(), labels.len());
        let image_bytes = n_bytes.checked_div(n).unwrap_or(0);
        if image_bytes * n != n_bytes {
            return Err(Error::setting(format!(
                "expected as many pixels for each image as for any other, but {n_bytes} cannot be divided by {n} labels"
            )));
        }
        Ok(Self::from_pixels(Pixels::Resident(Arc::new(images)), labels, image_bytes))
    }

    /// Images that are read when they are used: the class of each, and how many bytes each of them has, one
    /// for each pixel and channel. [`Dataset::kept`](super::Dataset::kept) reads them at once, where they fit
    /// into memory.
    pub fn from_source(source: impl ImageSource + 'static, labels: Vec<u8>, image_bytes: usize) -> Self {
        Self::from_pixels(Pixels::Streamed(Arc::new(source)), labels, image_bytes)
    }

    /// A split of images with so many bytes each.
    fn from_pixels(pixels: Pixels, labels: Vec<u8>, image_bytes: usize) -> Self {
        Split { pixels, labels: Arc::new(labels), image_bytes }
    }

    /// How many images there are.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no images.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The class of each image.
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }

    /// The bytes of one image: one for each pixel and channel.
    pub fn image_bytes(&self) -> usize {
        self.image_bytes
    }

    /// The bytes of all images.
    pub fn n_bytes(&self) -> u64 {
        self.image_bytes as u64 * self.len() as u64
    }

    /// All pixels in NCHW order, if they are in memory. Otherwise images are had one by one
    /// ([`Split::image`]) or in batches ([`Split::batches`]).
    pub fn resident(&self) -> Option<&[u8]> {
        match &self.pixels {
            Pixels::Resident(images) => Some(images),
            Pixels::Streamed(_) => None,
        }
    }

    /// Pixels, if they are in memory, and labels, for whoever keeps them without a copy.
    pub(crate) fn shared(&self) -> Option<[&Arc<Vec<u8>>; 2]> {
        match &self.pixels {
            Pixels::Resident(images) => Some([images, &self.labels]),
            Pixels::Streamed(_) => None,
        }
    }

    /// The pixels of image `i` in CHW order.
    ///
    /// # Errors
    ///
    /// There is no such image, or its file cannot be read or decoded.
    pub fn image(&self, i: usize) -> Result<Cow<'_, [u8]>> {
        let n = self.len();
        if i >= n {
            return Err(Error::setting(format!("expected an image below {n}, but image {i} was asked for")));
        }
        match &self.pixels {
            Pixels::Resident(images) => {
                Ok(Cow::Borrowed(&images[i * self.image_bytes..(i + 1) * self.image_bytes]))
            }
            Pixels::Streamed(_) => {
                let mut pixels = memory::zeros(self.image_bytes, "an image").map_err(Error::setting)?;
                self.read_into(i, &mut pixels)?;
                Ok(Cow::Owned(pixels))
            }
        }
    }

    /// Writes the pixels of image `i` in CHW order.
    ///
    /// # Errors
    ///
    /// As for [`Split::image`], and `pixels` of another size than an image.
    pub fn read_into(&self, i: usize, pixels: &mut [u8]) -> Result<()> {
        let expected = self.image_bytes;
        if pixels.len() != expected {
            let came = pixels.len();
            return Err(Error::setting(format!("expected room for {expected} bytes, but it is for {came}")));
        }
        if let (Pixels::Streamed(source), true) = (&self.pixels, i < self.len()) {
            // Files come from anywhere and decoders are not ours: a panic in one must not leave a trainer
            // waiting.
            let read = AssertUnwindSafe(|| source.read(i, pixels));
            return panic::catch_unwind(read).unwrap_or_else(|cause| {
                let text = panic_message(cause);
                let message =
                    format!("expected an image that can be decoded, but the decoder failed ({text})");
                Err(Error::data(source.place(i), message))
            });
        }
        pixels.copy_from_slice(&self.image(i)?);
        Ok(())
    }

    /// Where image `i` comes from: a file, where it has one of its own.
    pub fn place(&self, i: usize) -> String {
        match &self.pixels {
            Pixels::Resident(_) => format!("image {i}"),
            Pixels::Streamed(source) => source.place(i),
        }
    }

    /// Reads images in the order of `order`, ahead of their use, on `n_threads` threads.
    ///
    /// The order may be that of many epochs in a row, so that reading goes on while an epoch ends. Nothing
    /// that is delivered depends on the number of threads.
    pub fn batches<I>(&self, order: I, n_threads: usize) -> Batches
    where
        I: IntoIterator<Item = u32>,
        I::IntoIter: Send + 'static,
    {
        Batches::new(self.clone(), Box::new(order.into_iter()), n_threads)
    }

    /// Keeps the first `limit` images, or all of them if there are fewer.
    ///
    /// The memory of the others is given back, for a small part of a large data set may be kept for
    /// a long time.
    pub fn truncate(&mut self, limit: usize) {
        if limit >= self.len() {
            return;
        }
        if let Pixels::Resident(images) = &mut self.pixels {
            let n_bytes = limit * self.image_bytes;
            match Arc::get_mut(images) {
                Some(images) => {
                    images.truncate(n_bytes);
                    images.shrink_to_fit();
                }
                None => *images = Arc::new(images[..n_bytes].to_vec()),
            }
        }
        self.labels = Arc::new(self.labels[..limit].to_vec());
    }
}

#[cfg(test)]
impl Split {
    /// Grey images of so many bytes, each of which takes this long to read.
    pub(crate) fn slow(n: usize, image_bytes: usize, pause: std::time::Duration) -> Split {
        struct Slow(std::time::Duration);
        impl ImageSource for Slow {
            fn read(&self, _: usize, pixels: &mut [u8]) -> Result<()> {
                std::thread::sleep(self.0);
                pixels.fill(100);
                Ok(())
            }
            fn place(&self, image: usize) -> String {
                format!("slow {image}")
            }
        }
        let labels = (0..n).map(|i| (i % 10) as u8).collect();
        Split::from_source(Slow(pause), labels, image_bytes)
    }
}

/// Two splits are equal if all their images are; images that are not in memory are only equal to themselves.
impl PartialEq for Split {
    fn eq(&self, other: &Self) -> bool {
        let same = match (&self.pixels, &other.pixels) {
            (Pixels::Resident(a), Pixels::Resident(b)) => a == b,
            (Pixels::Streamed(a), Pixels::Streamed(b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        same && self.labels == other.labels
    }
}

/// Shows the sizes only: the millions of bytes behind them would drown any message.
impl fmt::Debug for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_resident = self.resident().is_some();
        f.debug_struct("Split")
            .field("images", &self.len())
            .field("image_bytes", &self.image_bytes)
            .field("is_resident", &is_resident)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::Split;

    fn split() -> Split {
        Split::new((0..12).collect(), vec![0, 1, 2]).unwrap()
    }

    #[test]
    fn an_image_is_a_slice_of_its_own_pixels() {
        let split = split();
        assert_eq!(split.len(), 3);
        assert!(!split.is_empty());
        assert_eq!(*split.image(0).unwrap(), [0, 1, 2, 3]);
        assert_eq!(*split.image(2).unwrap(), [8, 9, 10, 11]);
        assert_eq!(split.resident().map(<[u8]>::len), Some(12));
    }

    #[test]
    fn an_image_past_the_end_is_refused_with_both_numbers() {
        let message = split().image(3).unwrap_err().to_string();
        assert_eq!(message, "expected an image below 3, but image 3 was asked for");
        let mut empty = split();
        empty.truncate(0);
        assert!(empty.image(0).is_err());
    }

    #[test]
    fn pixels_must_fit_the_labels() {
        assert!(Split::new(vec![0; 7], vec![0, 1]).is_err());
        assert!(Split::new(vec![0; 7], vec![]).is_err());
        assert!(Split::new(vec![], vec![]).is_ok());
    }

    #[test]
    fn truncating_keeps_images_and_labels_together() {
        let mut split = split();
        split.truncate(7);
        assert_eq!(split.len(), 3);
        split.truncate(2);
        assert_eq!(split.labels(), [0, 1]);
        assert_eq!(split.resident(), Some(&[0, 1, 2, 3, 4, 5, 6, 7][..]));
        split.truncate(0);
        assert!(split.is_empty());
        assert_eq!(split.resident(), Some(&[][..]));
        split.truncate(0);
        assert!(split.is_empty());
    }

    #[test]
    fn debug_output_is_short() {
        let expected = "Split { images: 3, image_bytes: 4, is_resident: true }";
        assert_eq!(format!("{:?}", split()), expected);
    }
}
