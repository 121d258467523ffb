"""Finding out in the background what memories name, so that no search has to: the newest first, each once."""

from __future__ import annotations

from collections.abc import Callable

from lorelog.core.document import StoredChunk
from lorelog.core.ports import Store
from lorelog.core.query import Filters
from lorelog.services.freshness.checking import Checker, Claim

_NEWEST = 1_000
_AT_ONCE = 10


def survey_recent(store: Store, checker: Checker, project: str, go_on: Callable[[], bool]) -> None:
    """Find out what the newest memories of a project name, as long as `go_on` says so.

    They are judged, too: what Git says then is remembered by this process, for the next search.
    """
    newest = store.recent(Filters(projects=(project,)), _NEWEST)
    for first in range(0, len(newest), _AT_ONCE):
        if not go_on():
            return
        checker.verdicts({one.id: claim_of(one) for one in newest[first : first + _AT_ONCE]})


def claim_of(stored: StoredChunk) -> Claim:
    """Return what a chunk claims, and since when."""
    chunk = stored.chunk
    branch, commit = (chunk.anchor.branch, chunk.anchor.commit) if chunk.anchor else ("", "")
    return Claim(chunk.content, chunk.content_hash, stored.project, chunk.date, branch, commit)
