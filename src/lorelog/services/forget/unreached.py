"""Places that hold forgotten text and are not ours to change: named, so that a person can deal with them.

Also decides which files are ours to edit.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lorelog.code.git import Git
from lorelog.core.paths import is_below, join_path
from lorelog.light.git_location import find_worktree
from lorelog.services.backup.archive import written_backups
from lorelog.services.forget.entries import group_by_file
from lorelog.services.forget.forget_plan import ForgottenEntry
from lorelog.services.memory_state.authored import AuthoredMemories
from lorelog.services.places.workspace import DEFAULT_TENANT, JOURNALS, SYNC_COPIES, TENANTS, Workspace

_GIT_DEADLINE_S = 8.0
_MAX_COMMITS_NAMED = 10


def refuse_edit(
    entries: Sequence[ForgottenEntry], workspace: Workspace, *, wrote: Callable[[str], bool], edit_files: bool
) -> dict[str, str]:
    """Return the files that must not be edited, each with the reason. `wrote` tells of memories written on this machine.

    With `edit_files` the user confirmed that these files are theirs; files that cannot be written stay refused.
    """
    refused: dict[str, str] = {}
    for source, own in group_by_file(entries).items():
        reason = _unwritable_reason(source)
        if not reason and not edit_files:
            reason = _foreign_reason(source, own, workspace, wrote)
        if reason:
            refused[source] = reason
    return refused


def _unwritable_reason(source: str) -> str:
    try:
        status = os.lstat(source)
    except FileNotFoundError:
        return ""  # there is nothing to take out
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    reasons = {
        "it is now a link": os.path.realpath(source) != source,
        "it belongs to another user": status.st_uid != os.geteuid() and os.geteuid() != 0,
        "it is read-only": not status.st_mode & 0o222 or not os.access(source, os.W_OK),
        "its folder is read-only": not os.access(Path(source).parent, os.W_OK),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _foreign_reason(
    source: str, entries: Sequence[ForgottenEntry], workspace: Workspace, wrote: Callable[[str], bool]
) -> str:
    if not is_journal(source, entries[0].project, workspace):
        return "it is a note outside the journals, which lorelog only reads"
    if all(entry.memory and wrote(entry.memory) for entry in entries):
        return ""
    directory = Path(source).parent
    if Git(str(directory)).run("ls-files", "--error-unmatch", "--", source) is not None:
        return "it came with the repository: Git tracks it, and the entry was not written on this machine"
    return ""


def is_journal(source: str, project: str, workspace: Workspace) -> bool:
    """Return True for a journal of this tenant."""
    own = JOURNALS if workspace.tenant == DEFAULT_TENANT else Path(TENANTS) / workspace.tenant / "memory"
    folders = [workspace.global_journals, *([Path(project) / own] if project else [])]
    return any(is_below(source, os.path.realpath(folder)) for folder in folders)


def find_own_transcripts(entries: Sequence[ForgottenEntry], authored: AuthoredMemories) -> tuple[str, ...]:
    """Return the files of conversations that our own capture read; not those that only an anchor names, which may lie."""
    return tuple(
        dict.fromkeys(
            path
            for entry in entries
            if (path := _local_path(entry))
            and entry.transcript == path
            and authored.wrote_transcript(entry.memory, entry.project, entry.session, entry.transcript)
            and _is_own_file(path)
        )
    )


def _is_own_file(path: str) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and path.endswith(".jsonl") and status.st_uid == os.geteuid()


def find_unreached(entries: Sequence[ForgottenEntry], home: Path, store_place: str) -> dict[str, str]:
    """Return places that keep the text: conversations of hosts, backups, Git history, a remote store.

    Takes some seconds at most.
    """
    places: dict[str, str] = {}
    for entry in entries:
        transcript = _local_path(entry)
        if transcript and Path(transcript).exists():
            places[transcript] = "the host's own conversation; --host-transcripts deletes it, or delete it in the host"
    for backup, written_at in written_backups(home).items():
        if not is_below(backup, str(home)):
            places[backup] = f"a backup of {written_at[:10]}, which may hold it: write a new one and delete this one"
    deadline = time.monotonic() + _GIT_DEADLINE_S
    for source, own in group_by_file(entries).items():
        places |= _git_history(source, own, deadline)
    if store_place:
        places[store_place] = (
            "the rows were deleted and flushed; the server's compaction decides when their bytes are gone, "
            "and other machines that share it may hold copies of their own"
        )
    return places


def find_sync_remotes(tenant_folder: Path) -> dict[str, str]:
    """Return the Git remotes that memories are exchanged with, if any."""
    found: dict[str, str] = {}
    for path in (tenant_folder / SYNC_COPIES).glob("*.json"):
        with suppress(OSError, ValueError, LookupError, TypeError):
            url = str(json.loads(path.read_text("utf-8"))["url"])
            found[url] = "'lorelog sync' erases it from the exchange; earlier commits keep it ('lorelog docs sync')"
    return found


def _local_path(entry: ForgottenEntry) -> str:
    if entry.transcript.startswith("file://"):
        return unquote(urlsplit(entry.transcript).path)
    if not entry.transcript or "://" in entry.transcript:
        return ""
    return os.path.normpath(join_path(Path(entry.source).parent, entry.transcript))


def _git_history(source: str, entries: Sequence[ForgottenEntry], deadline: float) -> Mapping[str, str]:
    root, _, has_git = find_worktree(source)
    if not has_git:
        return {}
    git = Git(str(Path(source).parent))
    commits: dict[str, None] = {}
    for entry in entries:
        left = deadline - time.monotonic()
        search = [f"-Smemory:{entry.memory}"] if entry.memory else []
        found = git.run_text("log", "--all", "--format=%h", *search, "--", source, timeout_s=left) if left > 0 else None
        if found is None:
            return {f"Git history of {root}": f"it could not be read in time; it may hold {Path(source).name}"}
        commits |= dict.fromkeys(found.split())
    if not commits:
        return {}
    names = ", ".join(list(commits)[:_MAX_COMMITS_NAMED]) + (" and others" if len(commits) > _MAX_COMMITS_NAMED else "")
    remotes = (git.run_text("remote") or "").split()
    shared = f"; it may have been pushed to {', '.join(remotes)}" if remotes else ""
    return {f"Git history of {root}": f"it is in {Path(source).name} of {names}; rewriting history erases it{shared}"}
