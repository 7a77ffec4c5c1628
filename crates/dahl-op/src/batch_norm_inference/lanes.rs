//! The kernel of training: statistics are statistics.

use crate::batch_norm_normalise::normalise;
use crate::simd::lanes_kernel;

lanes_kernel!(batch_norm_inference, normalise);
