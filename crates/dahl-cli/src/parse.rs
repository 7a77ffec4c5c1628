//! Values of arguments, checked as they are parsed: what makes no sense never gets further.

use crate::open;
use clap::ValueEnum;
use clap::builder::{PathBufValueParser, StringValueParser, TypedValueParser};
use dahl::model::Builtin;
use dahl::op::simd::Isa;
use dahl::op::{CODELETS, FEW};
use dahl_runtime::array::Dtype;
use dahl_trace::Format;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

/// Element types that can be computed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DtypeArg {
    /// 32 bits
    F32,
    /// 64 bits
    F64,
}

impl From<DtypeArg> for Dtype {
    fn from(dtype: DtypeArg) -> Dtype {
        match dtype {
            DtypeArg::F32 => Dtype::F32,
            DtypeArg::F64 => Dtype::F64,
        }
    }
}

/// An instruction set of this machine.
pub fn isa(name: &str) -> Result<Isa, String> {
    Isa::named(name).map_err(|error| error.to_string())
}

/// More threads than any machine has cores for.
const MAX_WORKERS: usize = 4096;

/// A number of things that cannot be missing.
pub fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("a whole number from 1 up is needed".into()),
        Ok(number) => Ok(number),
    }
}

/// A number that may be 0.
pub fn whole(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("a whole number from 0 to {} is needed", u64::MAX))
}

/// A network: a name, or a model file.
pub fn model(spec: &str) -> Result<String, String> {
    if !open::is_file(spec) {
        Builtin::named(spec).map_err(|error| error.to_string())?;
    }
    Ok(spec.to_string())
}

/// The name of a file or folder.
pub fn path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(is_name)
}

/// The same where it may also be something else: data that is built in, the number of an image.
pub fn name() -> impl TypedValueParser<Value = String> {
    StringValueParser::new().try_map(is_name)
}

/// Refuses what stands for standard input or output elsewhere: files are read at their size and written
/// whole, as neither can be.
fn is_name<T: AsRef<OsStr>>(name: T) -> Result<T, &'static str> {
    match name.as_ref() == "-" {
        true => Err("it stands for no file here: name one (./- where it is called so)"),
        false => Ok(name),
    }
}

/// The name of a trace, whose ending says in which format it is written.
pub fn trace_path() -> impl TypedValueParser<Value = PathBuf> {
    path().try_map(|path| Format::of_path(&path).map(|_| path).map_err(|error| error.to_string()))
}

/// The name of a page for browsers.
pub fn page_path() -> impl TypedValueParser<Value = PathBuf> {
    path().try_map(|path| match path.extension().and_then(|ending| ending.to_str()) {
        Some("html" | "htm") => Ok(path),
        _ => Err("it is a page for browsers, so its name must end in .html or .htm"),
    })
}

/// More images than any step takes: their number of tasks is planned ahead.
const MAX_BATCH: usize = 1 << 20;

/// How many classes there are where nothing says so.
pub const CLASSES: usize = 10;

/// Labels are bytes.
const MAX_CLASSES: usize = 256;

/// A number of images per step.
pub fn batch(text: &str) -> Result<usize, String> {
    match at_least_one(text) {
        Ok(number) if number > MAX_BATCH => Err(format!("at most {MAX_BATCH} images per step are possible")),
        other => other,
    }
}

/// A number of classes.
pub fn classes(text: &str) -> Result<usize, String> {
    match at_least_one(text) {
        Ok(number) if number > MAX_CLASSES => Err(format!("at most {MAX_CLASSES} classes are possible")),
        other => other,
    }
}

/// A number of workers.
pub fn workers(text: &str) -> Result<usize, String> {
    match at_least_one(text) {
        Ok(number) if number > MAX_WORKERS => Err(format!("at most {MAX_WORKERS} workers are possible")),
        other => other,
    }
}

/// A rate.
pub fn not_negative(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err("a number from 0 up is needed".into()),
    }
}

/// A share that leaves something for the rest.
pub fn below_one(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (0.0..1.0).contains(&number) => Ok(number),
        _ => Err("a number from 0 to below 1 is needed".into()),
    }
}

/// A stretch of time that makes sense as a limit.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let limit = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    limit.filter(|limit| !limit.is_zero()).ok_or_else(|| "a number of seconds above 0 is needed".into())
}

/// How tasks are cut: `n=16`.
pub fn tiles(text: &str) -> Result<String, String> {
    let mut cut = dahl::op::default_cut();
    cut.set_tiles(text).map_err(|error| error.to_string())?;
    let known: BTreeSet<&str> =
        CODELETS.iter().flat_map(|known| known.relation().axes()).map(String::as_str).collect();
    // Axes without a name are numbered: `.0`.
    let is_known = |axis: &str| known.contains(axis) || axis.starts_with('.');
    match cut.tilings.iter().flatten().find(|(axis, _)| !is_known(axis)) {
        Some((axis, _)) => {
            let known: Vec<&str> = known.into_iter().collect();
            Err(format!("no task has an axis '{axis}': there are {} (n: samples)", known.join(", ")))
        }
        None => match cut.parts.iter().find(|part| !has_code(&part.code)) {
            Some(part) => Err(format!("no operation has an implementation in the code '{}'", part.code)),
            None => Ok(text.to_string()),
        },
    }
}

/// Whether some implementation is written in a code.
fn has_code(code: &str) -> bool {
    CODELETS.iter().flat_map(|known| known.implementations).any(|known| known.code == code)
}

/// Who computes: `reference`, or `conv2d=reference`.
pub fn impls(text: &str) -> Result<String, String> {
    let mut cut = dahl::op::default_cut();
    cut.set_impls(text).map_err(|error| error.to_string())?;
    let known = |codelet: Option<&str>, name: &str| {
        let codelets = CODELETS.iter().filter(|known| codelet.is_none_or(|codelet| known.name == codelet));
        codelets
            .flat_map(|known| known.implementations)
            .any(|known| known.name == name || known.written() == name)
    };
    if let Some(name) = cut.implementations.iter().find(|name| *name != FEW.name && !known(None, name)) {
        return Err(format!(
            "there is no implementation '{name}': there are lanes, flat and reference (and few: flat where lanes would be half empty)"
        ));
    }
    match cut.forced.iter().find(|(codelet, name)| !known(Some(codelet), name)) {
        Some((codelet, name)) => {
            Err(format!("there is no codelet '{codelet}' with an implementation '{name}'"))
        }
        None => Ok(text.to_string()),
    }
}

/// The extents of an image: `3x32x32`.
pub fn image_shape(text: &str) -> Result<[usize; 3], String> {
    let extents: Option<Vec<usize>> =
        text.split('x').map(|part| part.parse().ok().filter(|&n| n > 0)).collect();
    let extents = extents.and_then(|extents| <[usize; 3]>::try_from(extents).ok());
    extents.ok_or_else(|| "channels, height and width are needed, such as 3x32x32".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_make_no_sense_are_refused() {
        for text in ["0", "-1", "1.5", "", "many", "99999999999999999999"] {
            assert!(at_least_one(text).is_err(), "{text}");
        }
        for text in ["-0.1", "nan", "inf", "-inf", "", "fast"] {
            assert!(not_negative(text).is_err(), "{text}");
            assert!(below_one(text).is_err(), "{text}");
        }
        assert!(below_one("1").is_err());
        for text in ["0", "-1", "nan", "inf", "1e300", "1e-300", "soon"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        for text in ["0", "4097"] {
            assert!(workers(text).is_err(), "{text}");
        }
        for text in ["0", "1048577", "99999999999999999999"] {
            assert!(batch(text).is_err(), "{text}");
        }
        for text in ["0", "257"] {
            assert!(classes(text).is_err(), "{text}");
        }
        for text in ["", "n", "n=0", "n=16,n=8", "16", "q=3", "n=16/q=3"] {
            assert!(tiles(text).is_err(), "{text}");
        }
        for text in ["", "lane", "conv=reference", "conv2d=fast", "conv2d="] {
            assert!(impls(text).is_err(), "{text}");
        }
        for text in ["", "3", "3x32", "3x32x32x1", "0x8x8", "3x-1x2", "axbxc"] {
            assert!(image_shape(text).is_err(), "{text}");
        }
    }

    #[test]
    fn others_are_taken() {
        assert_eq!(at_least_one("1"), Ok(1));
        assert_eq!(not_negative("1e-3"), Ok(0.001));
        assert!(tiles("n=16,k=2parts/i=9max").is_ok() && impls("flat,conv2d=reference").is_ok());
        assert_eq!(below_one("0"), Ok(0.0));
        assert_eq!(workers("4096"), Ok(4096));
        assert_eq!(batch("1048576"), Ok(1 << 20));
        assert_eq!(classes("256"), Ok(256));
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(image_shape("3x32x28"), Ok([3, 32, 28]));
    }
}
