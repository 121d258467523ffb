"""A project whose sessions are captured."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.services.sessions.talks import CaptureHome, ClaudeTalk


@pytest.fixture
def world(tmp_path: Path) -> CaptureHome:
    """An empty project."""
    return CaptureHome(tmp_path)


@pytest.fixture
def talk(world: CaptureHome) -> ClaudeTalk:
    """A session of Claude Code in the project."""
    return ClaudeTalk(world)
