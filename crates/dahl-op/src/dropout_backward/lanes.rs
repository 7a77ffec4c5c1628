//! The kernel of the forward pass.

use crate::dropout::toss;
use crate::simd::lanes_kernel;

lanes_kernel!(dropout_backward, toss);
