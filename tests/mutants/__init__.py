"""Semantic mutants: unsound changes of the source, each of which a named test must notice (`make mutants`)."""
