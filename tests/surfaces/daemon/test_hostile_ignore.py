"""The daemon among hostile ignore files."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.surfaces.daemon.conftest import Warm, eventually

from lorelog.light import daemon_client as client


@pytest.mark.slow
def test_a_hostile_ignore_file_delays_no_other_project(
    warm: Warm, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a pattern over which a backtracking matcher never ends, the daemon still follows its project and answers others."""
    monkeypatch.setenv("LORELOG_WATCH_DEBOUNCE_MS", "100")
    notes = project / "notes"
    notes.mkdir()
    (notes / f"{'a' * 200}.md").write_text("# one\n\nquokka\n", "utf-8")
    other = project.with_name("other")
    other.mkdir()
    (other / "o.md").write_text("# other\n\nwalrus\n", "utf-8")
    warm.ask("memory.index", {"paths": [str(notes)]})
    client.call_daemon("memory.index", {"paths": [str(other)]}, directory=str(other))

    def sources(query: str, directory: Path) -> list[str]:
        reply = client.call_daemon("memory.search", {"query": query}, directory=str(directory))
        return [Path(hit["source"]).name for hit in reply["hits"]]

    for number, pattern in enumerate(("*a" * 11 + "b", "*a" * 16 + "b", "a*" * 10 + "?b")):
        (notes / ".gitignore").write_text(pattern + "\n", "utf-8")
        (notes / f"{'a' * 150}{number}.md").write_text(f"# later\n\nwombat{number}\n", "utf-8")
        assert sources("walrus", other) == ["o.md"]
        eventually(lambda word=f"wombat{number}": sources(word, project), f"{pattern} is followed")  # type: ignore[misc]
        assert sources("walrus", other) == ["o.md"]
    assert warm.status()["last_error"] is None
