"""Arithmetic that everything else stands on: softmax kernels, compensated sums, roundings, checks."""
