//! `dahl diff` compares numbers as numbers.

use dahl::tensors::{Tensor, Tensors};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder for the files of a test.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("diff-{name}"));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("created");
        Files(path)
    }

    fn text(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).expect("written");
    }

    fn tensors(&self, name: &str, tensors: &[(&str, Tensor)]) {
        let tensors: Tensors = tensors.iter().map(|(name, tensor)| (*name, tensor.clone())).collect();
        tensors.save(self.0.join(name)).expect("saved");
    }

    /// The exit code and all that was printed.
    fn diff(&self, arguments: &[&str]) -> (i32, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dahl"));
        let output = command.arg("diff").args(arguments).current_dir(&self.0).output().expect("dahl runs");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().expect("not killed"), String::from_utf8(text).expect("text"))
    }

    fn json(&self, arguments: &[&str]) -> (i32, Value) {
        let (code, text) = self.diff(&[arguments, &["--json"]].concat());
        (code, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn singles(shape: &[usize], values: &[f32]) -> Tensor {
    Tensor::new(shape, values.to_vec()).expect("fits")
}

/// A file that NumPy or PyTorch wrote.
fn theirs(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dahl/tests/tensor_files").join(name);
    path.to_str().expect("a path in UTF-8").to_owned()
}

#[test]
fn equal_numbers_are_equal_in_every_format() {
    let files = Files::new("formats");
    for (a, b) in [
        ("version1.npy", "spaces.csv"),
        ("version1.npy", "version3.npy"),
        ("names.csv", "spaces.csv"),
        ("little.npz", "big_deflated.npz"),
    ] {
        let (code, text) = files.diff(&[&theirs(a), &theirs(b)]);
        assert_eq!(code, 0, "{a} {b}: {text}");
        assert!(text.starts_with("all "), "{text}");
    }
    let (code, text) =
        files.diff(&["--tensor", "float16", &theirs("torch.safetensors"), &theirs("names.csv")]);
    assert_eq!((code, text.as_str()), (0, "all 6 numbers of 1 tensor agree (equal numbers)\n"));
    // Extents of 1 do not count against a csv, but among others they do.
    files.tensors("row.safetensors", &[("x", singles(&[1, 6, 1], &[-2.0, -1.0, 0.0, 1.0, 2.0, 3.0]))]);
    assert_eq!(files.diff(&["row.safetensors", &theirs("column.csv")]).0, 0);
    files.tensors("list.safetensors", &[("x", singles(&[6], &[-2.0, -1.0, 0.0, 1.0, 2.0, 3.0]))]);
    let (code, text) = files.diff(&["row.safetensors", "list.safetensors"]);
    assert!(code == 1 && text.contains("x: the shapes differ: [1, 6, 1] and [6]"), "{text}");
}

#[test]
fn differences_are_counted_and_the_first_and_the_worst_are_shown() {
    let files = Files::new("differences");
    files.text("a.csv", "1.0,2.0,3.0\n4.0,5.0,6.0\n");
    files.text("b.csv", "1.0 2.5 3.0\n4.0 9.0 6.001\n");
    let (code, text) = files.diff(&["a.csv", "b.csv"]);
    assert_eq!(code, 1);
    assert!(text.contains("3 of 6 numbers differ (f64, shape [2, 3])"), "{text}");
    assert!(text.contains("first at [0, 1]: 2.0 and 2.5 (5.000e-1 absolute, 2.000e-1 relative, "), "{text}");
    assert!(text.contains("worst at [1, 1]: 5.0 and 9.0 (4.000e0 absolute, "), "{text}");
    assert!(text.ends_with("1 of 1 tensors differ (equal numbers)\n"), "{text}");

    let (code, found) = files.json(&["a.csv", "b.csv", "--abs", "0.01"]);
    assert_eq!(code, 1);
    let tensor = &found["tensors"][0];
    assert_eq!((&found["equal"], &found["n"], &tensor["n_different"]), (&json!(false), &json!(6), &json!(2)));
    assert_eq!(tensor["first"]["index"], json!([0, 1]));
    assert_eq!((&tensor["worst"]["a"], &tensor["worst"]["b"]), (&json!(5.0), &json!(9.0)));
    assert_eq!(tensor["worst"]["distance"]["absolute"], json!(4.0));
    assert_eq!(tensor["shapes"], json!([[2, 3], [2, 3]]));

    for tolerance in [["--abs", "4"], ["--rel", "0.5"], ["--ulp", "9999999999999999"]] {
        let (code, text) = files.diff(&[&["a.csv", "b.csv"][..], &tolerance].concat());
        assert!(code == 0 && text.contains("at most 4.000e0 absolute"), "{tolerance:?}: {text}");
    }
    // Any one of them is enough.
    assert_eq!(files.diff(&["a.csv", "b.csv", "--rel", "0.2", "--abs", "3"]).0, 1);
    assert_eq!(files.diff(&["a.csv", "b.csv", "--rel", "0.2", "--abs", "4"]).0, 0);
}

#[test]
fn steps_are_those_of_the_type() {
    let files = Files::new("steps");
    let x = 0.1f32;
    files.tensors("a.safetensors", &[("x", singles(&[1], &[x]))]);
    files.tensors("b.safetensors", &[("x", singles(&[1], &[x.next_up().next_up()]))]);
    let wide = Tensor::new(&[1], vec![f64::from(x.next_up().next_up())]).expect("fits");
    files.tensors("wide.safetensors", &[("x", wide)]);
    for other in ["b.safetensors", "wide.safetensors"] {
        assert_eq!(files.diff(&["a.safetensors", other, "--ulp", "2"]).0, 0);
        let (code, found) = files.json(&["a.safetensors", other, "--ulp", "1"]);
        assert_eq!((code, &found["tensors"][0]["largest"]["ulps"]), (1, &json!(2)), "{found}");
    }
}

#[test]
fn what_only_one_file_has_is_named() {
    let files = Files::new("missing");
    let one = singles(&[1], &[1.0]);
    files.tensors("a.safetensors", &[("both", one.clone()), ("extra", one.clone()), ("more", one.clone())]);
    files.tensors("b.safetensors", &[("both", one.clone()), ("other", one.clone())]);
    let (code, text) = files.diff(&["a.safetensors", "b.safetensors"]);
    assert_eq!(code, 1);
    assert!(text.contains("only in a.safetensors: extra, more\nonly in b.safetensors: other\n"), "{text}");
    assert!(text.contains("0 of 1 tensors differ, 3 only in one file"), "{text}");
    let (_, found) = files.json(&["a.safetensors", "b.safetensors"]);
    assert_eq!((&found["only_in_a"], &found["only_in_b"]), (&json!(["extra", "more"]), &json!(["other"])));
    assert_eq!(files.diff(&["a.safetensors", "b.safetensors", "--tensor", "both"]).0, 0);
}

#[test]
fn special_numbers_have_their_rules() {
    let files = Files::new("special");
    files.text("a.csv", "nan,inf,0\n");
    files.text("b.csv", "nan,inf,-0.0\n");
    let (code, text) = files.diff(&["a.csv", "b.csv"]);
    assert!(
        code == 1 && text.contains("1 of 3 numbers differ") && text.contains("at [0, 0]: NaN and NaN"),
        "{text}"
    );
    let (code, text) = files.diff(&["a.csv", "b.csv", "--nan-equal"]);
    assert_eq!((code, text.as_str()), (0, "all 3 numbers of 1 tensor agree (equal numbers)\n"));
    let (_, found) = files.json(&["a.csv", "b.csv"]);
    assert_eq!(found["tensors"][0]["first"]["a"], json!("NaN"));
    assert_eq!(found["tensors"][0]["first"]["distance"]["ulps"], Value::Null);
    files.text("c.csv", "1,9e999,0\n");
    files.text("d.csv", "1,-inf,0\n");
    assert_eq!(files.diff(&["c.csv", "d.csv", "--abs", "inf"]).0, 1);
    // Integers beyond the 53 bits of an f64.
    files.text("e.csv", "9007199254740992\n");
    files.text("f.csv", "9007199254740993\n");
    let (code, text) = files.diff(&["e.csv", "f.csv"]);
    assert!(code == 1 && text.contains("9007199254740992 and 9007199254740993 (1.000e0 absolute"), "{text}");
    // Nothing agrees with nothing.
    files.text("empty.csv", "a,b\n");
    assert_eq!(files.diff(&["empty.csv", "empty.csv"]).0, 0);
}

#[test]
fn what_cannot_be_compared_is_an_error() {
    let files = Files::new("errors");
    files.text("good.csv", "1,2\n");
    files.text("bad.csv", "1,2\n3,four\n");
    fs::write(files.0.join("cut.npy"), &fs::read(theirs("version1.npy")).expect("read")[..140])
        .expect("written");
    let several = theirs("little.npz");
    for (arguments, part) in [
        (&["good.csv", "bad.csv"][..], "bad.csv: expected a number in line 2, column 2, but there is 'four'"),
        (&["cut.npy", "good.csv"], "cut.npy: expected 24 bytes for f32 of shape [2,3], but there are 12"),
        (&["good.csv", "missing.npz"], "missing.npz: "),
        (&["good.csv", "."], "this is a folder"),
        (&["good.csv", &several], "add --tensor NAME (b1, empty, f2,"),
        (&["good.csv", &several, "--tensor", "x"], "there is no tensor 'x'; there are: b1, "),
        (&["good.csv", "good.csv", "--rel", "-1"], "a tolerance is 0 or more"),
        (&["good.csv", "good.csv", "--abs", "nan"], "a tolerance is 0 or more"),
        (&["good.csv", "good.csv", "--abs", "x"], "expected a number such as 1e-6"),
        (&["good.csv"], "Usage"),
    ] {
        let (code, text) = files.diff(arguments);
        assert_eq!(code, 2, "{arguments:?}: {text}");
        assert!(text.contains(part), "{arguments:?}: {text}");
        assert!(!text.contains("panicked"), "{text}");
    }
}

#[test]
fn the_help_has_examples_and_exit_codes() {
    let (code, text) = Files::new("help").diff(&["--help"]);
    assert_eq!(code, 0);
    assert!(
        text.contains("Examples:") && text.contains("Exit code:") && text.contains("--nan-equal"),
        "{text}"
    );
}
