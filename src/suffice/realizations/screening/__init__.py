"""Screening: what the exact head says, proved from an approximate product and a few exact rows (docs/theory, 10)."""
