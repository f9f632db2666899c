"""Tolerances: budgets -> the largest multiple of a family of allowances that a contract accepts."""
