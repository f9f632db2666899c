"""Objectives: what is learned with. Exact scores, class-gradient vectors, a loss."""
