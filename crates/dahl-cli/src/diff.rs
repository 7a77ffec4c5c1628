//! `dahl diff`.

use crate::output::{say, warn};
use crate::parse::{path, whole};
use anyhow::{Result, bail};
use dahl::tensors::{Format, Tensor, Tensors, UNNAMED, Value};
use dahl_runtime::array::{Comparable, Comparison, Distance, Mismatch, Tolerance, compare_pairs};
use serde_json::{Value as Json, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What to compare, and how.
#[derive(clap::Args)]
#[command(after_help = "\
Numbers are compared as numbers: 0.5 and 5e-1 are equal, whatever types, formats and spellings they have. Two
numbers agree if they are within any one of the tolerances. Steps (ULP) are those of the coarser of the two types.
A csv knows rows and columns only, so extents of 1 do not count against it.

Exit code: 0 if all numbers agree, 1 if some do not or if tensors are missing, 2 if a file cannot be read.

Examples:
  dahl diff a.safetensors b.safetensors              equal numbers?
  dahl diff --rel 1e-5 --abs 1e-8 ours.npz theirs.npz
  dahl diff --ulp 4 result.npy result.csv            other formats
  dahl diff --tensor fc1.weight model.safetensors fc1.npy
  dahl diff --json a.npy b.npy                       for programs")]
pub struct Args {
    /// A file of numbers: .safetensors, .npy, .npz or .csv
    #[arg(value_parser = path())]
    a: PathBuf,
    /// What to compare it with
    #[arg(value_parser = path())]
    b: PathBuf,
    /// Numbers agree whose difference is at most this
    #[arg(long, value_name = "X", value_parser = bound, allow_negative_numbers = true)]
    abs: Option<f64>,
    /// Numbers agree whose difference is at most this share of the larger magnitude
    #[arg(long, value_name = "X", value_parser = bound, allow_negative_numbers = true)]
    rel: Option<f64>,
    /// Numbers agree that are at most this many representable numbers apart
    #[arg(long, value_name = "N", value_parser = whole, allow_negative_numbers = true)]
    ulp: Option<u64>,
    /// A NaN agrees with a NaN
    #[arg(long)]
    nan_equal: bool,
    /// Compare only this tensor; may be given several times
    #[arg(long, value_name = "NAME")]
    tensor: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn bound(text: &str) -> Result<f64, String> {
    let bound: f64 = text.parse().map_err(|_| "expected a number such as 1e-6".to_owned())?;
    if bound >= 0.0 { Ok(bound) } else { Err("a tolerance is 0 or more".into()) }
}

/// The exit code where a file could not be read, or not be compared.
pub const UNREAD: u8 = 2;

/// Compares two files, reports, and returns the exit code.
pub fn run(args: &Args) -> ExitCode {
    let found = match diff(args) {
        Ok(found) => found,
        Err(error) => {
            warn(format_args!("{error:#}"));
            return ExitCode::from(UNREAD);
        }
    };
    let text = if args.json { found.json().to_string() } else { found.text() };
    // Whoever reads our output may have seen enough; the exit code still says what was found.
    let _ = say(text.trim_end_matches('\n'));
    if found.agrees() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// A file that was read.
struct Side<'a> {
    path: &'a Path,
    tensors: Tensors,
    format: Format,
}

impl<'a> Side<'a> {
    fn load(path: &'a Path) -> Result<Self> {
        let (tensors, format) = Tensors::load_with_format(path)?;
        Ok(Side { path, tensors, format })
    }

    /// The tensor of this name; what has no name answers to any.
    fn get(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(if self.format.has_names() { name } else { UNNAMED })
    }

    fn names(&self) -> Vec<&str> {
        self.tensors.names().collect()
    }
}

/// What was found about one tensor.
struct Pair {
    name: String,
    types: [String; 2],
    shapes: [Vec<usize>; 2],
    /// Nothing if the shapes differ.
    comparison: Option<Comparison<Value>>,
}

/// What was found.
struct Found {
    tolerance: Tolerance,
    paths: [String; 2],
    pairs: Vec<Pair>,
    /// The names that only one of the files has.
    missing: [Vec<String>; 2],
}

fn diff(args: &Args) -> Result<Found> {
    let mut tolerance = Tolerance::EXACT.or_ulps(args.ulp.unwrap_or(0));
    tolerance = tolerance.or_absolute(args.abs.unwrap_or(0.0)).or_relative(args.rel.unwrap_or(0.0));
    if args.nan_equal {
        tolerance = tolerance.or_nan();
    }
    let (a, b) = (Side::load(&args.a)?, Side::load(&args.b)?);
    let names = names(args, &a, &b)?;
    let mut found = Found {
        tolerance,
        paths: [&a, &b].map(|side| side.path.display().to_string()),
        pairs: Vec::new(),
        missing: [Vec::new(), Vec::new()],
    };
    for name in names {
        match (a.get(&name), b.get(&name)) {
            (Some(x), Some(y)) => {
                let is_csv = a.format == Format::Csv || b.format == Format::Csv;
                found.pairs.push(pair(name, x, y, is_csv, tolerance));
            }
            (x, _) => found.missing[usize::from(x.is_none())].push(name),
        }
    }
    Ok(found)
}

/// The names of what is compared, in order.
fn names(args: &Args, a: &Side<'_>, b: &Side<'_>) -> Result<Vec<String>> {
    if !args.tensor.is_empty() {
        for (name, side) in args.tensor.iter().flat_map(|name| [(name, a), (name, b)]) {
            if side.get(name).is_none() {
                bail!(
                    "{}: there is no tensor '{name}'; there are: {}",
                    side.path.display(),
                    side.names().join(", ")
                );
            }
        }
        return Ok(args.tensor.clone());
    }
    let (named, other) = match (a.format.has_names(), b.format.has_names()) {
        (true, true) => {
            let mut names: Vec<String> =
                [a, b].iter().flat_map(|side| side.names()).map(str::to_owned).collect();
            names.sort();
            names.dedup();
            return Ok(names);
        }
        (false, false) => return Ok(vec![UNNAMED.to_owned()]),
        (true, false) => (a, b),
        (false, true) => (b, a),
    };
    match named.names()[..] {
        [name] => Ok(vec![name.to_owned()]),
        [] => bail!("{}: there is no tensor to compare {} with", named.path.display(), other.path.display()),
        ref names => bail!(
            "{}: there are {} tensors, of which one must be chosen to compare {} with: add --tensor NAME ({})",
            named.path.display(),
            names.len(),
            other.path.display(),
            names.join(", ")
        ),
    }
}

fn pair(name: String, a: &Tensor, b: &Tensor, is_csv: bool, tolerance: Tolerance) -> Pair {
    let squeezed = |tensor: &Tensor| -> Vec<usize> {
        tensor.shape().iter().copied().filter(|&extent| !is_csv || extent != 1).collect()
    };
    let is_alike = squeezed(a) == squeezed(b);
    Pair {
        name,
        types: [a, b].map(|tensor| tensor.dtype().to_string()),
        shapes: [a, b].map(|tensor| tensor.shape().to_vec()),
        // The shape with more dimensions is the one of the file that can have them.
        comparison: is_alike.then(|| {
            let shape = if a.shape().len() >= b.shape().len() { a.shape() } else { b.shape() };
            compare_pairs(shape, a.pairs(b), tolerance)
        }),
    }
}

impl Pair {
    fn agrees(&self) -> bool {
        self.comparison.as_ref().is_some_and(Comparison::agrees)
    }
}

impl Found {
    fn agrees(&self) -> bool {
        self.missing.iter().all(Vec::is_empty) && self.pairs.iter().all(Pair::agrees)
    }

    /// All numbers that were compared, and the largest distances of all.
    fn totals(&self) -> (usize, Distance) {
        let comparisons = self.pairs.iter().filter_map(|pair| pair.comparison.as_ref());
        comparisons.fold((0, Distance::default()), |(n, largest), comparison| {
            let Distance { absolute, relative, ulps } = comparison.largest;
            let absolute = absolute.max(largest.absolute);
            let largest =
                Distance { absolute, relative: relative.max(largest.relative), ulps: ulps.max(largest.ulps) };
            (n + comparison.n, largest)
        })
    }

    fn text(&self) -> String {
        let mut out = String::new();
        for pair in self.pairs.iter().filter(|pair| !pair.agrees()) {
            pair.describe(&mut out);
        }
        for (names, path) in self.missing.iter().zip(&self.paths).filter(|(names, _)| !names.is_empty()) {
            let _ = writeln!(out, "only in {path}: {}", names.join(", "));
        }
        let (n, largest) = self.totals();
        let n_pairs = self.pairs.len();
        let tolerance = self.tolerance;
        let tensors = if n_pairs == 1 { "tensor" } else { "tensors" };
        let _ = if self.agrees() {
            let farthest = if largest == Distance::default() {
                String::new()
            } else {
                format!("; at most {largest} apart")
            };
            writeln!(out, "all {n} numbers of {n_pairs} {tensors} agree ({tolerance}){farthest}")
        } else {
            let n_different = self.pairs.iter().filter(|pair| !pair.agrees()).count();
            let n_missing: usize = self.missing.iter().map(Vec::len).sum();
            let missing =
                if n_missing > 0 { format!(", {n_missing} only in one file") } else { String::new() };
            writeln!(out, "{n_different} of {n_pairs} tensors differ{missing} ({tolerance})")
        };
        out
    }

    fn json(&self) -> Json {
        let (n, largest) = self.totals();
        json!({
            "equal": self.agrees(),
            "a": self.paths[0],
            "b": self.paths[1],
            "tolerance": self.tolerance.to_string(),
            "n": n,
            "largest": distance(&largest),
            "only_in_a": self.missing[0],
            "only_in_b": self.missing[1],
            "tensors": self.pairs.iter().map(Pair::json).collect::<Vec<_>>(),
        })
    }
}

impl Pair {
    fn describe(&self, out: &mut String) {
        let name = if self.name == UNNAMED { String::new() } else { format!("{}: ", self.name) };
        let [type_a, type_b] = &self.types;
        let [shape_a, shape_b] = &self.shapes;
        let types = if type_a == type_b { type_a.clone() } else { format!("{type_a} and {type_b}") };
        let Some(Comparison { n, n_mismatches, first, worst, largest, .. }) = &self.comparison else {
            let _ = writeln!(out, "{name}the shapes differ: {shape_a:?} and {shape_b:?}");
            return;
        };
        let _ = writeln!(out, "{name}{n_mismatches} of {n} numbers differ ({types}, shape {shape_a:?})");
        let mismatch = |Mismatch { index, actual, expected, distance }: &Mismatch<Value>| {
            format!("at {index:?}: {actual} and {expected} ({distance})")
        };
        if let Some(first) = first {
            let _ = writeln!(out, "  first {}", mismatch(first));
        }
        if let Some(worst) = worst
            && first.as_ref().is_some_and(|first| first.index != worst.index)
        {
            let _ = writeln!(out, "  worst {}", mismatch(worst));
        }
        let _ = writeln!(out, "  largest distances: {largest}");
    }

    fn json(&self) -> Json {
        let mut found = json!({
            "name": self.name,
            "equal": self.agrees(),
            "dtypes": self.types,
            "shapes": self.shapes,
        });
        if let Some(Comparison { n, n_mismatches, first, worst, largest, .. }) = &self.comparison {
            found["n"] = json!(n);
            found["n_different"] = json!(n_mismatches);
            found["largest"] = distance(largest);
            found["first"] = json!(first.as_ref().map(mismatch));
            found["worst"] = json!(worst.as_ref().map(mismatch));
        }
        found
    }
}

fn mismatch(Mismatch { index, actual, expected, distance }: &Mismatch<Value>) -> Json {
    let value = |value: &Value| match value {
        Value::Integer(integer) => {
            i64::try_from(*integer).map_or_else(|_| json!(value.to_string()), |i| json!(i))
        }
        real => number(real.nearest()),
    };
    json!({ "index": index, "a": value(actual), "b": value(expected), "distance": self::distance(distance) })
}

fn distance(distance: &Distance) -> Json {
    // As far as can be is not a number of steps.
    let ulps = (distance.ulps < u64::MAX).then_some(distance.ulps);
    json!({ "absolute": number(distance.absolute), "relative": number(distance.relative), "ulps": ulps })
}

/// JSON has no words for NaN and infinity, so that they are texts.
fn number(number: f64) -> Json {
    if number.is_finite() { json!(number) } else { json!(number.to_string()) }
}
