//! Model files name this crate's layer, and so do checkpoints.

use dahl::layer::Kinds;
use dahl::prelude::*;
use dahl::train::Checkpoint;
use dahl_outside::{RmsProp, Shapes, kinds};

const TEXT: &str = r#"
[[layer]]
kind = "conv2d"
filters = 4
kernel = 3

[[layer]]
kind = "residual"

[[layer.body]]
kind = "prelu"
initial = 0.125

[[layer]]
kind = "prelu"

[[layer]]
kind = "flatten"

[[layer]]
kind = "dense"
outputs = "classes"
"#;

fn read(text: &str, kinds: &Kinds) -> dahl::Result<Sequential> {
    Sequential::from_toml_with(text, "net.toml", Some([1, 10, 10]), Some(4), kinds)
}

#[test]
fn a_file_is_read_and_written_back() -> dahl::Result<()> {
    let kinds = kinds()?;
    let model = read(TEXT, &kinds)?;
    let names: Vec<String> = model.parameters()?.into_iter().map(|parameter| parameter.name).collect();
    let expected =
        ["conv1.weight", "conv1.bias", "block1.prelu1.weight", "prelu1.weight", "fc1.weight", "fc1.bias"];
    assert_eq!(names, expected);
    let written = model.to_toml();
    assert!(written.contains("[[layer.body]]\nkind = \"prelu\"\ninitial = 0.125\n"), "{written}");
    assert!(written.contains("[[layer]]\nkind = \"prelu\"\n\n"), "{written}");
    let again = Sequential::from_toml_with(&written, "written.toml", None, None, &kinds)?;
    assert_eq!((again.to_toml(), again.parameters()?), (written, model.parameters()?));
    let rows = model.summary()?;
    let row = rows.iter().find(|row| row.name == "prelu1").expect("a row");
    assert_eq!((row.kind, row.n_parameters, row.forward_flops), ("prelu", 4, 256.0));
    // The gradients of the input and of the slopes.
    assert_eq!(row.backward_flops, 3.0 * 256.0);
    Ok(())
}

#[test]
fn mistakes_name_line_and_key() -> dahl::Result<()> {
    let kinds = kinds()?;
    let cases = [
        (
            "initial = 0.125",
            "initial = \"steep\"",
            "line 12: 'initial' of prelu must be a number, not \"steep\"",
        ),
        ("initial = 0.125", "slope = 0.1", "line 12: prelu has no setting 'slope'; settings: kind, initial"),
        ("initial = 0.125", "initial = 2.0", "prelu begins with a slope from -1 to 1, not with 2"),
        ("\"prelu\"\n\n", "\"prelux\"\n\n", "unknown layer 'prelux'; layers: avg_pool"),
    ];
    for (from, to, expected) in cases {
        let error = read(&TEXT.replace(from, to), &kinds).unwrap_err().to_string();
        assert!(error.contains("net.toml line ") && error.contains(expected), "{error}");
    }
    let error = read(&TEXT.replace("\"prelu\"", "\"rule\""), &kinds).unwrap_err().to_string();
    assert!(error.ends_with("softmax, prelu"), "{error}");
    let error = kinds.with(dahl_outside::Prelu::KIND).unwrap_err().to_string();
    assert_eq!(error, "there is a kind of layer 'prelu' already: choose another name");
    Ok(())
}

#[test]
fn a_checkpoint_names_its_layers_and_needs_their_kinds() -> dahl::Result<()> {
    let folder = std::env::temp_dir().join(format!("dahl-outside-kinds-{}", std::process::id()));
    let (data, kinds) = (Shapes::dataset(64), kinds()?);
    let mut model = read(TEXT, &kinds)?;
    let trainer = Trainer::new(&Machine::with_workers(1)).sgd(0.01).optimizer(RmsProp::default());
    trainer.checkpoint(&folder, None).fit(&mut model, &data)?;
    let checkpoint = Checkpoint::load(&folder)?.checkpoint;
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
    assert!(checkpoint.settings["model"].contains("kind = \"prelu\""));

    let loaded = checkpoint.model(&kinds)?;
    assert_eq!((loaded.weights(), loaded.to_toml()), (model.weights(), model.to_toml()));

    let error = checkpoint.model(&Kinds::default()).unwrap_err();
    let text = format!("{error:#}");
    assert!(text.starts_with("the checkpoint is of a model that this program cannot make"), "{text}");
    assert!(
        text.contains("the model of the checkpoint line 12: unknown layer 'prelu'; layers: avg_pool"),
        "{text}"
    );
    Ok(())
}
