"""A project whose memories are read by hooks."""

from __future__ import annotations

import subprocess
from pathlib import Path

from lorelog.light.delivery_files import DeliveryFiles


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@x", *words], cwd=folder, check=True)


def files(home: Path, project: Path) -> DeliveryFiles:
    return DeliveryFiles(str(home / "data" / "default"), str(project.resolve()))
