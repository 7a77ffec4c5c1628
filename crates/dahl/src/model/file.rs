//! Model files: a small TOML description of a network.
//!
//! ```toml
//! input = [1, 28, 28]        # channels, height, width; else those of the data
//! usual_input = [1, 28, 28]  # where neither the line above nor any data says so
//!
//! [[layer]]
//! kind = "conv2d"
//! filters = 8
//! kernel = 3
//!
//! [[layer]]
//! kind = "residual"          # its layers follow as [[layer.body]] and [[layer.shortcut]]
//!
//! [[layer]]
//! kind = "dense"
//! outputs = "classes"        # or a number
//! ```

use super::Sequential;
use crate::error::{Error, Result};
use crate::layer::{Kinds, ModelText, Settings, write_layers};
use std::panic::Location;
use toml::de::DeTable;

impl Sequential {
    /// Reads a model of built-in layers from the text of a model file, called `file` in messages. `input` and
    /// `classes` are those of the data, where there are any.
    #[track_caller]
    pub fn from_toml(
        text: &str,
        file: &str,
        input: Option<[usize; 3]>,
        classes: Option<usize>,
    ) -> Result<Sequential> {
        Sequential::from_toml_with(text, file, input, classes, &Kinds::default())
    }

    /// The same with layers of these kinds.
    #[track_caller]
    pub fn from_toml_with(
        text: &str,
        file: &str,
        input: Option<[usize; 3]>,
        classes: Option<usize>,
        kinds: &Kinds,
    ) -> Result<Sequential> {
        let source = ModelText { file, text, kinds, classes, line: Location::caller() };
        let table = DeTable::parse(text)
            .map_err(|error| source.error(&error.span().unwrap_or_default(), error.message().trim()))?;
        let mut settings = Settings::new(&source, "a model file", table.get_ref(), 0..0);
        let (given, usual) = (settings.image("input")?, settings.image("usual_input")?);
        let layers = settings.layers("layer")?;
        settings.finish()?;
        let input = match (given, input, usual) {
            (Some((given, span)), Some(input), _) if given != input => {
                let message =
                    format!("the model takes images of {given:?}, and the data has images of {input:?}");
                return Err(source.error(&span, message));
            }
            (Some((given, _)), ..) => given,
            (None, Some(input), _) => input,
            (None, None, Some((usual, _))) => usual,
            (None, None, None) => {
                let message = format!("{file}: add a line 'input = [channels, height, width]'");
                return Err(Error::setting(message));
            }
        };
        if layers.is_empty() {
            return Err(Error::setting(format!("{file}: there are no layers: add some under [[layer]]")));
        }
        let mut model = Sequential::new(input);
        let mut spans = Vec::with_capacity(layers.len());
        for (layer, span) in layers {
            model.chain.push(layer, source.line);
            spans.push(span);
        }
        match model.chain.misfit(model.input) {
            Some((number, error)) => Err(source.error(&spans[number], format!("{error:#}"))),
            None => Ok(model),
        }
    }

    /// The text of a model file that describes this model.
    pub fn to_toml(&self) -> String {
        let mut text = format!("input = {:?}\n", &self.input[..]);
        write_layers(&mut text, "layer", &self.chain);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error about a file with these lines after a good convolution, which takes three lines.
    fn refuse(lines: &str) -> String {
        let text = format!("[[layer]]\nkind = \"conv2d\"\nfilters = 4\n{lines}");
        Sequential::from_toml(&text, "net.toml", Some([1, 8, 8]), Some(10)).unwrap_err().to_string()
    }

    #[test]
    fn mistakes_in_a_file_name_the_line_and_what_is_known() {
        let cases = [
            ("", "net.toml line 1: conv2d needs a line 'kernel = NUMBER'"),
            (
                "kernel = 3\nsize = 3",
                "line 5: conv2d has no setting 'size'; settings: kind, filters, kernel, stride",
            ),
            ("kernel = \"big\"", "line 4: 'kernel' of conv2d must be a whole number from 0 on, not \"big\""),
            ("kernel = -3", "line 4: 'kernel' of conv2d must be a whole number from 0 on, not -3"),
            ("kernel = 3.0", "line 4: 'kernel' of conv2d must be a whole number"),
            ("kernel = 99999999999999999999999", "line 4: 'kernel' of conv2d must be a whole number"),
            ("kernel = 3\nbias = 1", "line 5: 'bias' of conv2d must be true or false, not 1"),
            (
                "kernel = 3\n[[layer]]\nkind = \"convv2d\"",
                "line 6: unknown layer 'convv2d'; layers: avg_pool",
            ),
            ("kernel = 3\n[[layer]]\nkind = 3", "line 6: 'kind' must be the name of a layer in quotes"),
            (
                "kernel = 3\n[[layer]]\nfilters = 3",
                "line 5: a layer needs a line 'kind = …'; layers: avg_pool",
            ),
            ("kernel = 9", "line 1: conv1: conv2d with windows of 9×9"),
            ("kernel = 0", "line 1: conv1: conv2d needs a window and a stride of at least 1"),
            ("kernel = 3\n[[layer]]\nkind = \"dense\"\noutputs = 3", "line 5: fc1: dense takes vectors"),
            (
                "kernel = 3\n[[layer]]\nkind = \"dropout\"\np = 1.5",
                "line 5: dropout1: dropout takes a probability",
            ),
            (
                "kernel = 3\n[[layer]]\nkind = \"dropout\"\np = inf",
                "line 7: 'p' of dropout must be a number, not inf",
            ),
            ("kernel = 3\n[[layer]\n", "line 5: "),
            ("kernel = 3\nkernel = 3", "line 5: duplicate key"),
            ("kernel = 3\nlayers = 3", "line 5: conv2d has no setting 'layers'"),
            (
                "kernel = 3\n[[layer]]\nkind = \"residual\"\n[[layer.body]]\nkind = \"conv2d\"\nfilters = 4\nkernel = 3",
                "line 5: block1: the body makes [4,4,4] of [4,6,6], and the shortcut [4,6,6]",
            ),
            (
                "kernel = 3\n[[layer]]\nkind = \"residual\"\n[[layer.body]]\nkind = \"conv\"",
                "line 8: unknown layer 'conv'; layers: avg_pool",
            ),
            (
                "kernel = 3\n[[layer]]\nkind = \"residual\"\nbody = 3",
                "line 7: 'body' of residual must be layers",
            ),
            ("kernel = 3\npadding = 4294967295", "line 1: conv1: an array of"),
        ];
        for (lines, expected) in cases {
            let error = refuse(lines);
            assert!(error.contains(expected), "{lines}\n{error}\n{expected}");
        }
    }

    #[test]
    fn mistakes_above_the_layers_are_named_too() {
        let read = |text: &str, input, classes| {
            Sequential::from_toml(text, "net.toml", input, classes).unwrap_err().to_string()
        };
        let dense = "\n[[layer]]\nkind = \"flatten\"\n[[layer]]\nkind = \"dense\"\noutputs = \"classes\"";
        assert!(read("", None, None).contains("add a line 'input = [channels, height, width]'"));
        assert!(read("input = [1, 2, 3]", None, None).contains("no layers"));
        assert!(
            read("input = [1, 2]", None, None).contains("line 1: 'input' of a model file must be [channels")
        );
        assert!(
            read("inputs = 3", None, None)
                .contains("no setting 'inputs'; settings: input, usual_input, layer")
        );
        assert!(read("layer = 3", Some([1, 2, 3]), None).contains("'layer' of a model file must be layers"));
        assert!(read("layer = [3]", Some([1, 2, 3]), None).contains("must be a layer with a line 'kind"));
        let error = read(&format!("input = [1, 8, 8]{dense}"), Some([1, 28, 28]), Some(10));
        assert!(
            error.contains("line 1: the model takes images of [1, 8, 8], and the data has images of [1, 28")
        );
        let error = read(&format!("input = [1, 8, 8]{dense}"), None, None);
        assert!(error.contains("line 6: outputs = \"classes\" needs data"), "{error}");
        let wide = "\n[[layer]]\nkind = \"dense\"\noutputs = 4000000000";
        let error = read(&format!("{dense}{wide}{wide}"), Some([1, 8, 8]), Some(10));
        assert!(error.contains("too large"), "{error}");
    }
}
