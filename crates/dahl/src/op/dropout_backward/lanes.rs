//! The kernel of the forward pass.

use crate::op::dropout::toss;
use crate::op::simd::lanes_kernel;

lanes_kernel!(dropout_backward, toss);
