"""The daemon keeps indexed code up to date, and answers requests meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.surfaces.daemon.conftest import Warm, eventually


@pytest.mark.slow
def test_code_that_was_indexed_once_is_followed_by_the_daemon(
    warm: Warm, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code that was indexed once is found after a change on disk; code that was never indexed is not."""
    monkeypatch.setenv("LORELOG_WATCH_DEBOUNCE_MS", "100")
    (project / "a.py").write_text("def alpha(): pass\n", "utf-8")
    other = project.with_name("other")
    other.mkdir()
    (other / "o.py").write_text("def never(): pass\n", "utf-8")
    told: list[tuple[str, int, int]] = []
    report = warm.ask("code.index", {}, progress=lambda *said: told.append(said))
    assert (report["changed"], report["problems"]) == (1, [])

    def found(name: str) -> list[str]:
        reply = warm.ask("code.find_definition", {"name": name, "all_projects": True})
        return [symbol["file_path"] for symbol in reply["definitions"]]

    assert found("alpha") == [str(project / "a.py")]
    (project / "b.py").write_text("def beta(): pass\n", "utf-8")
    (project / "a.py").unlink()
    eventually(lambda: found("beta") and not found("alpha"), "followed")
    assert found("never") == []
    assert warm.status()["last_error"] is None
