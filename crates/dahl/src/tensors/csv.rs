//! Numbers as text: a row per line, separated by commas, semicolons, tabs or spaces.
//!
//! The first line that holds anything decides about the separator. It may hold the names of columns, which
//! are not kept. Lines that begin with `#` are comments, as in what NumPy writes. Integers stay integers if
//! all numbers are; otherwise all are `f64`.

use super::tensor::Tensor;

/// The tensor of shape [rows, columns] in the bytes of a file.
pub(super) fn parse(bytes: &[u8]) -> Result<Tensor, String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count();
        format!("expected numbers as text, but line {line} is not text")
    })?;
    let mut rows = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
        .peekable();
    let Some(&(number, first)) = rows.peek() else {
        return Err("expected numbers, but there are none".into());
    };
    let separator = Separator::of(first);
    let cells = separator.split(first);
    // A first line with a number in it is a row, so that a misspelt number is not taken for a name.
    let has_names = cells.iter().all(|cell| cell.parse::<f64>().is_err());
    if has_names && cells.iter().all(|cell| cell.is_empty()) {
        return Err(refused(number, 0, ""));
    }
    let n_columns = cells.len();
    if has_names {
        rows.next();
    }
    let mut numbers = Numbers::Integers(Vec::new());
    let mut n_rows = 0;
    for (number, line) in rows {
        let cells = separator.split(line);
        for (column, cell) in cells.iter().enumerate().take(n_columns) {
            numbers.push(cell).ok_or_else(|| refused(number, column, cell))?;
        }
        if cells.len() != n_columns {
            return Err(format!(
                "expected {n_columns} numbers in each line, as in the first one, but line {} has {}",
                number + 1,
                cells.len()
            ));
        }
        n_rows += 1;
    }
    let shape = [n_rows, n_columns];
    let tensor = match numbers {
        Numbers::Integers(integers) => Tensor::new(&shape, integers),
        Numbers::Reals(reals) => Tensor::new(&shape, reals),
    };
    tensor.map_err(|error| error.to_string())
}

fn refused(line: usize, column: usize, cell: &str) -> String {
    let (line, column) = (line + 1, column + 1);
    if cell.is_empty() {
        return format!("expected a number in line {line}, column {column}, but there is nothing");
    }
    let shown: String = cell.chars().take(40).collect();
    let hint = if cell.contains(',') { "; decimals need a point" } else { "" };
    format!(
        "expected a number in line {line}, column {column}, but there is '{}'{hint}",
        shown.escape_debug()
    )
}

#[derive(Clone, Copy)]
enum Separator {
    Character(char),
    Spaces,
}

impl Separator {
    fn of(line: &str) -> Self {
        match [';', '\t', ','].into_iter().find(|&separator| line.contains(separator)) {
            Some(separator) => Separator::Character(separator),
            None => Separator::Spaces,
        }
    }

    /// The cells of a line, without the spaces and quotes around them.
    fn split(self, line: &str) -> Vec<&str> {
        let separator = match self {
            Separator::Spaces => return line.split_whitespace().map(bare).collect(),
            Separator::Character(separator) => separator,
        };
        let mut is_quoted = false;
        let is_end = |character: char| {
            is_quoted ^= character == '"';
            character == separator && !is_quoted
        };
        line.split(is_end).map(bare).collect()
    }
}

fn bare(cell: &str) -> &str {
    let cell = cell.trim();
    cell.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).map_or(cell, str::trim)
}

/// All numbers so far.
enum Numbers {
    Integers(Vec<i64>),
    Reals(Vec<f64>),
}

impl Numbers {
    /// Adds a number, if it is one.
    fn push(&mut self, cell: &str) -> Option<()> {
        if let Numbers::Integers(integers) = self {
            match cell.parse() {
                Ok(integer) => {
                    integers.push(integer);
                    return Some(());
                }
                // From here on, all are reals.
                Err(_) => *self = Numbers::Reals(integers.iter().map(|&integer| integer as f64).collect()),
            }
        }
        if let Numbers::Reals(reals) = self {
            reals.push(cell.parse().ok()?);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reals(text: &str) -> (Vec<usize>, Vec<f64>) {
        let tensor = parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        (tensor.shape().to_vec(), tensor.to_f64().expect("exact"))
    }

    #[test]
    fn separators_names_and_comments_are_understood() {
        let expected = (vec![2, 2], vec![1.0, -2.5, 3e8, 4.0]);
        for text in [
            "1,-2.5\n3e8,4\n",
            "a,b\n1,-2.5\n3e8,4",
            "\u{feff}a;b\r\n1;-2.5\r\n\r\n3e8;4\r\n",
            "1\t-2.5\n3e8\t4",
            "# a comment\n 1.0  -2.5 \n   3e+08 4.",
            "\"first, of all\",\"b\"\n\"1\", \"-2.5\"\n 3E8 , 4",
            ",b\n1,-2.5\n3e8,4",
        ] {
            assert_eq!(reals(text), expected, "{text:?}");
        }
        assert_eq!(reals("7"), (vec![1, 1], vec![7.0]));
        assert_eq!(reals("a,b\n"), (vec![0, 2], vec![]));
        let (_, special) = reals("nan,inf,-Infinity\n");
        assert!(special[0].is_nan() && special[1..] == [f64::INFINITY, f64::NEG_INFINITY]);
        let exact = parse(b"9007199254740993,-1").expect("integers");
        assert_eq!(exact.get::<i64>(), Some(&[9_007_199_254_740_993, -1][..]));
    }

    #[test]
    fn what_is_no_number_is_said_with_its_place() {
        for (text, part) in [
            ("1,2\n3,x\n", "line 2, column 2, but there is 'x'"),
            ("1,x,3", "line 1, column 2, but there is 'x'"),
            ("1,,3", "line 1, column 2, but there is nothing"),
            ("1;2\n3;4,5", "line 2, column 2, but there is '4,5'; decimals need a point"),
            ("# c\n\n1,2\n3\n", "expected 2 numbers in each line, as in the first one, but line 4 has 1"),
            ("1,2\n3,4,5", "line 2 has 3"),
            ("", "there are none"),
            ("\n# nothing\n", "there are none"),
            ("a,b\nc,d\n", "line 2, column 1, but there is 'c'"),
            (",,\n", "line 1, column 1, but there is nothing"),
        ] {
            let error = parse(text.as_bytes()).expect_err(text);
            assert!(error.contains(part), "{text:?}: {error}");
        }
        assert!(parse(b"1,2\n\xff,3").expect_err("no text").contains("line 2 is not text"));
    }
}
