"""A daemon whose code was replaced, or differs from a client's, although both have the same version."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.surfaces.daemon.conftest import Warm, eventually

import lorelog
from lorelog.light.daemon_connection import read_lock_holder
from lorelog.surfaces.daemon.connection import RunningCode

PACKAGE = Path(lorelog.__file__).parent


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the program, as another installation has it."""
    return Path(shutil.copytree(PACKAGE, tmp_path / "site" / "lorelog", ignore=shutil.ignore_patterns("__pycache__")))


def test_modules_are_the_same_if_their_text_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another installation of the same code is served; one with a changed, new or missing module is not; times do not count."""
    original = PACKAGE / "core"
    package = Path(shutil.copytree(original, tmp_path / "site" / "core", ignore=shutil.ignore_patterns("__pycache__")))
    code = RunningCode(str(original))
    assert code.is_same(str(original))
    assert code.is_same("")
    assert code.is_same(str(package))
    module = package / "ids.py"
    module.write_text(module.read_text("utf-8") + "# changed\n", "utf-8")
    assert not code.is_same(str(package))
    assert code.is_same(str(package.parent / "nothing"))
    copy = RunningCode(str(package))
    monkeypatch.setattr("lorelog.surfaces.daemon.connection._CODE_CHECK_S", 0.0)
    assert not copy.is_replaced()
    (package / "new_module.py").touch()
    assert copy.is_replaced()


@pytest.mark.slow
def test_an_update_of_the_same_version_replaces_the_daemon(warm: Warm, package: Path) -> None:
    """After its files were replaced, a daemon leaves at the next request, and that request is answered by the new code."""
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "LORELOG_HOME": warm.address.home}

    def run(*words: str, at: Path = package.parent) -> str:
        command = [sys.executable, "-m", "lorelog", *words]
        env = {**environment, "PYTHONPATH": str(at)}
        done = subprocess.run(command, cwd=warm.project, env=env, capture_output=True, text=True, check=True)
        return done.stdout

    def daemon() -> int:
        held = read_lock_holder(warm.address)
        return int(held["pid"]) if held and not held.get("leaving") else 0

    run("daemon", "start")
    run("add", "the otter lives in the river")
    first = daemon()
    assert "otter" in run("search", "otter", at=PACKAGE.parent)  # the same code elsewhere: served
    assert daemon() == first
    module = package / "core" / "ids.py"
    module.write_text(module.read_text("utf-8") + "# changed\n", "utf-8")
    assert "otter" in run("search", "otter", at=PACKAGE.parent)  # other code now, and yet an answer
    eventually(lambda: "otter" in run("search", "otter") and daemon() not in (0, first), "a new daemon answers")
