"""Receipts: what they say, what they keep, and that they can be verified later."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from lorelog.core.errors import NotFound, StoreDamaged, UsageError
from lorelog.services.forget.forget_plan import Receipt, find_receipt, format_report, read_receipt, write_receipt
from lorelog.services.forget.residues import find_residues, make_canaries

TEXT = "The walrus sleeps under the harbour bridge, and nobody wakes it before noon on a Sunday."


def make_receipt(place: Path) -> Receipt:
    canaries = make_canaries([TEXT, "hunter2-x9"])
    report = find_residues(canaries, [place])
    return Receipt(
        id="0198-a",
        at="2026-03-05T14:30:00Z",
        selected={"memories": 2},
        places=(str(place),),
        canaries=canaries,
        text=format_report(report, short=1, unreachable=1),
        files=report.files,
        unreached={"git history": "2 commits hold it"},
    )


def test_a_receipt_is_private_and_holds_nothing_of_the_text(tmp_path: Path) -> None:
    """Receipt and key are readable by their owner only, and no file below the home holds the text."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "notes.md").write_text("something else")
    path = write_receipt(home, make_receipt(home))
    assert path == home / "forgotten" / "0198-a.json"
    assert [stat.S_IMODE(file.stat().st_mode) for file in (path, path.with_suffix(".key"))] == [0o600, 0o600]
    receipt = read_receipt(find_receipt(home, "0198"))
    assert receipt.text == (
        "forgotten: 0 residues in 1 file; 1 place out of reach; 1 text too short to be verified later"
    )
    assert find_residues(make_canaries([TEXT, "hunter2-x9"]), [home]).ok
    assert find_residues(receipt.canaries, [home]).ok


def test_a_receipt_that_was_changed_proves_nothing(tmp_path: Path) -> None:
    """An emptied, shortened or changed receipt is refused; so is one that an older version wrote without a signature."""
    path = write_receipt(tmp_path, make_receipt(tmp_path))
    content, key = path.read_bytes(), path.with_suffix(".key")
    receipt = json.loads(content)
    fewer = {**receipt["canaries"], "fragments": receipt["canaries"]["fragments"][1:]}
    for name, value in (("canaries", {}), ("canaries", fewer), ("places", []), ("text", "forgotten: 0 residues")):
        path.write_text(json.dumps({**receipt, name: value}), "utf-8")
        with pytest.raises(StoreDamaged, match="was changed after it was written"):
            read_receipt(find_receipt(tmp_path, "last"))
    path.write_bytes(content)
    assert read_receipt(path).id == "0198-a"
    key.write_text(key.read_text("ascii").split()[0], "ascii")
    with pytest.raises(StoreDamaged, match="older version, which did not sign it"):
        read_receipt(path)


def test_other_files_are_not_receipts(tmp_path: Path) -> None:
    """A missing receipt, a missing key, another JSON file and an ambiguous id are reported, without a traceback."""
    path = write_receipt(tmp_path, make_receipt(tmp_path))
    path.with_suffix(".key").unlink()
    with pytest.raises(NotFound, match=r"0198-a\.key"):
        read_receipt(path)
    for text in ("[]", "{", '{"version": 1}', '{"version": 99}'):
        path.write_text(text)
        path.with_suffix(".key").write_text("00")
        with pytest.raises(UsageError, match="not a receipt"):
            read_receipt(path)
    with pytest.raises(NotFound, match="no receipt"):
        find_receipt(tmp_path, "zzz")
