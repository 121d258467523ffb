"""Repositories for tests: real ones, made by real Git."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git(directory: Path, *arguments: str) -> str:
    """Run Git with a fixed identity, independent of the settings of this machine."""
    command = ["git", "-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main", "-c", "commit.gpgsign=false"]
    command += ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", *arguments]
    done = subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def write(directory: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def repository(directory: Path, files: dict[str, str]) -> Path:
    """Make a repository with one commit of these files; return its real path."""
    directory.mkdir(parents=True, exist_ok=True)
    git(directory, "init", "-q")
    write(directory, files)
    git(directory, "add", "-A")
    git(directory, "commit", "-q", "--allow-empty", "-m", "first")
    return directory.resolve()
