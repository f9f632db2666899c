"""Pairs: realizations (F, A) of (Phi, R) with F' = A, and the proven allowances of their errors."""
