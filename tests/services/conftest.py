"""A project of a person and its memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lorelog import Lorelog


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "app"
    place.mkdir()
    return place


@pytest.fixture
def memory(project: Path) -> Iterator[Lorelog]:
    """The memory of the project, in which nothing is indexed yet."""
    with Lorelog(project=project, settings={"embedding.provider": "fake"}) as opened:
        yield opened
