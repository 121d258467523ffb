"""A tenant's records, ready to be asked: its ledger, and the tables that follow it.

Reading makes no file and waits for nobody. Tables that cannot be written are made in memory: a home that is read-only still
answers, only later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import RLock

from lorelog.core.errors import StoreError, StoreUnwritable
from lorelog.core.record import Draft, Record, Trust
from lorelog.records.ledger import Ledger
from lorelog.records.tables import RecordTables
from lorelog.records.trust import Signer, tiers, unsigned
from lorelog.services.records.open_tasks import note_all, note_written


class Book:
    """The records of one tenant. Threads may share it; another process may write meanwhile."""

    def __init__(self, folder: Path, signer: Signer = unsigned) -> None:
        self.ledger = Ledger(folder)
        self.signer = signer
        self._folder = folder
        self._turn = RLock()
        self._tables: RecordTables | None = None
        self._is_derived = False
        """Whether the tables lie in a file; those of an empty ledger, and of a home that is read-only, do not."""

    def exists(self) -> bool:
        """Say whether anything was ever written."""
        return (self._folder / "ledger.jsonl").exists() or any(self._folder.glob("ledger-*.jsonl"))

    def tables(self) -> RecordTables:
        """Return the tables, up to date with the ledger."""
        with self._turn:
            tables = self._opened()
            if self.exists():
                tables.catch_up(self.ledger)
            return tables

    def append(self, drafts: Sequence[Draft]) -> list[Record]:
        """Write drafts, all or none, and return them as records once they are on disk.

        From there on nothing fails: whoever was told that it had would write them again. What is derived follows when it can.
        """
        written = self.ledger.append(drafts)
        index = self._folder / "index"
        try:
            tables = self.tables()
            found = {one.id: one for one in tables.of_ids(one.id for one in written)}
        except StoreError:
            return written
        records = [found.get(one.id, one) for one in written]
        if any(one.origin == "import" for one in records):
            note_all(index, tables)  # which of it says anything of a task, only the tables know
        else:
            note_written(index, records)
        return records

    def trust(self, ids: Iterable[str]) -> dict[str, Trust]:
        """Return what records are worth, by id; those that are not there are left out."""
        wanted = list(dict.fromkeys(ids))
        if not wanted or not self.exists():
            return {}
        judged = tiers(self.tables().around(wanted), self.signer)
        return {one: judged[one] for one in wanted if one in judged}

    def close(self) -> None:
        """Let go of the tables. May be called twice; asked again, it opens them again."""
        with self._turn:
            if self._tables is not None:
                self._tables.close()
            self._tables = None

    def _opened(self) -> RecordTables:
        wanted = self.exists()
        if self._tables is not None and (self._is_derived or not wanted):
            return self._tables
        if self._tables is not None and self._tables.position().seq:
            return self._tables  # in memory, because the file could not be written
        self.close()
        self._is_derived = wanted
        try:
            self._tables = RecordTables(self._folder / "index" / "records.db" if wanted else None)
        except StoreUnwritable:
            self._is_derived = False
            self._tables = RecordTables(None)
        return self._tables
