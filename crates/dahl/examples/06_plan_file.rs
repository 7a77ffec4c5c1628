//! A plan is a file: written down, read, looked at, and executed again to the letter.

use dahl::prelude::*;
use dahl::runtime::plan::PlanFile;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let data = dataset::digits();
    let model = || Sequential::seed(data.shape, data.classes);
    let trainer = Trainer::new(&Machine::with_workers(2)).sgd(0.5).epochs(3);

    // Train by the default plan, and write that plan down.
    let mut original = model();
    let report = trainer.fit(&mut original, &data)?;
    let path = std::env::temp_dir().join(format!("dahl-example-{}.plan", std::process::id()));
    report.plans.save(&path)?;
    println!("plan {} ({})", report.plans.hash(), report.plans.origin());

    // It is text: one plan per recorded step, one line per task and per buffer.
    let text = std::fs::read_to_string(&path)?;
    for start in ["step", "machine", "memory", "task 2 ", "run 4 ", "buffer 9 "] {
        println!("  {}", text.lines().find(|line| line.starts_with(start)).unwrap_or_default());
    }

    // Read it and train again: every task on the same worker, in the same order, at the same place in memory.
    let plans = PlanFile::load(&path)?;
    let mut replayed = model();
    let again = trainer.clone().plan(plans).fit(&mut replayed, &data)?;
    assert_eq!(again.plans.hash(), report.plans.hash());
    let bits = |model: &Sequential| {
        model.weights().unwrap_or_default().iter().map(|w| w.to_bits()).collect::<Vec<_>>()
    };
    assert_eq!(bits(&original), bits(&replayed));
    println!("the same {} weights from the file, bit for bit", bits(&original).len());

    // A plan that cannot be executed is refused before anything runs, with the line that is wrong.
    std::fs::write(&path, text.replacen("on 1", "on 7", 1))?;
    let error =
        trainer.plan(PlanFile::load(&path)?).fit(&mut model(), &data).err().ok_or("it was not refused")?;
    println!("edited: {error}");
    assert!(error.to_string().contains("there is no unit 7"));
    std::fs::remove_file(&path)?;
    Ok(())
}
