//! What this crate brings along is right by itself, as far as dahl's tools for tests can tell.

use dahl::check;
use dahl::layer::{Chain, Conv2d, Dense, Flatten, Relu, Residual};
use dahl_outside::{CODELETS, Prelu, SquaredError};

#[test]
fn implementations_agree_whole_and_in_tiles() -> dahl::Result<()> {
    for codelet in CODELETS {
        assert!(check::codelet(codelet)? > 50, "{codelet:?}");
    }
    Ok(())
}

#[test]
fn the_layer_has_the_gradients_of_its_differences() -> dahl::Result<()> {
    let prelu = || Chain::new().layer(Prelu::new(0.25));
    check::gradients(&prelu(), &[2, 3, 3], 1)?;
    check::gradients(&prelu(), &[5], 1)?;
    let between = Chain::new().layer(Conv2d::new(2, 2)).layer(Prelu::new(0.1)).layer(Flatten);
    check::gradients(&between.layer(Dense::new(3)).layer(Prelu::new(0.5)), &[1, 4, 3], 1)?;
    // Both branches need what the other must not overwrite.
    let block = Residual::new(prelu().layer(Relu)).shortcut(prelu());
    check::gradients(&Chain::new().layer(Dense::new(4)).layer(block).layer(Relu), &[4], 1)?;
    Ok(())
}

#[test]
fn the_loss_has_the_gradient_of_its_differences() -> dahl::Result<()> {
    check::loss(&SquaredError, 2)?;
    check::loss(&SquaredError, 7)?;
    Ok(())
}
