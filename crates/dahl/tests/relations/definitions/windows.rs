//! Convolutions and pools.

use crate::case::{Case, Draw, grid};
use dahl_runtime::array::Shape;

/// A window of `k` elements, `d` apart, that slides by `s` over `i` elements with `p` of padding on both
/// ends.
#[derive(Clone, Copy)]
struct Window {
    i: usize,
    k: usize,
    s: usize,
    p: usize,
    d: usize,
}

impl Window {
    fn draw(draw: &mut Draw, k: usize, [s, p, d]: [usize; 3]) -> Self {
        // The smallest input into which one window fits, and a few more.
        let least = (d * (k - 1) + 1).saturating_sub(2 * p).max(1);
        Window { i: least + draw.number(0, 5), k, s, p, d }
    }

    /// PyTorch's output extent.
    fn o(self) -> usize {
        (self.i + 2 * self.p - self.d * (self.k - 1) - 1) / self.s + 1
    }

    /// Where offset `k` of window `o` lies.
    fn at(self, o: usize, k: usize) -> i64 {
        (o * self.s + k * self.d) as i64 - self.p as i64
    }

    /// The same, if it lies inside.
    fn inside(self, o: usize, k: usize) -> Option<usize> {
        usize::try_from(self.at(o, k)).ok().filter(|&i| i < self.i)
    }

    /// The extent of the input of which every element is reached, as of PyTorch's transposed convolution.
    fn exact_input(self) -> i64 {
        ((self.o() - 1) * self.s + self.d * (self.k - 1) + 1) as i64 - 2 * self.p as i64
    }

    /// The largest window with the same input and output.
    fn largest(self) -> usize {
        self.i + 2 * self.p - (self.o() - 1) * self.s
    }
}

/// Two windows, for rows and columns, that share stride, padding and dilation.
fn windows(draw: &mut Draw, d: usize, square: bool) -> (Window, Window) {
    let shared = [draw.number(1, 3), draw.number(0, 2), d];
    let ky = draw.number(1, 3);
    let kx = if square { ky } else { draw.number(1, 3) };
    (Window::draw(draw, ky, shared), Window::draw(draw, kx, shared))
}

/// The shape of an input gradient that is inferred, unless it would be empty.
fn exact_inputs(n: usize, c: usize, y: Window, x: Window) -> Option<Vec<Shape>> {
    let (iy, ix) = (y.exact_input(), x.exact_input());
    (iy > 0 && ix > 0).then(|| vec![Shape::new(&[n, c, iy as usize, ix as usize])])
}

fn conv2d_case(n: usize, c: usize, k: usize, ints: &[usize], y: Window, x: Window) -> Case {
    let mut case = Case::new(
        ints,
        1,
        &[("x", &[n, c, y.i, x.i]), ("w", &[k, c, y.k, x.k]), ("b", &[k]), ("y", &[n, k, y.o(), x.o()])],
    );
    for [n, k, oy, ox] in grid([n, k, y.o(), x.o()]) {
        let at = [("n", n), ("k", k), ("oy", oy), ("ox", ox)];
        case.point(&at).reads("b", [k]).writes("y", [n, k, oy, ox]);
        for [c, ky, kx] in grid([c, y.k, x.k]) {
            let at = [&at[..], &[("c", c), ("ky", ky), ("kx", kx)]].concat();
            case.point(&at)
                .reads("w", [k, c, ky, kx])
                .reads_padded("x", [n as i64, c as i64, y.at(oy, ky), x.at(ox, kx)])
                .writes("y", [n, k, oy, ox]);
        }
    }
    case
}

pub fn conv2d(draw: &mut Draw) -> Case {
    let (n, c, k) = (draw.size(), draw.size(), draw.size());
    let (y, x) = windows(draw, 1, false);
    conv2d_case(n, c, k, &[y.s, y.p], y, x)
}

/// As the convolution; but without channels, nothing would be computed.
pub fn conv2d_relu(draw: &mut Draw) -> Case {
    let (n, c, k) = (draw.size(), draw.number(1, 2), draw.size());
    let (y, x) = windows(draw, 1, false);
    conv2d_case(n, c, k, &[y.s, y.p], y, x)
}

pub fn conv2d_dilated(draw: &mut Draw) -> Case {
    let (n, c, k, d) = (draw.size(), draw.size(), draw.size(), draw.number(1, 3));
    let (y, x) = windows(draw, d, false);
    conv2d_case(n, c, k, &[y.s, d, y.p], y, x)
}

fn conv2d_dx_case(n: usize, c: usize, k: usize, ints: &[usize], y: Window, x: Window) -> Case {
    let mut case = Case::new(
        ints,
        1,
        &[("dy", &[n, k, y.o(), x.o()]), ("w", &[k, c, y.k, x.k]), ("dx", &[n, c, y.i, x.i])],
    );
    case.inferred = exact_inputs(n, c, y, x);
    for [n, c, k, oy, ox, ky, kx] in grid([n, c, k, y.o(), x.o(), y.k, x.k]) {
        if let (Some(iy), Some(ix)) = (y.inside(oy, ky), x.inside(ox, kx)) {
            case.point(&[("n", n), ("c", c), ("k", k), ("iy", iy), ("ix", ix)])
                .reads("dy", [n, k, oy, ox])
                .reads("w", [k, c, ky, kx])
                .writes("dx", [n, c, iy, ix]);
        }
    }
    case
}

pub fn conv2d_dx(draw: &mut Draw) -> Case {
    let (n, c, k) = (draw.size(), draw.size(), draw.size());
    let (y, x) = windows(draw, 1, false);
    conv2d_dx_case(n, c, k, &[y.s, y.p], y, x)
}

pub fn relu_conv2d_dx(draw: &mut Draw) -> Case {
    let (n, c, k) = (draw.size(), draw.size(), draw.number(1, 2));
    let (y, x) = windows(draw, 1, false);
    let input = [n, c, y.i, x.i];
    let mut case = Case::new(
        &[y.s, y.p],
        1,
        &[("dy", &[n, k, y.o(), x.o()]), ("w", &[k, c, y.k, x.k]), ("y", &input), ("dx", &input)],
    );
    for [n, c, k, oy, ox, ky, kx] in grid([n, c, k, y.o(), x.o(), y.k, x.k]) {
        if let (Some(iy), Some(ix)) = (y.inside(oy, ky), x.inside(ox, kx)) {
            case.point(&[("n", n), ("c", c), ("k", k), ("iy", iy), ("ix", ix)])
                .reads("dy", [n, k, oy, ox])
                .reads("w", [k, c, ky, kx])
                .reads("y", [n, c, iy, ix])
                .writes("dx", [n, c, iy, ix]);
        }
    }
    case
}

pub fn conv2d_dilated_dx(draw: &mut Draw) -> Case {
    let (n, c, k, d) = (draw.size(), draw.size(), draw.size(), draw.number(1, 3));
    let (y, x) = windows(draw, d, false);
    conv2d_dx_case(n, c, k, &[y.s, d, y.p], y, x)
}

pub fn conv2d_dw(draw: &mut Draw) -> Case {
    let (n, c, k) = (draw.size(), draw.size(), draw.size());
    let (y, x) = windows(draw, 1, false);
    let mut case = Case::new(
        &[y.s, y.p],
        1,
        &[("x", &[n, c, y.i, x.i]), ("dy", &[n, k, y.o(), x.o()]), ("dw", &[k, c, y.k, x.k])],
    );
    case.inferred = Some(vec![Shape::new(&[k, c, y.largest(), x.largest()])]);
    for [n, c, k, oy, ox, ky, kx] in grid([n, c, k, y.o(), x.o(), y.k, x.k]) {
        case.point(&[("n", n), ("c", c), ("k", k), ("oy", oy), ("ox", ox), ("ky", ky), ("kx", kx)])
            .reads("dy", [n, k, oy, ox])
            .reads_padded("x", [n as i64, c as i64, y.at(oy, ky), x.at(ox, kx)])
            .writes("dw", [k, c, ky, kx]);
    }
    case
}

fn pool(draw: &mut Draw, outputs: &[&'static str]) -> Case {
    let (n, c) = (draw.size(), draw.size());
    let (y, x) = windows(draw, 1, true);
    let out = [n, c, y.o(), x.o()];
    let input = [n, c, y.i, x.i];
    let mut args: Vec<(&'static str, &[usize])> = vec![("x", &input)];
    args.extend(outputs.iter().map(|&name| (name, &out[..])));
    let mut case = Case::new(&[y.s, y.p, y.k], outputs.len(), &args);
    for [n, c, oy, ox, ky, kx] in grid([n, c, y.o(), x.o(), y.k, x.k]) {
        let at = [("n", n), ("c", c), ("oy", oy), ("ox", ox), ("ky", ky), ("kx", kx)];
        let index = [n as i64, c as i64, y.at(oy, ky), x.at(ox, kx)];
        let point = case.point(&at).reads_padded("x", index);
        outputs.iter().fold(point, |point, name| point.writes(name, [n, c, oy, ox]));
    }
    case
}

pub fn max_pool(draw: &mut Draw) -> Case {
    pool(draw, &["y", "arg"])
}

pub fn avg_pool(draw: &mut Draw) -> Case {
    pool(draw, &["y"])
}

fn pool_backward(draw: &mut Draw, inputs: &[&'static str]) -> Case {
    let (n, c) = (draw.size(), draw.size());
    let (y, x) = windows(draw, 1, true);
    let out = [n, c, y.o(), x.o()];
    let input = [n, c, y.i, x.i];
    let mut args: Vec<(&'static str, &[usize])> = inputs.iter().map(|&name| (name, &out[..])).collect();
    args.push(("dx", &input));
    let mut case = Case::new(&[y.s, y.p, y.k], 1, &args);
    case.inferred = exact_inputs(n, c, y, x);
    // Which element of a window was the largest depends on data, so every one may be written.
    for [n, c, oy, ox, ky, kx] in grid([n, c, y.o(), x.o(), y.k, x.k]) {
        if let (Some(iy), Some(ix)) = (y.inside(oy, ky), x.inside(ox, kx)) {
            let point =
                case.point(&[("n", n), ("c", c), ("iy", iy), ("ix", ix)]).writes("dx", [n, c, iy, ix]);
            inputs.iter().fold(point, |point, name| point.reads(name, [n, c, oy, ox]));
        }
    }
    case
}

pub fn max_pool_backward(draw: &mut Draw) -> Case {
    pool_backward(draw, &["arg", "dy"])
}

pub fn avg_pool_backward(draw: &mut Draw) -> Case {
    pool_backward(draw, &["dy"])
}

/// A convolution followed by a pool without padding.
struct Fused {
    y: Window,
    x: Window,
    pool_y: Window,
    pool_x: Window,
}

impl Fused {
    fn draw(draw: &mut Draw) -> Self {
        let (t, q) = (draw.number(1, 3), draw.number(1, 2));
        let (mut y, mut x) = windows(draw, 1, false);
        // Large enough that the convolution yields at least one pool window.
        for window in [&mut y, &mut x] {
            while window.o() < q {
                window.i += 1;
            }
        }
        let over = |window: Window| Window { i: window.o(), k: q, s: t, p: 0, d: 1 };
        Fused { y, x, pool_y: over(y), pool_x: over(x) }
    }

    fn ints(&self) -> [usize; 4] {
        [self.y.s, self.y.p, self.pool_y.s, self.pool_y.k]
    }
}

pub fn conv2d_relu_max_pool(draw: &mut Draw) -> Case {
    let (n, c, k) = (draw.number(0, 2), draw.number(1, 2), draw.number(0, 2));
    let fused = Fused::draw(draw);
    let Fused { y, x, pool_y, pool_x } = &fused;
    let out = [n, k, pool_y.o(), pool_x.o()];
    let mut case = Case::new(
        &fused.ints(),
        2,
        &[("x", &[n, c, y.i, x.i]), ("w", &[k, c, y.k, x.k]), ("b", &[k]), ("y", &out), ("arg", &out)],
    );
    for [n, k, py, px, qy, qx, c, ky, kx] in grid([n, k, out[2], out[3], pool_y.k, pool_x.k, c, y.k, x.k]) {
        let oy = pool_y.inside(py, qy).expect("pools have no padding");
        let ox = pool_x.inside(px, qx).expect("pools have no padding");
        case.point(&[("n", n), ("k", k), ("py", py), ("px", px)])
            .reads("b", [k])
            .reads("w", [k, c, ky, kx])
            .reads_padded("x", [n as i64, c as i64, y.at(oy, ky), x.at(ox, kx)])
            .writes("y", [n, k, py, px])
            .writes("arg", [n, k, py, px]);
    }
    case
}

pub fn conv2d_relu_max_pool_dw(draw: &mut Draw) -> Case {
    let (n, c, k) = (draw.number(0, 2), draw.number(0, 2), draw.number(0, 2));
    let fused = Fused::draw(draw);
    let Fused { y, x, pool_y, pool_x } = &fused;
    let out = [n, k, pool_y.o(), pool_x.o()];
    let mut case = Case::new(
        &fused.ints(),
        2,
        &[("x", &[n, c, y.i, x.i]), ("dy", &out), ("arg", &out), ("dw", &[k, c, y.k, x.k]), ("db", &[k])],
    );
    // Inference takes the extent in between to be exactly what the pools reach, and so the window to be
    // larger.
    let largest =
        |conv: Window, pool: Window| conv.i + 2 * conv.p - (pool.exact_input() as usize - 1) * conv.s;
    let dw = Shape::new(&[k, c, largest(*y, *pool_y), largest(*x, *pool_x)]);
    case.inferred = Some(vec![dw, Shape::new(&[k])]);
    for [n, k, py, px] in grid([n, k, out[2], out[3]]) {
        case.point(&[("n", n), ("k", k), ("py", py), ("px", px)])
            .reads("dy", [n, k, py, px])
            .reads("arg", [n, k, py, px])
            .writes("db", [k]);
    }
    // Which position of a pool window was the largest depends on data, so every one may contribute.
    for [n, k, c, py, px, qy, qx, ky, kx] in grid([n, k, c, out[2], out[3], pool_y.k, pool_x.k, y.k, x.k]) {
        let oy = pool_y.inside(py, qy).expect("pools have no padding");
        let ox = pool_x.inside(px, qx).expect("pools have no padding");
        let at = [("n", n), ("k", k), ("c", c), ("py", py), ("px", px), ("ky", ky), ("kx", kx)];
        case.point(&[&at[..], &[("qy", qy), ("qx", qx)]].concat())
            .reads("dy", [n, k, py, px])
            .reads("arg", [n, k, py, px])
            .reads_padded("x", [n as i64, c as i64, y.at(oy, ky), x.at(ox, kx)])
            .writes("dw", [k, c, ky, kx]);
    }
    case
}
