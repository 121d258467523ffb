"""A provider that fails during a run: nothing is lost, keyword search works, and the next run continues."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.models.embedding_server import Answer, Behaviour, Request
from tests.models.vendors import Rig, Vendor, each_vendor

from lorelog.models.embed import PROVIDERS
from lorelog.surfaces.cli.main import main

NOTES = 40


@pytest.mark.slow
@each_vendor
@pytest.mark.parametrize("failure", ["401", "hang up", "truncated JSON"])
def test_an_outage_costs_nothing_that_was_done(
    vendor: Vendor,
    rig: Rig,
    failure: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Existing vectors are kept, search uses keywords, and the next run embeds the rest and nothing twice."""
    monkeypatch.chdir(tmp_path)
    for number in range(NOTES):
        (tmp_path / f"n{number:02}.md").write_text(f"otter number {number:02}\n", "utf-8")
    embedded: list[str] = []
    is_well = False

    def answer(request: Request) -> Answer:
        texts = vendor.texts(request)
        if not is_well and len(embedded) >= NOTES // 2:
            ways: dict[str, Behaviour] = {
                "401": vendor.saying(401),
                "hang up": lambda request: Answer(hang_up=True),
                "truncated JSON": lambda request: Answer(raw=b'{"data": [{"embedding": [0.1'),
            }
            return ways[failure](request)
        embedded.extend(texts)
        return vendor.well(request)

    def run(*words: str) -> Any:
        capsys.readouterr()
        status = main([*words, "--json"])
        return {"status": status, **json.loads(capsys.readouterr().out)}

    server = rig.serve(answer)
    for name, value in {
        "LORELOG_EMBEDDING_PROVIDER": vendor.name,
        "LORELOG_EMBEDDING_BASE_URL": vendor.base_url(server),
        "LORELOG_EMBEDDING_BATCH_SIZE": "2",
        "LORELOG_EMBEDDING_TIMEOUT_S": "1",
        PROVIDERS[vendor.name].key_variable: "key",
        **({"LORELOG_EMBEDDING_DIMENSIONS": "3"} if vendor.name == "google" else {}),
    }.items():
        monkeypatch.setenv(name, value)
    broken = run("index", ".")
    assert (broken["status"], broken["changed"]) == (1, NOTES)
    assert 0 < broken["embedded"] < NOTES
    assert broken["embedded"] + broken["waiting"] == NOTES
    asked = run("search", "otter", "-k", "50")
    assert len(asked["hits"]) == NOTES
    assert asked["notes"]

    asked_before = [text for text in embedded if "number" in text]
    assert len(asked_before) == broken["embedded"]  # whatever was made is kept, also beside a batch that failed
    kept, is_well = broken["embedded"], True
    before = len(embedded)
    whole = run("index", ".")
    assert (whole["status"], whole["changed"], whole["embedded"], whole["waiting"]) == (0, 0, NOTES - kept, 0)
    assert len(embedded) - before == NOTES - kept
    made = [text for text in embedded if "number" in text]
    assert len(made) == len(set(made)) == NOTES  # nothing was paid for twice
    assert run("search", "otter")["coverage"] == {"chunks": NOTES, "with_vectors": NOTES}
