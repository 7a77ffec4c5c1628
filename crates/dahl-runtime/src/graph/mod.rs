//! graph.
