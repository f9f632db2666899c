"""Do two versions of the source compute the same numbers? `python -m tests.equality --before COMMIT` says."""
