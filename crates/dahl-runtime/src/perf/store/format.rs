//! The text of a performance file.
//!
//! Lines of words; a word that is a text has `%` and two digits for every byte that is not a visible character, and is a single
//! `%` if it is empty. Times are seconds, dates seconds since 1970.
//!
//! ```text
//! dahl-performance 1
//! machine IDENTITY
//! key CODELET IMPLEMENTATION VERSION UNIT DTYPE FOOTPRINT FLOPS BYTES
//! run cold|warm WORKERS ID DATE N OUTLIERS TYPICAL MEDIAN DEVIATION MINIMUM MEAN    (of the key above, newest first)
//! choice KEY DATE TEXT NOTE
//! end HASH
//! ```
//!
//! The hash is FNV-1a (128 bits) of everything before the last line, so a file that was cut off or changed anywhere is noticed. Keys
//! and choices are sorted: equal contents have equal bytes. The first line stays as it is in all versions; only the number changes.

use super::{Choice, Contents, Identity};
use crate::perf::history::Run;
use crate::perf::key::{Condition, Key};
use crate::perf::words::{Words, escaped};
use crate::plan::Fingerprint;
use std::fmt::Write;

/// Rises when older programs could no longer read what is written, or would misunderstand it.
pub const VERSION: u64 = 1;
const MAGIC: &str = "dahl-performance";

/// Why a file is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is not what was once written.
    Damaged(String),
    /// It is of another version.
    Version(u64),
    /// It was measured elsewhere.
    Machine(String),
}

pub(super) fn write(contents: &Contents, identity: &Identity) -> String {
    let mut text = format!("{MAGIC} {VERSION}\nmachine {}\n", escaped(&identity.to_string()));
    // Writing into a string cannot fail.
    let mut line = |arguments: std::fmt::Arguments<'_>| {
        let _ = writeln!(text, "{arguments}");
    };
    for (key, entry) in contents.models.entries() {
        line(format_args!("key {key} {:e} {}", entry.flops, entry.bytes));
        for (condition, history) in &entry.histories {
            history.runs().iter().for_each(|run| line(format_args!("run {condition} {run}")));
        }
    }
    for (key, Choice { text, date, note }) in &contents.choices {
        line(format_args!("choice {} {date} {} {}", escaped(key), escaped(text), escaped(note)));
    }
    let hash = Fingerprint::of(&text);
    let _ = writeln!(text, "end {hash}");
    text
}

pub(super) fn read(bytes: &[u8], identity: &Identity) -> Result<Contents, Refusal> {
    let damaged = |why: &str| Refusal::Damaged(why.to_string());
    let first = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let first = std::str::from_utf8(first).unwrap_or_default();
    let version = first.strip_prefix(MAGIC).and_then(|rest| rest.strip_prefix(' '));
    let version = version.ok_or_else(|| damaged("it does not begin as one of dahl's performance files"))?;
    match version.parse::<u64>() {
        Ok(VERSION) if version == VERSION.to_string() => {}
        Ok(other) if other != VERSION && version == other.to_string() => return Err(Refusal::Version(other)),
        _ => return Err(damaged("its version is no number")),
    }
    let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is no text"))?;
    let (body, end) = text
        .strip_suffix('\n')
        .and_then(|text| text.rsplit_once('\n'))
        .ok_or_else(|| damaged("it ends early"))?;
    let body = &text[..body.len() + 1];
    let hash = end.strip_prefix("end ").ok_or_else(|| damaged("it ends early: the last line is missing"))?;
    if hash != Fingerprint::of(body).to_string() {
        return Err(damaged("its checksum is wrong: something in it was changed or lost"));
    }
    let mut contents = Contents::default();
    let mut key = None;
    for (i, line) in body.lines().enumerate().skip(1) {
        let in_line = |why: String| Refusal::Damaged(format!("line {}: {why}", i + 1));
        let mut words = Words::of(line);
        match words.text("what the line is").map_err(in_line)?.as_str() {
            "machine" => {
                let machine = words.text("a machine").map_err(in_line)?;
                if machine != identity.to_string() {
                    return Err(Refusal::Machine(machine));
                }
            }
            "key" => key = Some(read_key(&mut words).map_err(in_line)?),
            "run" => {
                let (condition, run) = read_run(&mut words).map_err(in_line)?;
                let Some((key, flops, bytes)) = &key else {
                    return Err(in_line("a run comes before the first key".to_string()));
                };
                contents.models.add(Key::clone(key), *flops, *bytes, condition, run);
            }
            "choice" => {
                let (key, choice) = read_choice(&mut words).map_err(in_line)?;
                contents.choices.insert(key, choice);
            }
            other => return Err(in_line(format!("there is nothing called '{other}' in version {VERSION}"))),
        }
        words.finished().map_err(in_line)?;
    }
    Ok(contents)
}

fn read_key(words: &mut Words<'_>) -> Result<(Key, f64, usize), String> {
    Ok((Key::read(words)?, words.amount("a number of operations")?, words.number("a number of bytes")?))
}

fn read_run(words: &mut Words<'_>) -> Result<(Condition, Run), String> {
    Ok((Condition::read(words)?, Run::read(words)?))
}

fn read_choice(words: &mut Words<'_>) -> Result<(String, Choice), String> {
    let key = words.text("what was chosen for")?;
    let date = words.number("a date in seconds")?;
    Ok((key, Choice { date, text: words.text("a choice")?, note: words.text("a note")? }))
}
