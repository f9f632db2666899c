"""Proofs in exact rational arithmetic: what `suffice prove` runs."""
