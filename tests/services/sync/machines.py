"""Machines with homes of their own that exchange over a bare repository."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from tests.services.backup.conftest import BackedUpHome


def git(*words: str) -> str:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout


class SyncMachine(BackedUpHome):
    def __init__(self, folder: Path, remote: Path) -> None:
        super().__init__(folder / "home", folder / "clone")
        self.folder, self.remote = folder, remote
        if not remote.exists():
            git("init", "-q", "--bare", str(remote))
        git("-C", str(self.project), "init", "-q")
        git("-C", str(self.project), "remote", "add", "origin", "git@example.org:me/app.git")

    def sync(self, **options: Any) -> dict[str, Any]:
        """Exchange once, accept every writer that is there, and return the report."""
        branch = git("-C", str(self.remote), "branch", "--list", "lorelog") if self.remote.exists() else ""
        if branch and "accept_writer" not in options:
            names = git("-C", str(self.remote), "ls-tree", "-r", "--name-only", "lorelog").splitlines()
            options["accept_writer"] = [name.split("/")[1] for name in names if name.endswith("/signature.json")]
        with self.open() as memory:
            reports: list[dict[str, Any]] = memory.call("sync.exchange", {"remote": str(self.remote), **options})[
                "exchanges"
            ]
            return reports[0]

    def add(self, text: str, **options: Any) -> str:
        with self.open() as memory:
            return memory.add(text, **options).memory

    def journal(self) -> str:
        return "".join(path.read_text("utf-8") for path in sorted((self.project / ".lorelog/memory").glob("*.md")))


def exchange_text(remote: Path) -> str:
    """Return all files of the newest commit."""
    names = git("-C", str(remote), "ls-tree", "-r", "--name-only", "lorelog").split()
    return "".join(f"{name}\n" + git("-C", str(remote), "show", f"lorelog:{name}") for name in names)
