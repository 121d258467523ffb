"""Dependencies of the record operations for one workspace, and records paired with their trust."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from lorelog.core.dataclasses import dataclass
from lorelog.core.options import SearchOptions
from lorelog.core.query import SearchReply, SupportingRecord
from lorelog.core.record import CANDIDATE_TRUST, Record, Trust
from lorelog.services.places.workspace import Workspace
from lorelog.services.records.store import RecordStore

if TYPE_CHECKING:
    from lorelog.services.records.keyring import Keyring


@dataclass(frozen=True, slots=True)
class RatedRecord:
    """A record with its trust, and whether its writer's signature is valid."""

    record: Record
    trust: Trust
    signed: bool = False

    @property
    def grounding(self) -> SupportingRecord:
        """The record as a citation."""
        record = self.record
        return SupportingRecord(record.id, record.task, record.thread, record.kind, self.trust.tier)


def rate_records(store: RecordStore, records: Iterable[Record]) -> list[RatedRecord]:
    """Return records with their trust, in the same order."""
    records = list(records)
    trust = store.trust(record.id for record in records)
    return [
        RatedRecord(record, trust.get(record.id, CANDIDATE_TRUST), bool(store.signer(record))) for record in records
    ]


RecordSearch = Callable[[str, SearchOptions], SearchReply]
"""Searches memories and records; the options' filters select the projects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordScope:
    """Dependencies of the operations on records."""

    workspace: Workspace
    records: RecordStore
    keyring: Keyring
    """Signs as the configured identity, if any, and knows the trusted keys."""
    agent: str
    """Writer's name when a call gives none; may be empty."""
    search: RecordSearch
    options: SearchOptions
    """Default search options."""
    projects: tuple[str, ...]
    """Visible projects, the current one first, including the global one (empty)."""
    patterns: tuple[str, ...] = ()
    """Regular expressions of additional text to redact from records."""
    search_raw: RecordSearch | None = None
    """Search without trust and token cost on the hits, for callers that rate records themselves."""
    search_words: RecordSearch | None = None
    """Lexical search_raw: calls no model, which would take longer than everything else."""
