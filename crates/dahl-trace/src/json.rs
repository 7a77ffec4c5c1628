//! Just enough JSON to write traces and pages.

/// A text in quotes, for files and pages alike. Without `<` in it, nothing in a text can end the script that
/// it stands in.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '<' | '\u{2028}' | '\u{2029}' | '\u{7f}' => quoted.push_str(&format!("\\u{:04x}", c as u32)),
            c if (c as u32) < 0x20 => quoted.push_str(&format!("\\u{:04x}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A number; what JSON has no word for is `null`.
pub(super) fn number(value: f64) -> String {
    if value.is_finite() { format!("{value}") } else { "null".to_string() }
}

/// A list of values that are JSON already.
pub(super) fn list<T: ToString>(values: impl IntoIterator<Item = T>) -> String {
    let mut text = String::from("[");
    for (i, value) in values.into_iter().enumerate() {
        if i > 0 {
            text.push(',');
        }
        text.push_str(&value.to_string());
    }
    text + "]"
}

/// An object of values that are JSON already.
pub(super) fn object(fields: &[(&str, String)]) -> String {
    let mut text = String::from("{");
    for (i, (name, value)) in fields.iter().enumerate() {
        if i > 0 {
            text.push(',');
        }
        text.push_str(&quoted(name));
        text.push(':');
        text.push_str(value);
    }
    text + "}"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_can_end_a_script_or_a_string() {
        assert_eq!(quoted("</script><!--"), "\"\\u003c/script>\\u003c!--\"");
        assert_eq!(quoted("a\"b\\c\n\u{2028}é 数"), "\"a\\\"b\\\\c\\u000a\\u2028é 数\"");
        assert_eq!(quoted(""), "\"\"");
    }

    #[test]
    fn what_is_no_number_is_null() {
        assert_eq!([f64::NAN, f64::INFINITY, -0.5, 1e-3].map(number), ["null", "null", "-0.5", "0.001"]);
    }

    #[test]
    fn lists_and_objects_have_commas_between() {
        assert_eq!((list([1, 2]), list(Vec::<u8>::new())), ("[1,2]".into(), "[]".into()));
        assert_eq!(object(&[("a", "1".into()), ("b", list([0]))]), "{\"a\":1,\"b\":[0]}");
    }
}
