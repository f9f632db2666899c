"""Rigorous enclosures of the exact objective and of the true errors: Arb, and the ladder's next terms."""
