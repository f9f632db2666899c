"""Benchmarks: ratios measured in one run, on the same inputs and threads. `make bench` writes build/bench.json."""
