"""How every command ends: an exit code that means one thing, one line that says what happened and what to do."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from types import TracebackType
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from suffice.cli.output import JSON_ASKED, ExitCode, fail, say
from suffice.reports.printable import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Guard", "GuardedGroup", "safe_streams"]

_ADVICE: Mapping[int, str] = {
    errno.ENOSPC: "free some space and run the same command again; what was finished is kept",
    errno.EDQUOT: "free some of your quota and run the same command again; what was finished is kept",
    errno.EFBIG: "a file may not be larger here (ulimit -f, or the file system); choose another place",
    errno.EACCES: "choose a place that you may read and write, or change its permissions",
    errno.EPERM: "choose a place that you may read and write, or change its permissions",
    errno.EROFS: "it can only be read: choose another folder for what is written",
    errno.EMFILE: "too many files are open: raise the limit (ulimit -n)",
    errno.ENOTDIR: "a part of the path is a file: choose another folder",
}
# as torch words it; NumPy and Arrow raise MemoryError
_NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")
# where an error of ours is defined -> its name: looked up only if the module is there, so that a quick failure stays so
_BAD_FILES = {"suffice.store.manifest": "CollectionError", "suffice.verify.report": "UnreadableError"}
_USAGE = {"suffice.store.remote": "AddressError"}
_MACHINE = {"suffice.audits.engines": "EngineError"}


class Guard:
    """What a command raises becomes an exit code and a line; nothing is swallowed, and nothing is a traceback.

    `typer.Exit` passes as it is. With `debug` the traceback comes first.
    """

    def __init__(self, *, debug: bool = False) -> None:
        self.debug = debug

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, typer.Exit | SystemExit):
            return
        if isinstance(error, OSError):
            _abandon_stdout()
        if self.debug:
            say("".join(traceback.format_exception(kind, error, trace)), err=True)
        elif callable(getattr(error, "format_message", None)) and not JSON_ASKED.get():
            # usage, which the application words itself
            return
        _end(error)


def _end(error: BaseException) -> None:
    """The exit for an error."""
    if callable(words := getattr(error, "format_message", None)):
        fail(ExitCode.USAGE, words())
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        fail(ExitCode.INTERRUPTED, "stopped; what was finished is kept")
    if _is_one_of(error, _BAD_FILES):
        named = {key: str(getattr(error, key)) for key in ("file", "place", "reason") if hasattr(error, key)}
        fail(ExitCode.BAD_FILE, f"bad file: {error}", **named)
    if _is_one_of(error, _USAGE):
        fail(ExitCode.USAGE, str(error))
    if isinstance(error, OSError):
        fail(ExitCode.MACHINE, _machine_words(error))
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _is_no_memory(str(error))):
        words = "there is not enough memory for this: close other programs, or use a larger machine"
        fail(ExitCode.MACHINE, f"{words} ({one_line(error)[:200] or type(error).__name__})")
    if isinstance(error, ImportError) or _is_one_of(error, _MACHINE):
        fail(ExitCode.MACHINE, str(error))
    fail(
        ExitCode.OURS,
        f"this is a mistake of suffice, not yours: {type(error).__name__}: {one_line(error)[:300]} ({_place(error)}); "
        "`suffice --debug ...` shows the traceback, which a report should have",
    )


def _is_one_of(error: BaseException, known: Mapping[str, str]) -> bool:
    loaded = (getattr(sys.modules[module], name) for module, name in known.items() if module in sys.modules)
    return isinstance(error, tuple(loaded))


def _is_no_memory(text: str) -> bool:
    return any(words in text for words in _NO_MEMORY)


def _machine_words(error: OSError) -> str:
    what = error.strerror or str(error) or type(error).__name__
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    advice = _ADVICE.get(error.errno or 0, "")
    return f"{where}{what}" + (f"; {advice}" if advice else "")


def _place(error: BaseException) -> str:
    """Where it was raised, as file and line."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{os.path.basename(frames[-1].filename)}, line {frames[-1].lineno}" if frames else "no place"


def _abandon_stdout() -> None:
    """If stdout takes nothing any more, be silent there: what is left in it would fail again at the very end."""
    try:
        sys.stdout.flush()
    except OSError:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def safe_streams() -> None:
    """Print in any locale: characters that it does not have are written as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if callable(reconfigure := getattr(stream, "reconfigure", None)):
            reconfigure(errors="backslashreplace")


def _check_text(words: list[str]) -> None:
    """A word that this locale cannot read is half understood at best, and no reader of ours can open such a path."""
    for word in words:
        if any("\ud800" <= char <= "\udfff" for char in word):
            shown = one_line(word)
            raise typer.BadParameter(f"{shown!r} is no text in this locale; name it otherwise, or set PYTHONUTF8=1")


class GuardedGroup(TyperGroup):
    """The commands, each under the guard. `--debug` may stand anywhere."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Note whether JSON was asked for: also an error in the options is then JSON."""
        JSON_ASKED.set("--json" in args)
        debug = "--debug" in args
        rest = [word for word in args if word != "--debug"]
        ctx.meta["suffice.debug"] = debug
        with Guard(debug=debug):
            _check_text(rest)
            return super().parse_args(ctx, ["--debug", *rest] if debug else rest)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with Guard(debug=ctx.meta.get("suffice.debug", False)):
            return super().invoke(ctx)
