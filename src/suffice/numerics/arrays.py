"""One formula, two libraries: passes over rows by classes in NumPy where arrays are small, in torch where they are not.

A call of NumPy's costs a third of one of torch's, and torch shares large arrays among threads and works elsewhere than
on the host. What is one number a row is an array on the host in either case (`Scalars`), and so is what a sum gives.
Sums and products of a row are added up in whatever order the library likes.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

__all__ = [
    "NUMPY",
    "Arrays",
    "Each",
    "Flags",
    "Places",
    "Scalars",
    "TorchArrays",
    "arrays_for",
    "quiet",
    "row_products",
]

# One number, or a truth value, a row: on the host, where operations on few numbers cost least.
Scalars = np.ndarray[Any, np.dtype[np.float64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
Places = np.ndarray[Any, np.dtype[np.int64]]
# Rows by classes, or one row of classes: an ndarray or a tensor.
Each = Any

# What overflows, or is 0/0, in a row that is out of range is inf or NaN there, and never usable.
quiet = np.errstate(all="ignore")
# From so many entries on a pass of torch's takes less time than one of NumPy's.
_LARGE = 1 << 15


class Arrays(Protocol):
    """What the passes are made of. Elementwise functions write to `out`, or to a new array."""

    def mul(self, a: Each, b: Each, out: Each = None) -> Each: ...
    def add(self, a: Each, b: Each, out: Each = None) -> Each: ...
    def sub(self, a: Each, b: Each, out: Each = None) -> Each: ...
    def div(self, a: Each, b: Each, out: Each = None) -> Each: ...
    def minimum(self, a: Each, b: Each, out: Each = None) -> Each: ...
    def absolute(self, a: Each, out: Each = None) -> Each: ...
    def reciprocal(self, a: Each, out: Each = None) -> Each: ...
    def sqrt(self, a: Each, out: Each = None) -> Each: ...
    def exp(self, a: Each, out: Each = None) -> Each: ...
    def log1p(self, a: Each, out: Each = None) -> Each: ...

    def plus_product(self, a: Each, b: Each, c: Each, out: Each = None, factor: float = 1.0) -> Each:
        """a + factor b c; of these b and c may be `out`, and a may not."""
        ...

    def plus_multiple(self, a: Each, factor: float, b: Each, out: Each = None) -> Each:
        """a + factor b; b may be `out`, and a may not."""
        ...

    def product_plus(self, a: float, b: Each, c: Each, out: Each) -> Each:
        """b c + a for a number a; b and c may be `out`."""
        ...

    def line(self, a: Each, factor: float, shift: float) -> Each:
        """factor a + shift for numbers; a new array."""
        ...

    def clamp(self, a: Each, least: float | None, most: float | None, out: Each) -> Each:
        """Between two numbers, either of which may be missing; NaN stays NaN."""
        ...

    def given(self, tensor: Tensor) -> Each:
        """A tensor as an array of this library, which shares its memory on the host."""
        ...

    def copy(self, a: Each) -> Each:
        """The same numbers again."""
        ...

    def column(self, numbers: Scalars) -> Each:
        """One number a row, to be used beside rows by classes."""
        ...

    def dot(self, a: Each, b: Each) -> Scalars:
        """The sum of products of each row."""
        ...

    def total(self, a: Each) -> Scalars:
        """The sum of each row."""
        ...

    def most(self, a: Each) -> Scalars:
        """The largest of each row; NaN if there is one."""
        ...

    def least(self, a: Each) -> Scalars:
        """The smallest of each row; NaN if there is one."""
        ...

    def place_of_most(self, a: Each) -> Places:
        """Where the largest of each row stands."""
        ...

    def at(self, a: Each, places: Places) -> Scalars:
        """One entry of each row."""
        ...

    def put(self, a: Each, places: Places, numbers: Scalars | float) -> None:
        """Write one entry of each row."""
        ...

    def pick(self, a: Each, places: Places) -> Scalars:
        """One entry of one row of classes for each place."""
        ...

    def rows(self, a: Each, rows: Places) -> Each:
        """Some rows, copied."""
        ...

    def either(self, a: Each, b: Each, second: Flags) -> Each:
        """Rows of b where it says so, and of a elsewhere; a new array."""
        ...

    def tensor(self, a: Each) -> Tensor:
        """The array as a tensor."""
        ...


class _NumPy:
    """On the host."""

    mul: Any = np.multiply
    add: Any = np.add
    sub: Any = np.subtract
    div: Any = np.divide
    minimum: Any = np.minimum
    absolute: Any = np.absolute
    sqrt: Any = np.sqrt
    exp: Any = np.exp
    log1p: Any = np.log1p

    def reciprocal(self, a: Each, out: Each = None) -> Each:
        """(`np.reciprocal` has no vector instructions.)"""
        return np.divide(1.0, a, out=out)

    def plus_product(self, a: Each, b: Each, c: Each, out: Each = None, factor: float = 1.0) -> Each:
        out = np.multiply(b, c, out=out)
        if factor != 1:
            np.multiply(out, factor, out=out)
        return np.add(out, a, out=out)

    def plus_multiple(self, a: Each, factor: float, b: Each, out: Each = None) -> Each:
        out = np.multiply(b, factor, out=out)
        return np.add(out, a, out=out)

    def product_plus(self, a: float, b: Each, c: Each, out: Each) -> Each:
        return np.add(np.multiply(b, c, out=out), a, out=out)

    def line(self, a: Each, factor: float, shift: float) -> Each:
        out = np.multiply(a, factor)
        return np.add(out, shift, out=out)

    def clamp(self, a: Each, least: float | None, most: float | None, out: Each) -> Each:
        if least is not None:
            a = np.maximum(a, least, out=out)
        return a if most is None else np.minimum(a, most, out=out)

    def given(self, tensor: Tensor) -> Each:
        return tensor.numpy()

    def copy(self, a: Each) -> Each:
        return a.copy()

    def column(self, numbers: Scalars) -> Each:
        return numbers[:, None]

    def dot(self, a: Each, b: Each) -> Scalars:
        found: Scalars = np.vecdot(a, b)
        return found

    def total(self, a: Each) -> Scalars:
        """(As a product: a reduction of short rows takes twice as long.)"""
        found: Scalars = a @ np.ones(a.shape[1])
        return found

    def most(self, a: Each) -> Scalars:
        found: Scalars = np.maximum.reduce(a, axis=1)
        return found

    def least(self, a: Each) -> Scalars:
        found: Scalars = np.minimum.reduce(a, axis=1)
        return found

    def place_of_most(self, a: Each) -> Places:
        found: Places = a.argmax(axis=1)
        return found

    def at(self, a: Each, places: Places) -> Scalars:
        found: Scalars = a[np.arange(len(places)), places]
        return found

    def put(self, a: Each, places: Places, numbers: Scalars | float) -> None:
        a[np.arange(len(places)), places] = numbers

    def pick(self, a: Each, places: Places) -> Scalars:
        found: Scalars = a[places]
        return found

    def rows(self, a: Each, rows: Places) -> Each:
        return a[rows]

    def either(self, a: Each, b: Each, second: Flags) -> Each:
        return np.where(second[:, None], b, a)

    def tensor(self, a: Each) -> Tensor:
        return torch.from_numpy(a)


class TorchArrays:
    """Wherever a tensor is. On the host NumPy shares its memory, for what it does in fewer passes."""

    mul: Any = staticmethod(torch.mul)
    add: Any = staticmethod(torch.add)
    sub: Any = staticmethod(torch.sub)
    div: Any = staticmethod(torch.div)
    minimum: Any = staticmethod(torch.minimum)
    absolute: Any = staticmethod(torch.abs)
    reciprocal: Any = staticmethod(torch.reciprocal)
    sqrt: Any = staticmethod(torch.sqrt)
    exp: Any = staticmethod(torch.exp)
    log1p: Any = staticmethod(torch.log1p)

    def __init__(self, device: torch.device) -> None:
        self._device, self._on_host = device, device.type == "cpu"

    def plus_product(self, a: Each, b: Each, c: Each, out: Each = None, factor: float = 1.0) -> Each:
        return torch.addcmul(a, b, c, value=factor, out=out)

    def plus_multiple(self, a: Each, factor: float, b: Each, out: Each = None) -> Each:
        return torch.add(a, b, alpha=factor, out=out)

    def product_plus(self, a: float, b: Each, c: Each, out: Each) -> Each:
        return torch.addcmul(self._number(a), b, c, out=out)

    def line(self, a: Each, factor: float, shift: float) -> Each:
        return torch.add(self._number(shift), a, alpha=factor)

    def clamp(self, a: Each, least: float | None, most: float | None, out: Each) -> Each:
        return torch.clamp(a, least, most, out=out)

    def given(self, tensor: Tensor) -> Each:
        return tensor

    def copy(self, a: Each) -> Each:
        return a.clone()

    def column(self, numbers: Scalars) -> Each:
        found = torch.from_numpy(numbers).unsqueeze(1)
        return found if self._on_host else found.to(self._device)

    def dot(self, a: Each, b: Each) -> Scalars:
        return NUMPY.dot(a.numpy(), b.numpy()) if self._on_host else _host((a * b).sum(dim=1))

    def total(self, a: Each) -> Scalars:
        return _host(a.sum(dim=1))

    def most(self, a: Each) -> Scalars:
        return _host(a.amax(dim=1))

    def least(self, a: Each) -> Scalars:
        return _host(a.amin(dim=1))

    def place_of_most(self, a: Each) -> Places:
        return NUMPY.place_of_most(a.numpy()) if self._on_host else _host(a.argmax(dim=1))

    def at(self, a: Each, places: Places) -> Scalars:
        if self._on_host:
            return NUMPY.at(a.numpy(), places)
        return _host(a.gather(1, self._places(places)).squeeze(1))

    def put(self, a: Each, places: Places, numbers: Scalars | float) -> None:
        if self._on_host:
            NUMPY.put(a.numpy(), places, numbers)
            return
        a.scatter_(1, self._places(places), numbers if isinstance(numbers, float) else self.column(numbers))

    def pick(self, a: Each, places: Places) -> Scalars:
        found: Scalars = _host(a)[places]
        return found

    def rows(self, a: Each, rows: Places) -> Each:
        return a[self._places(rows).squeeze(1)]

    def either(self, a: Each, b: Each, second: Flags) -> Each:
        return torch.where(torch.from_numpy(second).to(self._device)[:, None], b, a)

    def tensor(self, a: Each) -> Tensor:
        found: Tensor = a
        return found

    def _number(self, number: float) -> Tensor:
        return torch.full((), number, dtype=torch.float64, device=self._device)

    def _places(self, places: Places) -> Tensor:
        return torch.from_numpy(places).to(self._device)[:, None]


NUMPY = _NumPy()


@quiet
def row_products(a: Tensor, b: Tensor) -> Scalars:
    """The sum of products of each row of two tensors, of which nobody wants derivatives."""
    if a.device.type == "cpu":
        return NUMPY.dot(a.numpy(), b.numpy())
    return _host((a * b).sum(dim=1))


def arrays_for(like: Tensor) -> Arrays:
    """The library for arrays of that size, where it is."""
    small = like.device.type == "cpu" and like.numel() < _LARGE
    return NUMPY if small else TorchArrays(like.device)


def _host(values: Tensor) -> np.ndarray[Any, Any]:
    return values.numpy(force=True)
