"""The whole check of an audit: digests first, then files and rows, then every column; and what was found."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from suffice.verify.columns import Judged, Said
from suffice.verify.cross import cross_checked
from suffice.verify.digests import MANIFEST, altered_files, folder_and_manifest, read_manifest
from suffice.verify.judging import (
    Verdict,
    exact_rows,
    judge_exactly,
    judge_in_floats,
    judge_without_arb,
    readable_gradients,
)
from suffice.verify.layout import SetAside, Wanted, rows_of, wanted_files
from suffice.verify.plan import Header, Plan, read_header
from suffice.verify.report import Finding, Report, Tally, UnreadableError, shown
from suffice.verify.rows import Rows, read_rows
from suffice.verify.stored import HEAD_KIND, KIND, Array, read_json
from suffice.verify.summary import SUMMARY, Counted, summary_findings

__all__ = ["collection_of", "verify_audit"]

# working arrays are [rows, classes] of about this many entries
_ENTRIES = 131_072
# what float64 finds wrong is confirmed by Arb, but not in every row of an audit that is wrong everywhere
_CONFIRMED = 32


def collection_of(audit: Path) -> str:
    """Where the audit says its collection is: a path, or "built-in"."""
    read_header(audit)
    run = read_json(audit / SUMMARY, SUMMARY, dict).get("run")
    where = run.get("collection") if isinstance(run, dict) else None
    if not isinstance(where, str):
        raise UnreadableError(SUMMARY, "run, collection", "a path", type(where).__name__)
    return where


def verify_audit(
    audit: Path,
    collection: Path,
    *,
    sample: int = 200,
    seed: int = 3407,
    everything: bool = False,
    tick: Callable[[int, int], None] = lambda _n, _t: None,
) -> Report:
    """Check an audit against its collection: a random sample in Arb and, with `everything`, all rows in float64.

    Digests, the identity of every row and relations between columns are checked always. Nothing that a file
    holds makes it raise.
    """
    tally = Tally()
    try:
        header = read_header(audit)
        tally.findings += altered_files(audit, collection, header)
        if not tally.findings:
            _Check(audit, collection, header, tally, everything).run(sample, seed, tick)
    except UnreadableError as error:
        tally.findings.append(error.finding)
    return tally.report()


class _Check:
    """One check under way."""

    def __init__(self, audit: Path, collection: Path, header: Header, tally: Tally, everything: bool) -> None:
        self.audit, self.collection, self.header, self.tally = audit, collection, header, tally
        self.plan: Plan = header.plan
        self.everything = everything
        self.counted = Counted()
        self.confirmed = 0

    def run(self, sample: int, seed: int, tick: Callable[[int, int], None]) -> None:
        """Files in order, then what is said of all of them."""
        manifest, folder = read_manifest(self.collection), folder_and_manifest(self.collection)[0]
        total = 0
        for part in manifest.parts:
            # of the file itself: who may write the manifest shall not say how many rows are drawn
            count, said = rows_of(folder, part), manifest.files[part].get("rows")
            if isinstance(said, bool) or said != count:
                self._note(MANIFEST, f"{part}, rows", said, count)
            total += count
        chosen = set(random.Random(seed).sample(range(total), min(sample, total)))
        set_aside: list[SetAside] = []
        names = set()
        done = 0
        kind = HEAD_KIND if self.plan.head else KIND
        for wanted in wanted_files(folder, manifest, set_aside, kind):
            names.add(wanted.name)
            picked = np.array([done + i in chosen for i in range(len(wanted))], dtype=bool)
            try:
                self._file(wanted, picked, partial(_shifted, tick, done, total))
            except UnreadableError as error:
                self.tally.findings.append(error.finding)
            done += len(wanted)
        self.tally.states = done
        for path in sorted((self.audit / "results").glob("*")):
            if f"results/{path.name}" not in names:
                self._note(f"results/{path.name}", "file", "a result file", "no rows that belong in it")
        self._set_aside(set_aside)
        record = read_json(self.audit / SUMMARY, SUMMARY, dict)
        right = self.counted.record(self.plan, len(set_aside))
        self.tally.findings += summary_findings(record, self.header, right)

    def _note(self, file: str, column: str, said: object, found: object, words: str = "") -> None:
        finding = Finding(file=file, column=column, said=shown(said), found=shown(found), words=words)
        self.tally.findings.append(finding)

    def _set_aside(self, found: list[SetAside]) -> None:
        """Rows that are no states are listed in bad/, each of them and no others."""
        if found and not self.header.skip_bad:
            for each in found:
                self._note(
                    each.part, f"row {each.row}, {each.place}", "a state", "none", "and bad rows were not skipped"
                )
            return
        said = set()
        for path in sorted((self.audit / "bad").glob("*")):
            name = f"bad/{path.name}"
            for row in read_json(path, name, list):
                if (
                    not isinstance(row, dict)
                    or not isinstance(row.get("row"), int)
                    or not {"part", "place"} <= set(row)
                ):
                    raise UnreadableError(name, "content", "rows with part, row and place", "something else")
                said.add((str(row["part"]), row["row"], str(row["place"])))
        right = {(each.part, each.row, each.place) for each in found}
        for part, row, place in sorted(said ^ right, key=str):
            here = (part, row, place) in right
            words = ("none", "a bad row") if here else ("a bad row", "a state")
            self._note(f"bad/{Path(part).stem}.json", f"{part}, row {row}, {place}", *words)

    def _file(self, wanted: Wanted, picked: Array, tick: Callable[[int], None]) -> None:
        if not (self.audit / wanted.name).is_file():
            self._note(wanted.name, "row", "no file", f"{len(wanted)} rows", "missing")
            return
        rows = read_rows(self.audit, wanted, self.plan, self.tally)
        if not len(rows):
            return
        self.counted.add(rows.said, self.plan)
        for judged in cross_checked(self.plan, wanted.bank.nu, rows.said):
            self._judged(rows, np.arange(len(rows)), [judged])
        self._counts(rows, "cross-check", [*self._names(rows)])
        if self.plan.executed:
            readable = readable_gradients(rows.said, wanted.bank.dim)
            for i in (~readable).nonzero()[0]:
                length = len(rows.said["gradient"][i])
                self._judged(rows, np.array([i]), [_wrong_length(length, 8 * wanted.bank.dim)])
        exactly = picked[rows.index]
        if self.everything:
            step = max(1, _ENTRIES // wanted.bank.classes)
            for start in range(0, len(rows), step):
                some = np.arange(start, min(start + step, len(rows)))
                exactly[some] |= self._in_floats(wanted, rows, some, exactly[some])
                tick(int(some[-1]) + 1)
        self.tally.checked += len(rows) if self.everything else int(exactly.sum())
        exact = exact_rows(wanted)
        for i in exactly.nonzero()[0]:
            said = _some(rows.said, slice(i, i + 1))
            judge = judge_exactly if exact else judge_without_arb
            verdict = judge(wanted, int(rows.index[i]), self.plan, said)
            self._settled(verdict, rows, np.array([i]), np.ones(1, dtype=bool))
            self._judged(rows, np.array([i]), verdict.judged)
            self._counts(rows, "Arb" if exact else "float64", [each.column for each in verdict.judged], 1)
            self.tally.in_arb += exact
            tick(int(i) + 1)
        tick(len(rows))

    def _names(self, rows: Rows) -> list[str]:
        return [judged.column for judged in cross_checked(self.plan, 1e3, _some(rows.said, slice(0, 1)))]

    def _counts(self, rows: Rows, method: str, columns: list[str], count: int | None = None) -> None:
        for column in dict.fromkeys(columns):
            self.tally.count(column, method, len(rows) if count is None else count)

    def _in_floats(self, wanted: Wanted, rows: Rows, some: Array, exactly: Array) -> Array:
        """Judge rows in float64; returns which of them are for Arb: open ones, and the first that are wrong."""
        said = _some(rows.said, some)
        verdict = judge_in_floats(wanted, rows.index[some], self.plan, said)
        wrong = np.any([each.wrong for each in verdict.judged], axis=0)
        more = verdict.open | exactly
        room = max(0, _CONFIRMED - self.confirmed)
        confirm = (wrong & ~more).nonzero()[0][:room]
        self.confirmed += len(confirm)
        more[confirm] = True
        self._settled(verdict, rows, some, ~more)
        kept = [_kept(each, ~more) for each in verdict.judged]
        self._judged(rows, some, kept)
        self._counts(rows, "float64", [each.column for each in kept], len(some))
        return more

    def _settled(self, verdict: Verdict, rows: Rows, some: Array, where: Array) -> None:
        for word, settled in zip(rows.said["verdict"][some][where], verdict.settled[where], strict=True):
            self.tally.settled[f"{word}: {settled}"] += 1
        for name, ratios in verdict.ratios.items():
            values = ratios[where]
            self.tally.ratios.setdefault(name, []).extend(values[~np.isnan(values)].tolist())

    def _judged(self, rows: Rows, some: Array, judged: list[Judged]) -> None:
        """One finding for every column that is wrong."""
        for each in judged:
            for j in each.wrong.nonzero()[0]:
                i = int(some[j])
                self.tally.findings.append(
                    Finding(
                        file=rows.name,
                        row=int(rows.place[i]),
                        id=str(rows.said["id"][i]),
                        column=each.column,
                        said=shown(rows.said[each.column][i]),
                        found=each.found(int(j)),
                        words=each.words,
                    )
                )


def _shifted(tick: Callable[[int, int], None], first: int, total: int, n: int) -> None:
    tick(first + n, total)


def _some(said: Said, rows: Array | slice) -> Said:
    return {name: column[rows] for name, column in said.items()}


def _kept(judged: Judged, where: Array) -> Judged:
    return Judged(
        column=judged.column,
        wrong=judged.wrong & where,
        open=judged.open & where,
        found=judged.found,
        words=judged.words,
    )


def _wrong_length(said: int, right: int) -> Judged:
    return Judged(
        column="gradient",
        wrong=np.ones(1, dtype=bool),
        open=np.zeros(1, dtype=bool),
        found=lambda _: f"{said} bytes where there are {right}",
    )
