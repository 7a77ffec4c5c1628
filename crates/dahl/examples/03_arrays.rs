//! One-off work: arrays in an arena, tasks submitted on parts of them, and guards that wait for what they
//! need.

use dahl::prelude::*;

fn main() -> dahl::Result<()> {
    let runtime = Runtime::new(&Machine::with_workers(2))?;
    let mut arena = runtime.arena("work");
    for round in 0..3 {
        let values: Vec<f32> = (0..12).map(|i| (i + round) as f32 - 6.0).collect();
        let x = arena.array_from([4, 3], &values)?;
        let mut y = arena.array::<f32, 2>([4, 3])?;
        // Two halves, two tasks; submission returns at once.
        for (x, mut y) in x.split(0, 2)?.zip(y.split_mut(0, 2)?) {
            op::relu(&x, &mut y)?;
        }
        let total = op::sum_init(&arena, &y)?;
        // Reading waits for both halves, and for nothing else.
        let seen = y.read()?;
        println!("round {round}:\n{seen:.1}");
        assert!((0..12).all(|i| seen[[i / 3, i % 3]] == values[i].max(0.0)));
        assert_eq!(total.read()?[[]], values.iter().map(|x| x.max(0.0)).sum::<f32>());
        // All arrays of the round are gone, so the arena can be reset; that a task may still use one is its
        // concern.
        arena.reset()?;
    }
    Ok(())
}
