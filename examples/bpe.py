"""Byte-pair encoding of a plain text, small enough to read: merges are learned from its words, commonest pair first."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

__all__ = ["Encoding", "learn"]

# a word with the space before it, a run of punctuation, a break: merges do not cross these
_PIECES = re.compile(r" ?[A-Za-z']+| ?[^\sA-Za-z']+|\s")


class Encoding:
    """Tokens as text; a token's number is its place, characters first and then merges in the order of learning."""

    def __init__(self, characters: Sequence[str], merges: Sequence[tuple[str, str]]) -> None:
        self.tokens = [*characters, *(left + right for left, right in merges)]
        self.number = {token: index for index, token in enumerate(self.tokens)}
        self._rank = {pair: index for index, pair in enumerate(merges)}
        self._known: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, text: str) -> list[int]:
        """The numbers of a text's tokens; every character of it must be one that was learned from."""
        out: list[int] = []
        for piece in _PIECES.findall(text):
            if piece not in self._known:
                self._known[piece] = [self.number[token] for token in self._split(piece)]
            out += self._known[piece]
        return out

    def _split(self, piece: str) -> list[str]:
        parts = list(piece)
        while len(parts) > 1:
            rank, place = min((self._rank.get(pair, len(self)), i) for i, pair in enumerate(pairwise(parts)))
            if rank == len(self):
                break
            parts[place : place + 2] = [parts[place] + parts[place + 1]]
        return parts


def learn(text: str, size: int) -> Encoding:
    """An encoding of `size` tokens: the commonest pair of neighbours is joined until there are as many."""
    counts = Counter(_PIECES.findall(text))
    words = [list(word) for word in counts]
    weights = list(counts.values())
    characters = sorted({character for word in counts for character in word})
    found: Counter[tuple[str, str]] = Counter()
    where: dict[tuple[str, str], set[int]] = defaultdict(set)
    for index, word in enumerate(words):
        for pair in pairwise(word):
            found[pair] += weights[index]
            where[pair].add(index)
    merges: list[tuple[str, str]] = []
    taken = set(characters)
    while len(taken) < size:
        # the smaller text of two pairs that are equally common, so that the result is one
        best = min(found, key=lambda pair: (-found[pair], pair), default=None)
        if best is None or found[best] <= 0:
            raise ValueError(f"Expected a text with {size} tokens in it, but it ends at {len(taken)}")
        merges.append(best)
        taken.add(best[0] + best[1])
        for index in list(where[best]):
            word, weight = words[index], weights[index]
            for pair in pairwise(word):
                found[pair] -= weight
            words[index] = word = _joined(word, best)
            for pair in pairwise(word):
                found[pair] += weight
                where[pair].add(index)
        del found[best]
    # a text that two merges lead to is one token
    first = {left + right: (left, right) for left, right in reversed(merges)}
    return Encoding(characters, [pair for pair in merges if first[pair[0] + pair[1]] == pair])


def _joined(word: list[str], pair: tuple[str, str]) -> list[str]:
    out: list[str] = []
    for token in word:
        if out and (out[-1], token) == pair:
            out[-1] += token
        else:
            out.append(token)
    return out
