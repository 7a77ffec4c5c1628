//! Matrix products and sums over samples or pixels, and what is computed per channel.

use crate::case::{Case, Draw, grid};

pub fn dense(draw: &mut Draw) -> Case {
    let [n, i, o] = [draw.size(), draw.size(), draw.size()];
    let mut case = Case::new(&[], 1, &[("x", &[n, i]), ("w", &[o, i]), ("b", &[o]), ("y", &[n, o])]);
    for [n, o] in grid([n, o]) {
        case.point(&[("n", n), ("o", o)]).reads("b", [o]).writes("y", [n, o]);
        for i in 0..i {
            let point = case.point(&[("n", n), ("o", o), ("i", i)]);
            point.reads("x", [n, i]).reads("w", [o, i]).writes("y", [n, o]);
        }
    }
    case
}

pub fn dense_dx(draw: &mut Draw) -> Case {
    let [n, i, o] = [draw.size(), draw.size(), draw.size()];
    let mut case = Case::new(&[], 1, &[("dy", &[n, o]), ("w", &[o, i]), ("dx", &[n, i])]);
    for [n, o, i] in grid([n, o, i]) {
        let point = case.point(&[("n", n), ("o", o), ("i", i)]);
        point.reads("dy", [n, o]).reads("w", [o, i]).writes("dx", [n, i]);
    }
    case
}

pub fn dense_dw(draw: &mut Draw) -> Case {
    let [n, i, o] = [draw.size(), draw.size(), draw.size()];
    let mut case = Case::new(&[], 1, &[("x", &[n, i]), ("dy", &[n, o]), ("dw", &[o, i])]);
    for [n, o, i] in grid([n, o, i]) {
        let point = case.point(&[("n", n), ("o", o), ("i", i)]);
        point.reads("x", [n, i]).reads("dy", [n, o]).writes("dw", [o, i]);
    }
    case
}

pub fn dense_db(draw: &mut Draw) -> Case {
    let [n, o] = [draw.size(), draw.size()];
    let mut case = Case::new(&[], 1, &[("dy", &[n, o]), ("db", &[o])]);
    for [n, o] in grid([n, o]) {
        case.point(&[("n", n), ("o", o)]).reads("dy", [n, o]).writes("db", [o]);
    }
    case
}

/// Sums over samples and pixels per channel; what is known per channel is read before its loop.
fn channel_sums(
    draw: &mut Draw,
    axis: &'static str,
    images: &[&'static str],
    known: &[&'static str],
    sums: &[&'static str],
) -> Case {
    let [n, channels, h, w] = [draw.size(), draw.size(), draw.size(), draw.size()];
    let (image, channel) = ([n, channels, h, w], [channels]);
    let mut args: Vec<(&'static str, &[usize])> = images.iter().map(|&name| (name, &image[..])).collect();
    args.extend(known.iter().chain(sums).map(|&name| (name, &channel[..])));
    let mut case = Case::new(&[], sums.len(), &args);
    for c in 0..channels {
        known.iter().fold(case.point(&[(axis, c)]), |point, name| point.reads(name, [c]));
        for [n, y, x] in grid([n, h, w]) {
            let point = case.point(&[("n", n), (axis, c), ("y", y), ("x", x)]);
            let point = images.iter().fold(point, |point, name| point.reads(name, [n, c, y, x]));
            sums.iter().fold(point, |point, name| point.writes(name, [c]));
        }
    }
    case
}

/// Every pixel from the same pixel of other images and from what is known about its channel.
fn per_pixel(draw: &mut Draw, images: &[&'static str], known: &[&'static str], output: &'static str) -> Case {
    let [n, channels, h, w] = [draw.size(), draw.size(), draw.size(), draw.size()];
    let (image, channel) = ([n, channels, h, w], [channels]);
    let mut args: Vec<(&'static str, &[usize])> = images.iter().map(|&name| (name, &image[..])).collect();
    args.extend(known.iter().map(|&name| (name, &channel[..])));
    args.push((output, &image));
    let mut case = Case::new(&[], 1, &args);
    for [n, c, y, x] in grid(image) {
        let point = case.point(&[("n", n), ("c", c), ("y", y), ("x", x)]).writes(output, [n, c, y, x]);
        let point = images.iter().fold(point, |point, name| point.reads(name, [n, c, y, x]));
        known.iter().fold(point, |point, name| point.reads(name, [c]));
    }
    case
}

pub fn channel_sum(draw: &mut Draw) -> Case {
    channel_sums(draw, "k", &["dy"], &[], &["db"])
}

pub fn batch_norm_mean(draw: &mut Draw) -> Case {
    channel_sums(draw, "c", &["x"], &[], &["mean"])
}

pub fn batch_norm_square_sum(draw: &mut Draw) -> Case {
    channel_sums(draw, "c", &["x"], &["mean"], &["var"])
}

pub fn batch_norm_backward_sums(draw: &mut Draw) -> Case {
    channel_sums(draw, "c", &["x", "dy"], &["mean", "var"], &["dgamma", "dbeta"])
}

pub fn batch_norm_normalise(draw: &mut Draw) -> Case {
    per_pixel(draw, &["x"], &["mean", "var", "gamma", "beta"], "out")
}

pub fn batch_norm_inference(draw: &mut Draw) -> Case {
    per_pixel(draw, &["x"], &["running_mean", "running_var", "gamma", "beta"], "out")
}

pub fn batch_norm_dx(draw: &mut Draw) -> Case {
    per_pixel(draw, &["x", "dy"], &["mean", "var", "gamma", "dgamma", "dbeta"], "dx")
}
