"""Check what the index is kept in: disk space, access, the ledger's end, and the files beside the index."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from lorelog.core.errors import LorelogError
from lorelog.core.memory import HealthCheck
from lorelog.services.places.roots import Roots
from lorelog.services.places.workspace import Workspace
from lorelog.services.records.store import RecordStore

MIN_FREE_BYTES = 200_000_000
"""Below this, the next index run or a captured session may fail."""
_MAX_FILES = 5_000
_MAX_LOG_BYTES = 50_000_000
_MAX_NAMED_LINES = 5
_REQUIRED_FIELDS = {
    "feedback.jsonl": ("query", "key", "relevance"),
    "lifecycle.jsonl": ("memory",),
    "tombstones.jsonl": ("key", "memory", "source", "ids", "at", "deleted"),
    "authored.jsonl": ("memory", "text"),
    "guards.jsonl": ("event", "id"),
    "receipts.jsonl": ("day", "id", "outcome"),
}
"""Fields without which a line of these files cannot be read."""


def check_home(workspace: Workspace, roots: Roots, records: RecordStore) -> list[HealthCheck]:
    """Return the checks of a tenant's files."""
    if not workspace.home.exists():
        return [HealthCheck("home", ok=True, message=f"{workspace.home} does not exist yet")]
    return [
        _check_disk(workspace.home),
        _check_access(workspace),
        *_check_privacy(workspace.home),
        *_check_ledger(records),
        *_check_roots_file(roots),
        *_check_logs(workspace),
    ]


def _check_disk(home: Path) -> HealthCheck:
    try:
        free = shutil.disk_usage(home).free
    except OSError as error:
        return HealthCheck("disk", ok=False, message=f"{home} cannot be examined: {error.strerror}")
    amount = f"{free / 1e6:,.0f} MB" if free < 1e10 else f"{free / 1e9:,.0f} GB"
    if free >= MIN_FREE_BYTES:
        return HealthCheck("disk", ok=True, message=f"{amount} free")
    return HealthCheck(
        "disk",
        ok=False,
        message=f"only {amount} are free on the disk of {home}; {MIN_FREE_BYTES / 1e6:,.0f} MB are needed to work safely",
        hint="free some space, or set LORELOG_HOME to another disk",
    )


def _check_access(workspace: Workspace) -> HealthCheck:
    folders = (workspace.home, workspace.tenant_folder, workspace.cache_folder)
    for folder in folders:
        if folder.exists() and not folder.is_dir():
            return HealthCheck("home", ok=False, message=f"{folder} is a file, not a directory", hint="move it away")
        if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
            return HealthCheck(
                "home",
                ok=False,
                message=f"{folder} is read-only: searches work, and nothing new is remembered",
                hint="make it writable, or set LORELOG_HOME to another folder",
            )
    return HealthCheck("home", ok=True, message=f"{workspace.home} is writable")


def _check_privacy(home: Path) -> list[HealthCheck]:
    """Warn of files that other users can read. A home that only its owner can enter protects all of them."""
    if not home.stat().st_mode & 0o077:
        return []
    exposed = [path for path in islice(_list_files(home), _MAX_FILES) if _is_exposed(path)]
    files = f"; {len(exposed):,} files in it can be read by them, such as {exposed[0]}" if exposed else ""
    message = f"other users can enter {home}{files}"
    return [HealthCheck("privacy", ok=True, message=message, hint=f"chmod 700 {home}")]


def _list_files(home: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(home):
        yield from (Path(folder) / name for name in names)


def _is_exposed(path: Path) -> bool:
    try:
        return bool(path.lstat().st_mode & 0o044)
    except OSError:
        return False


def _check_ledger(records: RecordStore) -> list[HealthCheck]:
    try:
        missing = records.ledger.missing_end()
    except LorelogError as error:
        return [HealthCheck("ledger", ok=False, message=error.message, hint=error.hint)]
    if missing:
        hint = "restore it from a backup; 'lorelog ledger check' names what is missing"
        return [HealthCheck("ledger", ok=False, message=missing, hint=hint)]
    return [HealthCheck("ledger", ok=True, message="ends with the last record written")] if records.exists() else []


def _check_roots_file(roots: Roots) -> list[HealthCheck]:
    try:
        damage = roots.damage()
    except LorelogError as error:
        return [HealthCheck("roots", ok=False, message=error.message, hint=error.hint)]
    hint = "'lorelog index' keeps it aside and writes it again"
    return [HealthCheck("roots", ok=False, message=damage, hint=hint)] if damage else []


def _check_logs(workspace: Workspace) -> list[HealthCheck]:
    """Name lines that cannot be read. They are skipped by whatever reads the file."""
    paths = [path for path in sorted(workspace.tenant_folder.glob("*.jsonl")) if not path.name.startswith("ledger")]
    paths += sorted((workspace.tenant_folder / "deliveries").glob("*.jsonl"))[:_MAX_FILES]
    paths += [workspace.cache_folder / "open-tasks.jsonl"]
    checks = []
    for path in paths:
        bad = _find_bad_lines(path)
        if bad:
            message = f"{path} has {bad}"
            hint = "correct or delete it: each line is one JSON object"
            checks.append(HealthCheck("file", ok=False, message=message, hint=hint))
    return checks


def _find_bad_lines(path: Path) -> str:
    """Return which lines of a file cannot be read, or an empty string. A torn last line is not an error."""
    required = _REQUIRED_FIELDS.get(path.name, ())
    try:
        if not path.exists() or path.stat().st_size > _MAX_LOG_BYTES:
            return ""
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        return f"no readable content: {error.strerror}"
    bad = [number for number, line in enumerate(lines, 1) if line.strip() and not _is_readable(line, required)]
    if not bad:
        return ""
    more = f" and {len(bad) - _MAX_NAMED_LINES:,} more" if len(bad) > _MAX_NAMED_LINES else ""
    named = ", ".join(map(str, bad[:_MAX_NAMED_LINES]))
    return f"a line that cannot be read: {named}" if len(bad) == 1 else f"lines that cannot be read: {named}{more}"


def _is_readable(line: bytes, required: Sequence[str]) -> bool:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(entry, dict) and all(name in entry for name in required)
