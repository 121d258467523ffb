"""Pages whose output is real, typed again."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts.type_page import environment_at, masked, retyped, steps
from tests.docs.pages import read

PAGES = ("docs/quickstart.md", "docs/trust.md", "docs/records.md")


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_true(name: str, tmp_path: Path) -> None:
    """Every command of the page prints what the page says, but for ids, times and scores (`python scripts/type_page.py` renews it)."""
    page = read(name)
    directory = tmp_path / "shop"
    directory.mkdir()

    assert len(steps(page)) > 3
    assert masked(retyped(page, directory, environment_at(tmp_path, page))) == masked(page)


def test_a_page_that_is_not_true_is_seen(tmp_path: Path) -> None:
    """What is printed replaces what a page says, ids on it stand for those printed now, and a lie shows."""
    page = '```console\n$ echo "made 00000000-0001"\nmade 00000000-0002\n$ echo 00000000-0002\nsomething else\n```\n'
    (tmp_path / "x").mkdir()

    typed = retyped(page, tmp_path / "x", environment_at(tmp_path))

    assert (
        typed
        == '```console\n$ echo "made 00000000-0001"\nmade 00000000-0001\n$ echo 00000000-0001\n00000000-0001\n```\n'
    )
    assert masked(typed) != masked(page)
