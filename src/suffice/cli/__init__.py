"""The command line. Thin: each command reads its options, calls the library and prints."""

from suffice.cli.application import app, main

__all__ = ["app", "main"]
