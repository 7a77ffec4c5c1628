//! Operations on rows of classes: each output needs its whole row.

use crate::case::{Case, Draw, grid};

/// Every element of the output from all elements of its row in every input.
fn whole_rows(draw: &mut Draw, inputs: &[&'static str], output: &'static str) -> Case {
    let [n, classes] = [draw.size(), draw.size()];
    let extents = [n, classes];
    let mut args: Vec<(&'static str, &[usize])> = inputs.iter().map(|&name| (name, &extents[..])).collect();
    args.push((output, &extents));
    let mut case = Case::new(&[], 1, &args);
    for [n, k] in grid(extents) {
        let mut point = case.point(&[("n", n), ("k", k)]).writes(output, [n, k]);
        for j in 0..classes {
            point = inputs.iter().fold(point, |point, name| point.reads(name, [n, j]));
        }
    }
    case
}

pub fn softmax(draw: &mut Draw) -> Case {
    whole_rows(draw, &["x"], "y")
}

pub fn softmax_backward(draw: &mut Draw) -> Case {
    whole_rows(draw, &["y", "dy"], "dx")
}

pub fn softmax_ce(draw: &mut Draw) -> Case {
    let [n, classes] = [draw.size(), draw.size()];
    let mut case = Case::new(
        &[],
        3,
        &[
            ("logits", &[n, classes]),
            ("label", &[n]),
            ("loss", &[]),
            ("correct", &[]),
            ("dlogits", &[n, classes]),
        ],
    );
    for n in 0..n {
        let mut point = case.point(&[("n", n)]).reads("label", [n]).writes("loss", []).writes("correct", []);
        for k in 0..classes {
            point = point.reads("logits", [n, k]).writes("dlogits", [n, k]);
        }
    }
    case
}

pub fn cross_entropy(draw: &mut Draw) -> Case {
    let [n, classes] = [draw.size(), draw.size()];
    let mut case = Case::new(&[], 1, &[("p", &[n, classes]), ("label", &[n]), ("loss", &[])]);
    for n in 0..n {
        let point = case.point(&[("n", n)]).reads("label", [n]).writes("loss", []);
        // Any class may be the label.
        (0..classes).fold(point, |point, k| point.reads("p", [n, k]));
    }
    case
}

pub fn cross_entropy_backward(draw: &mut Draw) -> Case {
    let [n, classes] = [draw.size(), draw.size()];
    let mut case = Case::new(&[], 1, &[("p", &[n, classes]), ("label", &[n]), ("dp", &[n, classes])]);
    for [n, k] in grid([n, classes]) {
        case.point(&[("n", n), ("k", k)]).reads("p", [n, k]).reads("label", [n]).writes("dp", [n, k]);
    }
    case
}

pub fn argmax(draw: &mut Draw) -> Case {
    let [n, classes] = [draw.size(), draw.size()];
    let mut case = Case::new(&[], 1, &[("x", &[n, classes]), ("class", &[n])]);
    for n in 0..n {
        let point = case.point(&[("n", n)]).writes("class", [n]);
        (0..classes).fold(point, |point, k| point.reads("x", [n, k]));
    }
    case
}

pub fn accuracy(draw: &mut Draw) -> Case {
    let [n, classes] = [draw.size(), draw.size()];
    let mut case = Case::new(&[], 1, &[("x", &[n, classes]), ("label", &[n]), ("correct", &[])]);
    for n in 0..n {
        let point = case.point(&[("n", n)]).reads("label", [n]).writes("correct", []);
        (0..classes).fold(point, |point, k| point.reads("x", [n, k]));
    }
    case
}
