//! Index relations against scalar definitions of their operations: the notation means what it says, exactly.
//!
//! The lines here use every feature of the notation. A codelet need not be among them: that its regions
//! suffice is shown by the conformance test, which poisons everything outside of them.
//!
//! A definition is a loop nest written from the mathematics. It says which elements each contribution reads
//! and writes, and knows nothing of relations. For random shapes, parameters and tilings the relation must
//! give each contribution to exactly one tile, cover each output once per reduction tile, and name exactly
//! the bounding box of what the tile's contributions read.

mod case;
mod checker;
mod definitions;
mod mutants;

use case::{Case, Draw};
use checker::check;
use dahl::op::CODELETS;
use dahl::op::planned::PLANNED;
use dahl_runtime::codelet::relation::Relation;
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any};
use proptest::test_runner::{TestCaseError, TestRunner};

/// Random cases per line.
const CASES: u32 = 1024;

/// Checks a line against a definition on random cases; says what differs where it does.
fn verify(line: &str, define: fn(&mut Draw) -> Case) -> Result<(), String> {
    let config = ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() };
    let draws = (vec(any::<u8>(), 24), vec(any::<u8>(), 24));
    let result = TestRunner::new(config).run(&draws, |(sizes, cuts)| {
        let case = define(&mut Draw::new(sizes));
        check(line, &case, &mut Draw::new(cuts)).map_err(TestCaseError::fail)
    });
    result.map_err(|error| format!("{line}: {error}"))
}

/// One test per line, named like it.
macro_rules! lines {
    ($($name:ident),* $(,)?) => {
        mod line {
            $(#[test]
            fn $name() {
                let line = super::line_of(stringify!($name));
                super::verify(line, super::definitions::$name).unwrap_or_else(|error| panic!("{error}"));
            })*
        }
    };
}

lines!(
    conv2d,
    conv2d_dx,
    conv2d_dw,
    channel_sum,
    max_pool,
    max_pool_backward,
    avg_pool,
    avg_pool_backward,
    relu,
    relu_backward,
    relu_mask,
    relu_mask_backward,
    dense,
    dense_dx,
    dense_dw,
    dense_db,
    flatten,
    flatten_backward,
    softmax,
    softmax_backward,
    softmax_ce,
    cross_entropy,
    cross_entropy_backward,
    batch_norm_mean,
    batch_norm_square_sum,
    batch_norm_normalise,
    batch_norm_inference,
    batch_norm_backward_sums,
    batch_norm_dx,
    batch_norm_running,
    dropout,
    dropout_backward,
    add,
    sgd,
    sgd_momentum,
    adam,
    adamw,
    load,
    load_labels,
    argmax,
    accuracy,
    conv2d_relu,
    relu_conv2d_dx,
    conv2d_relu_max_pool,
    conv2d_relu_max_pool_dw,
);

/// Name and line of every operation, with a kernel or planned.
fn all_lines() -> Vec<(&'static str, &'static str)> {
    let built = CODELETS.iter().map(|codelet| (codelet.name, codelet.line));
    built.chain(PLANNED.iter().copied()).collect()
}

/// The line of an operation.
fn line_of(name: &str) -> &'static str {
    let found = all_lines().into_iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("{name} is neither a codelet nor planned")).1
}

#[test]
fn a_dilated_strided_convolution_is_exact_too() {
    let line = "x[n,c,iy,ix]?0 w[k,c,ky,kx] b[k] -> y[n,k,oy,ox] += where iy = oy*s+ky*d-p, ix = ox*s+kx*d-p";
    verify(line, definitions::conv2d_dilated).unwrap();
    let line = "dy[n,k,oy,ox] w[k,c,ky,kx] -> dx[n,c,iy,ix] += where iy = oy*s+ky*d-p, ix = ox*s+kx*d-p";
    verify(line, definitions::conv2d_dilated_dx).unwrap();
}

proptest::proptest! {
    /// Whatever the text, the parser answers; pieces of real lines get it past the first token.
    #[test]
    fn parsing_never_panics(text in ".*", pieces in vec(0usize..22, 0..24)) {
        const PIECES: [&str; 22] = [
            "x", "y", "[", "]", ",", "n", "i", "*", "..", "!", "?0", "?-inf", "?", "->", "+=", "max=", "where",
            "i = n*s+3-p", "=", "<", " 7", "-",
        ];
        let _ = Relation::parse(&text);
        let line: Vec<&str> = pieces.iter().map(|&i| PIECES[i]).collect();
        let _ = Relation::parse(&line.join(" "));
        let _ = Relation::parse(&line.concat());
    }
}
