//! Index relations written down ahead of their kernels.
//!
//! Each line is proven against a scalar definition of its operation by the `relations` test, so that a kernel
//! written later starts from an index relation that is known to be right. A line leaves this list when its
//! operation gets a folder.

/// Name and index relation of each operation.
pub const PLANNED: &[(&str, &str)] = &[
    // Gradient of the input: the same windows, read from the other side.
    ("conv2d_dx", "dy[n,k,oy,ox] w[k,c,ky,kx] -> dx[n,c,iy,ix] += where iy = oy*s+ky-p, ix = ox*s+kx-p"),
    // Mean of each window; padding counts as 0, as in PyTorch's default.
    ("avg_pool", "x[n,c,iy,ix]?0 -> y[n,c,oy,ox] += where iy = oy*s+ky-p, ix = ox*s+kx-p, ky<k, kx<k"),
    // The gradient is shared out over the window.
    (
        "avg_pool_backward",
        "dy[n,c,oy,ox] -> dx[n,c,iy,ix] += where iy = oy*s+ky-p, ix = ox*s+kx-p, ky<k, kx<k",
    ),
    // Images to rows; h and w are the extents of y and x.
    ("flatten", "x[n,c,y,x] -> f[n,i] where i = c*h*w+y*w+x, y<h, x<w"),
    // Rows back to images.
    ("flatten_backward", "df[n,i] -> dx[n,c,y,x] where i = c*h*w+y*w+x, y<h, x<w"),
    // Each row needs its maximum and its sum, so classes stay together.
    ("softmax", "x[n,k!] -> y[n,k!]"),
    // dx = y * (dy - sum(y * dy)).
    ("softmax_backward", "y[n,k!] dy[n,k!] -> dx[n,k!]"),
    // -log of the probability of the label, which is picked by data.
    ("cross_entropy", "p[n,*] label[n] -> loss[] +="),
    // -1/p at the label, 0 elsewhere.
    ("cross_entropy_backward", "p[n,k] label[n] -> dp[n,k]"),
    // Mean per channel over the batch.
    ("batch_norm_mean", "x[n,c,y,x] -> mean[c] +="),
    // Sum of squares around that mean: not E[x²]-E[x]², which cancels.
    ("batch_norm_square_sum", "x[n,c,y,x] mean[c] -> var[c] +="),
    // gamma * (x - mean) / sqrt(var + eps) + beta, in training.
    ("batch_norm_normalise", "x[n,c,y,x] mean[c] var[c] gamma[c] beta[c] -> out[n,c,y,x]"),
    // The same with running statistics, in inference.
    ("batch_norm_inference", "x[n,c,y,x] running_mean[c] running_var[c] gamma[c] beta[c] -> out[n,c,y,x]"),
    // The two sums that every gradient of batch normalisation needs.
    ("batch_norm_backward_sums", "x[n,c,y,x] dy[n,c,y,x] mean[c] var[c] -> dgamma[c] += dbeta[c] +="),
    // Gradient of the input from those sums.
    ("batch_norm_dx", "x[n,c,y,x] dy[n,c,y,x] mean[c] var[c] gamma[c] dgamma[c] dbeta[c] -> dx[n,c,y,x]"),
    // Running statistics move towards those of the batch.
    ("batch_norm_running", "mean[c] var[c] running_mean[c] running_var[c] -> running_mean[c] running_var[c]"),
    // Each element's coin comes from its global index and the random counter of the run.
    ("dropout", "x[..] counter[] -> y[..]"),
    // The same coins again, so that no mask is stored.
    ("dropout_backward", "dy[..] counter[] -> dx[..]"),
    // With velocity.
    ("sgd_momentum", "g[i] lr[] p[i] v[i] -> p[i] v[i]"),
    // With first and second moments; the step number corrects their bias.
    ("adam", "g[i] lr[] step[] p[i] m[i] v[i] -> p[i] m[i] v[i]"),
    // Adam with decoupled weight decay.
    ("adamw", "g[i] lr[] step[] p[i] m[i] v[i] -> p[i] m[i] v[i]"),
    // The most likely class.
    ("argmax", "x[n,k!] -> class[n]"),
    // How often it is the right one.
    ("accuracy", "x[n,k!] label[n] -> correct[] +="),
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
