//! Compares what a relation says about tiles with what a definition does.

use crate::case::{Case, Draw, Index};
use dahl_runtime::array::{MAX_RANK, Region, Shape};
use dahl_runtime::codelet::relation::{Bound, Mode, Relation, Split, Tile, TileSize};

/// At most this many axes are cut at once, to bound the number of tiles.
const MAX_CUTS: usize = 3;

/// Checks a line on one case with a random tiling.
pub fn check(line: &str, case: &Case, draw: &mut Draw) -> Result<(), String> {
    let relation = Relation::parse(line).map_err(|error| error.to_string())?;
    let names: Vec<&str> = relation.args().iter().map(|arg| arg.name.as_str()).collect();
    let expected: Vec<&str> = case.args.iter().map(|(name, _)| *name).collect();
    if names != expected {
        return Err(format!("arguments {names:?}, expected {expected:?}"));
    }
    let shapes: Vec<Shape> = case.args.iter().map(|(_, shape)| *shape).collect();
    check_inference(&relation, case, &shapes)?;
    let bound = relation.bind(&shapes, &case.ints).map_err(|error| error.to_string())?;
    let cuts = random_cuts(&bound, draw);
    check_tiles(&relation, &bound, case, &cuts).map_err(|error| {
        let cuts: Vec<_> = cuts.iter().map(|&(axis, size)| (&bound.axes()[axis].name, size)).collect();
        format!("{error}; shapes {:?}, parameters {:?}, cuts {cuts:?}", case.args, case.ints)
    })
}

fn check_inference(relation: &Relation, case: &Case, shapes: &[Shape]) -> Result<(), String> {
    let Some(expected) = &case.inferred else {
        return Ok(());
    };
    let read = relation.args().iter().zip(shapes).filter(|(arg, _)| arg.mode != Mode::Write);
    let read: Vec<Shape> = read.map(|(_, shape)| *shape).collect();
    let inferred = relation.infer(&read, &case.ints).map_err(|error| error.to_string())?;
    if inferred != *expected {
        return Err(format!("inferred {inferred:?}, expected {expected:?}"));
    }
    Ok(())
}

fn random_cuts(bound: &Bound, draw: &mut Draw) -> Vec<(usize, TileSize)> {
    let splittable = |&axis: &usize| bound.axes()[axis].split != Split::Never;
    let mut cuts = Vec::new();
    for axis in (0..bound.axes().len()).filter(splittable) {
        let number = draw.number(1, 4);
        match draw.number(0, 2) {
            1 => cuts.push((axis, TileSize::Size(number))),
            2 => cuts.push((axis, TileSize::Count(number))),
            _ => {}
        }
    }
    while cuts.len() > MAX_CUTS {
        cuts.remove(draw.number(0, cuts.len() - 1));
    }
    cuts
}

/// The bounding box of some elements: lowest and highest index per dimension.
type Hull = Option<(Index, Index)>;

fn extend(hull: &mut Hull, index: Index) {
    let (lo, hi) = hull.get_or_insert((index, index));
    for dim in 0..MAX_RANK {
        lo[dim] = lo[dim].min(index[dim]);
        hi[dim] = hi[dim].max(index[dim]);
    }
}

/// Whether a region is exactly this bounding box. A scalar has no empty region, so it may go unread.
fn is_hull(region: &Region, hull: Hull) -> bool {
    match hull {
        None => region.rank() == 0 || region.is_empty(),
        Some((lo, hi)) => (0..region.rank()).all(|dim| region.range(dim) == (lo[dim]..hi[dim] + 1)),
    }
}

fn holds(region: &Region, index: Index) -> bool {
    (0..region.rank()).all(|dim| region.range(dim).contains(&index[dim]))
}

fn check_tiles(
    relation: &Relation,
    bound: &Bound,
    case: &Case,
    cuts: &[(usize, TileSize)],
) -> Result<(), String> {
    let tiles = bound.tiles(cuts).map_err(|error| error.to_string())?;
    let n_ranges = |axis: usize| {
        let cut = cuts.iter().find(|(cut, _)| *cut == axis);
        cut.map_or(1, |(_, size)| size.cut(bound.axes()[axis].extent).len())
    };
    let mut places: Vec<Vec<(usize, usize)>> = Vec::new();
    for contribution in &case.contributions {
        let axis = |name: &str| bound.axis(name).ok_or_else(|| format!("the relation has no axis {name}"));
        let place = contribution.at.iter().map(|&(name, value)| Ok((axis(name)?, value)));
        places.push(place.collect::<Result<_, String>>()?);
    }
    let mut n_tiles_of: Vec<usize> = vec![0; places.len()];
    let mut covered: Vec<Vec<usize>> = case.args.iter().map(|(_, shape)| vec![0; shape.len()]).collect();

    for tile in &tiles {
        let regions = bound.regions(tile);
        let (mut read, mut written) = (vec![Hull::None; regions.len()], vec![Hull::None; regions.len()]);
        for (i, contribution) in case.contributions.iter().enumerate() {
            if !places[i].iter().all(|&(axis, value)| tile.range(axis).contains(&value)) {
                continue;
            }
            n_tiles_of[i] += 1;
            for &(arg, index) in &contribution.reads {
                extend(&mut read[arg], index);
            }
            for &(arg, index) in &contribution.writes {
                extend(&mut written[arg], index);
                if !holds(&regions[arg], index) {
                    return Err(format!(
                        "{index:?} of {} is written outside {}",
                        names(case, arg),
                        regions[arg]
                    ));
                }
            }
        }
        for (arg, region) in regions.iter().enumerate() {
            let spec = &relation.args()[arg];
            let wrong = |what: &str, hull: Hull| {
                let ranges = tile.ranges();
                Err(format!("{} is {what} {hull:?}, but the region is {region} of {ranges:?}", spec.name))
            };
            if spec.mode == Mode::Read && !is_hull(region, read[arg]) {
                return wrong("read at", read[arg]);
            }
            // Accumulating outputs may have elements to which nothing contributes; all others are written.
            if spec.mode != Mode::Read && spec.accumulate.is_none() && !is_hull(region, written[arg]) {
                return wrong("written at", written[arg]);
            }
            if spec.mode == Mode::ReadWrite && !is_hull(region, read[arg]) {
                return wrong("read at", read[arg]);
            }
            if spec.mode != Mode::Read {
                cover(&mut covered[arg], case.args[arg].1, region);
            }
        }
        check_points(bound, tile)?;
    }

    for (i, place) in places.iter().enumerate() {
        // What stands outside of a loop that is cut belongs to every tile of it; the kernel applies it once.
        let outside = |axis: usize| place.iter().all(|&(inside, _)| inside != axis);
        let expected: usize =
            cuts.iter().map(|&(axis, _)| if outside(axis) { n_ranges(axis) } else { 1 }).product();
        if n_tiles_of[i] != expected {
            let at = &case.contributions[i].at;
            return Err(format!(
                "the contribution {at:?} is in {} tiles, expected {expected}",
                n_tiles_of[i]
            ));
        }
    }
    for (arg, counts) in covered.iter().enumerate().skip(relation.n_inputs()) {
        let mut expected = 1;
        for &(axis, _) in cuts.iter().filter(|(axis, _)| !bound.dims(arg).contains(&Some(*axis))) {
            if bound.axes()[axis].split != Split::Reduce {
                return Err(format!("{} is no reduction", bound.axes()[axis].name));
            }
            expected *= n_ranges(axis);
        }
        if let Some(times) = counts.iter().find(|times| **times != expected) {
            return Err(format!("{} is covered {times} times, expected {expected}", names(case, arg)));
        }
    }
    Ok(())
}

fn names(case: &Case, arg: usize) -> &'static str {
    case.args[arg].0
}

/// Counts every element of the region.
fn cover(counts: &mut [usize], shape: Shape, region: &Region) {
    for (i, count) in counts.iter_mut().enumerate() {
        let mut rest = i;
        let inside = (0..shape.rank()).rev().all(|dim| {
            let index = rest % shape[dim];
            rest /= shape[dim];
            region.range(dim).contains(&index)
        });
        *count += usize::from(inside);
    }
}

/// The share of a tile never exceeds the whole.
fn check_points(bound: &Bound, tile: &Tile) -> Result<(), String> {
    if bound.points_in(tile) > bound.points() || bound.points_in(&Tile::whole(bound)) != bound.points() {
        return Err("a tile has more points than there are".to_owned());
    }
    Ok(())
}
