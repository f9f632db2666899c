"""A server that speaks S3's protocol over HTTP on this machine, by moto, and a bucket in it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["bucket_files", "bucket_names", "s3_bucket"]

_BUCKET = "bucket"


@contextlib.contextmanager
def s3_bucket(log: Path) -> Iterator[str]:
    """The address of an empty bucket; the environment says where the server is, so that other processes find it."""
    port = _free_port()
    endpoint = f"http://127.0.0.1:{port}"
    told = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    before = {name: os.environ.get(name) for name in told}
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with log.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file) as server:
        try:
            _wait(port, server)
            os.environ.update(told)
            _files(port).create_dir(_BUCKET)
            yield f"s3://{_BUCKET}"
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)
            server.kill()


def bucket_names(address: str) -> list[str]:
    """The names of all that is below an address."""
    from pyarrow import fs

    files, root = fs.FileSystem.from_uri(address)
    found = files.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
    return [each.path[len(root) + 1 :] for each in found if each.type == fs.FileType.File]


def bucket_files(address: str) -> dict[str, bytes]:
    """What they hold."""
    from pyarrow import fs

    files, root = fs.FileSystem.from_uri(address)
    return {name: files.open_input_stream(f"{root}/{name}").read() for name in bucket_names(address)}


def _files(port: int) -> object:
    from pyarrow import fs

    return fs.S3FileSystem(endpoint_override=f"127.0.0.1:{port}", scheme="http", allow_bucket_creation=True)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait(port: int, server: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert server.poll() is None, "the server did not start"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise TimeoutError("the server did not answer")
