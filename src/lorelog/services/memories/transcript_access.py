"""Decides which conversations may be read because the anchor of a memory names them.

An anchor is text in a file. The file may have come with a repository or over HTTP, and then the anchor can name any file
of this machine: the conversation of another project, for example. So an anchor is followed in two cases only: capture on
this machine wrote it, or it leads into a host's own folder of transcripts, to a conversation of the memory's project.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property

from lorelog.core.document import StoredChunk
from lorelog.core.errors import LorelogError
from lorelog.core.paths import is_below
from lorelog.hosts import host_data_folder
from lorelog.services.memory_state.authored import AuthoredMemories
from lorelog.services.places.workspace import apply_scope_file, find_project, find_scope_file

_TRANSCRIPT_FOLDERS = (
    ("claude", "projects"),
    ("codex", "sessions"),
    ("codex", "archived_sessions"),
    ("opencode", ""),
    ("openclaw", "agents"),
    ("gemini", "tmp"),
    ("qwen", "projects"),
    ("copilot", "session-state"),
    *((host, "sessions") for host in ("droid", "pi", "omp", "kimi")),
    ("kilo", ""),
    ("cline", "data"),
)


class TranscriptAccess:
    """Follows the anchors of one tenant's memories."""

    def __init__(self, authored: AuthoredMemories, environment: Mapping[str, str]) -> None:
        self._authored, self._environment = authored, environment
        self._projects: dict[tuple[str, str], str] = {}

    @cached_property
    def _folders(self) -> tuple[str, ...]:
        named = (f"{host_data_folder(host, self._environment)}/{name}" for host, name in _TRANSCRIPT_FOLDERS)
        return tuple(map(os.path.realpath, named))

    def resolve(self, stored: StoredChunk, path: str, session: str) -> str:
        """Return the real path of the transcript that a memory's anchor names; empty if it may not be read.

        The result does not depend on whether any other file exists.
        """
        try:
            real = os.path.realpath(path)
            anchor, project, key = stored.chunk.anchor, stored.project, (real, session)
            if anchor is not None and path.startswith("/"):
                named = (anchor.memory, project, anchor.session, anchor.transcript)
                if self._authored.wrote_transcript(*named):
                    return real
            if not project or not any(is_below(real, folder) for folder in self._folders):
                return ""
            if key not in self._projects:
                self._projects[key] = _find_conversation_project(real, session)
            return real if self._projects[key] == project else ""
        except (OSError, ValueError):  # a name that is too long, or has NUL bytes
            return ""


def _find_conversation_project(path: str, session: str) -> str:
    """Return the project of a conversation; empty if that is unknown."""
    from lorelog.ingest.transcripts.conversation import open_conversation, read_conversation_head

    try:
        directory = read_conversation_head(open_conversation(path, session)).directory
        if not directory or not directory.startswith("/"):
            return ""
        project, scope = find_project(directory), find_scope_file(directory)
        return (apply_scope_file(scope, project) if scope else project).id
    except LorelogError:
        return ""
