"""Sparse linear algebra: sums of small blocks, factors L D L^T, orderings, conjugate gradients."""
