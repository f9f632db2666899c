"""Saved states on disk with their provenance: the collection format, its writer, its reader, the built-in one."""

from suffice.store.builtin import builtin_collection
from suffice.store.importing import import_states
from suffice.store.manifest import CollectionError
from suffice.store.reader import Batch, Collection, open_collection
from suffice.store.writer import CollectionWriter

__all__ = [
    "Batch",
    "Collection",
    "CollectionError",
    "CollectionWriter",
    "builtin_collection",
    "import_states",
    "open_collection",
]
