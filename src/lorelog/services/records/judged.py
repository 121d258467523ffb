"""A record together with what it is worth: what everything that shows records is given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lorelog.core.query import Grounding
from lorelog.core.record import CANDIDATE_TRUST, Record, Trust
from lorelog.services.records.book import Book


@dataclass(frozen=True, slots=True)
class Judged:
    """A record, its worth, and whether its own writer is proven."""

    record: Record
    trust: Trust
    signed: bool = False

    @property
    def grounding(self) -> Grounding:
        """The record as something to stand on."""
        one = self.record
        return Grounding(one.id, one.task, one.thread, one.kind, self.trust.tier)


def judged(book: Book, records: Iterable[Record]) -> list[Judged]:
    """Return records with what they are worth, in the order given."""
    given = list(records)
    worth = book.trust(one.id for one in given)
    return [Judged(one, worth.get(one.id, CANDIDATE_TRUST), bool(book.signer(one))) for one in given]
