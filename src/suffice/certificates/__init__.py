"""Certificates: bounds at states, verdicts, cascades, explanations, certified evaluation."""
