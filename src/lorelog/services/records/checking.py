"""Looking a tenant's ledger over: its chain, and the signatures in it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from lorelog.records.verify import Verification
from lorelog.services.records.book import Book
from lorelog.services.records.keys import Keyring, Signed, State


@dataclass(frozen=True, slots=True)
class Unproven:
    """A record whose signature proves nothing."""

    id: str
    agent: str
    signed: Signed


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found."""

    chain: Verification
    states: Counter[State]
    """How many signatures there are of each state; records without one are not counted."""
    unproven: tuple[Unproven, ...]
    """The first of those that prove nothing."""

    @property
    def ok(self) -> bool:
        """Whether every line is as it was written, and no signature is false. One of a stranger's is not false."""
        return self.chain.ok and not (self.states[State.BROKEN] or self.states[State.WRONG_NAME])


def check(book: Book, keyring: Keyring, limit: int) -> Checked:
    """Read a whole ledger twice: line by line, and then its signatures."""
    chain = book.ledger.verify()
    states: Counter[State] = Counter()
    unproven: list[Unproven] = []
    for record in book.ledger.read():
        if not record.signature:
            continue
        found = keyring.standing(record)
        states[found.state] += 1
        if found.state is not State.VALID and len(unproven) < limit:
            unproven.append(Unproven(record.id, record.agent, found))
    return Checked(chain, states, tuple(unproven))
