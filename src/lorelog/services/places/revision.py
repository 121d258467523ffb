"""The revision of a tenant's files: texts that change when memories, records, deliveries, sessions or settings change.

Only the sizes and times of files are read, so that it can be asked every second without waking a model or a database.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress

from lorelog.core.paths import cache_folder

_FILES = {
    "memories": ("tombstones.jsonl", "lifecycle.jsonl", "authored.jsonl"),
    "records": ("ledger.jsonl",),
    "sessions": ("captures.db", "captures.db-wal"),
    "deliveries": ("deliveries", "guards.jsonl"),
    "costs": ("receipts.jsonl",),
}
_CATALOG = ("catalog.db", "catalog.db-wal")


def read_revision(home: str, tenant_folder: str) -> Mapping[str, str]:
    """Return the revision by subject. A file that is missing counts, too."""
    cache = cache_folder(tenant_folder)
    catalog = [f"{cache}/{name}" for name in _CATALOG]
    paths = {subject: [f"{tenant_folder}/{name}" for name in names] for subject, names in _FILES.items()}
    paths["memories"] += catalog
    paths["settings"] = [f"{home}/config.toml"]
    return {subject: "-".join(_stamps(files)) for subject, files in paths.items()}


def _stamps(paths: Iterable[str]) -> Iterable[str]:
    for path in paths:
        yield _stamp(path)
        if path.endswith("/deliveries"):
            yield _newest(path)


def _newest(folder: str) -> str:
    """Return the time of the last change of any file in a folder: a session appends to the file it has."""
    with suppress(OSError), os.scandir(folder) as entries:
        return f"{max((entry.stat().st_mtime_ns for entry in entries), default=0):x}"
    return ""


def _stamp(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return ""
    return f"{status.st_mtime_ns:x}.{status.st_size:x}"
