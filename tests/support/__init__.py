"""What several test files share: states, collections, tampering, grids. No test imports another test file."""
