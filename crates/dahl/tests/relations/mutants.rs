//! Lines that are wrong in plausible ways: the checker must refuse each of them, or it would prove nothing.

use crate::case::{Case, Draw};
use crate::{definitions, verify};

/// Asserts that the wrong line is told from the definition, for this reason (or one of several, set apart by
/// `|`: which one is found first depends on the shapes drawn).
fn refused(line: &str, define: fn(&mut Draw) -> Case, reasons: &str) {
    match verify(line, define) {
        Ok(()) => panic!("the checker accepts {line}"),
        Err(error) => {
            assert!(reasons.split('|').any(|r| error.contains(r)), "expected `{reasons}` in: {error}");
        }
    }
}

#[test]
fn a_convolution_without_padding() {
    refused(
        "x[n,c,iy,ix]?0 w[k,c,ky,kx] b[k] -> y[n,k,oy,ox] += where iy = oy*s+ky, ix = ox*s+kx",
        |draw| {
            let mut case = definitions::conv2d(draw);
            case.ints.truncate(1);
            case
        },
        "inferred",
    );
}

#[test]
fn a_convolution_that_forgets_the_offset_in_its_window() {
    refused(
        "x[n,c,iy,ix]?0 w[k,c,ky,kx] b[k] -> y[n,k,oy,ox] += where iy = oy*s+ky-p, ix = ox*s-p",
        definitions::conv2d,
        "inferred",
    );
}

#[test]
fn a_convolution_with_rows_and_columns_exchanged() {
    refused(
        "x[n,c,iy,ix]?0 w[k,c,ky,kx] b[k] -> y[n,k,oy,ox] += where ix = oy*s+ky-p, iy = ox*s+kx-p",
        definitions::conv2d,
        "inferred|does not fit",
    );
}

#[test]
fn a_pool_that_reads_whole_rows() {
    refused(
        "x[n,c,iy,*]?-inf -> y[n,c,oy,ox] max= arg[n,c,oy,ox] where iy = oy*s+ky-p, ky<k, kx<k",
        |draw| Case { inferred: None, ..definitions::max_pool(draw) },
        "x is read at",
    );
}

#[test]
fn a_softmax_whose_classes_may_be_split() {
    refused("x[n,k] -> y[n,k]", definitions::softmax, "x is read at");
}

#[test]
fn a_loss_whose_classes_may_be_split() {
    refused(
        "logits[n,k] label[n] -> loss[] += correct[] += dlogits[n,k]",
        definitions::softmax_ce,
        "of dlogits is written outside",
    );
}

#[test]
fn a_gather_that_reads_like_a_copy() {
    refused("images[n,c,y,x] index[n] -> x[n,c,y,x]", definitions::load, "where n is");
}

#[test]
fn a_probability_that_is_picked_by_a_loop() {
    refused("p[n,k] label[n] -> loss[] +=", definitions::cross_entropy, "p is read at");
}

#[test]
fn a_dense_layer_with_its_weights_transposed() {
    refused("x[n,i] w[i,o] b[o] -> y[n,o] +=", definitions::dense, "where i is");
}

#[test]
fn a_flatten_with_rows_and_columns_exchanged() {
    refused("x[n,c,y,x] -> f[n,i] where i = c*h*w+x*h+y, y<h, x<w", definitions::flatten, "x is read at");
}

#[test]
fn a_fused_pool_that_sees_one_row_of_its_window() {
    refused(
        "x[n,c,iy,ix]?0 w[k,c,ky,kx] b[k] -> y[n,k,py,px] arg[n,k,py,px] \
         where iy = oy*s+ky-p, ix = ox*s+kx-p, oy = py*t, ox = px*t+qx, qx<q",
        definitions::conv2d_relu_max_pool,
        "inferred",
    );
}
