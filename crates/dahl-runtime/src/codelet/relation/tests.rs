//! Examples with known answers; the `relations` test of the `dahl` crate checks every operation on random
//! shapes.

use super::*;
use crate::error::ErrorKind;
use crate::shape::{Region, Shape};
use std::ops::Range;

const CONV: &str = "x[n,c,iy,ix]?0 w[k,c,ky,kx] b[k] -> y[n,k,oy,ox] += where iy = oy*s+ky-p, ix = ox*s+kx-p";
const CONV_DX: &str = "dy[n,k,oy,ox] w[k,c,ky,kx] -> dx[n,c,iy,ix] += where iy = oy*s+ky-p, ix = ox*s+kx-p";
const POOL: &str = "x[n,c,iy,ix]?-inf -> y[n,c,oy,ox] max= arg[n,c,oy,ox] \
                    where iy = oy*s+ky-p, ix = ox*s+kx-p, ky<k, kx<k";

fn parse(line: &str) -> Relation {
    Relation::parse(line).unwrap()
}

fn shapes(all: &[&[usize]]) -> Vec<Shape> {
    all.iter().map(|extents| Shape::new(extents)).collect()
}

fn bind(line: &str, all: &[&[usize]], ints: &[i64]) -> Bound {
    parse(line).bind(&shapes(all), ints).unwrap()
}

/// The names of the axes with this kind of split.
fn axes_that(bound: &Bound, split: Split) -> Vec<&str> {
    bound.axes().iter().filter(|axis| axis.split == split).map(|axis| axis.name.as_str()).collect()
}

#[test]
fn arguments_come_in_call_order_and_parameters_by_first_mention() {
    let relation = parse("g[i] p[i] lr[] v[i] -> v[i] p[i]");
    let args: Vec<(&str, Mode)> = relation.args().iter().map(|arg| (arg.name.as_str(), arg.mode)).collect();
    let expected = [("g", Mode::Read), ("lr", Mode::Read), ("v", Mode::ReadWrite), ("p", Mode::ReadWrite)];
    assert_eq!(args, expected);
    assert_eq!(relation.n_inputs(), 2);

    let relation = parse(POOL);
    assert_eq!(relation.params(), ["s", "p", "k"]);
    assert_eq!(relation.args()[0].outside, Outside::NegInf);
    assert_eq!(relation.args()[1].accumulate, Some(Accumulate::Max));
    assert_eq!(relation.args()[2].accumulate, None);
    assert_eq!(parse("x[n]?skip -> y[n] min=").args()[0].outside, Outside::Skip);
}

#[test]
fn a_mistake_in_the_line_is_pointed_at() {
    let mistakes = [
        ("", "column 1 of ``: expected `->`, found the end of the line"),
        ("x[n -> y[n]", "column 5 of `x[n -> y[n]`: expected `,` or `]`, found `->`"),
        ("x[n] ->", "column 8 of `x[n] ->`: expected an output, as in `y[n]`, found the end of the line"),
        ("x[n,] -> y[n]", "column 5 of `x[n,] -> y[n]`: expected an axis, `*` or `..`, found `]`"),
        ("x[n]?1 -> y[n]", "column 6 of `x[n]?1 -> y[n]`: expected `0`, `-inf` or `skip`, found `1`"),
        ("x[n] += -> y[n]", "column 6 of `x[n] += -> y[n]`: x is an input; only outputs accumulate"),
        (
            "x[n] -> y[n] where",
            "column 19 of `x[n] -> y[n] where`: expected an axis, found the end of the line",
        ),
        ("x[n] -> y[n] ; z", "column 14 of `x[n] -> y[n] ; z`: `;` has no meaning in an index relation"),
        ("é[n] -> y[n]", "column 1 of `é[n] -> y[n]`: `é` has no meaning in an index relation"),
        ("x[n] x[i] -> y[n]", "column 6 of `x[n] x[i] -> y[n]`: x is named twice on the same side"),
        ("x[n,n] -> y[n]", "column 5 of `x[n,n] -> y[n]`: n indexes x twice"),
        (
            "p[i] -> p[n]",
            "column 9 of `p[i] -> p[n]`: p is read and written, but not indexed alike on both sides",
        ),
        (
            "p[i] -> p[i] +=",
            "column 14 of `p[i] -> p[i] +=`: p is read and written, so it cannot also accumulate",
        ),
        ("x[n] -> y[*]", "column 11 of `x[n] -> y[*]`: y is an output, which data cannot index"),
        ("x[n] -> y[n]?0", "column 13 of `x[n] -> y[n]?0`: y is an output, and nothing is written outside"),
        (
            "x[i] -> y[o] where i = o*k, k<3",
            "column 26 of `x[i] -> y[o] where i = o*k, k<3`: o and k are axes; multiply by numbers or parameters only",
        ),
        (
            "x[i] -> y[o] where i = s-o",
            "column 26 of `x[i] -> y[o] where i = s-o`: o is subtracted; turn the equation round so that axes are added",
        ),
        (
            "x[i] -> y[o] where i = o*0",
            "column 24 of `x[i] -> y[o] where i = o*0`: the coefficient of o is 0; expected at least 1",
        ),
        (
            "x[i] -> y[o] where i = o+o",
            "column 26 of `x[i] -> y[o] where i = o+o`: o occurs twice in one equation",
        ),
        (
            "x[i] -> y[o] where i = o, i = o*s",
            "column 27 of `x[i] -> y[o] where i = o, i = o*s`: i is defined by a second equation",
        ),
        (
            "x[i] -> y[o] where i = o, o = i",
            "column 27 of `x[i] -> y[o] where i = o, o = i`: o depends on itself",
        ),
        (
            "x[i] -> y[o] where i<o",
            "column 22 of `x[i] -> y[o] where i<o`: expected a parameter or a number as bound, but o is an axis",
        ),
        ("x[i] -> y[o] where i<k, i<k", "column 25 of `x[i] -> y[o] where i<k, i<k`: i is bounded twice"),
        (
            "x[i] -> y[o] where i = 7o",
            "column 24 of `x[i] -> y[o] where i = 7o`: expected a whole number, found `7o`",
        ),
        (
            "x[i] -> y[o] where i = p",
            "column 20 of `x[i] -> y[o] where i = p`: expected an axis on the right of `i = p`; write `i<1` for a fixed index",
        ),
    ];
    for (line, sentence) in mistakes {
        let error = Relation::parse(line).expect_err(line);
        assert_eq!(error.kind(), ErrorKind::Relation);
        assert_eq!(error.message(), sentence);
    }
}

#[test]
fn outputs_and_accumulation_decide_what_may_be_split() {
    let bound = bind(CONV, &[&[2, 3, 8, 9], &[4, 3, 3, 2], &[4], &[2, 4, 8, 10]], &[1, 1]);
    assert_eq!(axes_that(&bound, Split::Free), ["n", "k", "oy", "ox"]);
    assert_eq!(axes_that(&bound, Split::Reduce), ["c", "ky", "kx"]);
    assert_eq!(axes_that(&bound, Split::Never), ["iy", "ix"]);
    assert_eq!(bound.points(), 2 * 4 * 8 * 10 * 3 * 3 * 2);

    let bound = bind(CONV_DX, &[&[2, 4, 4, 4], &[4, 3, 3, 3], &[2, 3, 8, 8]], &[2, 1]);
    assert_eq!(axes_that(&bound, Split::Free), ["n", "c", "iy", "ix"]);
    assert_eq!(axes_that(&bound, Split::Reduce), ["k"]);
    assert_eq!(axes_that(&bound, Split::Never), ["oy", "ox", "ky", "kx"]);

    // The place of a maximum does not accumulate, so its windows stay whole.
    let bound = bind(POOL, &[&[2, 3, 8, 8], &[2, 3, 4, 4], &[2, 3, 4, 4]], &[2, 0, 2]);
    assert_eq!(axes_that(&bound, Split::Free), ["n", "c", "oy", "ox"]);
    assert_eq!(axes_that(&bound, Split::Reduce), [""; 0]);

    let line = "logits[n,k!] label[n] -> loss[] += correct[] += dlogits[n,k!]";
    let bound = bind(line, &[&[5, 10], &[5], &[], &[], &[5, 10]], &[]);
    assert_eq!(axes_that(&bound, Split::Reduce), ["n"]);
    assert_eq!(axes_that(&bound, Split::Never), ["k"]);

    let bound = bind("x[..] -> y[..]", &[&[5, 10], &[5, 10]], &[]);
    assert_eq!(axes_that(&bound, Split::Free), [".0", ".1"]);

    // An extent in between belongs to no argument, and follows from the outputs.
    let line = "x[n,iy]?0 w[ky] -> y[n,py] where iy = oy*s+ky-p, oy = py*t+qy, qy<q";
    let bound = bind(line, &[&[1, 8], &[3], &[1, 4]], &[1, 1, 2, 2]);
    assert_eq!(axes_that(&bound, Split::Free), ["n", "py"]);
    assert_eq!(bound.axes()[bound.axis("oy").unwrap()].extent, 8);

    // An axis that indexes no argument stays whole, also where the output could be summed up.
    let line = "x[n,iy] -> y[n] += where iy = py*t+qy, qy<q, py<r";
    let bound = bind(line, &[&[1, 8], &[1]], &[2, 2, 4]);
    assert_eq!(axes_that(&bound, Split::Never), ["iy", "qy", "py"]);
}

#[test]
fn a_tile_of_a_padded_convolution_reads_its_halo() {
    let bound = bind(CONV, &[&[2, 3, 8, 8], &[4, 3, 3, 3], &[4], &[2, 4, 8, 8]], &[1, 1]);
    let tile = Tile::whole(&bound).with(bound.axis("oy").unwrap(), 0..4).with(bound.axis("k").unwrap(), 2..3);
    let regions = bound.regions(&tile);
    assert_eq!(regions[0], Region::new(&[0..2, 0..3, 0..5, 0..8]));
    assert_eq!(regions[1], Region::new(&[2..3, 0..3, 0..3, 0..3]));
    assert_eq!(regions[3], Region::new(&[0..2, 2..3, 0..4, 0..8]));
    assert_eq!(bound.points_in(&tile) * 8, bound.points());
}

#[test]
fn windows_with_gaps_read_only_what_they_touch() {
    // With one-element windows three apart, the first inside is at 2 and the last at 5.
    let bound = bind("x[iy]?0 w[ky] -> y[oy] += where iy = oy*s+ky-p", &[&[7], &[1], &[3]], &[3, 1]);
    let regions = bound.regions(&Tile::whole(&bound));
    assert_eq!(regions[0], Region::new(&[Range { start: 2, end: 6 }]));
    // A tile whose only window lies in the padding reads nothing.
    let regions = bound.regions(&Tile::whole(&bound).with(bound.axis("oy").unwrap(), 0..1));
    assert!(regions[0].is_empty());
    assert!(!regions[1].is_empty());
}

#[test]
fn empty_axes_leave_what_starts_an_output() {
    // Without input channels, a convolution still writes its bias.
    let bound = bind(CONV, &[&[2, 0, 3, 3], &[4, 0, 3, 3], &[4], &[2, 4, 1, 1]], &[1, 0]);
    let regions = bound.regions(&Tile::whole(&bound));
    assert!(regions[0].is_empty() && regions[1].is_empty());
    assert_eq!(regions[2].len(), 4);
    assert_eq!(regions[3].len(), 8);
    // Without samples, nothing is to be done.
    let bound = bind(CONV, &[&[0, 2, 3, 3], &[4, 2, 3, 3], &[4], &[0, 4, 1, 1]], &[1, 0]);
    assert!(bound.regions(&Tile::whole(&bound)).iter().all(Region::is_empty));
    assert_eq!(bound.points(), 0);
}

#[test]
fn shapes_that_do_not_fit_are_refused_with_a_sentence() {
    type Given<'a> = (&'a str, &'a [&'a [usize]], &'a [i64], &'a str);
    let x: &[usize] = &[2, 3, 8, 8];
    let cases: [Given<'_>; 12] = [
        ("x[n,i] -> y[n]", &[&[2, 3]], &[], "expected 2 arguments (x[n,i] y[n]), but 1 shapes were given"),
        ("x[n,i] -> y[n]", &[&[2], &[2]], &[], "x[n,i] was given the shape [2], expected 2 dimensions"),
        (
            "x[n,i] w[o,i] -> y[n,o] +=",
            &[&[2, 3], &[4, 5], &[2, 4]],
            &[],
            "w[o,i] was given the shape [4,5], where i is 5, expected 3 as in x[n,i] of shape [2,3]",
        ),
        (
            "a[..] b[..] -> y[..]",
            &[&[2, 3], &[2], &[2, 3]],
            &[],
            "b[..] was given the shape [2], expected 2 dimensions, like a[..] of shape [2,3]",
        ),
        (
            POOL,
            &[x, &[2, 3, 4, 4], &[2, 3, 4, 4]],
            &[2, 0],
            "expected 3 integer parameters (s, p, k), but 2 were given",
        ),
        (POOL, &[x, &[2, 3, 4, 4], &[2, 3, 4, 4]], &[0, 0, 2], "the parameter s is 0, expected at least 1"),
        (POOL, &[x, &[2, 3, 4, 4], &[2, 3, 4, 4]], &[2, -1, 2], "the parameter p is -1, expected at least 0"),
        (
            "x[iy] -> y[oy] += where iy = oy*s+ky, ky<k",
            &[&[8], &[5]],
            &[2, 2],
            "oy should be 4, not 5, in `iy = oy*s+ky` with iy=8, oy=5, ky=2, s=2; x[iy] is [8], y[oy] is [5]",
        ),
        (
            "x[iy] -> y[oy] += where iy = oy*s+ky, ky<k",
            &[&[1], &[1]],
            &[1, 2],
            "the window does not fit, in `iy = oy*s+ky` with iy=1, oy=1, ky=2, s=1; x[iy] is [1], y[oy] is [1]",
        ),
        (
            "x[iy] w[ky] -> y[oy] += where iy = oy+ky-p",
            &[&[4], &[3], &[4]],
            &[1],
            "x[iy] of shape [4] is read outside: iy goes from -1 to 4, expected 0 to 3; \
             write ?0, ?-inf or ?skip after it in the relation, or change the padding",
        ),
        (
            "x[c,y] -> f[i] where i = c*h+y, y<h",
            &[&[2, 3], &[7]],
            &[3],
            "f[i] of shape [7] is not written everywhere: i should be 6, not 7",
        ),
        (
            "x[c,y] -> f[i] where i = c*h+y, y<h",
            &[&[2, 3], &[6]],
            &[4],
            "x[c,y] was given the shape [2,3], where y is 3, expected 4, its bound",
        ),
    ];
    for (line, given, ints, sentence) in cases {
        let error = parse(line).bind(&shapes(given), ints).expect_err(sentence);
        assert_eq!(error.kind(), ErrorKind::Shape);
        assert_eq!(error.message(), sentence);
    }
}

#[test]
fn giant_parameters_are_refused_rather_than_overflow() {
    for giant in [i64::MAX, 1 << 51, 1 << 40] {
        let relation = parse("x[iy]?0 w[ky] -> y[oy] += where iy = oy*s*s*s+ky*s-p");
        assert!(relation.bind(&shapes(&[&[4], &[3], &[4]]), &[giant, giant]).is_err());
        assert!(relation.infer(&shapes(&[&[usize::MAX], &[3]]), &[giant, 0]).is_err());
    }
    // Each equation alone stays small, but the chain does not.
    let relation = parse("x[i]?0 z[j]?0 -> y[k] where i = j*s-p, j = k+l-q, l<l2");
    let given = shapes(&[&[1], &[1], &[(1 << 31) + 1]]);
    let error = relation.bind(&given, &[1 << 40, 1 << 20, 1 << 30, 1]).unwrap_err();
    assert_eq!(error.message(), "the indices of the axis i are too large");
}

#[test]
fn output_shapes_follow_from_inputs() {
    let infer = |line: &str, given: &[&[usize]], ints: &[i64]| parse(line).infer(&shapes(given), ints);
    // PyTorch: (7 + 2*1 - 3) / 2 + 1 = 4.
    let out = infer(CONV, &[&[2, 3, 7, 7], &[4, 3, 3, 3], &[4]], &[2, 1]).unwrap();
    assert_eq!(out, shapes(&[&[2, 4, 4, 4]]));
    // Updated arguments are given, and keep their shape.
    let out = infer("g[i] lr[] p[i] -> p[i]", &[&[5], &[], &[5]], &[]).unwrap();
    assert_eq!(out, shapes(&[&[5]]));
    let out = infer("x[c,y] -> f[i] where i = c*h+y, y<h", &[&[2, 3]], &[3]).unwrap();
    assert_eq!(out, shapes(&[&[6]]));
    let error = infer(CONV, &[&[2, 3, 2, 2], &[4, 3, 3, 3], &[4]], &[1, 0]).unwrap_err();
    assert!(error.message().starts_with("the window does not fit, in `iy = oy*s+ky-p`"), "{error}");
    let error = infer("x[n] -> y[n,k]", &[&[2]], &[]).unwrap_err();
    assert_eq!(error.message(), "nothing says how large the axis k is; bound it or pass it");
}

#[test]
fn tiles_are_refused_on_axes_that_stay_whole() {
    let bound = bind("x[n,k!] -> y[n,k!]", &[&[4, 5], &[4, 5]], &[]);
    let (n, k) = (bound.axis("n").unwrap(), bound.axis("k").unwrap());
    assert_eq!(bound.tiles(&[(n, TileSize::Size(3))]).unwrap().len(), 2);
    assert!(bound.tiles(&[(k, TileSize::Size(3))]).is_err());
    assert!(bound.tiles(&[(n, TileSize::Size(3)), (n, TileSize::Count(2))]).is_err());
    assert!(bound.tiles(&[(n, TileSize::Count(0))]).is_err());
    assert!(bound.tiles(&[(7, TileSize::Count(1))]).is_err());
}
