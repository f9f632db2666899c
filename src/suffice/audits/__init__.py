"""From a collection to a decision: run, ledger, summary."""

from suffice.audits.plan import Plan
from suffice.audits.run import Audit, audit, run_audit
from suffice.audits.summary import AuditSummary

__all__ = ["Audit", "AuditSummary", "Plan", "audit", "run_audit"]
