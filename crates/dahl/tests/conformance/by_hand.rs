//! Results worked out by hand, so that the references themselves are held to something.

use dahl::op;
use dahl_runtime::array::{Dtype, Layout};
use dahl_runtime::codelet::Codelet;
use dahl_runtime::conformance::{Arg, Prepared, Settings};

/// Runs the reference on whole arrays of `f64` (or the given type) and returns the outputs.
fn reference(
    codelet: &Codelet,
    args: &[(Dtype, &[usize], &[f64])],
    settings: &Settings<'_>,
) -> dahl_runtime::Result<Vec<Vec<f64>>> {
    let args = args.iter().map(|(dtype, shape, data)| {
        let mut arg = Arg::whole(*dtype, Layout::RowMajor, shape);
        arg.fill(data);
        arg
    });
    let mut prepared = Prepared::new(codelet, "reference", Dtype::F64, args.collect(), settings);
    prepared.run()?;
    Ok(prepared.into_args()[settings.n_inputs..].iter().map(Arg::values).collect())
}

const T: Dtype = Dtype::F64;

#[test]
fn convolution_of_a_ramp() {
    // 3x3 image 1..9, kernel [[1,0],[0,-1]], bias 10: each output is x[i] - x[i+4] + 10.
    let x: Vec<f64> = (1..10).map(f64::from).collect();
    let args: [(Dtype, &[usize], &[f64]); 4] = [
        (T, &[1, 1, 3, 3], &x),
        (T, &[1, 1, 2, 2], &[1.0, 0.0, 0.0, -1.0]),
        (T, &[1], &[10.0]),
        (T, &[1, 1, 2, 2], &[0.0; 4]),
    ];
    let settings = Settings { n_inputs: 3, ints: &[1, 0], ..Settings::default() };
    assert_eq!(reference(&op::conv2d::CODELET, &args, &settings).unwrap(), [[6.0; 4]]);

    // Stride 2 and padding 1: windows around the corners, with zeros outside.
    let settings = Settings { n_inputs: 3, ints: &[2, 1], ..Settings::default() };
    let expected = [10.0 - 1.0, 10.0 - 3.0, 10.0 - 7.0, 10.0 + 5.0 - 9.0];
    assert_eq!(reference(&op::conv2d::CODELET, &args, &settings).unwrap(), [expected]);
}

#[test]
fn weight_gradient_of_a_ramp() {
    // dw[ky,kx] = Σ x[oy+ky,ox+kx] dy[oy,ox] with dy = [[1,2],[3,4]].
    let x: Vec<f64> = (1..10).map(f64::from).collect();
    let args: [(Dtype, &[usize], &[f64]); 3] =
        [(T, &[1, 1, 3, 3], &x), (T, &[1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0]), (T, &[1, 1, 2, 2], &[1.0; 4])];
    let settings = Settings { n_inputs: 2, ints: &[1, 0], accumulate: true, ..Settings::default() };
    let expected = [37.0 + 1.0, 47.0 + 1.0, 67.0 + 1.0, 77.0 + 1.0];
    assert_eq!(reference(&op::conv2d_dw::CODELET, &args, &settings).unwrap(), [expected]);
}

#[test]
fn pooling_prefers_the_first_maximum_and_the_last_nan() {
    let x = [1.0, 2.0, 2.0, 1.0, f64::NAN, 3.0, f64::NAN, 9.0];
    let args: [(Dtype, &[usize], &[f64]); 3] =
        [(T, &[1, 2, 2, 2], &x), (T, &[1, 2, 1, 1], &[0.0; 2]), (Dtype::U8, &[1, 2, 1, 1], &[0.0; 2])];
    let settings = Settings { n_inputs: 1, ints: &[2, 0, 2], ..Settings::default() };
    let outputs = reference(&op::max_pool::CODELET, &args, &settings).unwrap();
    assert!(outputs[0][0] == 2.0 && outputs[0][1].is_nan());
    assert_eq!(outputs[1], [1.0, 2.0]);
}

#[test]
fn overlapping_windows_add_their_gradients() {
    // One row of three pixels, windows of 2x2 with stride 1 and padding 0 on two rows: both name the middle.
    let args: [(Dtype, &[usize], &[f64]); 3] = [
        (Dtype::U8, &[1, 1, 1, 2], &[1.0, 0.0]),
        (T, &[1, 1, 1, 2], &[5.0, 7.0]),
        (T, &[1, 1, 2, 3], &[9.0; 6]),
    ];
    let settings = Settings { n_inputs: 2, ints: &[1, 0, 2], ..Settings::default() };
    let expected = [0.0, 12.0, 0.0, 0.0, 0.0, 0.0];
    assert_eq!(reference(&op::max_pool_backward::CODELET, &args, &settings).unwrap(), [expected]);
}

#[test]
fn cross_entropy_of_even_logits() {
    // Two classes, equal logits, a batch of two: loss ln 2, gradients ±1/4, the tie counts for class 0.
    let args: [(Dtype, &[usize], &[f64]); 5] = [
        (T, &[2, 2], &[3.0; 4]),
        (Dtype::U8, &[2], &[0.0, 1.0]),
        (T, &[], &[0.0]),
        (T, &[], &[0.0]),
        (T, &[2, 2], &[0.0; 4]),
    ];
    let settings = Settings { n_inputs: 2, ..Settings::default() };
    let outputs = reference(&op::softmax_ce::CODELET, &args, &settings).unwrap();
    assert!((outputs[0][0] - std::f64::consts::LN_2).abs() < 1e-15);
    assert_eq!(outputs[1], [1.0]);
    assert_eq!(outputs[2], [-0.25, 0.25, 0.25, -0.25]);
}

#[test]
fn dense_layer_and_descent() {
    let args: [(Dtype, &[usize], &[f64]); 4] = [
        (T, &[2, 2], &[1.0, 2.0, 3.0, 4.0]),
        (T, &[1, 2], &[10.0, -1.0]),
        (T, &[1], &[0.5]),
        (T, &[2, 1], &[0.0; 2]),
    ];
    let settings = Settings { n_inputs: 3, ..Settings::default() };
    assert_eq!(reference(&op::dense::CODELET, &args, &settings).unwrap(), [[8.5, 26.5]]);
    let args: [(Dtype, &[usize], &[f64]); 3] =
        [(T, &[2], &[2.0, -4.0]), (T, &[], &[0.5]), (T, &[2], &[1.0, 1.0])];
    let settings = Settings { n_inputs: 2, ..Settings::default() };
    assert_eq!(reference(&op::sgd::CODELET, &args, &settings).unwrap(), [[0.0, 3.0]]);
}

#[test]
fn rectifier_in_place() {
    let values = [-1.0, -0.0, 0.0, 2.5, f64::NEG_INFINITY, f64::INFINITY];
    for (name, layout) in [("reference", Layout::RowMajor), ("lanes", Layout::Lanes(8))] {
        let mut x = Arg::whole(T, layout, &[2, 3]);
        x.fill(&values);
        let settings = Settings { n_inputs: 1, ..Settings::default() };
        let args = vec![x, Arg::whole(T, layout, &[2, 3])];
        let mut prepared = Prepared::new(&op::relu::CODELET, name, T, args, &settings);
        prepared.share(0, 1);
        prepared.run().unwrap();
        assert_eq!(prepared.into_args()[0].values(), [0.0, 0.0, 0.0, 2.5, 0.0, f64::INFINITY]);

        let (mut y, mut dy) = (Arg::whole(T, layout, &[2, 3]), Arg::whole(T, layout, &[2, 3]));
        y.fill(&[0.0, 1.0, 2.0, 0.0, -1.0, 3.0]);
        dy.fill(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let settings = Settings { n_inputs: 2, ..Settings::default() };
        let args = vec![y, dy, Arg::whole(T, layout, &[2, 3])];
        let mut prepared = Prepared::new(&op::relu_backward::CODELET, name, T, args, &settings);
        prepared.share(1, 2);
        prepared.run().unwrap();
        assert_eq!(prepared.into_args()[1].values(), [0.0, 2.0, 3.0, 0.0, 0.0, 6.0]);
    }
}

#[test]
fn a_label_without_output_and_an_index_beyond_the_data_are_errors() {
    for (name, layout) in [("reference", Layout::RowMajor), ("lanes", Layout::Lanes(8))] {
        let filled = |dtype, layout, shape: &[usize], value: f64| {
            let mut arg = Arg::whole(dtype, layout, shape);
            arg.fill(&vec![value; shape.iter().product()]);
            arg
        };
        let args = vec![
            filled(T, layout, &[3, 4], 1.0),
            filled(Dtype::U8, layout, &[3], 4.0),
            filled(T, Layout::RowMajor, &[], 0.0),
            filled(T, Layout::RowMajor, &[], 0.0),
            filled(T, layout, &[3, 4], 0.0),
        ];
        let settings = Settings { n_inputs: 2, scalars: &[255.0], ..Settings::default() };
        let error = Prepared::new(&op::softmax_ce::CODELET, name, T, args, &settings).run().unwrap_err();
        assert!(error.message().contains("sample 0 has label 4, but the model has 4 outputs"), "{error}");

        let index = filled(Dtype::U32, Layout::RowMajor, &[2], 6.0);
        let args = vec![
            filled(Dtype::U8, Layout::RowMajor, &[6, 1, 2, 2], 1.0),
            index.clone(),
            filled(T, layout, &[2, 1, 2, 2], 0.0),
        ];
        let error = Prepared::new(&op::load::CODELET, name, T, args, &settings).run().unwrap_err();
        assert!(error.message().contains("asks for entry 6, but the data set holds 0..6"), "{error}");
        let args =
            vec![filled(Dtype::U8, Layout::RowMajor, &[6], 1.0), index, filled(Dtype::U8, layout, &[2], 0.0)];
        assert!(Prepared::new(&op::load_labels::CODELET, name, T, args, &settings).run().is_err());
    }
}

/// What dropout makes of ones, with these scalars and this counter.
fn dropped(p: f64, seed: f64, counter: f64, n: usize) -> Vec<f64> {
    let ones = vec![1.0; n];
    let args: [(Dtype, &[usize], &[f64]); 3] =
        [(T, &[n / 100, 100], &ones), (Dtype::U32, &[], &[counter]), (T, &[n / 100, 100], &ones)];
    let settings = Settings { n_inputs: 2, scalars: &[p, seed], ..Settings::default() };
    reference(&op::dropout::CODELET, &args, &settings).unwrap().remove(0)
}

#[test]
fn dropout_drops_its_share_and_keeps_the_mean() {
    let n = 100_000;
    for p in [0.1, 0.5, 0.9] {
        let values = dropped(p, 3.0, 7.0, n);
        assert!(values.iter().all(|&value| value == 0.0 || value == 1.0 / (1.0 - p)));
        let n_dropped = values.iter().filter(|&&value| value == 0.0).count() as f64;
        // Five standard deviations.
        let deviation = (n as f64 * p * (1.0 - p)).sqrt();
        assert!((n_dropped - n as f64 * p).abs() < 5.0 * deviation, "{n_dropped} of {n} dropped at {p}");
        // Rows, which other samples' coins would repeat in, and other runs and layers agree by chance alone.
        let agreeing = |other: &[f64]| values.iter().zip(other).filter(|(a, b)| a == b).count() as f64;
        let by_chance = n as f64 * (p * p + (1.0 - p) * (1.0 - p));
        for other in
            [dropped(p, 3.0, 8.0, n), dropped(p, 4.0, 7.0, n), [&values[100..], &values[..100]].concat()]
        {
            assert!((agreeing(&other) - by_chance).abs() < 0.02 * n as f64, "{} agree", agreeing(&other));
        }
    }
    assert_eq!(dropped(0.0, 3.0, 7.0, 1000), [1.0; 1000]);
    assert_eq!(dropped(1.0, 3.0, 7.0, 1000), [0.0; 1000]);
}

#[test]
fn settings_that_make_no_sense_are_errors() {
    let error = |codelet, args: &[(Dtype, &[usize], &[f64])], n_inputs, scalars| {
        let settings = Settings { n_inputs, scalars, ..Settings::default() };
        reference(codelet, args, &settings).unwrap_err().message().to_string()
    };
    let args: [(Dtype, &[usize], &[f64]); 3] =
        [(T, &[1], &[1.0]), (Dtype::U32, &[], &[0.0]), (T, &[1], &[1.0])];
    let message = error(&op::dropout::CODELET, &args, 2, &[1.5, 0.0]);
    assert!(message.contains("a probability from 0 to 1, not 1.5"), "{message}");
    let args: [(Dtype, &[usize], &[f64]); 4] =
        [(T, &[1], &[1.0]), (T, &[1], &[1.0]), (T, &[1], &[1.0]), (T, &[1], &[1.0])];
    let message = error(&op::batch_norm_running::CODELET, &args, 2, &[0.1, 1.0]);
    assert!(message.contains("1 values per channel") && message.contains("at least 2"), "{message}");
    let args: [(Dtype, &[usize], &[f64]); 2] = [(T, &[2, 0], &[]), (Dtype::U32, &[2], &[0.0, 0.0])];
    let message = error(&op::argmax::CODELET, &args, 1, &[]);
    assert!(message.contains("rows of no classes"), "{message}");
    let p: (Dtype, &[usize], &[f64]) = (T, &[1, 2], &[0.5, 0.5]);
    let label: (Dtype, &[usize], &[f64]) = (Dtype::U8, &[1], &[2.0]);
    for (codelet, out) in [
        (&op::cross_entropy::CODELET, (T, &[][..], &[0.0][..])),
        (&op::cross_entropy_backward::CODELET, (T, &[1, 2][..], &[0.0, 0.0][..])),
    ] {
        let message = error(codelet, &[p, label, out], 2, &[]);
        assert!(message.contains("sample 0 has label 2"), "{message}");
    }
}
