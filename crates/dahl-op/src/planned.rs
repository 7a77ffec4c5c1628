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
];
