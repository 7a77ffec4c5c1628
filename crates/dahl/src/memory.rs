//! Memory whose size a file or an argument says: there may not be so much, and that is an error and no end of
//! the program.

/// Room for `n` elements, or a sentence that says for what there is not enough memory.
pub(crate) fn room<T>(n: usize, what: &str) -> Result<Vec<T>, String> {
    let mut values = Vec::new();
    values.try_reserve_exact(n).map_err(|_| shortage(n.saturating_mul(size_of::<T>()) as u64, what))?;
    Ok(values)
}

/// So many zeros, likewise.
pub(crate) fn zeros(n: usize, what: &str) -> Result<Vec<u8>, String> {
    let mut values = room(n, what)?;
    values.resize(n, 0);
    Ok(values)
}

/// What is said where memory is short.
pub(crate) fn shortage(n_bytes: u64, what: &str) -> String {
    format!(
        "not enough memory for the {n_bytes} bytes of {what}: take fewer or smaller ones, or end other programs"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_memory_holds_is_a_sentence_and_all_else_is_there() {
        assert_eq!(zeros(3, "images").unwrap(), [0; 3]);
        for n in [isize::MAX as usize, usize::MAX] {
            let sentence = room::<u16>(n, "images").unwrap_err();
            assert!(sentence.starts_with("not enough memory for the "), "{sentence}");
            assert!(sentence.contains("bytes of images"), "{sentence}");
        }
    }
}
