"""How like a name is to what somebody typed, and which names are worth a look.

A pattern for SQLite first, since it looks through a million names in a tenth of a second; a number for what it leaves. Names are taken as
people see them: case matters little, humps and underscores are borders between words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_MOST = 100
"""Letters of a question that count."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A look through all names."""

    where: str
    values: tuple[str, ...]
    slips: bool = False
    """Whether it only looks for names that were mistyped."""


class Likeness:
    """How like names are to one text: 1 for the same, 0 for nothing in common."""

    def __init__(self, text: str) -> None:
        self._text = text[:_MOST]
        self._folded = self._text.casefold()
        self._plain = self._folded.replace("_", "").replace("-", "").replace(" ", "")
        self._letters = frozenset(self._plain)

    def of(self, name: str) -> float:
        """Return how like a name is."""
        if name == self._text:
            return 1.0
        folded = name.casefold()
        plain = folded.replace("_", "").replace("-", "")
        if not self._plain or not plain:
            return 0.0
        if plain == self._plain:
            return 0.97 if folded == self._folded else 0.95
        share = min(1.0, len(self._plain) / len(plain))
        if plain.startswith(self._plain):
            return 0.8 + 0.12 * share
        return max(self._inside(name, plain, share), self._mistyped(plain))

    def slipped(self, name: str) -> float:
        """Return how like a name is if it was mistyped; 0 if that would be too much."""
        return self._mistyped(name.casefold().replace("_", "").replace("-", ""))

    def _inside(self, name: str, plain: str, share: float) -> float:
        """Words of it in a row, or their beginnings (`fdef` in `find_definition`); then letters in a row, or just in order."""
        words = [word.casefold() for word in _WORD.findall(name)]
        if any("".join(words[first:]).startswith(self._plain) for first in range(1, len(words))):
            return 0.68 + 0.1 * share
        if len(words) <= 2 * len(self._plain) and _begin(self._plain, words):
            return 0.6 + 0.15 * share
        if self._plain in plain:
            return (0.5 if len(self._plain) > 2 else 0.35) + 0.15 * share
        place = 0
        for letter in self._plain if len(self._plain) >= 3 and len(plain) <= 4 * len(self._plain) else "":
            place = plain.find(letter, place) + 1
            if not place:
                break
        return 0.3 + 0.15 * share if place else 0.0

    def _mistyped(self, plain: str) -> float:
        most = 0 if len(self._plain) < 4 else 1 if len(self._plain) < 7 else 2
        # Most have other letters altogether; counting steps is for the rest.
        if abs(len(plain) - len(self._plain)) > most or len(self._letters.symmetric_difference(plain)) > 2 * most:
            return 0.0
        steps = _steps(self._plain, plain, most) if most else 1
        return 0.0 if steps > most else 0.78 - 0.08 * steps


def patterns(text: str) -> Iterator[Pattern]:
    """Yield what to look for, in the order of what is worth most."""
    folded = text[:_MOST].strip()
    plain = re.sub(r"[_\-\s]", "", folded)
    if not plain:
        return
    yield Pattern("name = ?", (folded,))
    letters = "%".join(_literal(letter) for letter in plain)
    # Letters in order hold for all but mistyped names.
    yield Pattern("name LIKE ? ESCAPE '\\'", (f"%{letters}%",))
    if len(plain) >= 4:
        # Whoever mistypes a letter or two leaves two of four pieces as they are; of a short word one, or both ends. Nearly
        # nobody mistypes the first letter, but some type it second.
        most = 1 if len(plain) < 7 else 2
        size = max(2, len(plain) // 4)
        pieces = [plain[first : first + size] for first in range(0, len(plain) - size + 1, size)]
        around = [f"%{''.join(map(_literal, piece))}%" for piece in pieces]
        around += [] if len(plain) >= 8 else [f"{_literal(plain[0])}%{_literal(plain[-1])}"]
        bare = "replace(name, '_', '')"
        whole = " + ".join(f"({bare} LIKE ? ESCAPE '\\')" for _ in around)
        length = f"length({bare}) BETWEEN {len(plain) - most} AND {len(plain) + most}"
        begin = f"{bare} LIKE ? ESCAPE '\\'"
        around[:0] = [f"{_literal(plain[0])}%", f"{_literal(plain[1])}%"]
        yield Pattern(
            f"{length} AND ({begin} OR {begin}) AND {whole} >= {2 if len(plain) >= 8 else 1}", tuple(around), slips=True
        )


def _literal(letter: str) -> str:
    return "\\" + letter if letter in "%_\\" else letter


def _begin(letters: str, words: list[str]) -> bool:
    """Say whether letters are made of beginnings of words, in their order; words may be passed over."""
    reached = {0}
    for word in words:
        more = set(reached)
        for place in reached:
            taken = 0
            while taken < len(word) and place + taken < len(letters) and word[taken] == letters[place + taken]:
                taken += 1
                more.add(place + taken)
        reached = more
    return len(letters) in reached


def _steps(one: str, other: str, most: int) -> int:
    """Return how many letters must be changed, added, left out or swapped with the next, or a number beyond `most`."""
    while one and other and one[0] == other[0]:
        one, other = one[1:], other[1:]
    while one and other and one[-1] == other[-1]:
        one, other = one[:-1], other[:-1]
    before: list[int] = []
    row = list(range(len(other) + 1))
    for place, letter in enumerate(one, start=1):
        older, before, row = before, row, [place]
        for at, against in enumerate(other, start=1):
            best = min(before[at] + 1, row[at - 1] + 1, before[at - 1] + (letter != against))
            if older and at > 1 and letter == other[at - 2] and one[place - 2] == against:
                best = min(best, older[at - 2] + 1)
            row.append(best)
        if min(row) > most:
            return most + 1
    return row[-1]
