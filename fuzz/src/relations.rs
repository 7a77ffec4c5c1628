//! Index relations: lines of any kind, and regions against brute force.

use super::choices::Choices;
use dahl_runtime::array::{Region, Shape};
use dahl_runtime::codelet::relation::{Bound, Mode, Relation, Split, Tile, TileSize};
use std::ops::Range;

/// A line of text, and bytes behind it that give shapes, parameters and tiles.
pub fn relation(bytes: &[u8]) {
    let end = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    let (line, rest) = bytes.split_at(end);
    let Ok(line) = std::str::from_utf8(line) else { return };
    let Ok(relation) = Relation::parse(line) else { return };
    let mut choices = Choices::new(rest.get(1..).unwrap_or_default());
    // Mostly small numbers, and some that no array has.
    let extent = |choices: &mut Choices<'_>| match choices.byte() {
        255 => usize::MAX,
        254 => 1 << 40,
        253 => u32::MAX as usize,
        byte => usize::from(byte % 9),
    };
    let ints: Vec<i64> = relation
        .params()
        .iter()
        .map(|_| match choices.byte() {
            255 => i64::MAX,
            254 => i64::MIN,
            byte => i64::from(byte % 8) - 2,
        })
        .collect();
    let shape = |choices: &mut Choices<'_>| {
        let extents: Vec<usize> = (0..choices.below(5)).map(|_| extent(choices)).collect();
        Shape::new(&extents)
    };
    let mut shapes: Vec<Shape> = (0..relation.n_inputs()).map(|_| shape(&mut choices)).collect();
    match relation.infer(&shapes, &ints) {
        Ok(outputs) => shapes.extend(outputs),
        Err(_) => shapes.extend((relation.n_inputs()..relation.args().len()).map(|_| shape(&mut choices))),
    }
    let Ok(bound) = relation.bind(&shapes, &ints) else { return };
    let _ = bound.points();
    let cuts = cuts(&bound, &mut choices);
    let n_tiles = cuts.iter().try_fold(1_usize, |n, &(axis, size)| {
        n.checked_mul(size.n_tiles(bound.axes()[axis].extent)).filter(|&n| n <= 1 << 10)
    });
    if n_tiles.is_none() {
        return;
    }
    for tile in bound.tiles(&cuts).expect("axes that may be cut") {
        let _ = bound.points_in(&tile);
        for (i, region) in bound.regions(&tile).iter().enumerate() {
            assert!(Region::whole(bound.shape(i)).contains(region) || region.is_empty(), "{line}: {region}");
        }
    }
}

/// Some cuts of the axes that may be cut.
fn cuts(bound: &Bound, choices: &mut Choices<'_>) -> Vec<(usize, TileSize)> {
    let axes = bound.axes().iter().enumerate().filter(|(_, axis)| axis.split != Split::Never);
    let mut cuts = Vec::new();
    for (axis, _) in axes {
        let size = choices.between(1, 7);
        match choices.below(4) {
            0 => {}
            1 => cuts.push((axis, TileSize::Size(size))),
            2 => cuts.push((axis, TileSize::Count(size))),
            _ => cuts.push((axis, TileSize::AtMost(size))),
        }
    }
    cuts
}

/// A window that slides along one dimension: `i = o*stride + k*dilation - padding`.
struct Window {
    stride: usize,
    dilation: usize,
    padding: usize,
    under: usize,
    taps: usize,
}

/// A sliding window over one or two dimensions of samples and channels, forwards or backwards: the regions of
/// every tile are the bounding boxes of what its points touch, and tiles cover every output once for each
/// tile of a reduction.
pub fn regions(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let is_backward = choices.once_in(2);
    let (n, c, k) = (choices.below(4), choices.between(1, 3), choices.between(1, 3));
    let windows: Vec<Window> = (0..choices.between(1, 2))
        .map(|_| Window {
            stride: choices.between(1, 4),
            dilation: choices.between(1, 3),
            padding: choices.below(4),
            under: choices.between(1, 9),
            taps: choices.between(1, 4),
        })
        .collect();
    let names = |prefix: &str| -> String { (0..windows.len()).map(|w| format!(",{prefix}{w}")).collect() };
    let (large, small, weights) =
        (format!("[n,c{}]", names("i")), format!("[n,k{}]", names("o")), format!("w[k,c{}]", names("t")));
    let equations: Vec<String> = windows
        .iter()
        .enumerate()
        .map(|(w, window)| {
            format!("i{w} = o{w}*{}+t{w}*{}-{}", window.stride, window.dilation, window.padding)
        })
        .collect();
    let equations = equations.join(", ");
    let line = match is_backward {
        false => format!("x{large}?0 {weights} -> y{small} += where {equations}"),
        true => format!("y{small} {weights} -> x{large} += where {equations}"),
    };
    let relation = Relation::parse(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
    // As many positions as fit, as the notation defines it.
    let mut positions = Vec::new();
    for window in &windows {
        let reach = (window.taps - 1) * window.dilation + 1;
        let Some(room) = (window.under + 2 * window.padding).checked_sub(reach) else { return };
        positions.push(room / window.stride + 1);
    }
    let shape = |first: [usize; 2], rest: &[usize]| Shape::new(&[&first[..], rest].concat());
    let of = |number: fn(&Window) -> usize| windows.iter().map(number).collect::<Vec<_>>();
    let [large, small, weights] = [
        shape([n, c], &of(|window| window.under)),
        shape([n, k], &positions),
        shape([k, c], &of(|window| window.taps)),
    ];
    let shapes = if is_backward { [small, weights, large] } else { [large, weights, small] };
    let Ok(bound) = relation.bind(&shapes, &[]) else { return };
    let cuts = cuts(&bound, &mut choices);
    let tiles = bound.tiles(&cuts).expect("axes that may be cut");
    let n_reduction: usize = cuts
        .iter()
        .filter(|(axis, _)| bound.axes()[*axis].split == Split::Reduce)
        .map(|&(axis, size)| size.cut(bound.axes()[axis].extent).len())
        .product();
    let mut times = vec![0; shapes[2].len()];
    for tile in &tiles {
        let found = bound.regions(tile);
        let expected = touched(&bound, &relation, &windows, tile, is_backward);
        for (arg, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(found, expected, "{line}, {shapes:?}, argument {arg}, {tile:?}");
        }
        for_each(&found[2], |index| {
            let at = index.iter().zip(shapes[2].iter()).fold(0, |at, (&i, &extent)| at * extent + i);
            times[at] += 1;
        });
    }
    assert!(times.iter().all(|&times| times == n_reduction), "{line}: {times:?} instead of {n_reduction}");
}

/// What the points of a tile touch of each argument, by going through them.
fn touched(
    bound: &Bound,
    relation: &Relation,
    windows: &[Window],
    tile: &Tile,
    is_backward: bool,
) -> Vec<Region> {
    let output = relation.n_inputs();
    let range = |name: String| tile.range(bound.axis(&name).expect("an axis of the line"));
    // Along every dimension, the values of the axes that some point of the tile has, and for inputs only
    // those inside.
    let mut regions = Vec::new();
    for (arg, about) in relation.args().iter().enumerate() {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for (dim, &extent) in bound.shape(arg).iter().enumerate() {
            let axis = bound.dims(arg)[dim].expect("no index depends on data");
            let name = &bound.axes()[axis].name;
            let Some(w) = name[1..].parse::<usize>().ok() else {
                ranges.push(tile.range(axis));
                continue;
            };
            if about.mode != Mode::Read {
                ranges.push(tile.range(axis));
                continue;
            }
            let Window { stride, dilation, padding, .. } = windows[w];
            let mut seen: Option<Range<usize>> = None;
            for o in range(format!("o{w}")) {
                for t in range(format!("t{w}")) {
                    let under = (o * stride + t * dilation) as i64 - padding as i64;
                    let inside = usize::try_from(under).ok();
                    // Forwards the array under the window is an input, which is read where it is; backwards
                    // it is the output.
                    if is_backward && inside.is_none_or(|i| !range(format!("i{w}")).contains(&i)) {
                        continue;
                    }
                    let value = match &name[..1] {
                        "i" => inside,
                        "o" => Some(o),
                        _ => Some(t),
                    };
                    if let Some(value) = value.filter(|&value| value < extent) {
                        let before = seen.unwrap_or(value..value + 1);
                        seen = Some(before.start.min(value)..before.end.max(value + 1));
                    }
                }
            }
            ranges.push(seen.unwrap_or(0..0));
        }
        if ranges.iter().any(Range::is_empty) {
            ranges.fill(0..0);
        }
        regions.push(Region::new(&ranges));
    }
    if regions[output].is_empty() {
        regions.iter_mut().for_each(|region| *region = Region::new(&vec![0..0; region.rank()]));
    }
    regions
}

fn for_each(region: &Region, f: impl FnMut(&[usize])) {
    dahl_runtime::codelet::for_each_index(region, f);
}
