//! The lines of a file of choices, sorted by what was chosen for:
//!
//! ```text
//! choice KEY DATE TEXT NOTE
//! ```
//!
//! Dates are nanoseconds since 1970.

use super::Choice;
use super::kept::Parsed;
use crate::perf::Date;
use crate::words::{Words, escaped};
use std::collections::BTreeMap;
use std::fmt::Write;

pub(super) fn read(body: &str) -> Parsed<BTreeMap<String, Choice>> {
    let mut choices = BTreeMap::new();
    for line in body.lines() {
        let (key, choice) = read_line(line).map_err(|why| format!("{why}, in '{line}'"))?;
        choices.insert(key, choice);
    }
    Ok(choices)
}

fn read_line(line: &str) -> Parsed<(String, Choice)> {
    let mut words = Words::of(line);
    if words.word("what the line is")? != "choice" {
        return Err("there should be a choice".to_string());
    }
    let key = words.text("what was chosen for")?;
    let date = Date(words.number("a date in nanoseconds")?);
    let choice = Choice { date, text: words.text("a choice")?, note: words.text("a note")? };
    words.finished()?;
    Ok((key, choice))
}

pub(super) fn write(choices: &BTreeMap<String, Choice>, text: &mut String) {
    for (key, Choice { text: choice, date, note }) in choices {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "choice {} {} {} {}", escaped(key), date.0, escaped(choice), escaped(note));
    }
}
