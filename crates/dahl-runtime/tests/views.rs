//! Views and parts of arrays against a model that knows where every element comes from.
#![cfg(not(feature = "shuttle"))]

mod kernels;

use dahl_runtime::array::{Array, Owned, Params, Part, TileSize, Tolerance, assert_close, submit};
use dahl_runtime::machine::Machine;
use dahl_runtime::{ErrorKind, Result, Runtime};
use kernels::{BLEND, COPY, FAIL, IS_OPEN, WAIT, random};
use proptest::prelude::*;
use std::sync::atomic::Ordering;

fn runtime(n_workers: usize) -> Runtime {
    Runtime::new(&Machine::with_workers(n_workers)).expect("a machine with CPU units")
}

/// A view as the list of the elements it should show.
#[derive(Clone, Debug)]
struct Model {
    shape: [usize; 3],
    elements: Vec<u32>,
}

impl Model {
    fn whole(shape: [usize; 3]) -> Self {
        Model { shape, elements: (0..shape.iter().product::<usize>() as u32).collect() }
    }

    fn at(&self, index: [usize; 3]) -> u32 {
        self.elements[(index[0] * self.shape[1] + index[1]) * self.shape[2] + index[2]]
    }

    /// The view of this shape whose element at `index` is this one's at `from(index)`.
    fn chosen(&self, shape: [usize; 3], from: impl Fn([usize; 3]) -> [usize; 3]) -> Self {
        let mut elements = Vec::new();
        for i in 0..shape[0] {
            for j in 0..shape[1] {
                (0..shape[2]).for_each(|k| elements.push(self.at(from([i, j, k]))));
            }
        }
        Model { shape, elements }
    }
}

/// One step from a view to another.
#[derive(Clone, Debug)]
enum Change {
    Region([(usize, usize); 3]),
    Step(usize, usize),
    Permute([usize; 3]),
    Reshape,
}

fn change() -> impl Strategy<Value = Change> {
    let range = || (0..8usize, 0..8usize);
    prop_oneof![
        [range(), range(), range()].prop_map(Change::Region),
        (0..3usize, 1..4usize).prop_map(|(axis, step)| Change::Step(axis, step)),
        Just([0, 1, 2]).prop_shuffle().prop_map(Change::Permute),
        Just(Change::Reshape),
    ]
}

/// The view and its model after a change.
fn changed<'a>(view: Array<'a, u32, 3>, model: Model, change: &Change) -> Result<(Array<'a, u32, 3>, Model)> {
    let shape = model.shape;
    match change {
        Change::Region(ranges) => {
            let range = |dim: usize| {
                let start = ranges[dim].0 % (shape[dim] + 1);
                start..start + ranges[dim].1 % (shape[dim] - start + 1)
            };
            let ranges = [range(0), range(1), range(2)];
            let model = model.chosen(ranges.clone().map(|range| range.len()), |index| {
                std::array::from_fn(|dim| ranges[dim].start + index[dim])
            });
            Ok((view.into_region(ranges)?, model))
        }
        Change::Step(axis, step) => {
            let mut fewer = shape;
            fewer[*axis] = shape[*axis].div_ceil(*step);
            let model = model.chosen(fewer, |mut index| {
                index[*axis] *= step;
                index
            });
            Ok((view.into_stepped(*axis, *step)?, model))
        }
        Change::Permute(axes) => {
            let model = model.chosen(axes.map(|axis| shape[axis]), |index| {
                let mut from = [0; 3];
                axes.iter().zip(index).for_each(|(&axis, i)| from[axis] = i);
                from
            });
            Ok((view.into_permuted(*axes)?, model))
        }
        Change::Reshape if view.is_contiguous() => {
            let shape = [1, shape[0] * shape[1], shape[2]];
            Ok((view.into_reshaped(shape)?, Model { shape, ..model }))
        }
        Change::Reshape => {
            assert!(view.view().into_flat().is_err(), "what is not in one piece cannot be reshaped");
            Ok((view, model))
        }
    }
}

/// Everything that a guard shows is what the model says.
fn check(view: &Array<'_, u32, 3>, model: &Model) -> Result<()> {
    assert_eq!((view.shape(), view.len()), (model.shape, model.elements.len()));
    let guard = view.read()?;
    assert_eq!(guard.to_vec(), model.elements);
    assert!(guard.iter().eq(&model.elements));
    assert_eq!(guard.as_slice().is_some(), view.is_contiguous());
    assert!(guard.as_slice().is_none_or(|slice| slice == model.elements));
    if let Some(rows) = guard.rows() {
        assert_eq!(rows.map(<[u32]>::to_vec).collect::<Vec<_>>().concat(), model.elements);
    }
    let [n, m, o] = model.shape;
    for (i, j, k) in (0..n).flat_map(|i| (0..m).flat_map(move |j| (0..o).map(move |k| (i, j, k)))) {
        assert_eq!(guard[[i, j, k]], model.at([i, j, k]));
    }
    let copy = view.to_owned()?;
    assert!(copy.is_contiguous());
    assert_close(&copy.read()?, &guard, Tolerance::EXACT);
    Ok(())
}

fn viewed(shape: [usize; 3], changes: &[Change]) -> Result<()> {
    let runtime = runtime(1);
    let mut model = Model::whole(shape);
    let mut x = runtime.owned_from(shape, &model.elements)?;
    let mut view = x.view_mut();
    for change in changes {
        (view, model) = changed(view, model, change)?;
        check(&view, &model)?;
    }
    // Writing reaches these elements and no others.
    view.write()?.iter_mut().for_each(|element| *element += 1000);
    view.write()?.fill(7);
    let expected = |i: u32| if model.elements.contains(&i) { 7 } else { i };
    let expected: Vec<u32> = (0..shape.iter().product::<usize>() as u32).map(expected).collect();
    assert_eq!(x.to_vec()?, expected);
    Ok(())
}

fn tile_size() -> impl Strategy<Value = TileSize> {
    (1..12usize, 0..3usize).prop_map(|(n, kind)| match kind {
        0 => TileSize::Size(n),
        1 => TileSize::AtMost(n),
        _ => TileSize::Count(n),
    })
}

/// Adds one to every element through parts of parts.
fn covered<const R: usize>(shape: [usize; R], outer: [TileSize; R], inner: [TileSize; R]) -> Result<()> {
    let runtime = runtime(1);
    let mut x = runtime.owned::<u8, R>(shape)?;
    let parts = x.grid_mut(outer)?;
    let n_parts: usize = parts.n_parts().iter().product();
    assert!(parts.len() == n_parts && n_parts <= shape.iter().map(|&n| n.max(1)).product());
    for part in parts {
        assert!(!part.is_empty() || shape.contains(&0), "only an empty array has an empty part");
        for mut small in part.into_grid(inner)? {
            small.write()?.iter_mut().for_each(|element| *element += 1);
        }
    }
    assert!(x.read()?.iter().all(|&element| element == 1), "every element once: {:?}", x.read()?);
    // The parts for reading are the same ones, and `nth` finds them without the others.
    for i in 0..n_parts {
        let shape = x.grid(outer)?.nth(i).expect("a part").shape();
        assert_eq!(x.grid_mut(outer)?.nth(i).expect("a part").shape(), shape);
    }
    assert!(x.grid(outer)?.nth(n_parts).is_none());
    Ok(())
}

/// Parts with a halo are the parts of the interior, and what lies around them.
fn haloed(shape: [usize; 2], sizes: [TileSize; 2], halo: [usize; 2]) -> Result<()> {
    let runtime = runtime(1);
    let [rows, columns] = [shape[0] + 2 * halo[0], shape[1] + 2 * halo[1]];
    let x = runtime.owned_from([rows, columns], &(0..(rows * columns) as u32).collect::<Vec<_>>())?;
    let interior = || x.view().into_region([halo[0]..halo[0] + shape[0], halo[1]..halo[1] + shape[1]]);
    let parts: Vec<Part<'_, u32, 2>> = x.grid(sizes)?.with_halo(halo)?.collect();
    assert_eq!(parts.len(), interior()?.grid(sizes)?.len());
    for (part, core) in parts.into_iter().zip(interior()?.into_grid(sizes)?) {
        let [n, m] = core.shape();
        assert_eq!(part.shape(), [n + 2 * halo[0], m + 2 * halo[1]]);
        let first = part.read()?.iter().next().copied();
        let middle = part.into_region([halo[0]..halo[0] + n, halo[1]..halo[1] + m])?;
        assert_close(&middle.read()?, &core.read()?, Tolerance::EXACT);
        if let (Some(first), Some(core)) = (first, core.read()?.iter().next()) {
            assert_eq!(first as usize + halo[0] * columns + halo[1], *core as usize);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn views_show_and_change_what_they_should(
        shape in [0..5usize, 1..6, 1..7],
        changes in prop::collection::vec(change(), 0..6),
    ) {
        viewed(shape, &changes).unwrap();
    }

    #[test]
    fn parts_of_parts_cover_everything_once(
        shape in [0..9usize, 0..5, 0..4, 0..3],
        outer in [tile_size(), tile_size(), tile_size(), tile_size()],
        inner in [tile_size(), tile_size(), tile_size(), tile_size()],
    ) {
        covered(shape, outer, inner).unwrap();
        covered([shape[0]], [outer[0]], [inner[0]]).unwrap();
        covered([], [], []).unwrap();
    }

    #[test]
    fn parts_with_a_halo_reach_further_and_match(
        shape in [0..9usize, 0..9],
        sizes in [tile_size(), tile_size()],
        halo in [0..3usize, 0..3],
    ) {
        haloed(shape, sizes, halo).unwrap();
    }
}

const SIZE: usize = 12;

/// Where the elements of a random view of a matrix are: first index and step of rows and columns, and whether
/// it is transposed. All have 4 rows and 3 columns, so that any can be computed from any other.
struct Window {
    first: [usize; 2],
    step: [usize; 2],
    transposed: bool,
}

impl Window {
    fn random(state: &mut u64) -> Self {
        let transposed = random(state, 2) == 0;
        let extents = if transposed { [3, 4] } else { [4, 3] };
        let step = [1 + random(state, 3), 1 + random(state, 3)];
        let first = [0, 1].map(|dim| random(state, SIZE - (extents[dim] - 1) * step[dim]));
        Window { first, step, transposed }
    }

    fn of<'a>(&self, x: Array<'a, f32, 2>) -> Result<Array<'a, f32, 2>> {
        let extents = if self.transposed { [3, 4] } else { [4, 3] };
        let range = |dim: usize| self.first[dim]..self.first[dim] + (extents[dim] - 1) * self.step[dim] + 1;
        let view = x.into_region([range(0), range(1)])?;
        let view = view.into_stepped(0, self.step[0])?.into_stepped(1, self.step[1])?;
        Ok(if self.transposed { view.into_transposed() } else { view })
    }

    fn index(&self, i: usize, j: usize) -> usize {
        let (i, j) = if self.transposed { (j, i) } else { (i, j) };
        (self.first[0] + i * self.step[0]) * SIZE + self.first[1] + j * self.step[1]
    }
}

/// Runs random tasks on strided and transposed views of three matrices, and the same on vectors.
fn random_program(runtime: &Runtime, mut state: u64) -> Result<()> {
    let initial: Vec<f32> = (0..SIZE * SIZE).map(|i| i as f32).collect();
    let new = |_| runtime.owned_from([SIZE, SIZE], &initial);
    let mut arrays: Vec<Owned<f32, 2>> = (0..3).map(new).collect::<Result<_>>()?;
    let mut expected = vec![initial.clone(); 3];
    for step in 0..200 {
        let from = random(&mut state, 3);
        let to = (from + 1 + random(&mut state, 2)) % 3;
        let (source, target) = (Window::random(&mut state), Window::random(&mut state));
        let k = step as f64 / 8.0;
        let [x, y] = arrays.get_disjoint_mut([from, to]).expect("two different arrays");
        let (input, mut output) = (source.of(x.view_mut())?, target.of(y.view_mut())?);
        submit(
            &BLEND,
            "reference",
            &[&input],
            &mut [&mut output],
            Params { scalars: &[k], ..Params::default() },
        )?;
        for i in 0..4 {
            for j in 0..3 {
                let x = expected[from][source.index(i, j)];
                let y = &mut expected[to][target.index(i, j)];
                *y = *y / 2.0 + x + k as f32;
            }
        }
        if random(&mut state, 20) == 0 {
            let which = random(&mut state, 3);
            let window = Window::random(&mut state);
            let seen = window.of(arrays[which].view_mut())?.to_vec()?;
            let expected = (0..12).map(|n| expected[which][window.index(n / 3, n % 3)]);
            assert!(seen.into_iter().eq(expected), "array {which} after step {step}");
        }
    }
    for (array, expected) in arrays.iter().zip(&expected) {
        assert_close(&array.read()?, expected, Tolerance::SAME_BITS);
    }
    Ok(())
}

#[test]
fn tasks_on_strided_views_give_the_values_of_sequential_execution() -> Result<()> {
    for n_workers in [1, 2, 4] {
        let runtime = runtime(n_workers);
        for seed in 0..40 {
            random_program(&runtime, seed)?;
        }
    }
    Ok(())
}

#[test]
fn a_failure_is_healed_only_where_it_was_overwritten() -> Result<()> {
    let runtime = runtime(2);
    let x = runtime.owned_from([4, 2], &[1.0f32; 8])?;
    let mut y = runtime.owned::<f32, 2>([8, 2])?;
    let mut even = y.view_mut().into_stepped(0, 2)?;
    submit(&FAIL, "reference", &[&x], &mut [&mut even], Params { scalars: &[1.0], ..Params::default() })?;
    let mut odd = y.view_mut().into_region([1..8, 0..2])?.into_stepped(0, 2)?;
    submit(&COPY, "reference", &[&x], &mut [&mut odd], Params::default())?;
    for row in [0, 2, 4, 6] {
        let row = y.view().into_region([row..row + 1, 0..2])?;
        assert_eq!(row.read().map(|_| ()).unwrap_err().kind(), ErrorKind::Task, "even rows have no content");
    }
    let whole = runtime.owned_from([8, 2], &[2.0f32; 16])?;
    submit(&COPY, "reference", &[&whole], &mut [&mut y], Params::default())?;
    assert_eq!(y.to_vec()?, [2.0; 16]);
    Ok(())
}

#[test]
fn putting_parts_together_waits_for_nothing() -> Result<()> {
    let runtime = runtime(2);
    let one = runtime.owned_from([2, 4], &[1.0f32; 8])?;
    let mut y = runtime.owned::<f32, 2>([4, 4])?;
    let none = Params { scalars: &[0.0], ..Params::default() };
    let mut upper = y.split_mut(0, 2)?.next().expect("a half");
    submit(&WAIT, "reference", &[], &mut [&mut upper], none)?;
    // The upper half is not done before the gate opens. The whole is back, and cut in other ways; whatever
    // does not touch the upper half goes on.
    let mut lower = y.split_mut(0, 2)?.nth(1).expect("a half");
    submit(&BLEND, "reference", &[&one], &mut [&mut lower], none)?;
    assert_eq!(lower.read()?[[1, 3]], 1.0);
    let mut turned = y.view_mut().into_transposed().into_region([0..4, 2..4])?;
    submit(&BLEND, "reference", &[&one.view().into_transposed()], &mut [&mut turned], none)?;
    let mut tile = y.grid_mut([TileSize::Size(2), TileSize::Size(2)])?.nth(2).expect("a tile");
    tile.write()?[[0, 0]] += 1.0;
    let mut halves = y.view_mut().into_flat()?.into_grid([TileSize::Count(2)])?;
    let mut band = halves.nth(1).expect("a half").into_reshaped([2, 4])?;
    submit(&BLEND, "reference", &[&one], &mut [&mut band], none)?;
    assert_eq!(band.to_vec()?, [2.25, 1.75, 1.75, 1.75, 1.75, 1.75, 1.75, 1.75]);
    // Tasks on the whole come after all of them.
    let whole = runtime.owned_from([4, 4], &[1.0f32; 16])?;
    submit(&BLEND, "reference", &[&whole], &mut [&mut y], none)?;
    IS_OPEN.store(true, Ordering::Release);
    assert_eq!(y.to_vec()?[6..10], [1.0, 1.0, 2.125, 1.875]);
    Ok(())
}

#[test]
fn mistakes_are_sentences() -> Result<()> {
    let runtime = runtime(1);
    let mut x = runtime.owned::<f32, 2>([4, 6])?;
    let text = |result: Result<Array<'_, f32, 2>>| result.map(|_| ()).unwrap_err().to_string();
    for (error, words) in [
        (
            text(x.view_mut().into_region([0..4, 3..7])),
            "3..7 of dimension 1 is outside of an array of shape [4,6]",
        ),
        (text(x.view_mut().into_stepped(0, 0)), "steps are at least 1"),
        (text(x.view_mut().into_permuted([1, 1])), "name each of them once"),
        (x.split(2, 2).map(|_| ()).unwrap_err().to_string(), "cannot be cut along dimension 2"),
        (
            x.grid([TileSize::Count(1), TileSize::Size(0)]).map(|_| ()).unwrap_err().to_string(),
            "give at least 1",
        ),
        (x.split(0, 2)?.with_halo([3, 0]).map(|_| ()).unwrap_err().to_string(), "too few for a halo of 3"),
    ] {
        assert!(
            error.contains(words) && error.contains("tests/views.rs:"),
            "`{words}` is missing in: {error}"
        );
    }
    Ok(())
}

#[test]
fn every_rank_and_element_type_goes_through() -> Result<()> {
    let runtime = runtime(1);
    let arena = runtime.arena("work");
    let scalar = arena.array_from([], &[2.5f64])?;
    assert_eq!((scalar.read()?[[]], scalar.read()?.to_string().as_str()), (2.5, "2.5"));
    let mut flat = scalar.into_flat()?;
    flat.write()?[[0]] = 3.5;
    assert_eq!(flat.into_reshaped([])?.read()?[[]], 3.5);
    let bytes: Vec<u8> = (0..24).collect();
    let tensor = arena.array_from([2, 3, 2, 2], &bytes)?;
    let turned = tensor.into_permuted([3, 2, 1, 0])?;
    assert_eq!(turned.read()?[[1, 0, 2, 1]], 12 + 2 * 4 + 1);
    let empty = arena.array::<u32, 3>([2, 0, 4])?;
    assert!(empty.is_empty() && empty.read()?.as_slice() == Some(&[]));
    assert_eq!(empty.into_flat()?.shape(), [0]);
    Ok(())
}
