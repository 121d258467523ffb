"""Paths of the files that hooks read and write while an agent waits.

A hook starts a Python process for every tool call, so this module imports nothing but `os`. The files below `index/`
are derived: `services.delivery.standing` writes them, and deleting them is safe.
"""

from __future__ import annotations

import os
import sys

from lorelog.core.paths import cache_folder

# ruff: noqa: PTH118  (pathlib takes 10 ms to import)

MEMSEARCH_FOLDER = ".memsearch/memory"
"""Folder of a project's journals that memsearch wrote."""
GLOBAL_KEY = "global"
"""File name of the memories that belong to no project."""


class DeliveryFiles:
    """Paths for one project of one tenant. Tuples hold the project's own file first, then that of global memories."""

    __slots__ = ("cues", "guards", "handoff", "log", "own", "standing")

    def __init__(self, tenant_folder: str, project: str) -> None:
        folder = os.path.join(cache_folder(tenant_folder), "delivery")
        keys = (project_key(project), GLOBAL_KEY)
        self.standing = tuple(os.path.join(folder, f"{key}.standing.jsonl") for key in keys)
        self.cues = tuple(os.path.join(folder, f"{key}.cues") for key in keys)
        self.own = os.path.join(folder, f"{keys[0]}.own")
        self.handoff = os.path.join(folder, f"{keys[0]}.handoff")
        self.guards = os.path.join(tenant_folder, "guards.jsonl")
        self.log = os.path.join(tenant_folder, "deliveries")


def project_key(project: str) -> str:
    """Return the file name of a project; `global` for memories of no project."""
    return short_digest(project) if project else GLOBAL_KEY


def short_digest(text: str) -> str:
    """Return 16 hex digits of a text's SHA-256."""
    # The module below `hashlib`, which takes 4 ms to import because it loads OpenSSL.
    try:
        sha256 = __import__("_sha256" if sys.version_info < (3, 12) else "_sha2").sha256
    except ImportError:
        from hashlib import sha256
    digest: str = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return digest[:16]
