//! What is fuzzed: a function per target that takes any bytes and must neither panic nor contradict itself.
//!
//! `cargo fuzz run TARGET` tries bytes on a target (each has a program in `bin/`); the test `fuzz` of the
//! crate `dahl` compiles this same module and replays the corpora, so that what was found once stays found on
//! stable Rust.
//!
//! Files of every format are read from their bytes, and what is accepted is used: written and read again,
//! computed with. Relations, plans and arrays are made from the bytes ([`Choices`](choices::Choices)) and
//! compared with a model that knows nothing of tiles, memory or workers.

mod arrays;
mod choices;
mod data;
mod folder;
mod numbers;
mod plans;
mod records;
mod relations;
mod texts;

pub use plans::small_plan;
pub use records::small_checkpoint;

/// A target: its name, which is also that of its corpus and of its program, and what is done with the bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 20] = [
    ("arrays", arrays::arrays),
    ("checkpoint", records::checkpoint),
    ("choices", records::choices),
    ("cifar", data::cifar),
    ("csv", numbers::csv),
    ("cut", texts::cut),
    ("idx", data::idx),
    ("machine", texts::machine),
    ("measurements", records::measurements),
    ("model", texts::model),
    ("npy", numbers::npy),
    ("npz", numbers::npz),
    ("picture", data::picture),
    ("plan", plans::plan),
    ("plans", plans::plans),
    ("regions", relations::regions),
    ("relation", relations::relation),
    ("safetensors", numbers::safetensors),
    ("synthetic", data::synthetic),
    ("trace", records::trace),
];

/// Does with `bytes` what the target of this name does.
pub fn run(name: &str, bytes: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(target, _)| *target == name).expect("a target of this name");
    target(bytes);
}
