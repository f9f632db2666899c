"""Other people's states: npz, safetensors and torch files with plain arrays become a collection."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from suffice.store.arrays import read_arrays
from suffice.store.kinds import Column, Kind, kind_named
from suffice.store.manifest import CollectionError
from suffice.store.writer import CollectionWriter, check_words

__all__ = ["Imported", "import_states"]

# names of arrays that an error lists
_SHOWN = 12


class Imported(int):
    """How many states were imported: a number, which also knows how many rows were left out as ignored."""

    skipped: int = 0


def import_states(
    file: str | Path,
    out: str | Path,
    *,
    source: str = "import",
    dataset: str = "unknown",
    run: str | None = None,
    step: int = 0,
    append: bool = False,
    kind: str = "contrastive",
    key: str = "",
) -> Imported:
    """Add the states of one file to a collection, and return how many they were.

    The arrays are the fields of the kind's states and bank. Of kind "contrastive": features [N, p], labels [N],
    directions [C, p], concentrations [C], temperature (one or [N]), and perhaps biases [C]. Of kind "linear": hidden
    [N, p], weight [V, p] in its dtype, and perhaps bias [V] (-inf: a masked class), labels [N] (rows of -100 are left
    out, and counted as `.skipped` of what is returned) and temperature. Nothing is unpickled: npz
    without pickles, safetensors, or torch files of plain tensors. Where they are nested in a file, or named with a
    prefix, `key` is where: "model.head" takes `model.head.features` for the features, and so on.
    """
    path, table = Path(file), kind_named(kind)
    arrays = _below(read_arrays(path, widen=not table.keeps_dtypes), key)
    missing = [name for name in table.needed if name not in arrays]
    if missing:
        there = f" below {key!r}" if key else ""
        named = ", ".join(sorted(arrays)[:_SHOWN]) or "nothing"
        reason = f"expected {list(table.needed)}, but there is no {', '.join(missing)}{there}; there is {named}"
        raise CollectionError(path, "arrays", f"{reason} (--key says where to look)" if not key else reason)
    try:
        bank = table.bank(**{name: arrays[name] for name in table.tensors if name in arrays})
        fields = {name: _plain(arrays[name], column) for name, column in table.columns.items() if name in arrays}
        skipped = _leave_out(fields, table)
        states = table.states(bank, **fields)
    except (ValueError, TypeError) as error:
        raise CollectionError(path, "values", str(error)) from None
    if not len(states):
        raise CollectionError(path, "values", "expected at least one state, but there is none")
    # the name of a file need not be text
    name, stem = (each.encode("utf-8", "backslashreplace").decode() for each in (path.name, path.stem))
    run = stem if run is None else run
    check_words(source=source, dataset=dataset, run=run, step=step)
    with CollectionWriter(out, f"imported from {name}", append=append) as writer:
        writer.add(states, source=source, dataset=dataset, run=run, step=step)
    count = Imported(len(states))
    count.skipped = skipped
    return count


def _leave_out(fields: dict[str, Tensor], table: Kind) -> int:
    """Take out the rows whose label says that they are to be ignored, and return how many they were."""
    labels = fields.get("labels")
    if table.ignored is None or labels is None or labels.ndim != 1 or labels.is_floating_point():
        return 0
    kept = labels != table.ignored
    count = int((~kept).sum())
    if count == len(kept) > 0:
        raise ValueError(f"Expected at least one label that is not {table.ignored}, but all {count} are")
    for name, values in fields.items():
        if count and values.ndim and len(values) == len(kept):
            fields[name] = values[kept]
    return count


def _below(arrays: dict[str, Tensor], key: str) -> dict[str, Tensor]:
    """The arrays below a key, by what is left of their names."""
    prefix = f"{key.rstrip('.')}." if key else ""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _plain(tensor: Tensor, column: Column) -> Tensor:
    """One number for all states may come as an array of one entry."""
    return tensor.reshape(()) if tensor.numel() == 1 and not column.shape and not column.integer else tensor
