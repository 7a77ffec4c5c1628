//! The settings of layers in model files: reading them with errors that name file and line, and writing them.
//!
//! A layer reads its settings one by one; whatever is there beside them is refused. What a layer writes, it
//! reads back.

use super::{AnyLayer, Chain, Kind, Kinds};
use crate::error::{Error, Result};
use std::fmt::Write;
use std::ops::Range;
use std::panic::Location;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The text of a model file, and what it may refer to.
pub(crate) struct ModelText<'a> {
    /// What messages call it.
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
    /// The layers that it may have.
    pub(crate) kinds: &'a Kinds,
    /// What `"classes"` stands for.
    pub(crate) classes: Option<usize>,
    /// The line of the program on whose behalf it is read.
    pub(crate) line: &'static Location<'static>,
}

impl ModelText<'_> {
    /// An error about the text at `span`.
    pub(crate) fn error(&self, span: &Range<usize>, message: impl AsRef<str>) -> Error {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        Error::setting(format!("{} line {line}: {}", self.file, message.as_ref()))
    }
}

/// The settings of a layer, while it reads them. What it did not ask for is refused afterwards.
pub struct Settings<'a> {
    source: &'a ModelText<'a>,
    /// What they are the settings of.
    of: &'a str,
    table: &'a DeTable<'a>,
    span: Range<usize>,
    /// What was asked for so far.
    known: Vec<&'static str>,
}

impl<'a> Settings<'a> {
    pub(crate) fn new(
        source: &'a ModelText<'a>,
        of: &'a str,
        table: &'a DeTable<'a>,
        span: Range<usize>,
    ) -> Self {
        Settings { source, of, table, span, known: Vec::new() }
    }

    fn get(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.known.push(key);
        self.table.get(key)
    }

    /// A whole number that must be there: from 0 on, or `"classes"`, which stands for those of the data.
    pub fn count(&mut self, key: &'static str) -> Result<usize> {
        match self.get(key) {
            Some(value) => self.as_count(key, value),
            None => Err(self.source.error(&self.span, format!("{} needs a line '{key} = NUMBER'", self.of))),
        }
    }

    /// A whole number, or what is usual.
    pub fn count_or(&mut self, key: &'static str, default: usize) -> Result<usize> {
        self.get(key).map_or(Ok(default), |value| self.as_count(key, value))
    }

    fn as_count(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<usize> {
        let number = match value.get_ref() {
            DeValue::Integer(digits) => usize::from_str_radix(digits.as_str(), digits.radix()).ok(),
            DeValue::String(word) if word == "classes" => match self.source.classes {
                Some(classes) => Some(classes),
                None => {
                    let message = format!("{key} = \"classes\" needs data: without any, write a number");
                    return Err(self.source.error(&value.span(), message));
                }
            },
            _ => None,
        };
        // More than this fits no memory; products of such numbers are checked where they are formed.
        number
            .filter(|&number| number <= u32::MAX as usize)
            .ok_or_else(|| self.wrong(key, value, "a whole number from 0 on"))
    }

    /// A finite number, or what is usual.
    pub fn number_or(&mut self, key: &'static str, default: f64) -> Result<f64> {
        let Some(value) = self.get(key) else { return Ok(default) };
        let number = match value.get_ref() {
            DeValue::Float(digits) => digits.as_str().parse().ok(),
            DeValue::Integer(digits) if digits.radix() == 10 => digits.as_str().parse().ok(),
            _ => None,
        };
        number.filter(|number: &f64| number.is_finite()).ok_or_else(|| self.wrong(key, value, "a number"))
    }

    /// `true` or `false`, or what is usual.
    pub fn flag_or(&mut self, key: &'static str, default: bool) -> Result<bool> {
        match self.get(key) {
            None => Ok(default),
            Some(value) => match value.get_ref() {
                DeValue::Boolean(flag) => Ok(*flag),
                _ => Err(self.wrong(key, value, "true or false")),
            },
        }
    }

    /// Three whole numbers: the extents of images.
    pub(crate) fn image(&mut self, key: &'static str) -> Result<Option<([usize; 3], Range<usize>)>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let wrong = || self.wrong(key, value, "[channels, height, width]");
        let DeValue::Array(items) = value.get_ref() else { return Err(wrong()) };
        let counts: Result<Vec<usize>> = items.iter().map(|item| self.as_count(key, item)).collect();
        let extents = counts?.try_into().map_err(|_| wrong())?;
        Ok(Some((extents, value.span())))
    }

    /// The layers below this key, each with the place in the file where it begins.
    pub(crate) fn layers(&mut self, key: &'static str) -> Result<Vec<(AnyLayer, Range<usize>)>> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let DeValue::Array(items) = value.get_ref() else {
            return Err(self.wrong(key, value, "layers, each under a line with its path in double brackets"));
        };
        items.iter().map(|item| Ok((self.read_layer(key, item)?, item.span()))).collect()
    }

    /// The layers below this key, as a chain.
    pub fn chain(&mut self, key: &'static str) -> Result<Chain> {
        let mut chain = Chain::new();
        for (layer, _) in self.layers(key)? {
            chain.push(layer, self.source.line);
        }
        Ok(chain)
    }

    fn read_layer(&self, key: &str, item: &Spanned<DeValue<'_>>) -> Result<AnyLayer> {
        let DeValue::Table(table) = item.get_ref() else {
            return Err(self.wrong(key, item, "a layer with a line 'kind = …'"));
        };
        let kinds = self.source.kinds;
        let known = || kinds.names().collect::<Vec<_>>().join(", ");
        let Some(kind) = table.get("kind") else {
            let message = format!("a layer needs a line 'kind = …'; layers: {}", known());
            return Err(self.source.error(&item.span(), message));
        };
        let DeValue::String(name) = kind.get_ref() else {
            let message = format!("'kind' must be the name of a layer in quotes; layers: {}", known());
            return Err(self.source.error(&kind.span(), message));
        };
        let Some(Kind { name, read }) = kinds.named(name) else {
            let message = format!("unknown layer '{name}'; layers: {}", known());
            return Err(self.source.error(&kind.span(), message));
        };
        let mut settings = Settings::new(self.source, name, table, item.span());
        settings.known.push("kind");
        let layer = read(&mut settings)?;
        settings.finish()?;
        if layer.kind() != *name {
            let message = format!("a layer that is read as '{name}' calls itself '{}'", layer.kind());
            return Err(self.source.error(&kind.span(), message));
        }
        Ok(layer)
    }

    /// Refuses whatever was not asked for.
    pub(crate) fn finish(self) -> Result<()> {
        match self.table.keys().find(|key| !self.known.contains(&key.get_ref().as_ref())) {
            None => Ok(()),
            Some(key) => {
                let known = self.known.join(", ");
                let message = format!("{} has no setting '{}'; settings: {known}", self.of, key.get_ref());
                Err(self.source.error(&key.span(), message))
            }
        }
    }

    fn wrong(&self, key: &str, value: &Spanned<DeValue<'_>>, expected: &str) -> Error {
        let found = self.source.text.get(value.span()).unwrap_or_default();
        let found: String = found.chars().take(40).collect();
        let message = format!("'{key}' of {} must be {expected}, not {found}", self.of);
        self.source.error(&value.span(), message)
    }
}

/// A setting of a layer, to be written.
#[derive(Clone, Debug)]
pub enum Setting<'a> {
    /// A whole number.
    Count(usize),
    /// A number.
    Number(f64),
    /// `true` or `false`.
    Flag(bool),
    /// Layers.
    Layers(&'a Chain),
}

/// Writes the layers of a chain, each below the line `[[path]]`.
pub(crate) fn write_layers(text: &mut String, path: &str, chain: &Chain) {
    for layer in chain.layers() {
        // Writing into a string does not fail.
        let _ = write!(text, "\n[[{path}]]\nkind = \"{}\"\n", layer.kind());
        let settings = layer.settings();
        for (key, setting) in &settings {
            let _ = match setting {
                Setting::Count(count) => writeln!(text, "{key} = {count}"),
                Setting::Number(number) => writeln!(text, "{key} = {number:?}"),
                Setting::Flag(flag) => writeln!(text, "{key} = {flag}"),
                Setting::Layers(_) => Ok(()),
            };
        }
        for (key, setting) in &settings {
            if let Setting::Layers(chain) = setting {
                write_layers(text, &format!("{path}.{key}"), chain);
            }
        }
    }
}
