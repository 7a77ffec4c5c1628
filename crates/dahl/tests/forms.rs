//! Operations as functions on arrays: into an output, in place, into a new array; and what is refused.

use dahl::op;
use dahl_runtime::array::{Matrix, Tensor, Vector};
use dahl_runtime::machine::Machine;
use dahl_runtime::{ErrorKind, Result, Runtime};

fn runtime() -> Runtime {
    Runtime::new(&Machine::with_workers(2)).expect("two workers")
}

#[test]
fn the_three_forms_compute_the_same() -> Result<()> {
    let runtime = runtime();
    let work = runtime.arena("work");
    let mut a = work.array_from([2, 3], &[1.0f64, -2.0, 3.0, -4.0, 5.0, -6.0])?;
    let b = work.filled([2, 3], 0.5f64)?;
    let mut y = work.array([2, 3])?;
    op::sub(&a, &b, &mut y)?;
    let new = op::sub_init(&work, &a, &b)?;
    op::sub_self(&mut a, &b)?;
    let expected = [0.5, -2.5, 2.5, -4.5, 4.5, -6.5];
    assert_eq!(y.to_vec()?, expected);
    assert_eq!(new.to_vec()?, expected);
    assert_eq!(a.to_vec()?, expected);
    // Where the place is not the first input.
    let dy = work.filled([2, 3], 7.0f64)?;
    let mut in_place = work.filled([2, 3], 7.0f64)?;
    let new = op::relu_backward_init(&work, &a, &dy)?;
    op::relu_backward_self(&mut in_place, &a)?;
    assert_eq!(new.to_vec()?, [7.0, 0.0, 7.0, 0.0, 7.0, 0.0]);
    assert_eq!(in_place.to_vec()?, new.to_vec()?);
    Ok(())
}

#[test]
fn a_chain_of_operations_waits_for_nothing_but_its_own_results() -> Result<()> {
    let runtime = runtime();
    let work = runtime.arena("work");
    let x = work.array_from([2, 2], &[1.0f32, 2.0, 3.0, 4.0])?;
    let w = work.array_from([2, 2], &[1.0f32, -1.0, 0.5, -0.5])?;
    let mut y = op::matmul_init(&work, &x, &w)?;
    op::relu_self(&mut y)?;
    op::scale_self(&mut y, 2.0)?;
    op::power_self(&mut y, 2.0)?;
    assert_eq!(y.to_vec()?, [16.0, 0.0, 100.0, 0.0]);
    let total = op::sum_init(&work, &y)?;
    let rows: Vector<'_, f32> = op::max_axis_init(&work, &y, 1)?;
    assert_eq!((total.to_vec()?, rows.to_vec()?), (vec![116.0], vec![16.0, 100.0]));
    let (transposed, diagonal) = (op::transpose_init(&work, &y)?, op::diagonal_init(&work, &y)?);
    assert_eq!(transposed.to_vec()?, [16.0, 100.0, 0.0, 0.0]);
    assert_eq!(diagonal.to_vec()?, [16.0, 0.0]);
    Ok(())
}

#[test]
fn owned_arrays_and_parts_are_arrays_too() -> Result<()> {
    let runtime = runtime();
    let work = runtime.arena("work");
    let values: Vec<f32> = (0..12).map(|i| i as f32).collect();
    let x = work.array_from([4, 3], &values)?;
    let owned = x.to_owned()?;
    let mut y = work.array([4, 3])?;
    // Columns are not in one piece, so the reference computes them; rows are.
    for (axis, n) in [(1, 3), (0, 2)] {
        op::fill(9.0, &mut y)?;
        for (part, mut y) in x.split(axis, n)?.zip(y.split_mut(axis, n)?) {
            op::add_value(&part, 1.0, &mut y)?;
        }
        assert!(y.to_vec()?.iter().zip(&values).all(|(y, x)| *y == x + 1.0));
    }
    op::mul(&owned, &owned, &mut y)?;
    assert!(y.to_vec()?.iter().zip(&values).all(|(y, x)| *y == x * x));
    Ok(())
}

#[test]
fn reductions_along_several_axes() -> Result<()> {
    let runtime = runtime();
    let work = runtime.arena("work");
    let values: Vec<f64> = (0..120).map(f64::from).collect();
    let x: Tensor<'_, f64> = work.array_from([2, 3, 4, 5], &values)?;
    let per_channel: Vector<'_, f64> = op::mean_axes_init(&work, &x, &[0, 2, 3])?;
    assert_eq!(per_channel.to_vec()?, [39.5, 59.5, 79.5]);
    let planes: Matrix<'_, f64> = op::sum_axes_init(&work, &x, &[3, 2])?;
    let expected: Vec<f64> = values.chunks(20).map(|plane| plane.iter().sum()).collect();
    assert_eq!(planes.to_vec()?, expected);
    let everything = op::max_axes_init::<f64, 4, 0>(&work, &x, &[0, 1, 2, 3])?;
    assert_eq!(everything.to_vec()?, [119.0]);
    let nothing = op::min_axes_init::<f64, 4, 4>(&work, &x, &[])?;
    assert_eq!(nothing.to_vec()?, values);
    let error = op::sum_axes_init::<f64, 4, 2>(&work, &x, &[1, 1]).unwrap_err();
    assert!(error.kind() == ErrorKind::Shape && error.to_string().contains("forms.rs"), "{error}");
    assert!(op::sum_axis_init::<f64, 4, 3>(&work, &x, 4).is_err());
    assert!(op::sum_axis_init::<f64, 4, 2>(&work, &x, 1).is_err());
    Ok(())
}

#[test]
fn integers_are_copied_filled_and_moved() -> Result<()> {
    let runtime = runtime();
    let work = runtime.arena("work");
    let x = work.array_from([2, 3], &[1u8, 2, 3, 4, 5, 255])?;
    assert_eq!(op::transpose_init(&work, &x)?.to_vec()?, [1, 4, 2, 5, 3, 255]);
    let mut y = op::copy_init(&work, &x)?;
    assert_eq!(y.to_vec()?, x.to_vec()?);
    op::fill(6.5, &mut y)?;
    assert_eq!(y.to_vec()?, [6; 6]);
    let labels = work.array_from([3], &[7u8, 8, 9])?;
    let index = work.array_from([2], &[2u32, 0])?;
    assert_eq!(op::load_labels_init(&work, &labels, &index)?.to_vec()?, [9, 7]);
    Ok(())
}

#[test]
fn several_outputs_are_returned_together() -> Result<()> {
    let runtime = runtime();
    let work = runtime.arena("work");
    let x = work.array_from([1, 1, 2, 2], &[1.0f64, 4.0, 3.0, 2.0])?;
    let (y, arg) = op::max_pool_init(&work, &x, 2, 0, 2)?;
    assert_eq!((y.to_vec()?, arg.to_vec()?), (vec![4.0], vec![1]));
    let mut dx = work.array([1, 1, 2, 2])?;
    op::max_pool_backward(&arg, &y, 2, 0, 2, &mut dx)?;
    assert_eq!(dx.to_vec()?, [0.0, 4.0, 0.0, 0.0]);
    let w = work.filled([3, 1, 2, 2], 1.0f64)?;
    let b = work.array_from([3], &[0.0f64, 1.0, 2.0])?;
    assert_eq!(op::conv2d_init(&work, &x, &w, &b, 1, 0)?.to_vec()?, [10.0, 11.0, 12.0]);
    Ok(())
}

/// Before anything runs, and with the line of the caller.
#[test]
fn mistakes_are_errors_at_submission() -> Result<()> {
    let runtime = runtime();
    let work = runtime.arena("work");
    let (x, w) = (work.zeros::<f32, 2>([4, 3])?, work.zeros::<f32, 2>([2, 5])?);
    let mut y = work.zeros::<f32, 2>([4, 2])?;
    let line = line!() + 1;
    let error = op::matmul(&x, &w, &mut y).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Shape);
    assert!(error.to_string().contains(&format!("forms.rs:{line}")), "{error}");
    let line = line!() + 1;
    let error = op::matmul_init(&work, &x, &w).unwrap_err();
    assert!(error.to_string().contains(&format!("forms.rs:{line}")), "{error}");
    let line = line!() + 1;
    let error = op::add_self(&mut y, &x).unwrap_err();
    assert!(error.to_string().contains(&format!("forms.rs:{line}")), "{error}");
    let elsewhere = Runtime::new(&Machine::with_workers(1))?;
    let other = elsewhere.arena("other");
    let stranger = other.zeros::<f32, 2>([4, 2])?;
    let error = op::add_self(&mut y, &stranger).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    Ok(())
}
