//! What is trained: the first line that every program gets.

use anyhow::{Context, Result};
use dahl_runtime::array::Dtype;
use serde_json::{Value, json};

/// A step, and what it takes to train it elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub model: String,
    /// Channels, height and width of the images.
    pub shape: [usize; 3],
    pub classes: usize,
    /// How many images there are to take batches from.
    pub images: usize,
    pub batch: usize,
    /// Workers of dahl, threads of others, and the cores that either may use.
    pub workers: usize,
    pub dtype: Dtype,
    /// How dahl cuts the step.
    pub cut: String,
}

impl Settings {
    /// The network and the images that it is shown.
    pub fn about(&self) -> String {
        let [channels, height, width] = self.shape;
        format!("{} on {channels}x{height}x{width}", self.model)
    }

    /// As programs read it. Nobody learns anything: weights that change for thousands of steps would end as
    /// infinities, or as numbers so small that they take longer.
    pub fn to_json(&self) -> Value {
        json!({
            "model": self.model, "shape": self.shape, "classes": self.classes, "images": self.images, "batch": self.batch,
            "workers": self.workers, "dtype": self.dtype.to_string(), "cut": self.cut, "lr": 0.0,
        })
    }

    /// What [`Settings::to_json`] wrote.
    pub fn from_json(value: &Value) -> Result<Settings> {
        let text = |key: &str| value[key].as_str().with_context(|| format!("expected a text '{key}'"));
        let number = |value: &Value| value.as_u64().and_then(|number| usize::try_from(number).ok());
        let field = |key: &str| number(&value[key]).with_context(|| format!("expected a number '{key}'"));
        let shape = value["shape"].as_array().and_then(|extents| {
            let extents: Option<Vec<usize>> = extents.iter().map(number).collect();
            <[usize; 3]>::try_from(extents?).ok()
        });
        let dtypes = [Dtype::F32, Dtype::F64];
        let name = text("dtype")?;
        Ok(Settings {
            model: text("model")?.to_string(),
            shape: shape.context("expected three numbers 'shape'")?,
            classes: field("classes")?,
            images: field("images")?,
            batch: field("batch")?,
            workers: field("workers")?,
            dtype: dtypes
                .into_iter()
                .find(|dtype| dtype.to_string() == name)
                .context("expected f32 or f64")?,
            cut: text("cut")?.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read_and_nothing_less() {
        let settings = Settings {
            model: "seed".into(),
            shape: [1, 28, 27],
            classes: 10,
            images: 100,
            batch: 64,
            workers: 2,
            dtype: Dtype::F64,
            cut: "n=16".into(),
        };
        assert_eq!(Settings::from_json(&settings.to_json()).unwrap(), settings);
        for key in ["model", "shape", "classes", "images", "batch", "workers", "dtype", "cut"] {
            let mut json = settings.to_json();
            json[key] = Value::Null;
            assert!(Settings::from_json(&json).is_err(), "{key}");
        }
    }
}
