//! Lines of words: how keys and everything about them are written in a file.

use std::str::{FromStr, SplitAsciiWhitespace};

/// A text as one word: whatever is not a visible ASCII character, `#` and `%` become `%` and two digits per
/// byte. The empty text is a single `%`.
pub(crate) fn escaped(text: &str) -> String {
    let mut word = String::with_capacity(text.len().max(1));
    for byte in text.bytes() {
        match byte {
            // What begins a comment, in files that have any, and what escapes.
            b'#' | b'%' => word.push_str(&format!("%{byte:02x}")),
            _ if byte.is_ascii_graphic() => word.push(byte.into()),
            _ => word.push_str(&format!("%{byte:02x}")),
        }
    }
    if word.is_empty() { "%".into() } else { word }
}

/// Two texts as one word, with a slash in between; the first alone if the second is empty.
pub(crate) fn paired(first: &str, second: &str) -> String {
    let [first, second] = [first, second].map(|text| escaped(text).replace('/', "%2f"));
    if second == "%" { first } else { format!("{first}/{second}") }
}

/// The text that a word stands for. Only what [`escaped`] writes is read.
fn unescaped(word: &str) -> Option<String> {
    if word == "%" {
        return Some(String::new());
    }
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        match byte {
            b'%' => bytes.push((digit(rest.next())? * 16 + digit(rest.next())?) as u8),
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

/// The words of a line, taken one after the other.
pub(crate) struct Words<'a>(SplitAsciiWhitespace<'a>);

impl<'a> Words<'a> {
    pub fn of(line: &'a str) -> Self {
        Words(line.split_ascii_whitespace())
    }

    pub fn word(&mut self, what: &str) -> Result<&'a str, String> {
        self.0.next().ok_or_else(|| format!("{what} is missing"))
    }

    pub fn text(&mut self, what: &str) -> Result<String, String> {
        let word = self.word(what)?;
        unescaped(word).ok_or_else(|| format!("'{word}' is not {what} as dahl writes it"))
    }

    /// Two texts that [`paired`] made one word of.
    pub fn pair(&mut self, what: &str) -> Result<(String, String), String> {
        let word = self.word(what)?;
        let (first, second) = word.split_once('/').unwrap_or((word, "%"));
        let pair = unescaped(first).zip(unescaped(second));
        pair.ok_or_else(|| format!("'{word}' is not {what} as dahl writes it"))
    }

    pub fn number<N: FromStr>(&mut self, what: &str) -> Result<N, String> {
        let word = self.word(what)?;
        word.parse().map_err(|_| format!("'{word}' is not {what}"))
    }

    /// A finite number that is not negative.
    pub fn amount(&mut self, what: &str) -> Result<f64, String> {
        let number: f64 = self.number(what)?;
        let is_amount = number.is_finite() && number >= 0.0;
        if is_amount { Ok(number) } else { Err(format!("{number} is not {what}")) }
    }

    pub fn finished(&mut self) -> Result<(), String> {
        self.0.next().map_or(Ok(()), |word| Err(format!("'{word}' is more than there should be")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_one_word_and_comes_back() {
        for text in ["", "%", "%25", "a b", "tab\tline\n", "16x3/16 > 4 | 1 +", "ä→\u{1}", "#"] {
            let word = escaped(text);
            assert_eq!(word.split_ascii_whitespace().collect::<Vec<_>>(), [word.as_str()], "{text:?}");
            assert_eq!(unescaped(&word).as_deref(), Some(text));
        }
        for pair in [("lanes", ""), ("lanes", "direct+small_batch"), ("a/b", ""), ("", "a/b c"), ("", "")] {
            let word = paired(pair.0, pair.1);
            assert_eq!(
                Words::of(&word).pair("a pair"),
                Ok((pair.0.to_string(), pair.1.to_string())),
                "{word}"
            );
        }
        for wrong in ["%2", "%zz", "a%", "%ff"] {
            assert_eq!(unescaped(wrong), None, "{wrong}");
        }
    }
}
