"""Mutants of what is read and written (store/reader.py, store/manifest.py, audits/ledger.py)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_READER = "store/reader.py"
_MANIFEST = "store/manifest.py"
_LEDGER = "audits/ledger.py"
_HERE = "tests/store/test_reader.py::"
_ATTACK = "tests/attacks/test_bad_collections.py::test_attack_is_refused_with_its_own_error"
_LEDGERS = "tests/audits/test_ledger.py::"

MUTANTS = (
    Mutant(
        name="reader-rows-promised",
        file=_READER,
        old="if metadata.num_rows != record.rows:",
        new="if metadata.num_rows < 0:",
        why="batches of a part with other rows would be given before it is refused",
        kills=(f"{_HERE}test_a_part_with_other_rows_is_refused_before_any_is_given",),
    ),
    Mutant(
        name="reader-rows-given",
        file=_READER,
        old="if first != record.rows:",
        new="if first < 0:",
        why="a part that is read short would pass for the whole",
        kills=(f"{_HERE}test_a_part_that_gives_fewer_rows_than_it_promised",),
    ),
    Mutant(
        name="reader-rows-that-fit",
        file=_READER,
        old="if metadata.num_rows * kind.byte_width > record.bytes:",
        new="if metadata.num_rows * kind.byte_width < 0:",
        why="features that share their bytes would unfold past the file's size",
        kills=(f"{_HERE}test_features_that_share_their_bytes_do_not_unfold",),
    ),
    Mutant(
        name="reader-compressed",
        file=_READER,
        old='if column.compression != "UNCOMPRESSED":',
        new='if column.compression == "UNKNOWN":',
        why="a compressed page unfolds",
        kills=(f"{_ATTACK}[compressed page that unfolds]",),
    ),
    Mutant(
        name="reader-missing-values",
        file=_READER,
        old="if table.column(column).null_count:",
        new="if table.column(column).null_count < 0:",
        why="missing values would be read as numbers",
        kills=(f"{_ATTACK}[missing values]",),
    ),
    Mutant(
        name="reader-labels",
        file=_READER,
        old="(labels < 0) | (labels >= num_classes),",
        new="(labels < 0) | (labels > num_classes),",
        why="a label without a class",
        kills=(f"{_ATTACK}[label without a class]",),
    ),
    Mutant(
        name="manifest-hash",
        file=_MANIFEST,
        old="if content and (found := sha256_of(path)) != record.sha256:",
        new="if content and (found := sha256_of(path)) == '':",
        why="altered files would be believed",
        kills=(f"{_ATTACK}[bit flipped in a part]", f"{_ATTACK}[bit flipped in a bank]"),
    ),
    Mutant(
        name="manifest-size",
        file=_MANIFEST,
        old="if size != record.bytes:",
        new="if size < 0:",
        why="a truncated file would be opened",
        kills=(f"{_ATTACK}[truncated part]",),
    ),
    Mutant(
        name="manifest-states",
        file=_MANIFEST,
        old="_expect(path, total == manifest.states,",
        new="_expect(path, total >= 0,",
        why="a manifest that miscounts would be believed",
        kills=(f"{_ATTACK}[manifest that miscounts]",),
    ),
    Mutant(
        name="manifest-link",
        file=_MANIFEST,
        old="if not path.is_file() or path.is_symlink():",
        new="if not path.is_file():",
        why="a link leads out of the collection",
        kills=(f"{_ATTACK}[bank that is a link]",),
    ),
    Mutant(
        name="ledger-fingerprint",
        file=_LEDGER,
        old='if found.get("fingerprint") != header["fingerprint"]:',
        new='if found.get("fingerprint") is None:',
        why="results of two questions would be mixed",
        kills=(f"{_LEDGERS}test_another_audit_is_refused",),
    ),
    Mutant(
        name="ledger-leftovers",
        file=_LEDGER,
        old="            leftover.unlink()\n",
        new="            pass\n",
        why="half of a file would stay beside the results",
        kills=(f"{_LEDGERS}test_what_an_earlier_run_left_half_written_is_removed",),
    ),
    Mutant(
        name="ledger-names",
        file=_LEDGER,
        old='return f"{Path(batch.part).stem}-{batch.rows[0]:09d}.parquet"',
        new='return f"{Path(batch.part).stem}.parquet"',
        why="the second batch of a part would count as done, and its states be missing",
        kills=(f"{_LEDGERS}test_every_batch_has_its_own_file",),
    ),
    Mutant(
        name="ledger-mended-rows",
        file=_LEDGER,
        old="if bad or path.exists():",
        new="if bad:",
        why="rows that were mended would be counted as set aside",
        kills=(f"{_LEDGERS}test_rows_that_were_mended_are_forgotten",),
    ),
)
