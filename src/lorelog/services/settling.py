"""What is done after the fact and in the background: records become searchable, and it is found out which code memories name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lorelog.core.ports import Embedder, Store
from lorelog.services.index import IndexJob
from lorelog.services.records.paged import Paged

if TYPE_CHECKING:
    from lorelog.code.tables import CodeTables


def settle(
    paged: Paged, store: Store, embedder: Embedder | None, job: IndexJob, tables: CodeTables, go_on: Callable[[], bool]
) -> None:
    """Do what is to be done, as long as `go_on` says so."""
    from lorelog.services.freshness.checking import Checker
    from lorelog.services.freshness.upkeep import survey_recent
    from lorelog.services.records.settling import settle as settle_pages

    pages = paged.pages()
    if pages is not None:
        settle_pages(pages, store, embedder, job, go_on)
    survey_recent(store, Checker(paged.place, tables).patiently(), paged.place.project.id, go_on)
