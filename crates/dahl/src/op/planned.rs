//! Index relations written down ahead of their kernels.
//!
//! Each line is proven against a scalar definition of its operation by the `relations` test, so that a kernel
//! written later starts from an index relation that is known to be right. A line leaves this list when its
//! operation gets a folder.

/// Name and index relation of each operation.
pub const PLANNED: &[(&str, &str)] = &[
    // Images to rows; h and w are the extents of y and x. A reshaped view does this without a task.
    ("flatten", "x[n,c,y,x] -> f[n,i] where i = c*h*w+y*w+x, y<h, x<w"),
    // Rows back to images.
    ("flatten_backward", "df[n,i] -> dx[n,c,y,x] where i = c*h*w+y*w+x, y<h, x<w"),
    // Convolution, bias, ReLU and max pooling in one pass. A partial sum cannot go through ReLU and maximum, so
    // neither channels nor windows are split: y does not accumulate.
    (
        "conv2d_relu_max_pool",
        "x[n,c,iy,ix]?0 w[k,c,ky,kx] b[k] -> y[n,k,py,px] arg[n,k,py,px] \
         where iy = oy*s+ky-p, ix = ox*s+kx-p, oy = py*t+qy, ox = px*t+qx, qy<q, qx<q",
    ),
    // Its weight gradient straight from the pooled gradient, without the gradient in between.
    (
        "conv2d_relu_max_pool_dw",
        "x[n,c,iy,ix]?0 dy[n,k,py,px] arg[n,k,py,px] -> dw[k,c,ky,kx] += \
         where iy = oy*s+ky-p, ix = ox*s+kx-p, oy = py*t+qy, ox = px*t+qx, qy<q, qx<q",
    ),
];
