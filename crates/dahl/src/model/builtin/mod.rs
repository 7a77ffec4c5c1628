//! Models by name: model files that come with the program.

use super::Sequential;
use crate::error::{Error, Result};

/// A model that comes with the program.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// Its model file.
    pub toml: &'static str,
}

/// To add a model, add its file and its line here.
pub(super) const BUILTIN: &[Builtin] = &[
    Builtin {
        name: "seed",
        about: "one convolution with 8 kernels, ReLU, 2×2 maximum, dense: quick to train",
        toml: include_str!("seed.toml"),
    },
    Builtin {
        name: "lenet5",
        about: "two convolutions and three dense layers, for 28×28 images",
        toml: include_str!("lenet5.toml"),
    },
    Builtin {
        name: "vggish",
        about: "six convolutions with 32 to 128 channels and two dense layers, for 32×32 images",
        toml: include_str!("vggish.toml"),
    },
    Builtin {
        name: "resnet8",
        about: "three residual blocks with batch normalisation, for 32×32 images",
        toml: include_str!("resnet8.toml"),
    },
    Builtin {
        name: "mlp",
        about: "three dense layers with dropout, for small images",
        toml: include_str!("mlp.toml"),
    },
];

impl Builtin {
    /// The one of this name.
    #[track_caller]
    pub fn named(name: &str) -> Result<&'static Builtin> {
        BUILTIN.iter().find(|builtin| builtin.name == name).ok_or_else(|| {
            let names: Vec<&str> = BUILTIN.iter().map(|builtin| builtin.name).collect();
            Error::setting(format!(
                "there is no model '{name}': use one of {}, or a model file that ends in .toml",
                names.join(", ")
            ))
        })
    }

    /// The model, for inputs of this shape (where that is left open, the usual one) and this many classes.
    #[track_caller]
    pub fn model(&self, input: Option<[usize; 3]>, classes: usize) -> Result<Sequential> {
        Sequential::from_toml(self.toml, &format!("model {}", self.name), input, Some(classes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builtin(name: &str, input: [usize; 3], classes: usize) -> Result<Sequential> {
        Sequential::builtin(name, input, classes)
    }

    fn example(name: &str) -> Sequential {
        Builtin::named(name).unwrap().model(None, 10).unwrap()
    }

    fn shapes(name: &str) -> Vec<(String, Vec<usize>)> {
        let parameters = example(name).parameters().unwrap();
        parameters.into_iter().map(|p| (p.name, p.parameter.shape.to_vec())).collect()
    }

    #[test]
    fn every_model_says_which_images_it_is_usually_shown() {
        let inputs: Vec<Vec<usize>> =
            BUILTIN.iter().map(|builtin| example(builtin.name).input().to_vec()).collect();
        let (grey, coloured) = (vec![1, 28, 28], vec![3, 32, 32]);
        assert_eq!(inputs, [&grey, &grey, &coloured, &coloured, &grey].map(Vec::clone));
        // Data says more.
        assert_eq!(builtin("mlp", [1, 8, 8], 10).unwrap().input()[..], [1, 8, 8]);
    }

    #[test]
    fn every_model_is_the_same_after_a_round_trip_through_a_file() {
        for Builtin { name, .. } in BUILTIN {
            let model = example(name);
            let text = model.to_toml();
            let again = Sequential::from_toml(&text, "round trip", None, None).unwrap();
            assert_eq!(again.to_toml(), text, "{name}");
            assert_eq!(again.parameters().unwrap(), model.parameters().unwrap(), "{name}");
            assert_eq!(again.buffers().unwrap(), model.buffers().unwrap(), "{name}");
            assert_eq!(again.shapes().unwrap(), model.shapes().unwrap(), "{name}");
        }
    }

    #[test]
    fn every_file_of_the_folder_is_listed() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/model/builtin");
        for entry in std::fs::read_dir(folder).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            if let Some(name) = file.strip_suffix(".toml") {
                assert!(BUILTIN.iter().any(|builtin| builtin.name == name), "{name} is not listed");
            }
        }
    }

    #[test]
    fn seed_is_the_model_of_the_same_name_in_rust() {
        assert_eq!(example("seed").to_toml(), Sequential::seed([1, 28, 28], 10).to_toml());
    }

    #[test]
    fn models_have_the_parameters_of_their_pytorch_twins() {
        let lenet: Vec<(&str, &[usize])> = vec![
            ("conv1.weight", &[6, 1, 5, 5]),
            ("conv1.bias", &[6]),
            ("conv2.weight", &[16, 6, 5, 5]),
            ("conv2.bias", &[16]),
            ("fc1.weight", &[120, 400]),
            ("fc1.bias", &[120]),
            ("fc2.weight", &[84, 120]),
            ("fc2.bias", &[84]),
            ("fc3.weight", &[10, 84]),
            ("fc3.bias", &[10]),
        ];
        let lenet: Vec<(String, Vec<usize>)> =
            lenet.into_iter().map(|(name, shape)| (name.to_string(), shape.to_vec())).collect();
        assert_eq!(shapes("lenet5"), lenet);
        let vggish = shapes("vggish");
        assert_eq!(vggish[10], ("conv6.weight".to_string(), vec![128, 128, 3, 3]));
        assert_eq!(vggish[12], ("fc1.weight".to_string(), vec![256, 2048]));
        assert_eq!(shapes("mlp")[0], ("fc1.weight".to_string(), vec![512, 784]));
    }

    #[test]
    fn resnet8_has_blocks_with_shortcuts_where_shapes_change() {
        let names: Vec<String> = shapes("resnet8").into_iter().map(|(name, _)| name).collect();
        let block = |i: usize| {
            let layers = ["conv1.weight", "bn1.weight", "bn1.bias", "conv2.weight", "bn2.weight", "bn2.bias"];
            let shortcut = ["shortcut.conv1.weight", "shortcut.bn1.weight", "shortcut.bn1.bias"];
            let shortcut = if i == 1 { &shortcut[..0] } else { &shortcut };
            layers.iter().chain(shortcut).map(|name| format!("block{i}.{name}")).collect::<Vec<_>>()
        };
        let first = ["conv1.weight", "bn1.weight", "bn1.bias"].map(String::from).to_vec();
        let last = ["fc1.weight", "fc1.bias"].map(String::from).to_vec();
        assert_eq!(names, [first, block(1), block(2), block(3), last].concat());
        let model = example("resnet8");
        let buffers: Vec<String> = model.buffers().unwrap().into_iter().map(|b| b.name).collect();
        assert_eq!(buffers[..2], ["bn1.running_mean", "bn1.running_var"]);
        assert!(buffers.contains(&"block2.shortcut.bn1.running_var".to_string()));
        let convolutions =
            16 * 27 + 2 * 16 * 144 + 32 * 144 + 32 * 288 + 32 * 16 + 64 * 288 + 64 * 576 + 64 * 32;
        let norms = 2 * (16 + 2 * 16 + 3 * 32 + 3 * 64);
        assert_eq!(model.n_weights().unwrap(), convolutions + norms + 640 + 10);
        let mut model = model;
        model.initialise(1).unwrap();
        assert_eq!(model.weights().unwrap()[16 * 27..16 * 27 + 32], [[1.0; 16], [0.0; 16]].concat());
        assert_eq!(model.statistics().unwrap()[..32], [[0.0; 16], [1.0; 16]].concat());
    }

    #[test]
    fn a_model_takes_any_input_that_fits_and_any_number_of_classes() {
        assert_eq!(builtin("resnet8", [1, 28, 20], 3).unwrap().classes().unwrap(), 3);
        assert_eq!(builtin("mlp", [1, 8, 8], 7).unwrap().classes().unwrap(), 7);
        let error = builtin("lenet5", [1, 4, 4], 10).unwrap_err().to_string();
        assert!(error.contains("model lenet5 line 17: conv2: conv2d with windows of 5×5"), "{error}");
        let error = builtin("lenet", [1, 28, 28], 10).unwrap_err().to_string();
        assert!(error.contains("no model 'lenet'") && error.contains("resnet8"), "{error}");
    }
}
