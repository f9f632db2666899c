"""What is used in place of the exact primitive, with proven allowances of its own."""

# so that a pair at supervised states is known wherever a pair is
from suffice.realizations import supervised as _supervised  # noqa: F401
