"""An independent check of an audit: file readers, Arb, exact fractions and NumPy, nothing of the code that certified.

Nothing of `suffice` outside of this package is imported here, and no torch. Everything is recomputed from the
collection: directions renormalised, radii, the surrogates F_n with polynomials from their recurrence, the Bessel
functions, both softmaxes, the contracts, the allowances with constants restated from docs/theory.
"""

from suffice.verify.check import collection_of, verify_audit
from suffice.verify.report import Finding, Report, UnreadableError

__all__ = ["Finding", "Report", "UnreadableError", "collection_of", "verify_audit"]
