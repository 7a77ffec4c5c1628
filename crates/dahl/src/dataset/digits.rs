//! The handwritten digits that are built in: 1797 real images of 8 x 8 pixels.
//!
//! They are there so that examples, tests and a first run need neither a download nor a path, yet
//! learn from real data. `data/README.md` of this crate gives their origin, licence and citation;
//! `scripts/pack_digits.py` makes the packed file and describes its layout.

use std::io::{self, Read};

use flate2::read::GzDecoder;

use super::{Dataset, Split, numbered};

const PACKED: &[u8] = include_bytes!("../../data/digits.bin.gz");
const MAGIC: &[u8; 8] = b"dahldigs";
const VERSION: u16 = 1;

/// One image in so many, counted within each class, is for testing.
const TEST_EVERY: usize = 6;

/// The optical digits of the UCI repository: 10 classes, 1 x 8 x 8 pixels, 1501 images for training
/// and 296 for testing.
///
/// The source counts ink from 0 to 16; here that is spread over 0 to 255, rounded. Every sixth image
/// of each class (its 6th, 12th, …) is for testing and all others for training, in the order of the
/// source. Counting within classes matters: the source often runs through the digits in turn, and
/// every sixth image overall would be a digit 0 half as often again as a digit 6.
///
/// ```
/// let data = dahl::dataset::digits();
/// assert_eq!(data.shape, [1, 8, 8]);
/// assert_eq!((data.train.len(), data.test.len()), (1501, 296));
/// ```
pub fn digits() -> Dataset {
    // The bytes are part of this library, so a failure here is a fault of ours that every test of
    // this function would meet; there is nothing for a caller to handle.
    unpack(PACKED).expect("the built-in digits are intact")
}

/// Inflates and parses the packed file.
fn unpack(packed: &[u8]) -> io::Result<Dataset> {
    let mut source = GzDecoder::new(packed);
    let mut header = [0; 16];
    source.read_exact(&mut header)?;
    let [n_low, n_high, height, width, largest, classes] =
        [header[10], header[11], header[12], header[13], header[14], header[15]];
    if !header.starts_with(MAGIC) || u16::from_le_bytes([header[8], header[9]]) != VERSION {
        return Err(io::Error::other("the header is not of version 1"));
    }
    let n_images = usize::from(u16::from_le_bytes([n_low, n_high]));
    let pixels = usize::from(height) * usize::from(width);

    let mut labels = vec![0; n_images];
    source.read_exact(&mut labels)?;
    let mut images = vec![0; n_images * pixels];
    source.read_exact(&mut images)?;
    // Reading on to the end makes the decoder compare the checksum.
    if source.read(&mut [0])? != 0 {
        return Err(io::Error::other("more data follow the images"));
    }

    let (mut train, mut test) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    let mut seen = vec![0; usize::from(classes)];
    for (&label, image) in labels.iter().zip(images.chunks_exact(pixels)) {
        let seen = &mut seen[usize::from(label)];
        *seen += 1;
        let (images, labels) = if *seen % TEST_EVERY == 0 { &mut test } else { &mut train };
        labels.push(label);
        images.extend(image.iter().map(|&ink| spread(ink, largest)));
    }
    let split = |(images, labels)| Split::new(images, labels).map_err(io::Error::other);
    Ok(Dataset {
        name: "digits".to_owned(),
        shape: [1, usize::from(height), usize::from(width)],
        classes: usize::from(classes),
        class_names: numbered(usize::from(classes)),
        train: split(train)?,
        test: split(test)?,
    })
}

/// Maps 0 to `largest` onto 0 to 255, rounding halves up.
fn spread(ink: u8, largest: u8) -> u8 {
    let (ink, largest) = (u32::from(ink), u32::from(largest));
    u8::try_from((2 * ink * 255 + largest) / (2 * largest)).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::{PACKED, digits, spread, unpack};
    use crate::dataset::Split;

    fn per_class(split: &Split) -> [usize; 10] {
        let mut counts = [0; 10];
        for &label in split.labels() {
            counts[usize::from(label)] += 1;
        }
        counts
    }

    #[test]
    fn the_digits_have_the_documented_sizes() {
        let data = digits();
        assert_eq!(data.name, "digits");
        assert_eq!(data.shape, [1, 8, 8]);
        assert_eq!(data.classes, 10);
        assert_eq!((data.train.len(), data.test.len()), (1501, 296));
        assert_eq!(data.train.resident().unwrap().len(), 1501 * 64);
        assert_eq!(data.test.resident().unwrap().len(), 296 * 64);
    }

    #[test]
    fn both_splits_are_balanced() {
        let data = digits();
        assert_eq!(per_class(&data.train), [149, 152, 148, 153, 151, 152, 151, 150, 145, 150]);
        assert_eq!(per_class(&data.test), [29, 30, 29, 30, 30, 30, 30, 29, 29, 30]);
    }

    #[test]
    fn the_first_digit_is_the_known_zero() {
        let data = digits();
        assert_eq!(data.train.labels()[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let ink: [u8; 16] = [0, 0, 5, 13, 9, 1, 0, 0, 0, 0, 13, 15, 10, 15, 5, 0];
        assert_eq!(data.train.image(0).unwrap()[..16], ink.map(|v| spread(v, 16)));
    }

    #[test]
    fn ink_is_spread_over_all_values_of_a_byte() {
        let expected = [0, 16, 32, 48, 64, 80, 96, 112, 128, 143, 159, 175, 191, 207, 223, 239, 255];
        assert_eq!(std::array::from_fn::<u8, 17, _>(|v| spread(v as u8, 16)), expected);
        let data = digits();
        let used = |split: &Split| split.resident().unwrap().iter().all(|v| expected.contains(v));
        assert!(used(&data.train) && used(&data.test));
        assert_eq!(data.train.resident().unwrap().iter().max(), Some(&255));
    }

    #[test]
    fn damage_to_the_packed_file_is_noticed() {
        assert!(unpack(&PACKED[..PACKED.len() - 1]).is_err());
        assert!(unpack(&PACKED[..PACKED.len() / 2]).is_err());
        let mut flipped = PACKED.to_vec();
        flipped[PACKED.len() / 2] ^= 0x40;
        assert!(unpack(&flipped).is_err());
    }
}
