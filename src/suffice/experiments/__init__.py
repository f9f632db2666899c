"""The paper's experiments, measured on a collection: every figure and table beside the paper's numbers."""
