"""Two machines that share one Milvus: each finds the other's memories, and sees whose they are."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.stores.milvus_server import LiteServer
from tests.surfaces.conftest import Shell, write

from lorelog.stores.milvus import peers

Sit = Callable[[str], Path]


@pytest.fixture
def sit(tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sit]:
    """Switch to another machine: another home, and another clone of the project at another path."""
    monkeypatch.setattr(peers, "PEERS_TTL_S", 0.0)
    server = LiteServer(tmp_path / "server")
    server.start()
    monkeypatch.setenv("LORELOG_STORE_URI", server.uri)
    monkeypatch.setenv("LORELOG_STORE_SHARED", "true")

    def sit_down(name: str) -> Path:
        clone = tmp_path / name / "src" / "app"
        if not clone.exists():
            clone.mkdir(parents=True)
            subprocess.run(["git", "init", "-q", str(clone)], check=True)
            url = f"https://{name}@example.org/team/app.git"
            subprocess.run(["git", "-C", str(clone), "remote", "add", "origin", url], check=True)
        monkeypatch.setenv("LORELOG_HOME", str(tmp_path / name / "home"))
        monkeypatch.chdir(clone)
        monkeypatch.setattr("platform.node", lambda: name)
        return clone

    yield sit_down
    server.stop()


@pytest.mark.slow
def test_what_one_machine_remembers_another_finds(shell: Shell, sit: Sit) -> None:
    """Indexed and remembered here, it is found, shown and expanded there, quoted as text that came in, and gone when deleted here."""
    clone = sit("laptop")
    write(clone / "notes.md", "# Cache\n\nThe otter cache lives five minutes.\n")
    shell("index", ".")
    remembered = shell("add", "Otters are deployed on Fridays", "--json").json

    sit("desk")
    found = shell("search", "otters", "--json").json
    by_source = {hit["source"].rpartition("/")[2]: hit for hit in found["hits"]}

    assert len(found["hits"]) == 2
    assert found["coverage"]["chunks"] == found["coverage"]["with_vectors"] == 2
    note = by_source["notes.md"]
    assert note["source"] == f"laptop:{clone}/notes.md"
    assert note["trust"]["tainted"] is True
    assert "laptop:" in shell("search", "otters").out
    (memory,) = [hit for hit in found["hits"] if "Fridays" in hit["content"]]
    shown = shell("show", memory["id"], "--json").json
    assert "Fridays" in shown["content"]
    assert "another machine (laptop)" in shown["notes"][0]
    refused = shell("delete", memory["id"])
    assert refused.status == 2
    assert "another machine (laptop)" in refused.err
    assert shell("search", "otters", "--trust", "canonical", "--json").json["hits"] == []

    sit("laptop")
    assert shell("delete", remembered["id"]).status == 0
    sit("desk")
    assert [hit["source"] for hit in shell("search", "otters", "--json").json["hits"]] == [note["source"]]


@pytest.mark.slow
def test_machines_that_do_not_share_are_not_found(shell: Shell, sit: Sit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without store.shared on both sides nothing of the other is found, nor under another tenant."""
    clone = sit("laptop")
    write(clone / "notes.md", "# Cache\n\nThe otter cache lives five minutes.\n")
    shell("index", ".")

    sit("desk")
    assert shell("search", "otter", "--tenant", "work", "--json").json["hits"] == []
    monkeypatch.setenv("LORELOG_STORE_SHARED", "false")
    assert shell("search", "otter", "--json").json["hits"] == []
    sit("laptop")
    assert shell("doctor", "--store", "--repair").status == 0  # this machine stops sharing
    monkeypatch.setenv("LORELOG_STORE_SHARED", "true")
    sit("desk")
    assert shell("search", "otter", "--json").json["hits"] == []
