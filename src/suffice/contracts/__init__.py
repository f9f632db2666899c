"""Contracts: allowances on score and ratio errors -> bounds on loss, probability, gradient and prediction."""
