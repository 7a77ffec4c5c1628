//! What a page shows beside what a command prints: words count, numbers do not.
//!
//! Numbers, hashes, units of size and of time, bars, and whether a noun is in the plural after a number,
//! depend on the machine. A line `…` stands for any number of lines, and `…` at the end of a line for the
//! rest of it.

/// What stands for a number.
const NUMBER: &str = "#";

/// Hashes have at least so many digits.
const HASH_DIGITS: usize = 16;

/// What may follow a number, depending on how large it is.
const UNITS: [&str; 14] =
    ["B", "KiB", "MiB", "GiB", "TiB", "ns", "us", "µs", "ms", "s", "flop", "kflop", "Mflop", "Gflop"];

/// The line of a page that the output does not have where it is expected, or the output that the page leaves
/// out.
pub fn difference(shown: &[String], printed: &str) -> Option<String> {
    let shown: Vec<&str> = shown.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
    let printed: Vec<&str> = printed.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    // What stands between lines of `…` stands together.
    let pieces: Vec<&[&str]> = shown.split(|line| *line == "…").collect();
    let mut at = 0;
    for (i, piece) in pieces.iter().enumerate() {
        let is_last = i + 1 == pieces.len();
        let fits = |start: usize| {
            let lines = printed.get(start..start + piece.len());
            lines.is_some_and(|lines| piece.iter().zip(lines).all(|(shown, line)| is_alike(shown, line)))
        };
        let place = match (i, is_last && !piece.is_empty()) {
            (0, _) => Some(0).filter(|start| fits(*start)),
            (_, true) => printed.len().checked_sub(piece.len()).filter(|start| *start >= at && fits(*start)),
            (_, false) => (at..=printed.len()).find(|start| fits(*start)),
        };
        let Some(place) = place else {
            let first = piece
                .iter()
                .enumerate()
                .find(|(i, shown)| !printed.get(at + i).is_some_and(|line| is_alike(shown, line)));
            let line = first.or(piece.iter().enumerate().next()).map_or("", |(_, line)| line);
            return Some(format!("this is not printed there: {line}"));
        };
        at = place + piece.len();
    }
    // Without a `…` at its end, a page shows everything.
    let rest = printed.get(at..).unwrap_or_default();
    let is_open = shown.last() == Some(&"…");
    (!rest.is_empty() && !is_open).then(|| format!("this is printed and not shown: {}", rest[0]))
}

fn is_alike(shown: &str, line: &str) -> bool {
    let text = |line: &str| words(line).join(" ");
    match shown.strip_suffix('…') {
        Some(start) => {
            let whole = if start.ends_with(' ') { " " } else { "" };
            (text(line) + " ").starts_with(&(text(start) + whole))
        }
        None => words(shown) == words(line),
    }
}

/// A line as words, without what depends on the machine.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let mut word = placeholder(word);
        if word.is_empty() {
            continue;
        }
        if words.last().is_some_and(|last| last.ends_with(NUMBER)) {
            let bare = word.trim_end_matches(|c: char| c.is_ascii_punctuation());
            if UNITS.contains(&bare) {
                word = format!("unit{}", &word[bare.len()..]);
            } else if let Some(singular) = bare.strip_suffix('s') {
                word = format!("{singular}{}", &word[bare.len()..]);
            }
        }
        words.push(word);
    }
    words
}

/// A word with its numbers and hashes replaced, and without bars.
fn placeholder(word: &str) -> String {
    let is_bar = |c: char| ('\u{2500}'..='\u{259f}').contains(&c);
    let word: String = word.chars().filter(|c| !is_bar(*c)).collect();
    let mut text = String::new();
    let mut rest = word.as_str();
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end.max(if end == 0 { first.len_utf8() } else { 0 }));
        rest = after;
        if run.len() >= HASH_DIGITS && run.chars().all(|c| c.is_ascii_hexdigit()) {
            text += NUMBER;
            continue;
        }
        for c in run.chars() {
            let is_going_on = text.ends_with(NUMBER);
            match c.is_ascii_digit() {
                true if is_going_on => {}
                true => text += NUMBER,
                false => text.push(c),
            }
        }
    }
    // 1,234.5 is one number.
    while text.contains("#.#") || text.contains("#,#") {
        text = text.replace("#.#", NUMBER).replace("#,#", NUMBER);
    }
    let unsigned = text.strip_prefix(['+', '-']).filter(|rest| rest.starts_with(NUMBER));
    unsigned.map_or(text.clone(), String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differs(shown: &str, printed: &str) -> Option<String> {
        difference(&shown.lines().map(String::from).collect::<Vec<_>>(), printed)
    }

    #[test]
    fn numbers_units_hashes_and_bars_do_not_count() {
        let shown = "start: 10.5 ms, 1,234 images of 1x8x8\nplan a79badadfb235a248e0e1151b27c01d4 (n=16) ██▂\n2 workers";
        let printed =
            "start: 3 s, 17 images of 3x32x32\n\nplan 0000adadfb235a248e0e1151b27c01ff (n=4) █\n1 worker\n";
        assert_eq!(differs(shown, printed), None);
        assert_eq!(differs("error -1.1 %", "error  +99 %"), None);
        assert_eq!(differs("run/step-000000000120.safetensors", "run/step-7.safetensors"), None);
    }

    #[test]
    fn words_count_and_their_order() {
        assert!(
            differs("loss 1.0", "losses 1.0").is_some_and(|text| text.contains("not printed there: loss"))
        );
        assert!(differs("a b", "b a").is_some());
        assert!(differs("one", "one\ntwo").is_some_and(|text| text.contains("not shown: two")));
        assert!(differs("one\ntwo", "one").is_some_and(|text| text.contains("not printed there: two")));
        assert!(differs("conv2d", "dense").is_some());
        assert!(differs("5 %", "5 images").is_some());
    }

    #[test]
    fn an_ellipsis_stands_for_lines_or_for_the_rest_of_one() {
        let printed = "one\ntwo\nthree\nfour five";
        for shown in
            ["one\n…\nfour five", "…\nthree\n…", "…\ntwo\nthree\nfour …", "…", "one\n…\n…\nfour five"]
        {
            assert_eq!(differs(shown, printed), None, "{shown}");
        }
        assert_eq!(differs("{\"loss\":…", "{\"loss\":0.5,\"epoch\":1}"), None);
        assert!(differs("four f …", "four five").is_some());
        for shown in ["…\ntwo\nfour five", "…\nthree", "two\n…", "…\nfour\n…", "…\nthree\n…\ntwo\n…"]
        {
            assert!(differs(shown, printed).is_some(), "{shown}");
        }
    }
}
