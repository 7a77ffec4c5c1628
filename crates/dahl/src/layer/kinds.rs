//! The kinds of layers that model files may name.
//!
//! A reader of model files is given the kinds it knows as a value. There is no list that a program changes
//! for all others: two parts of a program may know different layers.

use super::{AnyLayer, BUILTIN, Settings};
use crate::error::{Error, Result};

/// A kind of layer that model files may have.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// What it is called there, and by [`Layer::kind`](super::Layer::kind).
    pub name: &'static str,
    /// Makes a layer of its settings, which it reads one by one.
    pub read: fn(&mut Settings<'_>) -> Result<AnyLayer>,
}

impl Kind {
    /// The kind called `name`, whose layers `read` makes.
    pub const fn new(name: &'static str, read: fn(&mut Settings<'_>) -> Result<AnyLayer>) -> Self {
        Kind { name, read }
    }
}

/// The kinds of layers that a reader of model files knows: those that are built in, and a program's own.
///
/// ```
/// # use dahl::layer::Kinds;
/// let kinds = Kinds::default();
/// assert!(kinds.names().any(|name| name == "conv2d"));
/// ```
#[derive(Clone, Debug)]
pub struct Kinds {
    all: Vec<Kind>,
}

/// Those that are built in.
impl Default for Kinds {
    fn default() -> Self {
        Kinds { all: BUILTIN.to_vec() }
    }
}

impl Kinds {
    /// These and one more.
    ///
    /// # Errors
    ///
    /// A name that is taken, or that could not be written into a model file.
    pub fn with(mut self, kind: Kind) -> Result<Self> {
        let name = kind.name;
        let is_word = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if name.is_empty() || !is_word(name) {
            return Err(Error::setting(format!(
                "a kind of layer is called by letters, digits and '_', not '{name}'"
            )));
        }
        if self.named(name).is_some() {
            return Err(Error::setting(format!(
                "there is a kind of layer '{name}' already: choose another name"
            )));
        }
        self.all.push(kind);
        Ok(self)
    }

    /// The names of all of them: those that are built in first.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.all.iter().map(|kind| kind.name)
    }

    /// The kind of this name.
    pub(super) fn named(&self, name: &str) -> Option<&Kind> {
        self.all.iter().find(|kind| kind.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Relu;
    use super::*;
    use crate::model::Sequential;
    use std::sync::Arc;

    fn kind(name: &'static str) -> Kind {
        Kind::new(name, |_| Ok(Arc::new(Relu)))
    }

    #[test]
    fn names_are_words_and_taken_once() {
        let kinds = Kinds::default().with(kind("mine")).unwrap();
        assert_eq!(kinds.names().last(), Some("mine"));
        for (name, expected) in
            [("relu", "already"), ("mine", "already"), ("", "letters"), ("a\"b", "letters")]
        {
            let error = kinds.clone().with(kind(name)).unwrap_err().to_string();
            assert!(error.contains(expected), "{name}: {error}");
        }
    }

    #[test]
    fn a_layer_is_what_it_was_read_as() {
        let kinds = Kinds::default().with(kind("mine")).unwrap();
        let text = "input = [1, 2, 2]\n[[layer]]\nkind = \"mine\"";
        let error = Sequential::from_toml_with(text, "net.toml", None, None, &kinds).unwrap_err().to_string();
        assert_eq!(error, "net.toml line 3: a layer that is read as 'mine' calls itself 'relu'");
    }
}
