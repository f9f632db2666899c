"""Which errors of the operating system are the machine's, and which a malformed file's."""

from __future__ import annotations

import errno

__all__ = ["is_of_machine"]

_MACHINE = frozenset(
    {
        errno.EACCES,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENODEV,
        errno.ENOMEM,
        errno.ENOSPC,
        errno.EPERM,
        errno.EROFS,
        errno.ESTALE,
        errno.ETIMEDOUT,
    }
)


def is_of_machine(error: BaseException) -> bool:
    """Disk, permission, memory. Anything else is what a reader says of bytes that lead it astray.

    >>> is_of_machine(PermissionError(errno.EACCES, "Permission denied")), is_of_machine(OSError(errno.EINVAL, "seek"))
    (True, False)
    """
    return isinstance(error, OSError) and error.errno in _MACHINE
