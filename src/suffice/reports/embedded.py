"""What makes a page whole: templates, data compressed inside of it, and a policy that lets it run itself alone."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import re
import secrets
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from suffice.store.manifest import write_whole

__all__ = ["coded", "packed", "rounded", "write_html"]

Array = np.ndarray[Any, Any]


def write_html(path: Path, template: str, **values: Any) -> Path:
    """Render a template and write it whole. The template has `policy` in its head."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("suffice.reports"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    later = secrets.token_hex(16)
    page = environment.get_template(template).render(policy=later, **values)
    # the name of a folder need not be text
    write_whole(path, page.replace(later, _policy(page), 1).encode(errors="backslashreplace"))
    return path


def _policy(page: str) -> str:
    """What a browser allows this page: its own scripts, told by their hashes, its styles, no network at all."""
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def packed(data: Any) -> str:
    """Plain data as gzip in base 64, which a page unfolds by itself; no character of it means anything to a parser."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()


def rounded(values: Array, digits: int = 4) -> list[Any]:
    """Numbers with as many digits as a page can show; what is not finite becomes null."""
    flat = values.ravel().astype(float)
    return [float(f"{x:.{digits}g}") if fine else None for x, fine in zip(flat, np.isfinite(flat), strict=True)]


def coded(values: Array) -> dict[str, list[Any]]:
    """A column that repeats itself: its words or numbers in order, and for each row which it is; NaN becomes null."""
    words, codes = np.unique(values, return_inverse=True)
    known = [None if isinstance(word, float) and math.isnan(word) else word for word in words.tolist()]
    return {"words": known, "codes": codes.ravel().tolist()}
