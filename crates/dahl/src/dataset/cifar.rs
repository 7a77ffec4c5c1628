//! Reads CIFAR-10 in its binary version.
//!
//! Six files, `data_batch_1.bin` to `data_batch_5.bin` for training and `test_batch.bin` for testing, hold records of 3073 bytes: the
//! label, then 32 x 32 pixels of red, of green and of blue, row by row. That is already NCHW. The names of the classes are the
//! lines of `batches.meta.txt`, if that is there.

use std::fs;
use std::io::{self, Read};
use std::panic;
use std::path::{Path, PathBuf};
use std::thread;

use super::{Dataset, Split, file, numbered};
use crate::error::{Error, Result};

const SHAPE: [usize; 3] = [3, 32, 32];
const PIXELS: usize = 3 * 32 * 32;
const RECORD: usize = 1 + PIXELS;

/// The folder that the published archive unpacks to.
pub(super) const ARCHIVE: &str = "cifar-10-batches-bin";
const META: &str = "batches.meta.txt";
/// What the published files are about, where no file says otherwise.
const NAMES: [&str; 10] =
    ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];

/// The files, the test images last.
pub(super) const FILES: [&str; 6] = [
    "data_batch_1.bin",
    "data_batch_2.bin",
    "data_batch_3.bin",
    "data_batch_4.bin",
    "data_batch_5.bin",
    "test_batch.bin",
];

/// The most bytes one file may hold, since all of it is kept in memory: a hundred times the published one.
const MAX_BYTES: usize = 1_000_000 * RECORD;

/// Reads CIFAR-10 from the folder `dir`.
///
/// The folder holds `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`, each as it is or compressed with the
/// ending `.gz`, or it holds a folder `cifar-10-batches-bin` that does.
///
/// ```no_run
/// let data = dahl::dataset::cifar10("data/cifar-10")?;
/// assert_eq!(data.shape, [3, 32, 32]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// A file that is missing or damaged, one that is no whole number of records, and labels beyond the classes are errors that
/// name the file, what was expected and what came.
pub fn cifar10(dir: impl AsRef<Path>) -> Result<Dataset> {
    let outer = dir.as_ref();
    let inner = outer.join(ARCHIVE);
    let dir = if is_cifar(outer) || !inner.is_dir() { outer } else { &inner };
    let class_names = class_names(dir)?;
    let classes = class_names.len();
    // Inflating takes time, and results are looked at in a fixed order, as for IDX files.
    let parts = thread::scope(|scope| {
        FILES
            .map(|stem| scope.spawn(move || read(file::find(dir, stem)?, classes)))
            .map(|reader| reader.join().unwrap_or_else(|cause| panic::resume_unwind(cause)))
    });
    let mut splits = Vec::new();
    let (mut images, mut labels) = (Vec::new(), Vec::new());
    for (part, stem) in parts.into_iter().zip(FILES) {
        let part = part?;
        if stem == FILES[5] {
            splits.push(Split::new(std::mem::take(&mut images), std::mem::take(&mut labels))?);
        }
        for record in part.chunks_exact(RECORD) {
            labels.push(record[0]);
            images.extend_from_slice(&record[1..]);
        }
    }
    let test = Split::new(images, labels)?;
    let train = splits.pop().unwrap_or_else(|| test.clone());
    Ok(Dataset { name: file::name(outer), shape: SHAPE, classes, class_names, train, test })
}

/// Whether a folder has any of the files of CIFAR-10.
pub(super) fn is_cifar(dir: &Path) -> bool {
    FILES.iter().any(|stem| file::present(dir, stem).is_some())
}

/// The classes that the folder tells of, or the published ones.
fn class_names(dir: &Path) -> Result<Vec<String>> {
    let path = dir.join(META);
    let text = match fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(NAMES.map(str::to_owned).to_vec());
        }
        Err(error) => return Err(file::unreadable(&path, &error)),
    };
    let names: Vec<String> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    match names.len() {
        0 => Ok(numbered(NAMES.len())),
        1..=256 => Ok(names),
        n => Err(Error::data(
            &path,
            format!("expected a line for each of at most 256 classes, but there are {n}; fetch the file again"),
        )),
    }
}

/// All records of one file.
fn read(path: PathBuf, classes: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut source = file::open(&path)?;
    let read = source.by_ref().take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes);
    let end = match read {
        Ok(_) => String::new(),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => ", where the compressed data break off".to_owned(),
        Err(error) => return Err(file::damaged(&path, &error)),
    };
    let n = bytes.len();
    if n > MAX_BYTES {
        return Err(Error::data(
            &path,
            format!("expected at most {MAX_BYTES} bytes, since they are kept in memory, but there are more"),
        ));
    }
    if n == 0 || n % RECORD != 0 || !end.is_empty() {
        return Err(Error::data(
            &path,
            format!(
                "expected records of {RECORD} bytes (a label and 3 x 32 x 32 pixels), but the file has {n} bytes{end}, which is \
                 {} records and {} bytes; it is cut off or of another kind: fetch it again",
                n / RECORD,
                n % RECORD
            ),
        ));
    }
    let wrong = bytes.chunks_exact(RECORD).position(|record| usize::from(record[0]) >= classes);
    if let Some(at) = wrong {
        return Err(Error::data(
            &path,
            format!(
                "expected labels from 0 to {}, but that of record {at} is {}; the file is damaged or of another \
                 data set: fetch it again",
                classes - 1,
                bytes[at * RECORD]
            ),
        ));
    }
    Ok(bytes)
}
