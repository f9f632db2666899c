"""The sign of a sum of products, exactly: what two rounded sums cannot tell (docs/theory, 10.4).

Two separately rounded sums can be equal while the sums differ: (1, 0) and (1, 2^-60) at (1, 1). So the difference is
one sum over all of its terms, exactly rounded (`math.fsum`) where every product is a float, and in integers elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["sign_of_products"]

# Products of numbers of 24 bits have 48. Above this size none of them has underflowed.
_LEAST_PRODUCT = 2.0**-900
_LARGEST_PRODUCT = 2.0**900


def sign_of_products(a: Sequence[float], b: Sequence[float], *, short: bool = False) -> int:
    """The sign of sum_i a_i b_i: -1, 0 or 1. `short` says that every a_i and b_i has 24 bits or fewer.

    >>> sign_of_products([1.0, 1.0, -1.0], [1.0, 2.0**-60, 1.0])
    1
    """
    if short:
        products = [x * y for x, y in zip(a, b, strict=True)]
        if all(z == 0 or _LEAST_PRODUCT < abs(z) < _LARGEST_PRODUCT for z in products) and _nonzero(a, b, products):
            total = math.fsum(products)
            return (total > 0) - (total < 0)
    return _sign_in_integers(a, b)


def _nonzero(a: Sequence[float], b: Sequence[float], products: Sequence[float]) -> bool:
    """Whether a product is zero only where one of its factors is."""
    return all(z != 0 or x == 0 or y == 0 for x, y, z in zip(a, b, products, strict=True))


def _sign_in_integers(a: Sequence[float], b: Sequence[float]) -> int:
    """The same for any finite floats: every one is an integer times a power of two."""
    terms = []
    for x, y in zip(a, b, strict=True):
        (m, d), (n, e) = x.as_integer_ratio(), y.as_integer_ratio()
        if m and n:
            # denominators are powers of two
            terms.append((m * n, d.bit_length() + e.bit_length() - 2))
    finest = max((shift for _, shift in terms), default=0)
    total = sum(product << (finest - shift) for product, shift in terms)
    return (total > 0) - (total < 0)
