"""Mutants of what is read and written (store/, audits/ledger.py)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_READER = "store/reader.py"
_PARTS = "store/parts.py"
_PAGES = "store/pages.py"
_BANKS = "store/banks.py"
_KINDS = "store/kinds.py"
_MANIFEST = "store/manifest.py"
_LEDGER = "audits/ledger.py"
_HERE = "tests/store/test_reader.py::"
_ATTACK = "tests/attacks/test_bad_collections.py::test_attack_is_refused_with_its_own_error"
_ATTACK_1 = "tests/attacks/test_bad_collections.py::test_attack_on_version_1_is_refused_with_its_own_error"
_IN_PAGES = "tests/store/test_pages.py::"
_IN_KINDS = "tests/store/test_kinds.py::"
_LEDGERS = "tests/audits/test_ledger.py::"

MUTANTS = (
    Mutant(
        name="reader-rows-promised",
        file=_PARTS,
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
        file=_PARTS,
        old="if metadata.num_rows * width > record.bytes:",
        new="if metadata.num_rows * width < 0:",
        why="features that share their bytes would unfold past the file's size",
        kills=(f"{_HERE}test_features_that_share_their_bytes_do_not_unfold[1]",),
    ),
    Mutant(
        name="reader-compressed",
        file=_PAGES,
        old="if chunk.codec:",
        new="if chunk.codec < 0:",
        why="a compressed page unfolds",
        kills=(f"{_ATTACK}[compressed page that unfolds]",),
    ),
    Mutant(
        name="reader-missing-values",
        file=_PARTS,
        old="elif nulls and name not in foreign:",
        new="elif nulls < 0 and name not in foreign:",
        why="missing values would be read as numbers",
        kills=(f"{_ATTACK}[missing values]",),
    ),
    Mutant(
        name="reader-labels",
        file=_KINDS,
        old="(values < 0) | (values >= classes),",
        new="(values < 0) | (values > classes),",
        why="a label without a class",
        kills=(f"{_ATTACK}[label without a class]",),
    ),
    Mutant(
        name="kinds-unit-samples",
        file=_KINDS,
        old="return np.asarray((~((norms - 1).abs() <= UNIT_ERROR)).any(dim=1))",
        new="return np.asarray((~((norms - 1).abs() <= UNIT_ERROR)).all(dim=1))",
        why="one sample that is no unit vector would not be set aside",
        kills=(f"{_IN_KINDS}test_bad_rows_of_supervised_states[one sample that is no unit vector]",),
    ),
    Mutant(
        name="kinds-standard-columns",
        file=_KINDS,
        old="(column.shape, column.integer) != (like.shape, like.integer):",
        new="column.shape is None:",
        why="two kinds with one column of two types: no longer one dataset",
        kills=(f"{_IN_KINDS}test_the_table_refuses_what_it_cannot_keep",),
    ),
    Mutant(
        name="banks-kind",
        file=_BANKS,
        old="if version > 1 and found != kind.name:",
        new="if version > 2 and found != kind.name:",
        why="a bank of another kind would be read under the manifest's name for it",
        kills=(f"{_ATTACK}[bank that says another kind]", f"{_ATTACK}[bank that says no kind]"),
    ),
    Mutant(
        name="reader-kind-of-bank",
        file=_READER,
        old="if (owner.kind, owner.dim) != (record.kind, record.dim):",
        new="if owner.dim != record.dim:",
        why="rows of one kind would be held against a bank of another",
        kills=(f"{_ATTACK}[part of another kind than its bank]",),
    ),
    Mutant(
        name="reader-optional-everywhere",
        file=_READER,
        old="if left_out not in (None, empty):",
        new="if left_out is empty:",
        why="what a part holds would depend on how it is cut",
        kills=(f"{_IN_KINDS}test_an_optional_column_is_there_in_all_batches_or_in_none",),
    ),
    Mutant(
        name="parts-columns-of-other-kinds",
        file=_PARTS,
        old="if name in foreign and nulls < table.num_rows:",
        new="if name in foreign and nulls < 0:",
        why="values that no one reads would pass for part of the state",
        kills=(f"{_ATTACK}[value that its kind does not have]",),
    ),
    Mutant(
        name="parts-one-length",
        file=_PARTS,
        old="        if len(other):\n",
        new="        if len(other) > len(ends):\n",
        why="numbers of one row would be read as those of the next",
        kills=(f"{_ATTACK}[one feature that is shorter]",),
    ),
    Mutant(
        name="parts-dimension",
        file=_PARTS,
        old="if not size or size not in (4 * record.dim, 8 * record.dim):",
        new="if not size:",
        why="features of another dimension",
        kills=(f"{_ATTACK}[features of another length]",),
    ),
    Mutant(
        name="parts-described",
        file=_PARTS,
        old="for row in (values != wanted).nonzero()[0][:1]:",
        new="for row in (values != wanted).nonzero()[0][:0]:",
        why="rows would say another kind or dimension than they have",
        kills=(f"{_ATTACK}[row of another kind]", f"{_ATTACK}[row of another dimension]"),
    ),
    Mutant(
        name="parts-dictionary",
        file=_PARTS,
        old='if chunk.column == "feature" and chunk.dictionary:',
        new='if chunk.column == "features" and chunk.dictionary:',
        why="features of version 1 behind a dictionary unfold past the file's size",
        kills=(f"{_ATTACK_1}[dictionary that unfolds]",),
    ),
    Mutant(
        name="parts-words",
        file=_PARTS,
        old="if unfolded > _WORD_BYTES:",
        new="if unfolded < 0:",
        why="a long word that every row repeats unfolds to any size",
        kills=(f"{_ATTACK}[one long word for many rows]",),
    ),
    Mutant(
        name="parts-single",
        file=_PARTS,
        old="single = all(torch.equal(",
        new="single = any(torch.equal(",
        why="samples in float64 beside embeddings in float32 would be rounded",
        kills=(f"{_IN_KINDS}test_one_type_for_all_arrays_of_a_state",),
    ),
    Mutant(
        name="pages-encoding",
        file=_PAGES,
        old="if encoding != _PLAIN and not (is_word and encoding in _BY_DICTIONARY):",
        new="if encoding < 0:",
        why="values that share their bytes unfold past the file's size",
        kills=(f"{_ATTACK}[ids that share their bytes]", f"{_ATTACK}[page that is not what the footer says]"),
    ),
    Mutant(
        name="pages-dictionary",
        file=_PAGES,
        old="elif kind == _DICTIONARY and is_word:",
        new="elif kind == _DICTIONARY:",
        why="features behind a dictionary unfold past the file's size",
        kills=(f"{_IN_PAGES}test_other_pages_are_refused",),
    ),
    Mutant(
        name="pages-values",
        file=_PAGES,
        old="if not values == chunk.values == chunk.rows:",
        new="if chunk.values != chunk.rows:",
        why="pages with other values than rows",
        kills=(f"{_ATTACK}[page with more values than rows]",),
    ),
    Mutant(
        name="pages-twice",
        file=_PAGES,
        old="if not 0 < last < 2**15 or (last, head & 15) in fields:",
        new="if last < 0:",
        why="a decoder would find other fields than were checked",
        kills=(f"{_IN_PAGES}test_headers_that_are_none",),
    ),
    Mutant(
        name="pages-ends",
        file=_PAGES,
        old="if at + size > len(content):",
        new="if at + size > len(content) + 100:",
        why="bytes that are not there would be taken for a header",
        kills=(f"{_IN_PAGES}test_headers_that_are_none",),
    ),
    Mutant(
        name="manifest-version",
        file=_MANIFEST,
        old="_expect(path, type(version) is int and version in _READABLE,",
        new="_expect(path, version in (*_READABLE, 3),",
        why="a later format would be misread",
        kills=(f"{_ATTACK}[manifest of another version]", f"{_ATTACK}[manifest whose version is no number]"),
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
        old="for link in (path, path.parent):",
        new="for link in ():",
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
