"""A provider's key is never written to a file or printed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.models.embedding_server import Answer, Request
from tests.models.vendors import VENDORS, Rig, Vendor, each_vendor

from lorelog.models.embed import PROVIDERS
from lorelog.surfaces.cli.main import main

KEY = "Sesame+open/0123456789abcdef"
MORE = "Another-Sesame-fedcba9876543210"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    (place / "notes.md").write_text("# Otters\n\nOtters sleep in rivers.\n", "utf-8")
    monkeypatch.chdir(place)
    return place


def chosen(vendor: Vendor) -> dict[str, str]:
    """Return the environment that selects a vendor, with its key."""
    usual = {"LORELOG_EMBEDDING_DIMENSIONS": "3"} if vendor.name == "google" else {}
    return {
        "LORELOG_EMBEDDING_PROVIDER": vendor.name,
        "LORELOG_EMBEDDING_TIMEOUT_S": "5",
        PROVIDERS[vendor.name].key_variable: KEY,
        **usual,
    }


def assert_nowhere(printed: str, *folders: Path) -> None:
    """Search for the keys, whole, in part and as hex, in the output and in the names and bytes of all files."""
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    assert len(files) > 5
    found = b"\n".join(str(path).encode() + b"\n" + path.read_bytes() for path in files) + printed.encode()
    for key in (KEY, MORE):
        for shape in (key, key.encode().hex(), key[4:20]):
            assert shape.encode() not in found


@pytest.mark.slow
@each_vendor
@pytest.mark.usefixtures("project")
def test_the_key_is_nowhere(
    vendor: Vendor,
    rig: Rig,
    home: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Indexing, searching, failing and looking at settings leave the key out of files, output and logs.

    The server repeats the key in every refusal.
    """

    def refuse(status: int) -> Any:
        return lambda request: Answer(status, vendor.refusal(status, f"bad key {KEY}"), {"Retry-After": "99"})

    def nan(request: Request) -> Answer:
        return Answer(body=vendor.reply([[float("nan")] * 3 for _ in vendor.texts(request)], 1))

    caplog.set_level(0)
    for name, value in chosen(vendor).items():
        monkeypatch.setenv(name, value)
    printed, asked = "", []
    well = rig.serve(vendor.well)
    for server in (well, *(rig.serve(refuse(status)) for status in (401, 400, 404, 429, 500)), rig.serve(nan)):
        monkeypatch.setenv("LORELOG_EMBEDDING_BASE_URL", vendor.base_url(server))
        for words in (["index", ".", "--reembed"], ["search", "otters", "--explain"], ["search", "otters", "--json"]):
            main(words)
        asked += server.requests
    assert {request.headers[vendor.key_header].removeprefix("Bearer ") for request in asked} == {KEY}
    monkeypatch.setenv("LORELOG_EMBEDDING_BASE_URL", vendor.base_url(well))
    monkeypatch.setenv("TEAM_KEY", MORE)
    monkeypatch.setenv("LORELOG_EMBEDDING_API_KEY", "env:TEAM_KEY")
    for words in (
        ["config", "list"],
        ["config", "list", "--json"],
        ["status"],
        ["status", "index"],
        ["doctor"],
        ["search", "rivers"],
    ):
        main(words)
    assert well.requests[-1].headers[vendor.key_header].removeprefix("Bearer ") == MORE
    main(["config", "set", "embedding.api_key", MORE])
    main(["config", "set", "embedding.base_url", f"http://u:{MORE}@host/"])
    printed = "".join(capfd.readouterr()) + caplog.text

    assert "Otters sleep" in printed
    assert "refused the API key" in printed
    assert_nowhere(printed, home.parent)


@pytest.mark.slow
def test_a_daemon_keeps_the_key_to_itself(rig: Rig, project: Path, home: Path) -> None:
    """A daemon that received the key from its clients does not write it to its log or folder."""
    vendor = VENDORS["google"]
    environment = {**os.environ, **chosen(vendor), "LORELOG_DAEMON_WARM": "auto"}

    def lorelog(*words: str, url: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "lorelog", *words],
            cwd=project,
            env={**environment, "LORELOG_EMBEDDING_BASE_URL": url},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr

    well = rig.serve(vendor.well)
    bad = rig.serve(lambda request: Answer(401, vendor.refusal(401, f"bad key {KEY}")))
    printed = ""
    try:
        for url in (well.url, bad.url):
            for words in (("index", "."), ("search", "otters"), ("search", "rivers", "--json"), ("daemon", "status")):
                printed += lorelog(*words, url=url)
    finally:
        printed += lorelog("daemon", "stop", url=well.url)
    assert "process" in printed
    assert well.requests
    assert bad.requests
    assert_nowhere(printed, home.parent, project)
