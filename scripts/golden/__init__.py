"""Golden values of single operations, by PyTorch in float64: what its own functions and their gradients give."""
