"""A query as words with their company: what stands before a word, whether a phrase goes on, what may be a month.

The rules of time expressions ask these questions again and again; the answers do not depend on any rule.
"""

from __future__ import annotations

import re
from datetime import date

from lorelog.retrieval import when_words as words

_OLDEST, _FURTHEST = 20, 5
"""Years back and ahead that notes can be from; `in 1492` and `in 2048` are about something else."""
_YEAR = re.compile(r"[0-9]{4}")
_NUMBER = re.compile(r"[0-9]{1,4}")


class Phrase:
    """The words of one query, asked on one day. Any index may be asked for; beyond the ends there is nothing."""

    def __init__(self, tokens: list[words.Token], today: date) -> None:
        self._tokens = tokens
        self._today = today

    def _low(self, at: int) -> str:
        return self._tokens[at].low if 0 <= at < len(self._tokens) else ""

    def _continues(self, at: int, extra: str = "") -> bool:
        """Tell whether a word and the next are one phrase; `extra` is punctuation that does not part them."""
        token = self._tokens[at]
        return token.joins or (bool(extra) and token.after.strip() == extra.strip())

    def _is_capital(self, at: int) -> bool:
        return 0 <= at < len(self._tokens) and self._tokens[at].text[:1].isupper()

    def _lead(self, at: int) -> int:
        """Return 2 when the word before announces a time, 1 when it may, else 0."""
        at -= 1
        if at >= 0 and self._low(at) in words.ARTICLES and self._tokens[at].joins:
            at -= 1
        if at < 0 or not self._tokens[at].joins:
            return 0
        if self._low(at) == "of":
            return 2 * (self._low(at - 1) in words.UNITS or self._low(at - 1) in words.DAY_PARTS)
        return 2 if self._low(at) in words.STRONG_LEADS else int(self._low(at) in words.WEAK_LEADS)

    def _may_be_month(self, at: int) -> bool:
        low = self._low(at)
        if low in words.SHORT_MONTHS:
            return self._is_capital(at)
        return (
            low not in words.VERB_MONTHS or self._is_capital(at) or bool(self._lead(at)) or bool(self._year_at(at + 1))
        )

    def _stands_out(self, at: int) -> bool:
        """A capital letter in the middle of a sentence, and no name: `the March release`, not `the Women's March`."""
        if at == 0 or not self._is_capital(at) or self._low(at) in words.NAMED_MONTHS | words.SHORT_MONTHS:
            return False
        if self._low(at + 1) == "of":
            return False  # the March of the Penguins
        before = self._tokens[at - 1]
        return before.joins and before.text.islower() and before.text.isascii() and not self._tokens[at].text.isupper()

    def _year_at(self, at: int) -> int:
        text = self._low(at)
        return int(text) if _YEAR.fullmatch(text) and self._is_year(int(text)) else 0

    def _is_year(self, year: int) -> bool:
        return -_OLDEST <= year - self._today.year <= _FURTHEST

    def _count(self, at: int) -> tuple[int, int, int] | None:
        """Read `three`, `a`, `a few`, `a couple of`: the least and the most, and the word after."""
        low = self._low(at)
        if low in {"a", "the", "ein"} and self._low(at + 1) in words.VAGUE_NUMBERS:
            at, low = at + 1, self._low(at + 1)
        if low in words.VAGUE_NUMBERS:
            return *words.VAGUE_NUMBERS[low], at + 1 + (self._low(at + 1) == "of")
        if low in words.NUMBERS:
            return words.NUMBERS[low], words.NUMBERS[low], at + 1
        return (int(low), int(low), at + 1) if _NUMBER.fullmatch(low) else None

    def _odd_year(self, at: int) -> bool:
        """Tell whether a year follows from which no note can be: `October 1954`."""
        return self._continues(at, ",") and bool(_YEAR.fullmatch(self._low(at + 1))) and not self._year_at(at + 1)

    def _opens_range(self, at: int) -> bool:
        """`March to May`, `Jan-Mar`: one month vouches for the other."""
        dashed = self._tokens[at].after.strip() in {"-", "–", "—"}
        other = at + 1 if dashed else at + 2
        joined = dashed or self._low(at + 1) in {"to", "through", "bis"}
        return joined and self._is_capital(other) and self._low(other) in words.MONTHS

    def _is_name(self, at: int) -> bool:
        """Tell whether a word begins a name: `the Spring Fling Market`."""
        return self._is_capital(at) and self._is_capital(at + 1) and self._tokens[at].joins
