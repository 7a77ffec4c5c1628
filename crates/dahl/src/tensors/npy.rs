//! The npy format of NumPy: a magic number, a version, a header that is a Python dictionary, and the
//! elements.

use super::number::{Data, Dtype};
use super::tensor::{Extents, MAX_RANK, Tensor, n_elements};

/// The first bytes of every npy file.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// The tensor in the bytes of a file.
pub(super) fn parse(bytes: &[u8]) -> Result<Tensor, String> {
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        let n = bytes.len().min(MAGIC.len());
        return Err(match bytes {
            [] => "expected an array of NumPy (npy), but the file is empty".into(),
            _ if MAGIC.starts_with(&bytes[..n]) => cut_off("its magic number"),
            _ if bytes.starts_with(b"PK") => {
                "expected an array of NumPy (npy), but this is a zip archive; name it .npz".into()
            }
            _ => format!("expected an array of NumPy (npy), but the file begins with {:02x?}", &bytes[..n]),
        });
    };
    let [major, _minor, rest @ ..] = rest else { return Err(cut_off("its version")) };
    let (header_bytes, rest) = match (major, rest) {
        (1, [a, b, rest @ ..]) => (usize::from(u16::from_le_bytes([*a, *b])), rest),
        (2 | 3, [a, b, c, d, rest @ ..]) => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
        (1..=3, _) => return Err(cut_off("the length of its header")),
        _ => {
            return Err(format!("expected version 1, 2 or 3 of the npy format, but this is version {major}"));
        }
    };
    let Some((header, data)) = rest.split_at_checked(header_bytes) else { return Err(cut_off("its header")) };
    // Up to version 2 the header is Latin-1; what we read of it is ASCII in all versions.
    let header = Header::parse(&String::from_utf8_lossy(header))?;

    let shape = &header.shape;
    let expected = n_elements(shape).and_then(|n| n.checked_mul(header.dtype.bytes()));
    if expected != Some(data.len()) {
        let needed = expected.map_or("more bytes than can be".into(), |bytes| format!("{bytes} bytes"));
        return Err(format!(
            "expected {needed} for {} of shape {}, but there are {}; the file is cut off or damaged",
            header.dtype,
            Extents(shape),
            data.len()
        ));
    }
    let data = Data::decode(header.dtype, data, header.is_big_endian)?;
    let tensor = match header.is_first_fastest {
        true => Tensor::from_first_fastest(shape, &data),
        false => Tensor::of(shape, data),
    };
    tensor.map_err(|error| error.to_string())
}

fn cut_off(part: &str) -> String {
    format!("the array of NumPy (npy) ends within {part}: the file is cut off")
}

/// What the header says.
struct Header {
    dtype: Dtype,
    is_big_endian: bool,
    is_first_fastest: bool,
    shape: Vec<usize>,
}

impl Header {
    /// Reads `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`.
    fn parse(text: &str) -> Result<Self, String> {
        let (mut descr, mut order, mut shape) = (None, None, None);
        let mut rest = Cursor { text: text.trim() };
        rest.expect('{')?;
        while !rest.take('}') {
            let key = rest.quoted()?;
            rest.expect(':')?;
            match key {
                "descr" => descr = Some(rest.descr()?),
                "fortran_order" => order = Some(rest.truth()?),
                "shape" => shape = Some(rest.extents()?),
                other => return Err(format!("the header has an unknown entry '{other}'")),
            }
            if !rest.take(',') {
                rest.expect('}')?;
                break;
            }
        }
        if !rest.text.trim().is_empty() {
            return Err(rest.unexpected("the end of the header"));
        }
        let missing = |name: &str| format!("the header does not say '{name}': the file is damaged");
        let (dtype, is_big_endian) = descr.ok_or_else(|| missing("descr"))?;
        let is_first_fastest = order.ok_or_else(|| missing("fortran_order"))?;
        Ok(Header { dtype, is_big_endian, is_first_fastest, shape: shape.ok_or_else(|| missing("shape"))? })
    }
}

/// What is left of the header.
struct Cursor<'a> {
    text: &'a str,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, character: char) -> bool {
        self.text = self.text.trim_start();
        match self.text.strip_prefix(character) {
            Some(rest) => {
                self.text = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, character: char) -> Result<(), String> {
        if self.take(character) { Ok(()) } else { Err(self.unexpected(&format!("'{character}'"))) }
    }

    fn unexpected(&self, expected: &str) -> String {
        let came: String = self.text.trim_start().chars().take(20).collect();
        format!("expected {expected} in the header, but it goes on with '{}'", came.escape_debug())
    }

    fn quoted(&mut self) -> Result<&'a str, String> {
        let quote = if self.take('\'') { '\'' } else { '"' };
        if quote == '"' {
            self.expect('"').map_err(|_| self.unexpected("a text in quotes"))?;
        }
        let (text, rest) = self.text.split_once(quote).ok_or_else(|| self.unexpected("a closing quote"))?;
        self.text = rest;
        Ok(text)
    }

    /// The element type and whether it is big endian.
    fn descr(&mut self) -> Result<(Dtype, bool), String> {
        if self.take('[') {
            return Err(
                "expected an array of numbers, but its elements are records; save each field by itself"
                    .into(),
            );
        }
        let descr = self.quoted()?;
        let (order, code) = match descr.chars().next() {
            Some(order @ ('<' | '>' | '|' | '=')) => (order, &descr[1..]),
            _ => ('=', descr),
        };
        let dtype = match code {
            "b1" | "?" => Dtype::Bool,
            "u1" => Dtype::U8,
            "i1" => Dtype::I8,
            "u2" => Dtype::U16,
            "i2" => Dtype::I16,
            "u4" => Dtype::U32,
            "i4" => Dtype::I32,
            "u8" => Dtype::U64,
            "i8" => Dtype::I64,
            "f2" => Dtype::F16,
            "f4" => Dtype::F32,
            "f8" => Dtype::F64,
            _ => {
                return Err(format!(
                    "expected an array of numbers of 8 to 64 bits, but its elements are '{}'; convert it, for example with \
                     astype",
                    descr.escape_debug()
                ));
            }
        };
        Ok((dtype, order == '>'))
    }

    fn truth(&mut self) -> Result<bool, String> {
        self.text = self.text.trim_start();
        for (word, truth) in [("True", true), ("False", false)] {
            if let Some(rest) = self.text.strip_prefix(word) {
                self.text = rest;
                return Ok(truth);
            }
        }
        Err(self.unexpected("True or False"))
    }

    fn extents(&mut self) -> Result<Vec<usize>, String> {
        self.expect('(')?;
        let mut extents = Vec::new();
        while !self.take(')') {
            let n_digits = self.text.bytes().take_while(u8::is_ascii_digit).count();
            let (digits, rest) = self.text.split_at(n_digits);
            let extent = digits.parse().map_err(|_| self.unexpected("an extent"))?;
            extents.push(extent);
            if extents.len() > MAX_RANK {
                return Err(format!(
                    "the header speaks of more than {MAX_RANK} dimensions: the file is damaged"
                ));
            }
            // Long integers of an old Python end in an L.
            self.text = rest.strip_prefix('L').unwrap_or(rest);
            if !self.take(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(extents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn npy(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([version, 0]);
        match version {
            1 => bytes.extend((header.len() as u16).to_le_bytes()),
            _ => bytes.extend((header.len() as u32).to_le_bytes()),
        }
        bytes.extend(header.bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn all_versions_orders_and_spellings_are_read() {
        let header = "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3L), }   \n";
        for version in 1..=3 {
            let data = [0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 255, 255];
            let tensor = parse(&npy(version, header, &data)).expect("valid");
            assert_eq!(tensor.get::<i16>(), Some(&[1, 2, 3, 4, 5, -1][..]));
            assert_eq!(tensor.shape(), [2, 3]);
        }
        let scalar = "{\"shape\": (), \"fortran_order\": False, \"descr\": \"|b1\"}";
        assert_eq!(parse(&npy(1, scalar, &[1])).expect("valid").get::<bool>(), Some(&[true][..]));
        let empty = "{'descr': '<f8', 'fortran_order': True, 'shape': (0, 4), }";
        assert_eq!(parse(&npy(1, empty, &[])).expect("valid").shape(), [0, 4]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let refused = |header: &str, data: &[u8], part: &str| {
            let error = parse(&npy(1, header, data)).expect_err(header);
            assert!(error.contains(part), "{header}: {error}");
        };
        let header = |descr: &str, shape: &str| {
            format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}")
        };
        refused(&header("'<f4'", "(2,)"), &[0; 7], "expected 8 bytes for f32 of shape [2], but there are 7");
        refused(&header("'<f4'", "(2,)"), &[0; 9], "there are 9");
        refused(&header("'<f8'", "(4611686018427387904, 4)"), &[], "more bytes than can be");
        refused(&header("'<f8'", "(99999999999999999999,)"), &[], "an extent");
        refused(&header("'<f8'", "(-1,)"), &[], "an extent");
        refused(&header("'<f8'", "(1 2)"), &[], "expected ')'");
        refused(&header("'|O'", "(1,)"), &[], "'|O'");
        refused(&header("'<c16'", "(1,)"), &[], "'<c16'");
        refused(&header("[('a', '<f4')]", "(1,)"), &[], "records");
        refused(&header("'é'", "(1,)"), &[], "'é'");
        refused("{'descr': '<f4'}", &[], "does not say 'fortran_order'");
        refused("{'x': 1}", &[], "unknown entry 'x'");
        refused("", &[], "expected '{'");
        refused(&format!("{} 1", header("'<f4'", "()")), &[0; 4], "the end of the header");
        refused(&header("'<f4'", &format!("({})", "1,".repeat(65))), &[0; 4], "more than 64 dimensions");
        assert!(parse(b"").expect_err("empty").contains("is empty"));
        assert!(parse(b"PK\x03\x04").expect_err("zip").contains("name it .npz"));
        assert!(parse(&npy(4, "", &[])).expect_err("version").contains("version 4"));
        let whole = npy(1, &header("'<f4'", "(2,)"), &[0; 8]);
        for n in 0..whole.len() {
            assert!(parse(&whole[..n]).is_err(), "{n} bytes");
        }
    }
}
