//! Names as people see them. A name comes from anywhere, and a terminal obeys some of what it is shown: such
//! characters are shown as `\u001b`, as JSON and Rust would write them, and bytes that are no text as `\xff`.

use std::fmt::{self, Display, Write};
use std::path::Path;

/// A name on one line.
pub fn name(name: &str) -> impl Display + '_ {
    Shown { bytes: name.as_bytes(), keeps_lines: false }
}

/// A path, likewise.
pub fn path(path: &Path) -> impl Display + '_ {
    Shown { bytes: path.as_os_str().as_encoded_bytes(), keeps_lines: false }
}

/// A text with names in it, which may have several lines. JSON stays the same JSON.
pub fn text(text: &str) -> impl Display + '_ {
    Shown { bytes: text.as_bytes(), keeps_lines: true }
}

struct Shown<'a> {
    bytes: &'a [u8],
    keeps_lines: bool,
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.bytes.utf8_chunks() {
            for character in chunk.valid().chars() {
                match is_obeyed(character) && !(self.keeps_lines && character == '\n') {
                    true => write!(f, "\\u{:04x}", u32::from(character))?,
                    false => f.write_char(character)?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// Whether a terminal may do something else with a character than to draw it: control characters, and those
/// that turn the direction of a text, so that it reads as another.
fn is_obeyed(character: char) -> bool {
    let turns =
        matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_spelt_out() {
        assert_eq!(name("Käse 😀").to_string(), "Käse 😀");
        assert_eq!(name("a\u{1b}[31mb\nc\u{9b}d\u{7f}").to_string(), "a\\u001b[31mb\\u000ac\\u009bd\\u007f");
        assert_eq!(name("fdp.\u{202e}exe").to_string(), "fdp.\\u202eexe");
        assert_eq!(text("a\u{7}\nb").to_string(), "a\\u0007\nb");
    }

    #[test]
    #[cfg(unix)]
    fn bytes_that_are_no_text_are_told_apart() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        let shown = |bytes: &[u8]| path(Path::new(OsStr::from_bytes(bytes))).to_string();
        assert_eq!(shown(b"a/\xff"), "a/\\xff");
        assert_eq!(shown(b"a/\xfe\x1b"), "a/\\xfe\\u001b");
    }
}
