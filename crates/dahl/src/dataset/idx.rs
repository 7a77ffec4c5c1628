//! Reads data sets in the IDX format: MNIST, Fashion-MNIST and their relatives.
//!
//! An IDX file is a big-endian header and then the values. The header is two zero bytes, the element
//! type (8 for unsigned bytes), the number of dimensions, and each dimension as 32 bits. A data set
//! is four such files in a folder: images and labels, for training and for testing.
//!
//! The header is not trusted: memory grows with the bytes that really arrive, never with the count a
//! header claims, and reading stops one byte after the end the header announces.

use std::io::Read;
use std::path::{Path, PathBuf};

use dahl_runtime::shown;

use super::{Dataset, Split, file, numbered, threads};
use crate::error::{Error, Result};
use crate::memory;

pub(super) const TRAIN_IMAGES: &str = "train-images-idx3-ubyte";
pub(super) const TRAIN_LABELS: &str = "train-labels-idx1-ubyte";
pub(super) const TEST_IMAGES: &str = "t10k-images-idx3-ubyte";
pub(super) const TEST_LABELS: &str = "t10k-labels-idx1-ubyte";

/// The files and what they hold.
const STEMS: [(&str, Content); 4] = [
    (TRAIN_IMAGES, Content::Images),
    (TRAIN_LABELS, Content::Labels),
    (TEST_IMAGES, Content::Images),
    (TEST_LABELS, Content::Labels),
];

/// The largest height and width that is taken for an image rather than for a damaged header.
const MAX_SIDE: usize = 4096;

/// The most bytes one file may hold, since all of it is kept in memory.
const MAX_BYTES: usize = 1 << 33;

/// The most memory that is reserved on the word of a header alone.
const MAX_TRUSTED_BYTES: usize = 1 << 26;

/// Reads the data set in the folder `dir`.
///
/// The folder holds `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, `t10k-images-idx3-ubyte` and
/// `t10k-labels-idx1-ubyte`, each as it is or compressed with the ending `.gz`; where both are present the
/// plain file is read. The number of classes is the largest training label plus one; each of them must have
/// an image, for a single wrong label would otherwise make up many of them.
/// [`Options::classes`](super::Options::classes) says how many there are where that is not so.
///
/// ```no_run
/// let data = dahl::dataset::idx("data/fashion-mnist")?;
/// assert_eq!(data.shape, [1, 28, 28]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// A folder or file that is missing, a file that is damaged, too short, too long or of another kind,
/// and files that do not fit together are errors that name the file, what was expected and what came.
pub fn idx(dir: impl AsRef<Path>) -> Result<Dataset> {
    read(dir.as_ref(), None)
}

/// The same with so many classes, whether all of them have images or not.
pub(super) fn read(dir: &Path, classes: Option<usize>) -> Result<Dataset> {
    if !dir.is_dir() {
        let found = if dir.exists() { "is not a folder" } else { "does not exist" };
        return Err(Error::data(
            dir,
            format!(
                "expected a folder with the files {TRAIN_IMAGES}, {TRAIN_LABELS}, {TEST_IMAGES} and \
                 {TEST_LABELS} (each may end in .gz), but this path {found}; check the path"
            ),
        ));
    }

    let [train_images, train_labels, test_images, test_labels] = read_all(dir);
    let train = Pair::new(train_images?, train_labels?)?;
    let test = Pair::new(test_images?, test_labels?)?;

    if test.sides() != train.sides() {
        let ([h, w], [test_h, test_w]) = (train.sides(), test.sides());
        return Err(Error::data(
            &test.images.path,
            format!(
                "expected images of {h} x {w} pixels as in {}, but these are {test_h} x {test_w}; \
                 take both files from the same data set",
                shown::path(&train.images.path)
            ),
        ));
    }
    let classes = match classes {
        Some(classes) => said(classes, [&train.labels, &test.labels])?,
        None => counted(&train.labels, &test.labels)?,
    };
    let [height, width] = train.sides();
    Ok(Dataset {
        name: file::name(dir),
        shape: [1, height, width],
        classes,
        class_names: numbered(classes),
        train: train.into_split()?,
        test: test.into_split()?,
    })
}

/// The number of classes that somebody has said, unless a label contradicts.
fn said(classes: usize, files: [&IdxFile; 2]) -> Result<usize> {
    for file in files {
        if let Some(at) = file.bytes.iter().position(|&label| usize::from(label) >= classes) {
            return Err(Error::data(
                &file.path,
                format!(
                    "expected labels below {classes}, the number of classes that was given, but label number {at} is {}; \
                     mend the file or give another number",
                    file.bytes[at]
                ),
            ));
        }
    }
    Ok(classes)
}

/// The number of classes by the labels, if every class has an image.
fn counted(train: &IdxFile, test: &IdxFile) -> Result<usize> {
    let largest = train.bytes.iter().max().copied().unwrap_or(0);
    if let Some(at) = test.bytes.iter().position(|&label| label > largest) {
        return Err(Error::data(
            &test.path,
            format!(
                "expected labels from 0 to {largest} as in {}, but label number {at} is {}; take \
                 both files from the same data set, or say how many classes there are (--classes)",
                shown::path(&train.path),
                test.bytes[at]
            ),
        ));
    }
    let mut has_image = [false; 256];
    train.bytes.iter().chain(&test.bytes).for_each(|&label| has_image[usize::from(label)] = true);
    let classes = usize::from(largest) + 1;
    let Some(missing) = has_image[..classes].iter().position(|has_image| !has_image) else {
        return Ok(classes);
    };
    // The labels of the training images have the largest one.
    let at = train.bytes.iter().position(|&label| usize::from(label) > missing).unwrap_or(0);
    let n_more = has_image[missing + 1..classes].iter().filter(|has_image| !**has_image).count();
    let more = if n_more > 0 { format!(" nor of {n_more} classes above it") } else { String::new() };
    Err(Error::data(
        &train.path,
        format!(
            "expected images of every class up to the largest label, {largest}, but there is none of class {missing}{more}, \
             and label number {at} is {}; mend the file if that is wrong, or else say how many classes there are \
             (--classes {classes})",
            train.bytes[at]
        ),
    ))
}

/// Whether a folder has any of the files.
pub(super) fn is_idx(dir: &Path) -> bool {
    STEMS.iter().any(|(stem, _)| file::present(dir, stem).is_some())
}

/// What is wrong with each of the files by itself.
pub(super) fn faults(dir: &Path) -> Vec<Error> {
    read_all(dir).into_iter().filter_map(Result::err).collect()
}

/// Count, height and width of the training and the test images, as their headers say.
pub(super) fn sizes(dir: &Path) -> Result<[[usize; 3]; 2]> {
    let size = |stem| -> Result<[usize; 3]> {
        let path = file::find(dir, stem)?;
        let dims = IdxFile::header(&path, Content::Images, &mut file::open(&path)?)?;
        Ok([dims[0], dims[1], dims[2]])
    };
    Ok([size(TRAIN_IMAGES)?, size(TEST_IMAGES)?])
}

/// Reads all files.
///
/// Inflating takes most of the time, and the files are independent of each other. Results are in a
/// fixed order, so that a folder with several faults gives the same error every time.
fn read_all(dir: &Path) -> [Result<IdxFile>; 4] {
    threads::each(STEMS, |(stem, content)| IdxFile::read(file::find(dir, stem)?, content))
}

/// What a file is expected to hold.
#[derive(Clone, Copy)]
enum Content {
    Images,
    Labels,
}

impl Content {
    /// What a person calls it.
    fn noun(self) -> &'static str {
        match self {
            Self::Images => "images",
            Self::Labels => "labels",
        }
    }

    /// Images have a count, rows and columns; labels only a count.
    fn rank(self) -> usize {
        match self {
            Self::Images => 3,
            Self::Labels => 1,
        }
    }

    /// The first four bytes: unsigned bytes with so many dimensions.
    fn magic(self) -> [u8; 4] {
        match self {
            Self::Images => [0, 0, 8, 3],
            Self::Labels => [0, 0, 8, 1],
        }
    }
}

/// One IDX file in memory, inflated and checked.
struct IdxFile {
    path: PathBuf,
    dims: Vec<usize>,
    bytes: Vec<u8>,
}

impl IdxFile {
    /// Reads the file at `path`, inflating it if it is compressed.
    fn read(path: PathBuf, content: Content) -> Result<Self> {
        let source = file::open(&path)?;
        Self::parse(path, content, source)
    }

    /// The dimensions in the header that `source` begins with.
    fn header(path: &Path, content: Content, source: &mut impl Read) -> Result<Vec<usize>> {
        let header_len = 4 + 4 * content.rank();
        let mut header = Vec::with_capacity(header_len);
        file::fill(path, source, &mut header, header_len)?;
        if let Some(magic) = header.first_chunk::<4>()
            && *magic != content.magic()
        {
            return Err(wrong_magic(path, content, *magic));
        }
        if header.len() < header_len {
            return Err(Error::data(
                path,
                format!(
                    "expected an IDX header of {header_len} bytes, but the data end after {}; fetch \
                     the file again",
                    header.len()
                ),
            ));
        }
        Ok(header[4..]
            .chunks_exact(4)
            .map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]) as usize)
            .collect())
    }

    /// Checks the header that `source` begins with and reads exactly what it announces.
    fn parse(path: PathBuf, content: Content, mut source: impl Read) -> Result<Self> {
        let dims = Self::header(&path, content, &mut source)?;
        let expected = payload_bytes(&path, content, &dims)?;

        let room = memory::room(expected.min(MAX_TRUSTED_BYTES), content.noun());
        let mut bytes = room.map_err(|sentence| Error::data(&path, sentence))?;
        file::fill(&path, &mut source, &mut bytes, expected)?;
        if bytes.len() < expected {
            return Err(Error::data(
                &path,
                format!(
                    "expected {expected} bytes for {} {}, but the data end after {}; the file is \
                     cut off: fetch it again",
                    dims[0],
                    content.noun(),
                    bytes.len()
                ),
            ));
        }
        // Asking for one byte more finds data that do not belong there. In a compressed file it
        // also makes the decoder compare the checksum, which follows the data.
        let n_beyond =
            source.take(1).read_to_end(&mut Vec::new()).map_err(|error| file::damaged(&path, error))?;
        if n_beyond > 0 {
            return Err(Error::data(
                &path,
                format!(
                    "expected the data to end after {expected} bytes for {} {}, but more follow; \
                     the file is damaged: fetch it again",
                    dims[0],
                    content.noun()
                ),
            ));
        }
        Ok(Self { path, dims, bytes })
    }
}

/// The bytes that follow a header with these dimensions, if the dimensions are believable.
fn payload_bytes(path: &Path, content: Content, dims: &[usize]) -> Result<usize> {
    let noun = content.noun();
    if dims[0] == 0 {
        return Err(Error::data(
            path,
            format!("expected at least one of the {noun}, but the header says 0; fetch the file again"),
        ));
    }
    if dims[1..].iter().any(|side| !(1..=MAX_SIDE).contains(side)) {
        return Err(Error::data(
            path,
            format!(
                "expected images of 1 to {MAX_SIDE} rows and columns, but the header says {} x {}; \
                 the file is damaged: fetch it again",
                dims[1], dims[2]
            ),
        ));
    }
    dims.iter()
        .try_fold(1_usize, |product, &dim| product.checked_mul(dim))
        .filter(|&bytes| bytes <= MAX_BYTES)
        .ok_or_else(|| {
            let sizes: Vec<String> = dims.iter().map(ToString::to_string).collect();
            Error::data(
                path,
                format!(
                    "expected at most {MAX_BYTES} bytes of {noun}, since they are kept in memory, \
                     but the header says {}; the file is damaged: fetch it again",
                    sizes.join(" x ")
                ),
            )
        })
}

/// The error for a file that does not begin as `content` should.
fn wrong_magic(path: &Path, content: Content, came: [u8; 4]) -> Error {
    let hint = if came == Content::Images.magic() {
        "this is a file of images: check whether the files were swapped"
    } else if came == Content::Labels.magic() {
        "this is a file of labels: check whether the files were swapped"
    } else if came.starts_with(&file::GZIP_MAGIC) {
        "the file was compressed twice: decompress it once"
    } else {
        "this is no IDX file of unsigned bytes: fetch it again"
    };
    Error::data(
        path,
        format!(
            "expected {} with the magic number 0x{:08x}, but the file begins with 0x{:08x}; {hint}",
            content.noun(),
            u32::from_be_bytes(content.magic()),
            u32::from_be_bytes(came)
        ),
    )
}

/// The images and labels of one split, as many of the one as of the other.
struct Pair {
    images: IdxFile,
    labels: IdxFile,
}

impl Pair {
    fn new(images: IdxFile, labels: IdxFile) -> Result<Self> {
        let (n_images, n_labels) = (images.dims[0], labels.dims[0]);
        if n_images != n_labels {
            return Err(Error::data(
                &labels.path,
                format!(
                    "expected {n_images} labels, one for each image in {}, but there are \
                     {n_labels}; take both files from the same data set",
                    shown::path(&images.path)
                ),
            ));
        }
        Ok(Self { images, labels })
    }

    /// Height and width of the images.
    fn sides(&self) -> [usize; 2] {
        [self.images.dims[1], self.images.dims[2]]
    }

    fn into_split(self) -> Result<Split> {
        Split::new(self.images.bytes, self.labels.bytes)
    }
}
