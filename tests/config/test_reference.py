"""The documentation says what the code does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lorelog.config.schema import SETTINGS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_reference_is_current() -> None:
    """The generated parts of the documentation are up to date."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "generate_reference.py"), "--check"],
        check=False,
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_every_setting_is_documented() -> None:
    """Every key and every variable is in docs/configuration.md."""
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")

    assert [
        setting.key for setting in SETTINGS if f"`{setting.key}`" not in page or f"`{setting.variable}`" not in page
    ] == []
