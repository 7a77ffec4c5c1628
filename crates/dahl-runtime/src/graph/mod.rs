//! graph.

pub mod deps;
