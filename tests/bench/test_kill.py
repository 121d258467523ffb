"""What was acknowledged survives, through the operations that agents use: many writers at once, and writers that are killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.records.drafts import draft

from bench import kill
from lorelog.records.ledger import Ledger

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "kill.py"


def run(*words: object) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--json", *map(str, words)],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    tally: dict[str, Any] = json.loads(done.stdout)
    return tally


@pytest.mark.slow
def test_24_writers_at_once_keep_every_record() -> None:
    """24 processes work through four tasks each: 384 records, each there once, in one sound chain, and the signed ones proven."""
    tally = run("--cycles", 1, "--writers", 24, "--finish")

    assert (tally["acknowledged"], tally["lost"], tally["unsound"], tally["unsigned"]) == (384, 0, 0, 0)


def test_lost_and_unsound_records_are_found(tmp_path: Path) -> None:
    """The bench sees what it is there to see: a record that is gone, a line that was changed, a signature that is none."""
    desk = kill.Desk(tmp_path, tmp_path)
    told = {Ledger(desk.tenant).append([draft(agent=name)])[0].id for name in "abc"}
    sound = kill.Tally()
    kill.look(desk, told, sound)
    assert sound == kill.Tally()

    file = desk.tenant / "ledger.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + lines[1].replace(b'"agent":"b"', f'"agent":"{kill.SIGNER}"'.encode()))
    (desk.home / "cache" / "default" / "records.db").unlink()
    found = kill.Tally()
    kill.look(desk, told, found)
    assert (found.lost, found.unsound, found.unsigned, found.ok) == (1, 1, 1, False)


@pytest.mark.slow
def test_killed_writers_lose_nothing_that_was_acknowledged() -> None:
    """40 writers are killed at moments of no choice: all that they were told of is there, and ledger and tables are sound."""
    tally = run("--cycles", 20, "--seed", 6)

    assert tally["killed"] == 40
    assert tally["acknowledged"] >= 40
    assert (tally["lost"], tally["unsound"], tally["unsigned"]) == (0, 0, 0)
