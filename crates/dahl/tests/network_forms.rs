//! The network operations as functions on arrays: a small network trained by hand, and forms that must agree.

use dahl::op;
use dahl_runtime::array::{Array, Element};
use dahl_runtime::machine::Machine;
use dahl_runtime::{Result, Runtime};

const EPS: f64 = 1e-5;

/// Numbers without pattern in -1..1.
fn wave(n: usize) -> Vec<f64> {
    (0..n).map(|i| (i * 7919 % 1009) as f64 / 504.5 - 1.0).collect()
}

fn assert_same<T: Element, const R: usize>(a: &Array<'_, T, R>, b: &Array<'_, T, R>) -> Result<()> {
    assert_eq!(a.to_vec()?, b.to_vec()?);
    Ok(())
}

/// Convolution, batch normalisation, ReLU, pooling, dropout, dense, softmax and cross-entropy on eight
/// images, and their gradients down to the images; AdamW moves the weights of the convolution. Every gradient
/// has to be right for the loss to fall this far.
#[test]
fn a_network_learns_eight_images_by_heart() -> Result<()> {
    let runtime = Runtime::new(&Machine::with_workers(2))?;
    let work = runtime.arena("work");
    let mut x = work.array_from([8, 2, 6, 6], &wave(8 * 72))?;
    let label = work.array_from([8], &[0u8, 1, 2, 0, 1, 2, 0, 1])?;
    let mut w = work.array_from([36], &wave(36))?;
    let (mut w_first, mut w_second) = (work.zeros::<f64, 1>([36])?, work.zeros::<f64, 1>([36])?);
    let mut fc = work.array_from([24], &wave(24))?;
    let mut fc_velocity = work.zeros::<f64, 1>([24])?;
    let (gamma, beta) = (work.filled([2], 1.5f64)?, work.filled([2], 0.5f64)?);
    let (b, fc_b) = (work.zeros::<f64, 1>([2])?, work.zeros::<f64, 1>([3])?);
    let lr = work.filled([], 0.05f64)?;
    let mut losses = Vec::new();
    for step in 0..30u32 {
        let counter = work.filled([], step)?;
        let kernels = work.array_from([2, 2, 3, 3], &w.to_vec()?)?;
        let weights = work.array_from([3, 8], &fc.to_vec()?)?;
        let conv = op::conv2d_init(&work, &x, &kernels, &b, 1, 1)?;
        let mean = op::batch_norm_mean_init(&work, &conv)?;
        let var = op::batch_norm_square_sum_init(&work, &conv, &mean)?;
        let normal = op::batch_norm_normalise_init(&work, &conv, &mean, &var, &gamma, &beta, EPS)?;
        let (rectified, mask) = op::relu_mask_init(&work, &normal)?;
        let pooled = op::avg_pool_init(&work, &rectified, 2, 0, 3)?;
        let kept = op::dropout_init(&work, &pooled, &counter, 0.1, 1.0)?;
        let rows = work.array_from([8, 8], &kept.to_vec()?)?;
        let logits = op::dense_init(&work, &rows, &weights, &fc_b)?;
        let p = op::softmax_init(&work, &logits)?;
        losses.push(op::cross_entropy_init(&work, &p, &label)?.to_vec()?[0]);

        let mut dlogits = op::cross_entropy_backward_init(&work, &p, &label)?;
        op::softmax_backward_self(&mut dlogits, &p)?;
        let mut dweights = work.array([3, 8])?;
        op::dense_dw(&rows, &dlogits, &mut dweights)?;
        let drows = op::dense_dx_init(&work, &dlogits, &weights)?;
        let mut dpooled = work.array_from([8, 2, 2, 2], &drows.to_vec()?)?;
        op::dropout_backward_self(&mut dpooled, &counter, 0.1, 1.0)?;
        let mut dconv = work.array([8, 2, 6, 6])?;
        op::avg_pool_backward(&dpooled, 2, 0, 3, &mut dconv)?;
        op::relu_mask_backward_self(&mut dconv, &mask)?;
        let (dgamma, dbeta) = op::batch_norm_backward_sums_init(&work, &conv, &dconv, &mean, &var, EPS)?;
        op::batch_norm_dx_self(&mut dconv, &conv, &mean, &var, &gamma, &dgamma, &dbeta, EPS)?;
        let mut dkernels = work.array([2, 2, 3, 3])?;
        op::conv2d_dw(&x, &dconv, 1, 1, &mut dkernels)?;
        let mut dx = work.array([8, 2, 6, 6])?;
        op::conv2d_dx(&dconv, &kernels, 1, 1, &mut dx)?;

        let dw = work.array_from([36], &dkernels.to_vec()?)?;
        op::adamw(&dw, &lr, &counter, 0.9, 0.999, 1e-8, 0.01, &mut w, &mut w_first, &mut w_second)?;
        let dfc = work.array_from([24], &dweights.to_vec()?)?;
        op::sgd_momentum(&dfc, &lr, 0.9, 0.0, 1.0, &mut fc, &mut fc_velocity)?;
        // The images move too, so that their gradient matters.
        op::scale_self(&mut dx, -0.5)?;
        op::add_self(&mut x, &dx)?;
    }
    let (first, last) = (losses[0], losses[losses.len() - 1]);
    assert!(last < first / 4.0, "{losses:?}");
    Ok(())
}

#[test]
fn forms_in_place_agree_with_those_into_new_arrays() -> Result<()> {
    let runtime = Runtime::new(&Machine::with_workers(2))?;
    let work = runtime.arena("work");
    let x = work.array_from([3, 4], &wave(12))?;
    let label = work.array_from([3], &[3u8, 0, 1])?;
    let mut in_place = op::copy_init(&work, &x)?;
    op::softmax_self(&mut in_place)?;
    let p = op::softmax_init(&work, &x)?;
    assert_same(&in_place, &p)?;
    assert!(p.to_vec()?.chunks(4).all(|row| (row.iter().sum::<f64>() - 1.0).abs() < 1e-15));
    op::cross_entropy_backward_self(&mut in_place, &label)?;
    assert_same(&in_place, &op::cross_entropy_backward_init(&work, &p, &label)?)?;

    let counter = work.filled([], 5u32)?;
    let mut in_place = op::copy_init(&work, &x)?;
    op::dropout_self(&mut in_place, &counter, 0.5, 9.0)?;
    let kept = op::dropout_init(&work, &x, &counter, 0.5, 9.0)?;
    assert_same(&in_place, &kept)?;
    assert!(kept.to_vec()?.contains(&0.0) && kept.to_vec()?.iter().any(|value| *value != 0.0));
    // The gradient of ones is what stayed, times two.
    let ones = op::dropout_backward_init(&work, &work.filled([3, 4], 1.0f64)?, &counter, 0.5, 9.0)?;
    assert_same(&op::mul_init(&work, &ones, &x)?, &kept)?;

    let x = work.array_from([2, 2, 2, 3], &wave(24))?;
    let mean = op::batch_norm_mean_init(&work, &x)?;
    let var = op::batch_norm_square_sum_init(&work, &x, &mean)?;
    let (gamma, beta) = (work.filled([2], 1.0f64)?, work.filled([2], 0.0f64)?);
    let mut in_place = op::copy_init(&work, &x)?;
    op::batch_norm_normalise_self(&mut in_place, &mean, &var, &gamma, &beta, EPS)?;
    let normal = op::batch_norm_normalise_init(&work, &x, &mean, &var, &gamma, &beta, EPS)?;
    assert_same(&in_place, &normal)?;
    assert!(op::batch_norm_mean_init(&work, &normal)?.to_vec()?.iter().all(|mean| mean.abs() < 1e-15));
    // With a momentum of 1, the running statistics are those of the batch, the variance unbiased: 12 / 11 of
    // it.
    let (mut running_mean, mut running_var) = (work.zeros::<f64, 1>([2])?, work.zeros::<f64, 1>([2])?);
    op::batch_norm_running(&mean, &var, 1.0, 12.0, &mut running_mean, &mut running_var)?;
    assert_same(&running_mean, &mean)?;
    assert_same(&running_var, &op::scale_init(&work, &var, 12.0 / 11.0)?)?;
    let out = op::batch_norm_inference_init(&work, &x, &mean, &var, &gamma, &beta, EPS)?;
    assert_same(&out, &normal)?;
    let mut in_place = op::copy_init(&work, &x)?;
    op::batch_norm_inference_self(&mut in_place, &mean, &var, &gamma, &beta, EPS)?;
    assert_same(&in_place, &normal)
}

#[test]
fn classes_are_found_and_counted() -> Result<()> {
    let runtime = Runtime::new(&Machine::with_workers(2))?;
    let work = runtime.arena("work");
    let x = work.array_from([3, 3], &[0.1f32, 0.7, 0.2, 5.0, 5.0, 1.0, -3.0, -2.0, -1.0])?;
    let label = work.array_from([3], &[1u8, 1, 2])?;
    assert_eq!(op::argmax_init(&work, &x)?.to_vec()?, [1, 0, 2]);
    assert_eq!(op::accuracy_init(&work, &x, &label)?.to_vec()?, [2.0]);
    Ok(())
}

/// The first step of Adam moves every parameter by the rate, whatever the gradient.
#[test]
fn the_first_step_of_adam() -> Result<()> {
    let runtime = Runtime::new(&Machine::with_workers(2))?;
    let work = runtime.arena("work");
    let g = work.array_from([3], &[1e-3f64, -2.0, 500.0])?;
    let (lr, step) = (work.filled([], 0.25f64)?, work.filled([], 0u32)?);
    let (mut p, mut m, mut v) = (work.zeros([3])?, work.zeros([3])?, work.zeros([3])?);
    op::adam(&g, &lr, &step, 0.9, 0.999, 0.0, 0.0, &mut p, &mut m, &mut v)?;
    let moved = p.to_vec()?;
    assert!(
        moved.iter().zip([-0.25, 0.25, -0.25]).all(|(a, b): (&f64, f64)| (a - b).abs() < 1e-12),
        "{moved:?}"
    );
    Ok(())
}
