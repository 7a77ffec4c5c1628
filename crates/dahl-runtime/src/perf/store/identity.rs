//! On which machine, and by which build, times were measured.

use crate::hash::Fingerprint;
use crate::machine::{Cache, CacheKind, Hardware};
use std::fmt;

/// Everything that times of the same kernel depend on: processor, caches, how many of what, the instruction
/// set in use, and whether the build was optimised. Times of one identity are never used for another.
///
/// The amount of memory does not count: virtual machines change it while they run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity(String);

impl Identity {
    /// The identity of this program on hardware, computing with an instruction set of this name.
    pub fn new(hardware: &Hardware, instructions: &str) -> Identity {
        let or_unknown = |n: Option<usize>| n.map_or_else(|| "?".to_string(), |n| n.to_string());
        let caches: Vec<String> = hardware.caches.iter().map(cache).collect();
        Identity(format!(
            "processor {}; packages {}; cores {}; threads {}; caches {}; nodes {}; instructions {instructions}; build {}",
            hardware.processor.as_deref().unwrap_or("?"),
            or_unknown(hardware.packages),
            or_unknown(hardware.cores),
            or_unknown(hardware.threads),
            if caches.is_empty() { "?".to_string() } else { caches.join(", ") },
            hardware.nodes.len(),
            if cfg!(debug_assertions) { "debug" } else { "release" },
        ))
    }

    /// A short name for it.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(self)
    }
}

fn cache(cache: &Cache) -> String {
    let kind = match cache.kind {
        CacheKind::Data => "d",
        CacheKind::Instruction => "i",
        CacheKind::Unified => "",
    };
    format!("{}x L{}{kind} {} for {}", cache.count, cache.level, cache.bytes, cache.threads)
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
