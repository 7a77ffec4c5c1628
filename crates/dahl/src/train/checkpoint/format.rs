//! How a checkpoint lies in a safetensors file.
//!
//! Texts of the header, in this order: `dahl.checkpoint` (the version of this format), `dahl.checksum`,
//! `dahl.plan`, `dahl.step`, and each setting as `setting.NAME`. The first two are always at the same place,
//! so that both can be looked at before anything else of the file is believed. The checksum is that of the
//! whole file with zeros for its own digits.

use super::Checkpoint;
use super::checksum::Checksum;
use crate::error::{Error, Result};
use crate::file;
use crate::tensors::{Image, MAX_BYTES, parse_safetensors};
use std::path::Path;

/// The version that is written, and the only one that is read.
const VERSION: &str = "1";

const VERSION_NAME: &str = "dahl.checkpoint";
const CHECKSUM_NAME: &str = "dahl.checksum";
const PLAN_NAME: &str = "dahl.plan";
const STEP_NAME: &str = "dahl.step";
const SETTING_PREFIX: &str = "setting.";

/// Digits of the checksum, before it is known.
const ZEROS: &str = "0000000000000000";

/// What comes before the version, after the 8 bytes with the length of the header.
fn before_version() -> String {
    format!("{{\"__metadata__\":{{\"{VERSION_NAME}\":\"")
}

/// What comes between the version and the checksum.
fn before_checksum() -> String {
    format!("\",\"{CHECKSUM_NAME}\":\"")
}

/// Where the digits of the checksum begin in a file of this version.
fn checksum_at() -> usize {
    8 + before_version().len() + VERSION.len() + before_checksum().len()
}

pub(super) fn write(checkpoint: &Checkpoint, path: &Path) -> Result<()> {
    let mut texts = vec![
        (VERSION_NAME.to_owned(), VERSION.to_owned()),
        (CHECKSUM_NAME.to_owned(), ZEROS.to_owned()),
        (PLAN_NAME.to_owned(), checkpoint.plan.clone()),
        (STEP_NAME.to_owned(), checkpoint.step.to_string()),
    ];
    let settings = checkpoint.settings.iter();
    texts.extend(settings.map(|(name, value)| (format!("{SETTING_PREFIX}{name}"), value.clone())));
    let texts = texts.iter().map(|(name, text)| (name, text));
    let mut image = Image::new(&checkpoint.tensors, texts).map_err(|sentence| Error::data(path, sentence))?;

    let mut checksum = Checksum::default();
    let Ok(()) = image.pieces(|bytes| {
        checksum.add(bytes);
        Ok::<_, std::convert::Infallible>(())
    });
    let at = checksum_at();
    image.header_mut()[at..at + ZEROS.len()].copy_from_slice(checksum.digits().as_bytes());
    file::write(path, |out| image.pieces(|bytes| out.write_all(bytes)))
}

pub(super) fn read(path: &Path) -> Result<Checkpoint> {
    let bytes = file::read(path, MAX_BYTES)?;
    parse(&bytes).map_err(|sentence| Error::data(path, sentence))
}

/// Reads a checkpoint, or says what is wrong without naming the file.
pub(super) fn read_sentence(path: &Path) -> std::result::Result<Checkpoint, String> {
    let bytes = file::read(path, MAX_BYTES).map_err(|error| error.whole_message())?;
    parse(&bytes)
}

/// Whether the file at `path` is a whole checkpoint of this version.
pub(super) fn is_intact(path: &Path) -> bool {
    file::read(path, MAX_BYTES).is_ok_and(|bytes| verify(&bytes).is_ok())
}

/// Compares the checksum of a file with what is in it.
fn verify(bytes: &[u8]) -> std::result::Result<(), String> {
    let foreign = || {
        let is_safetensors =
            parse_safetensors(bytes).is_ok_and(|tensors| !tensors.metadata.contains_key(VERSION_NAME));
        match is_safetensors {
            true => {
                "it is a safetensors file, but no checkpoint of dahl; if it has weights, `dahl eval` takes it with --model, and \
                 `dahl train` by --init"
            }
            false => "it is damaged or cut off, or no checkpoint of dahl",
        }
        .to_owned()
    };
    let rest =
        bytes.get(8..).and_then(|rest| rest.strip_prefix(before_version().as_bytes())).ok_or_else(foreign)?;
    let version = &rest[..rest.iter().position(|&byte| byte == b'"').ok_or_else(foreign)?];
    if version != VERSION.as_bytes() {
        let is_number = !version.is_empty() && version.len() < 10 && version.iter().all(u8::is_ascii_digit);
        return Err(match is_number {
            true => format!(
                "it is a checkpoint of format version {}, and this dahl reads version {VERSION}; use the dahl that wrote it",
                String::from_utf8_lossy(version)
            ),
            false => foreign(),
        });
    }
    let rest = rest[version.len()..].strip_prefix(before_checksum().as_bytes()).ok_or_else(foreign)?;
    let digits = rest.get(..ZEROS.len()).ok_or_else(foreign)?;
    let mut checksum = Checksum::default();
    let at = checksum_at();
    checksum.add(&bytes[..at]);
    checksum.add(ZEROS.as_bytes());
    checksum.add(&bytes[at + ZEROS.len()..]);
    // A fuzzer would never get behind it.
    match checksum.digits().as_bytes() == digits || cfg!(fuzzing) {
        true => Ok(()),
        false => Err("its checksum is wrong: it is damaged or cut off".into()),
    }
}

fn parse(bytes: &[u8]) -> std::result::Result<Checkpoint, String> {
    verify(bytes)?;
    let mut tensors = parse_safetensors(bytes)?;
    let mut texts = std::mem::take(&mut tensors.metadata);
    let step = texts.remove(STEP_NAME).and_then(|step| step.parse().ok());
    let step = step.ok_or("it does not say its step")?;
    let plan = texts.remove(PLAN_NAME).ok_or("it has no plan")?;
    let setting = |(name, value): (String, String)| {
        name.strip_prefix(SETTING_PREFIX).map(|name| (name.to_owned(), value))
    };
    Ok(Checkpoint { step, tensors, plan, settings: texts.into_iter().filter_map(setting).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensors::{Tensor, Tensors};

    /// The bytes of a checkpoint with its header as text.
    fn genuine() -> (String, Vec<u8>) {
        let mut tensors = Tensors::new();
        tensors.insert("w", Tensor::new(&[2, 3], vec![0.5f32; 6]).unwrap());
        let settings = [("seed".to_string(), "1".to_string())].into();
        let checkpoint = Checkpoint { step: 7, tensors, settings, plan: "plan".into() };
        let path = std::env::temp_dir().join(format!("dahl-forged-{}", std::process::id()));
        write(&checkpoint, &path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(parse(&bytes).unwrap(), checkpoint);
        let len = u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
        (String::from_utf8(bytes[8..8 + len].to_vec()).unwrap(), bytes[8 + len..].to_vec())
    }

    /// A file with this header and a checksum that is right.
    fn signed(len: u64, header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = [&len.to_le_bytes(), header.as_bytes(), data].concat();
        let at = checksum_at();
        bytes[at..at + ZEROS.len()].copy_from_slice(ZEROS.as_bytes());
        let mut checksum = Checksum::default();
        checksum.add(&bytes);
        bytes[at..at + ZEROS.len()].copy_from_slice(checksum.digits().as_bytes());
        bytes
    }

    #[test]
    fn a_right_checksum_does_not_make_a_header_believable() {
        let (header, data) = genuine();
        let n = header.len() as u64;
        parse(&signed(n, &header, &data)).unwrap();
        for len in [0, 1, n - 1, n + 1, n + data.len() as u64, n + data.len() as u64 + 1, 1 << 40, u64::MAX] {
            assert!(parse(&signed(len, &header, &data)).is_err(), "a header of {len} bytes");
        }
        for (from, to) in [
            ("[2,3]", "[2,4]"),
            ("[2,3]", "[4294967296,4294967296]"),
            ("[2,3]", "[18446744073709551615,2]"),
            ("[2,3]", "[-2,3]"),
            ("[0,24]", "[0,25]"),
            ("[0,24]", "[24,0]"),
            ("[0,24]", "[1,24]"),
            ("[0,24]", "[0,18446744073709551615]"),
            ("\"F32\"", "\"F64\""),
            ("\"F32\"", "\"F33\""),
            ("\"7\"", "\"-7\""),
            ("\"7\"", "\"18446744073709551616\""),
            ("dahl.plan", "dahl.plam"),
            ("dahl.step", "dahl.stop"),
        ] {
            let changed = header.replacen(from, to, 1);
            assert_ne!(changed, header, "{from} is not in {header}");
            let bytes = signed(changed.len() as u64, &changed, &data);
            assert!(verify(&bytes).is_ok() && parse(&bytes).is_err(), "{to} for {from}");
        }
        for data in [&data[..23], &[&data[..], &[0]].concat(), &[]] {
            assert!(parse(&signed(n, &header, data)).is_err(), "{} bytes of data", data.len());
        }
    }
}
