//! The codelets that lowering itself inserts: copies between tiles, and sums of partial results.
