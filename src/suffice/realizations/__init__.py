"""What is used in place of the exact primitive, with proven allowances of its own."""
