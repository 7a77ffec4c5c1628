//! PGM and PPM: a header in plain text, then the values, as bytes or as text.
//!
//! The header is `P5` (grey, bytes), `P6` (colour, bytes), `P2` or `P3` (the same as text), then width,
//! height and the largest value as decimal numbers between blanks, with comments from `#` to the end of a
//! line. Values are spread from 0..=largest to 0..=255, rounded. A largest value above 255 means two bytes
//! per value, the upper one first.

use super::picture::{Fault, PICTURE, Picture, check_size};
use crate::memory;

type Result<T> = std::result::Result<T, String>;

/// Decodes a file that begins with `P` and a digit.
pub(super) fn decode(bytes: &[u8]) -> std::result::Result<Picture, Fault> {
    let (channels, is_text) = match bytes.get(1) {
        Some(b'2') => (1, true),
        Some(b'3') => (3, true),
        Some(b'5') => (1, false),
        Some(b'6') => (3, false),
        _ => return Err("only the kinds P2, P3, P5 and P6 are read".to_owned().into()),
    };
    let mut text = Text { bytes, at: 2 };
    let (width, height) = (text.number("the width")?, text.number("the height")?);
    let largest = text.number("the largest value")?;
    if !(1..=65535).contains(&largest) {
        return Err(format!("its largest value is {largest} and must be 1 to 65535").into());
    }
    let n_values = check_size(width, height, channels)?;
    // Each value takes a byte of the file at least, so there is no more room than file.
    let mut values = memory::room(n_values.min(bytes.len()), PICTURE).map_err(Fault::NoMemory)?;
    let spread = |value: usize| -> Result<u8> {
        if value > largest {
            return Err(format!("it has a value {value}, above its largest one, {largest}"));
        }
        Ok(((2 * value * 255 + largest) / (2 * largest)) as u8)
    };
    if is_text {
        for _ in 0..n_values {
            values.push(spread(text.number("a value")?)?);
        }
    } else {
        let value_bytes = if largest > 255 { 2 } else { 1 };
        // Exactly one blank ends the header.
        let data = bytes.get(text.at + 1..).unwrap_or(&[]);
        if data.len() < n_values * value_bytes {
            return Err(format!(
                "{} bytes of values were expected and {} are there",
                n_values * value_bytes,
                data.len()
            )
            .into());
        }
        let data = &data[..n_values * value_bytes];
        if largest == 255 {
            values.extend_from_slice(data);
        } else {
            for value in data.chunks_exact(value_bytes) {
                values.push(spread(value.iter().fold(0, |sum, &byte| 256 * sum + usize::from(byte)))?);
            }
        }
    }
    Ok(Picture { width, height, channels, values })
}

/// Decimal numbers between blanks and comments.
struct Text<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Text<'_> {
    fn number(&mut self, what: &str) -> Result<usize> {
        let mut in_comment = false;
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'\n' | b'\r' => in_comment = false,
                _ if in_comment || byte.is_ascii_whitespace() => (),
                b'#' => in_comment = true,
                _ => break,
            }
            self.at += 1;
        }
        let digits = self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = std::str::from_utf8(&self.bytes[self.at..self.at + digits]).unwrap_or_default();
        self.at += digits;
        number.parse().map_err(|_| {
            let came = if self.at >= self.bytes.len() { "the file ends" } else { "there is something else" };
            format!("{what} was expected and {came}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_four_kinds_are_read() {
        let grey = |values: &[u8]| Picture { width: 3, height: 2, channels: 1, values: values.to_vec() };
        let values = [0, 1, 2, 100, 254, 255];
        assert_eq!(decode(b"P2\n# a comment 9 9\n3 2\n255 0 1 2\n100 #5\n254 255\n"), Ok(grey(&values)));
        assert_eq!(decode(&[&b"P5 3 2 255\n"[..], &values].concat()), Ok(grey(&values)));
        // A value that looks like a blank or a comment belongs to the values.
        let odd = b"# \n\t12";
        assert_eq!(decode(&[&b"P5 3 2 255\n"[..], odd].concat()), Ok(grey(odd)));
        let colour = Picture { width: 2, height: 1, channels: 3, values: values.to_vec() };
        assert_eq!(decode(&[&b"P6\n2\n1\n255\n"[..], &values, b"trailing"].concat()), Ok(colour.clone()));
        assert_eq!(decode(b"P3 2 1 255 0 1 2 100 254 255"), Ok(colour));
    }

    #[test]
    fn other_largest_values_are_spread_over_a_byte() {
        assert_eq!(decode(b"P2 3 1 2 0 1 2").unwrap().values, [0, 128, 255]);
        let wide = [&b"P5 3 1 65535\n"[..], &[0, 0, 0x80, 0, 0xff, 0xff]].concat();
        assert_eq!(decode(&wide).unwrap().values, [0, 128, 255]);
    }

    #[test]
    fn every_fault_is_a_sentence() {
        let faults: [(&[u8], &str); 11] = [
            (b"P4 3 2\n00", "P2, P3, P5 and P6"),
            (b"P5", "the width was expected and the file ends"),
            (b"P5 x", "the width was expected and there is something else"),
            (b"P5 3 2 0\n", "its largest value is 0"),
            (b"P5 3 2 65536\n", "its largest value is 65536"),
            (b"P5 0 2 255\n", "0 x 2 pixels"),
            (b"P5 99999999999 99999999999 255\n", "99999999999 x 99999999999"),
            (b"P5 3 2 255\n12345", "6 bytes of values were expected and 5 are there"),
            (b"P5 3 2 255", "6 bytes of values were expected and 0 are there"),
            (b"P2 2 1 7 8 1", "a value 8, above"),
            (b"P2 2 1 7 1", "a value was expected and the file ends"),
        ];
        for (bytes, part) in faults {
            let fault = decode(bytes).unwrap_err();
            assert!(matches!(&fault, Fault::Damaged(message) if message.contains(part)), "{fault:?}");
        }
    }
}
