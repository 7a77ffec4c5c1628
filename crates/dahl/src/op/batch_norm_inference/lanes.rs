//! The kernel of training: statistics are statistics.

use crate::op::batch_norm_normalise::normalise;
use crate::op::simd::lanes_kernel;

lanes_kernel!(batch_norm_inference, normalise);
