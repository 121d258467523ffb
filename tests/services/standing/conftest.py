"""A project whose memories are read by hooks."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lorelog import Lorelog
from lorelog.light.delivery_files import DeliveryFiles

FAKE = {"embedding.provider": "fake"}


@pytest.fixture
def memory(project: Path) -> Iterator[Lorelog]:
    with Lorelog(project=project, settings=FAKE) as opened:
        yield opened


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@x", *words], cwd=folder, check=True)


def files(home: Path, project: Path) -> DeliveryFiles:
    return DeliveryFiles(str(home / "data" / "default"), str(project.resolve()))
