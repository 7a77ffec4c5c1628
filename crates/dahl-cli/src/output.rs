//! Printing: lines, and numbers as people read them.

use dahl_runtime::shown;
use std::fmt::Display;
use std::io::{self, Write};

/// Prints a line, or several, now, also into a pipe. Names in them come from anywhere: what a terminal would
/// obey is spelt out.
pub fn say(line: impl Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", shown::text(&line.to_string()))?;
    out.flush()
}

/// The same on standard error, for what is wrong. Nobody may be listening, which is no reason to end.
pub fn warn(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "dahl: {}", shown::text(&line.to_string()));
}

/// A number with its thousands set apart.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of bytes with a unit: exact below 1 KiB, then three digits or so.
pub fn bytes(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // What would be printed as 1024 of a unit is one of the next.
    while value >= 1023.95 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(value < 99.95 && value.fract() != 0.0);
    format!("{value:.digits$} {}", units[unit])
}

/// A number of things: `1 worker`, `2 workers`.
pub fn count(number: usize, thing: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {thing}{ending}", thousands(number as u64))
}

/// Rows of cells as lines with aligned columns; the first `n_left` columns are texts, the others numbers.
pub fn align(rows: &[Vec<String>], n_left: usize) -> String {
    let n_columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..n_columns)
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            let width = widths[column];
            match column < n_left {
                true => line.push_str(&format!("{gap}{cell:<width$}")),
                false => line.push_str(&format!("{gap}{cell:>width$}")),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_characters_and_not_by_bytes() {
        let rows = [["a", "µs"], ["conv2d", "1"]].map(|row| row.map(str::to_string).to_vec());
        assert_eq!(align(&rows, 1), "a       µs\nconv2d   1\n");
        assert_eq!(align(&[], 1), "");
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_234_567), "1,234,567");
    }

    #[test]
    fn bytes_have_the_unit_that_suits_them() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (32 << 10, "32 KiB"),
            (115_200, "112 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (24_682_416 << 10, "23.5 GiB"),
            (u64::MAX, "16 EiB"),
        ];
        for (number, text) in cases {
            assert_eq!(bytes(number), text);
        }
    }

    #[test]
    fn one_thing_is_not_things() {
        assert_eq!(count(0, "worker"), "0 workers");
        assert_eq!(count(1, "worker"), "1 worker");
        assert_eq!(count(1234, "image"), "1,234 images");
    }
}
