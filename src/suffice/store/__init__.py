"""Saved states on disk with their provenance: the collection format, its writer, its reader, the built-in one."""
