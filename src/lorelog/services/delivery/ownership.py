"""Tells the user's own memories from those that came with a repository.

A memory is the user's own if the registry in the home has its id with the same text and anchor. The folder of global
journals is in the home too: no repository contains it. Journals of memsearch have no ids; they are own if Git did not
track them when the list of own entries was written.
"""

from __future__ import annotations

import os
import re

from lorelog.core.document import StoredChunk
from lorelog.core.paths import is_below
from lorelog.core.ports import Store
from lorelog.core.record import UNTRUSTED_ORIGINS
from lorelog.services.delivery.files import DeliveryFiles
from lorelog.services.delivery.journal_entries import read_own_entries
from lorelog.services.delivery.own_entries import MEMSEARCH_FOLDER
from lorelog.services.memory_state.authored import AuthoredMemories
from lorelog.services.places.workspace import Workspace

STANDING_TYPES = frozenset({"correction", "preference", "decision"})
HEADING = re.compile(r"\A#{1,6}[ \t][^\n]*(?:\n|\Z)")


class Ownership:
    """Answers for the memories of one tenant, seen from one project."""

    def __init__(self, workspace: Workspace, authored: AuthoredMemories) -> None:
        self._workspace, self._authored = workspace, authored
        self._home = os.path.realpath(workspace.global_journals)

    def is_own(self, stored: StoredChunk) -> bool:
        """Return True if a memory was written on this machine, and was not changed since.

        The chunk must be the first of its section.
        """
        chunk, anchor = stored.chunk, stored.chunk.anchor
        if anchor is None or anchor.origin in UNTRUSTED_ORIGINS:
            return False
        if is_below(chunk.source, self._home):
            return True
        if chunk.type in STANDING_TYPES and anchor.type != chunk.type:  # a type for the whole file
            return False
        return self._authored.wrote(anchor, memory_body(stored))

    def came_with_repository(self, chunk_id: str, store: Store) -> bool:
        """Return True if a chunk is part of a journal and not the user's own. Other documents are not memories."""
        stored = next((found for found in store.find(chunk_id) if found.id == chunk_id), None)
        if stored is None or is_below(stored.chunk.source, os.path.realpath(self._workspace.home)):
            return False  # the home has global journals and the pages of records
        project = stored.project or self._workspace.project.id
        memsearch = os.path.realpath(os.path.join(project, MEMSEARCH_FOLDER))  # noqa: PTH118
        if is_below(stored.chunk.source, memsearch):
            own = DeliveryFiles(str(self._workspace.tenant_folder), project).own
            return stored.chunk.source not in read_own_entries(own).files
        is_journal = is_below(stored.chunk.source, os.path.realpath(self._workspace.journals))
        if not is_journal and not (stored.chunk.anchor and stored.chunk.anchor.memory):
            return False
        return not self.is_own(_first_piece(stored, store))


def memory_body(stored: StoredChunk) -> str:
    """Return the text of a memory's first chunk without the heading."""
    return HEADING.sub("", stored.chunk.text, count=1)


def _first_piece(stored: StoredChunk, store: Store) -> StoredChunk:
    """Return the chunk that begins the section of a chunk."""
    if not stored.chunk.piece:
        return stored
    before = (
        other
        for other in store.chunks_of(stored.chunk.source)
        if not other.chunk.piece and other.chunk.start_line <= stored.chunk.start_line
    )
    return max(before, key=lambda other: other.chunk.start_line, default=stored)
