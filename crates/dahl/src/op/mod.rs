//! The operations.

pub mod planned;
