//! Operations that treat every element, sample or parameter alike.

use crate::case::{Case, Draw, grid};

/// The names of the axes of `..`.
const REST: [&str; 4] = [".0", ".1", ".2", ".3"];

/// Elementwise work on arrays of a random rank; scalars are read by every element.
fn elementwise(
    draw: &mut Draw,
    inputs: &[&'static str],
    scalars: &[&'static str],
    outputs: &[&'static str],
) -> Case {
    let mut extents = Vec::new();
    for _ in 0..draw.number(0, 4) {
        extents.push(draw.size());
    }
    let mut args: Vec<(&'static str, &[usize])> = inputs.iter().map(|&name| (name, &extents[..])).collect();
    args.extend(scalars.iter().map(|&name| (name, &[][..])));
    args.extend(outputs.iter().map(|&name| (name, &extents[..])));
    let mut case = Case::new(&[], outputs.len(), &args);
    match extents[..] {
        [] => element(&mut case, inputs, scalars, outputs, []),
        [a] => grid([a]).for_each(|index| element(&mut case, inputs, scalars, outputs, index)),
        [a, b] => grid([a, b]).for_each(|index| element(&mut case, inputs, scalars, outputs, index)),
        [a, b, c] => grid([a, b, c]).for_each(|index| element(&mut case, inputs, scalars, outputs, index)),
        [a, b, c, d] => {
            grid([a, b, c, d]).for_each(|index| element(&mut case, inputs, scalars, outputs, index))
        }
        _ => unreachable!("ranks go up to 4"),
    }
    case
}

fn element<const R: usize>(
    case: &mut Case,
    inputs: &[&'static str],
    scalars: &[&'static str],
    outputs: &[&'static str],
    index: [usize; R],
) {
    let at: Vec<(&'static str, usize)> = REST.into_iter().zip(index).collect();
    let point = outputs.iter().fold(case.point(&at), |point, name| point.writes(name, index));
    let point = inputs.iter().fold(point, |point, name| point.reads(name, index));
    scalars.iter().fold(point, |point, name| point.reads(name, []));
}

pub fn relu(draw: &mut Draw) -> Case {
    elementwise(draw, &["x"], &[], &["y"])
}

pub fn relu_backward(draw: &mut Draw) -> Case {
    elementwise(draw, &["y", "dy"], &[], &["dx"])
}

pub fn relu_mask(draw: &mut Draw) -> Case {
    elementwise(draw, &["x"], &[], &["y", "mask"])
}

pub fn relu_mask_backward(draw: &mut Draw) -> Case {
    elementwise(draw, &["mask", "dy"], &[], &["dx"])
}

pub fn dropout(draw: &mut Draw) -> Case {
    elementwise(draw, &["x"], &["counter"], &["y"])
}

pub fn dropout_backward(draw: &mut Draw) -> Case {
    elementwise(draw, &["dy"], &["counter"], &["dx"])
}

pub fn add(draw: &mut Draw) -> Case {
    elementwise(draw, &["a", "b"], &[], &["y"])
}

/// An update in place: every element of the state from its own old value, inputs beside it, and scalars.
fn update(
    draw: &mut Draw,
    axis: &'static str,
    inputs: &[&'static str],
    scalars: &[&'static str],
    state: &[&'static str],
) -> Case {
    let extents = [draw.size() * draw.number(1, 4)];
    let mut args: Vec<(&'static str, &[usize])> = inputs.iter().map(|&name| (name, &extents[..])).collect();
    args.extend(scalars.iter().map(|&name| (name, &[][..])));
    args.extend(state.iter().map(|&name| (name, &extents[..])));
    let mut case = Case::new(&[], state.len(), &args);
    for i in 0..extents[0] {
        let point = case.point(&[(axis, i)]);
        let point = inputs.iter().fold(point, |point, name| point.reads(name, [i]));
        let point = scalars.iter().fold(point, |point, name| point.reads(name, []));
        state.iter().fold(point, |point, name| point.reads(name, [i]).writes(name, [i]));
    }
    case
}

pub fn sgd(draw: &mut Draw) -> Case {
    update(draw, "i", &["g"], &["lr"], &["p"])
}

pub fn sgd_momentum(draw: &mut Draw) -> Case {
    update(draw, "i", &["g"], &["lr"], &["p", "v"])
}

pub fn adam(draw: &mut Draw) -> Case {
    update(draw, "i", &["g"], &["lr", "step"], &["p", "m", "v"])
}

pub fn adamw(draw: &mut Draw) -> Case {
    adam(draw)
}

pub fn batch_norm_running(draw: &mut Draw) -> Case {
    update(draw, "c", &["mean", "var"], &[], &["running_mean", "running_var"])
}

pub fn flatten(draw: &mut Draw) -> Case {
    let [n, c, h, w] = [draw.size(), draw.full(), draw.full(), draw.full()];
    let mut case = Case::new(&[h, w], 1, &[("x", &[n, c, h, w]), ("f", &[n, c * h * w])]);
    for [n, c, y, x] in grid([n, c, h, w]) {
        let i = (c * h + y) * w + x;
        case.point(&[("n", n), ("i", i)]).reads("x", [n, c, y, x]).writes("f", [n, i]);
    }
    case
}

pub fn flatten_backward(draw: &mut Draw) -> Case {
    let [n, c, h, w] = [draw.size(), draw.full(), draw.full(), draw.full()];
    let mut case = Case::new(&[h, w], 1, &[("df", &[n, c * h * w]), ("dx", &[n, c, h, w])]);
    for [n, c, y, x] in grid([n, c, h, w]) {
        let at = [("n", n), ("c", c), ("y", y), ("x", x)];
        case.point(&at).reads("df", [n, (c * h + y) * w + x]).writes("dx", [n, c, y, x]);
    }
    case
}

pub fn load(draw: &mut Draw) -> Case {
    let [n, c, h, w, stored] = [draw.size(), draw.size(), draw.size(), draw.size(), draw.size()];
    let mut case =
        Case::new(&[], 1, &[("images", &[stored, c, h, w]), ("index", &[n]), ("x", &[n, c, h, w])]);
    for [n, c, y, x] in grid([n, c, h, w]) {
        let at = [("n", n), ("c", c), ("y", y), ("x", x)];
        let point = case.point(&at).reads("index", [n]).writes("x", [n, c, y, x]);
        // Any of the stored images may be the one.
        (0..stored).fold(point, |point, image| point.reads("images", [image, c, y, x]));
    }
    case
}

pub fn load_labels(draw: &mut Draw) -> Case {
    let [n, stored] = [draw.size(), draw.size()];
    let mut case = Case::new(&[], 1, &[("labels", &[stored]), ("index", &[n]), ("label", &[n])]);
    for n in 0..n {
        let point = case.point(&[("n", n)]).reads("index", [n]).writes("label", [n]);
        (0..stored).fold(point, |point, label| point.reads("labels", [label]));
    }
    case
}
