//! The lines of a file of measurements:
//!
//! ```text
//! key CODELET IMPLEMENTATION VERSION UNIT DTYPE FOOTPRINT FLOPS BYTES NEWEST
//! run cold|warm WORKERS ID DATE N OUTLIERS TYPICAL MEDIAN DEVIATION MINIMUM MEAN
//! ```
//!
//! IMPLEMENTATION is followed by a slash and the algorithm, where there is one. Times are seconds, dates
//! nanoseconds since 1970; NEWEST is the latest date of the runs of the key, which follow it, newest first.
//! Keys are sorted by their text: equal contents have equal bytes.
//!
//! Every run of the program adds to the file and knows few of the keys in it. So [`merge`] takes over the
//! lines of all other keys as they are, and reads and writes numbers of its own keys only.

use super::kept::Parsed;
use super::{MAX_CONDITIONS, MAX_KEYS, MAX_TEXT};
use crate::perf::Date;
use crate::perf::history::{History, Run};
use crate::perf::key::{Condition, Key};
use crate::perf::models::{Entry, Models};
use crate::words::Words;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The lines of one key.
struct Block<'a> {
    /// The words of the key.
    key: &'a str,
    newest: Date,
    /// All lines, the key's own included.
    lines: &'a str,
}

/// Splits the lines into those of each key.
fn blocks(body: &str) -> Parsed<Vec<Block<'_>>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let mut at = 0;
    for line in body.split_inclusive('\n') {
        let begin = at;
        at += line.len();
        if let Some(rest) = line.strip_prefix("key ") {
            let mut words = rest.trim_end().rsplitn(4, ' ');
            let newest = words.next().and_then(|date| date.parse().ok());
            let key = words.nth(2);
            let (Some(newest), Some(key)) = (newest, key) else {
                return Err(format!("'{}' is no key as dahl writes it", line.trim_end()));
            };
            if blocks.last().is_some_and(|last| last.key >= key) {
                return Err(format!("the key '{key}' is not in order"));
            }
            blocks.push(Block { key, newest: Date(newest), lines: &body[begin..at] });
        } else if let Some(last) = blocks.last_mut() {
            last.lines = &body[at - line.len() - last.lines.len()..at];
        } else {
            return Err(format!("'{}' comes before the first key", line.trim_end()));
        }
    }
    Ok(blocks)
}

impl Block<'_> {
    fn read(&self) -> Parsed<(Key, Entry)> {
        let mut lines = self.lines.lines();
        let in_line = |line: &str, why: String| format!("{why}, in '{line}'");
        let first = lines.next().unwrap_or_default();
        let (key, mut entry) = read_key(first).map_err(|why| in_line(first, why))?;
        let mut runs: BTreeMap<Condition, Vec<Run>> = BTreeMap::new();
        for line in lines {
            let (condition, run) = read_run(line).map_err(|why| in_line(line, why))?;
            runs.entry(condition).or_default().push(run);
        }
        entry.histories = runs.into_iter().map(|(condition, runs)| (condition, History::of(runs))).collect();
        Ok((key, entry))
    }
}

fn read_key(line: &str) -> Parsed<(Key, Entry)> {
    let mut words = Words::of(line);
    words.word("a key")?;
    let key = Key::read(&mut words)?;
    let (flops, bytes) = (words.amount("a number of operations")?, words.number("a number of bytes")?);
    words.number::<u64>("a date in nanoseconds")?;
    words.finished()?;
    Ok((key, Entry { flops, bytes, ..Entry::default() }))
}

fn read_run(line: &str) -> Parsed<(Condition, Run)> {
    let mut words = Words::of(line);
    if words.word("what the line is")? != "run" {
        return Err("there should be a run".to_string());
    }
    let read = (Condition::read(&mut words)?, Run::read(&mut words)?);
    words.finished()?;
    Ok(read)
}

/// All measurements, and how many runs were dated in the future; these count as the oldest.
pub(super) fn read(body: &str, now: Date) -> Parsed<(Models, usize)> {
    let mut models = Models::new();
    let mut n_late = 0;
    for block in blocks(body)? {
        let (key, mut entry) = block.read()?;
        n_late += distrust(&mut entry, now);
        models.entries.insert(key, entry);
    }
    Ok((models, n_late))
}

fn distrust(entry: &mut Entry, now: Date) -> usize {
    entry.histories.values_mut().map(|history| history.distrust_after(now.next_day())).sum()
}

/// The lines of a key, as they were or new ones.
struct Part<'a> {
    newest: Date,
    lines: Cow<'a, str>,
}

/// Adds measurements to lines; the result goes to `text`. Returns how many runs were dated in the future.
pub(super) fn merge(body: &str, models: &Models, now: Date, text: &mut String) -> Parsed<usize> {
    let mut added: Vec<(String, &Entry)> =
        models.entries().map(|(key, entry)| (key.to_string(), entry)).collect();
    added.sort_by(|a, b| a.0.cmp(&b.0));
    let mut added = added.into_iter().peekable();
    let (mut parts, mut n_late) = (Vec::new(), 0);
    let mut renew = |key: &str, mut entry: Entry| {
        n_late += distrust(&mut entry, now);
        keep_newest(&mut entry.histories, MAX_CONDITIONS, History::newest);
        Part { newest: entry.newest(), lines: write(key, &entry).into() }
    };
    for block in blocks(body)? {
        while let Some((key, entry)) = added.next_if(|(key, _)| key.as_str() < block.key) {
            parts.push(renew(&key, entry.clone()));
        }
        match added.next_if(|(key, _)| key.as_str().cmp(block.key) == Ordering::Equal) {
            Some((key, more)) => {
                let (_, mut entry) = block.read()?;
                entry.merge(more);
                parts.push(renew(&key, entry));
            }
            None if block.newest > now.next_day() => {
                parts.push(renew(block.key, block.read()?.1));
            }
            None => parts.push(Part { newest: block.newest, lines: block.lines.into() }),
        }
    }
    parts.extend(added.map(|(key, entry)| renew(&key, entry.clone())));
    drop_oldest(&mut parts);
    text.reserve(parts.iter().map(|part| part.lines.len()).sum());
    parts.iter().for_each(|part| text.push_str(&part.lines));
    Ok(n_late)
}

/// Drops the keys that were measured longest ago, beyond what a file may hold.
fn drop_oldest(parts: &mut [Part<'_>]) {
    let (mut n_keys, mut n_bytes) = (parts.len(), parts.iter().map(|part| part.lines.len()).sum::<usize>());
    let mut oldest: Vec<usize> = (0..parts.len()).collect();
    oldest.sort_by_key(|&i| parts[i].newest);
    for i in oldest {
        if n_keys <= MAX_KEYS && n_bytes <= MAX_TEXT {
            break;
        }
        n_keys -= 1;
        n_bytes -= parts[i].lines.len();
        parts[i].lines = "".into();
    }
}

/// Drops what is oldest of a map, beyond its limit.
pub(super) fn keep_newest<K: Ord + Clone, V>(
    map: &mut BTreeMap<K, V>,
    limit: usize,
    date: impl Fn(&V) -> Date,
) -> Vec<K> {
    let Some(n_more) = map.len().checked_sub(limit).filter(|n_more| *n_more > 0) else { return Vec::new() };
    let mut dated: Vec<(Date, K)> = map.iter().map(|(key, value)| (date(value), key.clone())).collect();
    dated.sort();
    dated.truncate(n_more);
    let dropped: Vec<K> = dated.into_iter().map(|(_, key)| key).collect();
    dropped.iter().for_each(|key| {
        map.remove(key);
    });
    dropped
}

fn write(key: &str, entry: &Entry) -> String {
    // Writing into a string cannot fail.
    let mut text = format!("key {key} {:e} {} {}\n", entry.flops, entry.bytes, entry.newest().0);
    for (condition, history) in &entry.histories {
        for run in history.runs() {
            let _ = writeln!(text, "run {condition} {run}");
        }
    }
    text
}
