//! Programs on arrays: views, parts, guards and submitted tasks in any order, against vectors.

use super::choices::Choices;
use dahl_runtime::array::{Array, Dtype, Owned, Params, TileSize, submit};
use dahl_runtime::codelet::{Call, Codelet, Implementation, Needs};
use dahl_runtime::machine::Machine;
use dahl_runtime::{Result, Runtime};

/// `y = y / 2 + x + k`: the order of two of these matters.
static BLEND: Codelet = Codelet::new(
    "blend",
    "x[i,j] y[i,j] -> y[i,j]",
    2.0,
    &[Implementation::new("reference", 1, Dtype::F32, Needs::Nothing, blend)],
);
/// `y = y / 2 + k`.
static HALVE: Codelet = Codelet::new(
    "halve",
    "y[i,j] -> y[i,j]",
    2.0,
    &[Implementation::new("reference", 1, Dtype::F32, Needs::Nothing, halve)],
);

fn blend(call: &Call<'_>) -> Result<()> {
    let (x, mut y) = (call.input::<f32>(0), call.output::<f32>(0));
    for i in y.region().range(0) {
        for j in y.region().range(1) {
            let value = y.at([i, j]) / 2.0 + x.at([i, j]) + call.scalar(0) as f32;
            y.set([i, j], value);
        }
    }
    Ok(())
}

fn halve(call: &Call<'_>) -> Result<()> {
    let mut y = call.output::<f32>(0);
    for i in y.region().range(0) {
        for j in y.region().range(1) {
            let value = y.at([i, j]) / 2.0 + call.scalar(0) as f32;
            y.set([i, j], value);
        }
    }
    Ok(())
}

const SIDE: usize = 12;
const N_ARRAYS: usize = 3;
const N_CHANGES: usize = 96;

/// One step from a view to another.
#[derive(Clone, Copy, Debug)]
enum Change {
    Region([usize; 2], [usize; 2]),
    Step(usize, usize),
    Transpose,
}

/// A random view of a matrix: how it is made, and which elements it should show.
#[derive(Debug)]
struct View {
    changes: Vec<Change>,
    shape: [usize; 2],
    elements: Vec<usize>,
}

impl View {
    fn whole() -> Self {
        View { changes: Vec::new(), shape: [SIDE; 2], elements: (0..SIDE * SIDE).collect() }
    }

    fn random(choices: &mut Choices<'_>) -> Self {
        let mut view = View::whole();
        for _ in 0..choices.below(4) {
            let [rows, columns] = view.shape;
            view = match choices.below(3) {
                0 => {
                    let first = [choices.below(rows + 1), choices.below(columns + 1)];
                    let n = [choices.below(rows - first[0] + 1), choices.below(columns - first[1] + 1)];
                    view.changed(Change::Region(first, n), n, |[i, j]| [first[0] + i, first[1] + j])
                }
                1 => {
                    let (axis, step) = (choices.below(2), choices.between(1, 3));
                    let mut shape = view.shape;
                    shape[axis] = shape[axis].div_ceil(step);
                    view.changed(Change::Step(axis, step), shape, |mut index| {
                        index[axis] *= step;
                        index
                    })
                }
                _ => view.changed(Change::Transpose, [columns, rows], |[i, j]| [j, i]),
            };
        }
        view
    }

    /// A random view of a certain shape, at most 4 each way.
    fn shaped(choices: &mut Choices<'_>, shape: [usize; 2]) -> Self {
        let turned = choices.once_in(2);
        let [rows, columns] = if turned { [shape[1], shape[0]] } else { shape };
        let mut view = View::whole();
        let step = [choices.between(1, 3), choices.between(1, 3)];
        let reach = [rows, columns].map(|n| n.saturating_sub(1));
        let n = [0, 1].map(|dim| reach[dim] * step[dim] + usize::from([rows, columns][dim] > 0));
        let first = n.map(|n| choices.below(SIDE - n + 1));
        view = view.changed(Change::Region(first, n), n, |[i, j]| [first[0] + i, first[1] + j]);
        for axis in [0, 1] {
            let mut shape = view.shape;
            shape[axis] = shape[axis].div_ceil(step[axis]);
            view = view.changed(Change::Step(axis, step[axis]), shape, |mut index| {
                index[axis] *= step[axis];
                index
            });
        }
        match turned {
            true => view.changed(Change::Transpose, shape, |[i, j]| [j, i]),
            false => view,
        }
    }

    fn changed(self, change: Change, shape: [usize; 2], from: impl Fn([usize; 2]) -> [usize; 2]) -> Self {
        let View { mut changes, shape: [_, columns], elements: before } = self;
        changes.push(change);
        let index = (0..shape[0]).flat_map(|i| (0..shape[1]).map(move |j| [i, j]));
        let elements = index.map(from).map(|[i, j]| before[i * columns + j]).collect();
        View { changes, shape, elements }
    }

    /// The view of an array.
    fn of<'a>(&self, array: Array<'a, f32, 2>) -> Array<'a, f32, 2> {
        self.changes.iter().fold(array, |view, change| {
            let changed = match *change {
                Change::Region(first, n) => {
                    view.into_region([first[0]..first[0] + n[0], first[1]..first[1] + n[1]])
                }
                Change::Step(axis, step) => view.into_stepped(axis, step),
                Change::Transpose => Ok(view.into_transposed()),
            };
            changed.expect("a view that exists")
        })
    }
}

/// Submits tasks on random views of three matrices, changes and looks at them in between, and does the same
/// with vectors.
pub fn arrays(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let runtime = Runtime::new(&Machine::with_workers(choices.between(1, 3))).expect("CPU units");
    let initial: Vec<f32> = (0..SIDE * SIDE).map(|i| i as f32).collect();
    let mut arrays: Vec<Owned<f32, 2>> = (0..N_ARRAYS)
        .map(|_| runtime.owned_from([SIDE; 2], &initial).expect("memory for a small array"))
        .collect();
    let mut expected = vec![initial; N_ARRAYS];
    for number in 0..N_CHANGES {
        if choices.is_over() {
            break;
        }
        let k = number as f32 / 8.0;
        let params = Params { scalars: &[f64::from(k)], urgent: choices.once_in(4), ..Params::default() };
        let at = choices.below(N_ARRAYS);
        match choices.below(7) {
            // From one to another.
            0 | 1 => {
                let to = (at + choices.between(1, N_ARRAYS - 1)) % N_ARRAYS;
                let shape = [choices.below(5), choices.below(5)];
                let (source, target) = (View::shaped(&mut choices, shape), View::shaped(&mut choices, shape));
                let [x, y] = arrays.get_disjoint_mut([at, to]).expect("two of them");
                let (input, mut output) = (source.of(x.view_mut()), target.of(y.view_mut()));
                submit(&BLEND, "reference", &[&input], &mut [&mut output], params).expect("the same shapes");
                for (&from, &element) in source.elements.iter().zip(&target.elements) {
                    expected[to][element] = expected[to][element] / 2.0 + expected[at][from] + k;
                }
            }
            // In place.
            2 => {
                let view = View::random(&mut choices);
                let mut y = view.of(arrays[at].view_mut());
                submit(&HALVE, "reference", &[], &mut [&mut y], params).expect("one shape");
                view.elements.iter().for_each(|&e| expected[at][e] = expected[at][e] / 2.0 + k);
            }
            // Each part of a view by a task of its own: every element once.
            3 => {
                let view = View::random(&mut choices);
                let sizes = [0, 1].map(|_| match choices.below(2) {
                    0 => TileSize::Size(choices.between(1, 6)),
                    _ => TileSize::Count(choices.between(1, 4)),
                });
                for mut part in view.of(arrays[at].view_mut()).into_grid(sizes).expect("sizes above 0") {
                    submit(&HALVE, "reference", &[], &mut [&mut part], params).expect("one shape");
                }
                view.elements.iter().for_each(|&e| expected[at][e] = expected[at][e] / 2.0 + k);
            }
            // By the program itself.
            4 => {
                let view = View::random(&mut choices);
                let mut y = view.of(arrays[at].view_mut());
                y.write().expect("tasks do not fail").iter_mut().for_each(|y| *y = *y / 2.0 + k);
                view.elements.iter().for_each(|&e| expected[at][e] = expected[at][e] / 2.0 + k);
            }
            // A copy in the place of the original, whose tasks may not be done yet.
            5 => {
                let copy = arrays[at].to_owned().expect("memory for a small array");
                arrays[at] = copy;
            }
            _ => {
                let view = View::random(&mut choices);
                let seen = view.of(arrays[at].view_mut());
                assert_eq!(seen.shape(), view.shape);
                let values: Vec<f32> = view.elements.iter().map(|&e| expected[at][e]).collect();
                assert_eq!(
                    seen.to_vec().expect("tasks do not fail"),
                    values,
                    "{view:?} after {number} changes"
                );
            }
        }
    }
    for (array, expected) in arrays.iter().zip(&expected) {
        assert_eq!(&array.to_vec().expect("tasks do not fail"), expected);
    }
}
