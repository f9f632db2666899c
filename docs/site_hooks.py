"""Hooks of `mkdocs build`: MathJax comes from an installed package, and no page loads anything from the network."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

__all__ = ["on_files", "on_post_build"]

_PACKAGE = "sphinx-mathjax-offline"
# the program, with its fonts where it looks for them
_WANTED = re.compile(r"static/mathjax/(tex-chtml\.js|output/chtml/fonts/woff-v2/[^/]+\.woff)$")
# what a browser fetches by itself: not the links that a reader may follow
_FETCHED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*?\bsrc=["']?(?:https?:)?//[^"'\s>]+"""
    r"""|<link\b(?![^>]*\brel=["']?(?:canonical|next|prev))[^>]*?\bhref=["']?(?:https?:)?//[^"'\s>]+"""
    r"""|(?:@import\s+|url\()\s*["']?(?:https?:)?//[^"')\s]+""",
    flags=re.IGNORECASE,
)


def on_files(files: Files, config: Any) -> Files:
    """Add MathJax to the site's files."""
    found = [path for path in metadata.files(_PACKAGE) or [] if _WANTED.search(path.as_posix())]
    if not any(path.name == "tex-chtml.js" for path in found):
        raise PluginError(f"Expected tex-chtml.js in the package {_PACKAGE}, but it has none")
    for path in found:
        place = "javascripts/mathjax/" + path.as_posix().split("static/mathjax/")[1]
        files.append(File.generated(config, place, abs_src_path=str(path.locate())))
    return files


def on_post_build(config: Any) -> None:
    """Refuse a site that a browser could not show offline."""
    site = Path(config["site_dir"])
    for path in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        for fetched in _FETCHED.findall(path.read_text(encoding="utf-8")):
            raise PluginError(f"Expected a site that loads nothing from the network, but got {fetched!r} in {path}")
