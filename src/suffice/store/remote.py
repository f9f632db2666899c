"""Folders at an address, s3://bucket/states say: a local folder stands for each, and this is all that knows of it.

Whatever reads and writes goes by local paths, as on a disk. A file of such a folder is fetched when it is asked for,
and what is written whole here is put there whole: under another name first, and then moved, since a stream that ends
too early leaves what came. The local folder is temporary and goes with the process.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

__all__ = [
    "AddressError",
    "address_of",
    "clear_partials",
    "fetch",
    "fetch_all",
    "is_address",
    "local_path",
    "put",
    "put_at",
    "remote_size",
    "remove",
    "shown",
]

# a Path folds the slashes of an address into one
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/+([^/].*)")
_SECRET = re.compile(r"(?<=://)[^/@?]*@")
# names that collections and audits have; what else is there is known by its name and not fetched
_OURS = re.compile(r"[a-z0-9-]+\.(json|html)|[a-z0-9-]+/[a-z0-9-]+\.(json|parquet|safetensors)")
_PARTIAL = ".partial"
# bytes of files that are kept here; past them the oldest is fetched again when it is needed
_KEPT = 4 * 2**30
_PIECE = 8 * 2**20


class AddressError(ValueError):
    """An address of a kind that nothing here can open."""


class _Mirror:
    """One folder there, and the one here that stands for it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.files, self.root = _opened(address)
        self._room = tempfile.TemporaryDirectory(prefix="suffice-")
        # the last word of the address, so that the folder has its name
        self.folder = Path(self._room.name).resolve() / (re.sub(r"[^\w.-]", "_", self.root.split("/")[-1]) or "folder")
        self.folder.mkdir()
        self.sizes: dict[str, int] = {}
        self.fetched: dict[str, int] = {}
        self.whole = False
        self.list()

    def list(self) -> None:
        """Look again at what is there."""
        from pyarrow import fs

        found = self.files.get_file_info(fs.FileSelector(self.root, recursive=True, allow_not_found=True))
        start = len(self.root.rstrip("/")) + 1
        self.sizes = {each.path[start:]: each.size for each in found if each.type == fs.FileType.File}

    def fetch(self, name: str) -> None:
        """Have a file here, whole, if it is there."""
        path = self.folder / name
        if name not in self.sizes or path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + _PARTIAL)
        size = 0
        with self.files.open_input_stream(f"{self.root}/{name}") as stream, partial.open("wb") as file:
            while piece := stream.read(_PIECE):
                size += file.write(piece)
        if size != self.sizes[name]:
            raise OSError(
                f"{self.address}/{name}: {size} bytes came, of {self.sizes[name]}; run the same command again"
            )
        partial.replace(path)
        self._keep(name, size)

    def _keep(self, name: str, size: int) -> None:
        self.fetched[name] = size
        while not self.whole and len(self.fetched) > 1 and sum(self.fetched.values()) > _KEPT:
            oldest = next(iter(self.fetched))
            del self.fetched[oldest]
            (self.folder / oldest).unlink(missing_ok=True)

    def fetch_all(self) -> None:
        """Have every file of ours here, and of anything else its name, as an empty file."""
        self.whole = True
        for name in self.sizes:
            if _OURS.fullmatch(name):
                self.fetch(name)
                continue
            path = self.folder / "/".join(re.sub(r"[^\w.-]|^\.+$", "_", word) for word in name.split("/"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    def put(self, name: str, content: bytes) -> None:
        _put(self.files, self.root, name, content)
        self.sizes[name] = len(content)

    def remove(self, name: str) -> None:
        if self.sizes.pop(name, None) is not None:
            self.files.delete_file(f"{self.root}/{name}")


_MIRRORS: dict[Path, _Mirror] = {}


def is_address(path: str | Path) -> bool:
    """Whether this is an address and no path of this machine.

    >>> is_address("s3://bucket/states"), is_address(Path("s3://bucket/states")), is_address("C:/states")
    (True, True, False)
    """
    return _ADDRESS.fullmatch(str(path)) is not None


def local_path(path: str | Path, *, whole: bool = False) -> Path:
    """A path of this machine as it is; for an address the folder that stands for it, or the manifest in that folder.

    With `whole` everything is fetched at once, otherwise each file when `fetch` asks for it.
    """
    match = _ADDRESS.fullmatch(str(path))
    if match is None:
        return Path(path)
    address = f"{match[1]}://{'/' if match[1] == 'file' else ''}{match[2]}".rstrip("/")
    folder, name = address.rsplit("/", 1) if address.endswith(".json") else (address, "")
    mirror = _Mirror(folder)
    _MIRRORS[mirror.folder] = mirror
    if whole:
        mirror.fetch_all()
    return mirror.folder / name


def address_of(folder: Path) -> str | None:
    """The address that a folder stands for, as it can be opened; None for one of this machine."""
    mirror = _MIRRORS.get(folder)
    return None if mirror is None else mirror.address


def shown(path: str | Path) -> str:
    """What a person is told: the address, without a secret in it, where a path stands for one.

    >>> shown("audits/first")
    'audits/first'
    """
    mirror, name = _mirrored(Path(path))
    if mirror is None:
        return str(path)
    return _SECRET.sub("", mirror.address) + (f"/{name}" if name != "." else "")


def remote_size(path: Path) -> int | None:
    """Bytes of a file there; None if it is not there, or its folder is of this machine."""
    mirror, name = _mirrored(path)
    return None if mirror is None else mirror.sizes.get(name)


def fetch(path: Path) -> None:
    """Have a file here that is there; of a folder of this machine nothing is asked."""
    mirror, name = _mirrored(path)
    if mirror is not None:
        mirror.fetch(name)


def fetch_all(folder: Path) -> None:
    """The same of all files of a folder, those included that others have put there meanwhile."""
    mirror = _MIRRORS.get(folder)
    if mirror is not None:
        mirror.list()
        mirror.fetch_all()


def put(path: Path, content: bytes) -> None:
    """What was written here is put there."""
    mirror, name = _mirrored(path)
    if mirror is not None:
        mirror.put(name, content)


def put_at(address: str, name: str, content: bytes) -> None:
    """Put a file into the folder at an address, from any process."""
    files, root = _opened(address)
    _put(files, root, name, content)


def remove(path: Path) -> None:
    """Remove a file, here and there; it need not exist."""
    path.unlink(missing_ok=True)
    mirror, name = _mirrored(path)
    if mirror is not None:
        mirror.remove(name)


def clear_partials(folder: Path, *names: str) -> None:
    """Remove what killed writers have left in some subfolders, here and there."""
    mirror = _MIRRORS.get(folder)
    for name in names:
        there: Iterator[str] = iter(()) if mirror is None else iter(list(mirror.sizes))
        for left in (*(folder / name).glob(f"*{_PARTIAL}"), *(folder / each for each in there if _is_left(each, name))):
            remove(left)


def _is_left(name: str, folder: str) -> bool:
    return name.startswith(f"{folder}/") and name.endswith(_PARTIAL)


def _mirrored(path: Path) -> tuple[_Mirror | None, str]:
    for folder in (path, *path.parents)[:3] if _MIRRORS else ():
        if folder in _MIRRORS:
            return _MIRRORS[folder], path.relative_to(folder).as_posix()
    return None, ""


@cache
def _opened(address: str) -> tuple[Any, str]:
    """The file system of an address and the path in it: pyarrow's own, else what fsspec knows."""
    import pyarrow as pa
    from pyarrow import fs

    try:
        files, path = fs.FileSystem.from_uri(address)
    except pa.ArrowInvalid as error:
        if "Unrecognized filesystem type" not in str(error):
            raise AddressError(f"{_SECRET.sub('', address)} cannot be opened: {error}") from None
        files, path = _by_fsspec(address)
    return files, path.rstrip("/")


def _by_fsspec(address: str) -> tuple[Any, str]:
    from pyarrow import fs

    plain = _SECRET.sub("", address)
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ImportError(f"{plain} needs fsspec: pip install 'suffice[remote]'") from None
    try:
        files, path = url_to_fs(address)
    except ValueError as error:
        raise AddressError(f"{plain} cannot be opened: {error}") from None
    return fs.PyFileSystem(fs.FSSpecHandler(files)), path


def _put(files: Any, root: str, name: str, content: bytes) -> None:
    """Whole or not at all. Another process may put the same file, and be the first to move it."""
    path = f"{root}/{name}"
    partial = path + _PARTIAL
    try:
        stream = files.open_output_stream(partial)
    except FileNotFoundError:
        # unlike a bucket, this one has folders
        files.create_dir(path.rsplit("/", 1)[0], recursive=True)
        stream = files.open_output_stream(partial)
    with stream:
        stream.write(content)
    size = files.get_file_info(partial).size
    try:
        if size != len(content):
            raise OSError(f"{name}: {size} bytes arrived, of {len(content)}; run the same command again")
        files.move(partial, path)
    except OSError:
        if files.get_file_info(path).size != len(content):
            raise
