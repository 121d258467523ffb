"""Tells the user's own memories from those that came with a repository.

A memory is the user's own if the registry in the home has its id with the same text and anchor. The folder of global
journals is in the home too: no repository contains it. Journals of memsearch have no ids; they are own if Git does not
track them.
"""

from __future__ import annotations

import os
import re
from functools import cached_property

from msgspec.structs import replace

from lorelog.core.document import Anchor, Chunk, StoredChunk
from lorelog.core.errors import StoreError
from lorelog.core.paths import is_below
from lorelog.core.ports import Store
from lorelog.core.query import Hit
from lorelog.core.record import REPOSITORY_ORIGIN, UNTRUSTED_ORIGINS
from lorelog.services.memory_state.authored import AuthoredMemories, AuthoredText, authored_digests
from lorelog.services.places.workspace import MEMSEARCH_FOLDER, Workspace

STANDING_TYPES = frozenset({"correction", "preference", "decision"})
HEADING = re.compile(r"\A#{1,6}[ \t][^\n]*(?:\n|\Z)")
OwnClaim = bool | tuple[str, str]
"""Whether a memory is the user's own, or the digests that the registry must confirm."""


def is_confirmed(claim: OwnClaim, known: AuthoredText | None) -> bool:
    """Return True if a claim needs no registry, or the registry confirms it."""
    return claim if isinstance(claim, bool) else known is not None and known.confirms(claim)


class Ownership:
    """Answers for the memories of one tenant, seen from one project."""

    def __init__(self, workspace: Workspace, authored: AuthoredMemories) -> None:
        self._workspace, self._authored = workspace, authored

    @cached_property
    def _global_journals(self) -> str:
        return os.path.realpath(self._workspace.global_journals)

    @cached_property
    def _home(self) -> str:
        return os.path.realpath(self._workspace.home)

    @cached_property
    def _journals(self) -> str:
        return os.path.realpath(self._workspace.journals)

    def claim_of(self, chunk: Chunk | Hit, body: str) -> OwnClaim:
        """Return the claim of a memory: its first chunk, and the text of that without the heading."""
        anchor = chunk.anchor
        if anchor is None or anchor.origin in UNTRUSTED_ORIGINS:
            return False
        if is_below(chunk.source, self._global_journals):
            return True
        if not anchor.memory or (chunk.type in STANDING_TYPES and anchor.type != chunk.type):
            return False  # without an id, or with a type for the whole file
        return authored_digests(anchor, body)

    def is_own(self, chunk: Chunk | Hit, body: str) -> bool:
        """Return True if a memory was written on this machine, and was not changed since; see `claim_of`."""
        claim = self.claim_of(chunk, body)
        known = self._authored.find(chunk.anchor.memory) if chunk.anchor and not isinstance(claim, bool) else None
        return is_confirmed(claim, known)

    def shown_anchor(self, chunk: Chunk | Hit, identity: str, store: Store) -> Anchor | None:
        """Return a chunk's anchor as it is shown: with the origin `repository` if the text came with the repository.

        Text that is said to be from a tool or an import keeps that origin, which is trusted less.
        """
        anchor = chunk.anchor
        if anchor is not None and anchor.origin in UNTRUSTED_ORIGINS:
            return anchor
        try:
            is_foreign = self._is_foreign(chunk, identity, store)
        except StoreError:  # a registry that cannot be read proves nothing, and must not end a search
            is_foreign = anchor is not None and bool(anchor.memory) and not is_below(chunk.source, self._home)
        return replace(anchor or Anchor(), origin=REPOSITORY_ORIGIN) if is_foreign else anchor

    def with_shown_anchor(self, stored: StoredChunk, store: Store) -> StoredChunk:
        """Return a chunk with its anchor as it is shown."""
        anchor = self.shown_anchor(stored.chunk, stored.id, store)
        return stored if anchor is stored.chunk.anchor else replace(stored, chunk=replace(stored.chunk, anchor=anchor))

    def _is_foreign(self, chunk: Chunk | Hit, identity: str, store: Store) -> bool:
        """Return True if a chunk is part of a journal and not the user's own. Other documents are not memories."""
        # The home has global journals and the pages of records.
        if is_below(chunk.source, self._home) or self.is_own(chunk, HEADING.sub("", chunk.content, count=1)):
            return False
        has_id = bool(chunk.anchor and chunk.anchor.memory)
        if not has_id and f"/{MEMSEARCH_FOLDER}/" not in chunk.source and not is_below(chunk.source, self._journals):
            return False
        # Foreign text, and pieces that do not begin their section, are looked up.
        stored = next((found for found in store.find(identity) if found.id == identity), None)
        if stored is None:
            return False
        project = stored.project or self._workspace.project.id
        if is_below(chunk.source, os.path.realpath(f"{project}/{MEMSEARCH_FOLDER}")):
            from lorelog.light.delivery_files import DeliveryFiles, read_own_entries

            own = DeliveryFiles(str(self._workspace.tenant_folder), project).own
            return chunk.source not in read_own_entries(own)[1]
        if not has_id and not is_below(chunk.source, self._journals):
            return False
        first = _first_piece(stored, store)
        return not self.is_own(first.chunk, memory_body(first))


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
