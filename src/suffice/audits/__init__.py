"""From a collection to a decision: plan, run, ledger, summary."""
