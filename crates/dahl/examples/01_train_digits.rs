//! Trains a small network on the digits that dahl brings along, twice, and finds the same bits.

use dahl::Result;
use dahl::prelude::*;

fn train(workers: usize) -> Result<(Vec<f64>, f64)> {
    let data = dataset::digits();
    let mut model = Sequential::new(data.shape).conv2d(8, 3).relu().max_pool(2).flatten().dense(10);
    let trainer = Trainer::new(&Machine::with_workers(workers)).sgd(0.5).batch(64).epochs(20);
    let report = trainer.fit(&mut model, &data)?;
    let accuracy = report.epochs.last().map_or(0.0, |epoch| epoch.test_accuracy);
    Ok((model.weights().unwrap_or_default().to_vec(), accuracy))
}

fn main() -> Result<()> {
    let (weights, accuracy) = train(1)?;
    println!("one worker: {:.1} % of the test images", 100.0 * accuracy);
    assert!(accuracy > 0.9);
    let (same, _) = train(2)?;
    assert!(weights.iter().zip(&same).all(|(a, b)| a.to_bits() == b.to_bits()));
    println!("two workers: the same {} weights, bit for bit", weights.len());
    Ok(())
}
