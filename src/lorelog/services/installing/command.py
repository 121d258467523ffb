"""By which name hosts are to call us."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from lorelog.hosts.bundles import COMMAND


def own_command(environment: Mapping[str, str]) -> str:
    """Return `lorelog` where that is what PATH has, else the absolute path of this one.

    A virtual environment is on PATH only where it was activated, and a host is started elsewhere: what is found in the one
    that runs us is named by its path.
    """
    named = shutil.which(COMMAND, path=environment.get("PATH", os.defpath))
    here = _own_program()
    if here is None:
        return COMMAND
    if named is not None and os.path.realpath(named) == os.path.realpath(here) and not _in_venv(Path(named)):
        return COMMAND
    return str(here)


def _own_program() -> Path | None:
    """Return the program that runs, or would run, this very lorelog."""
    started = Path(sys.argv[0])
    beside = Path(sys.executable).parent / COMMAND
    candidates = [started.absolute()] if started.name == COMMAND else []
    return next((one for one in (*candidates, beside) if os.access(one, os.X_OK) and one.is_file()), None)


def _in_venv(program: Path) -> bool:
    return sys.prefix != sys.base_prefix and program.absolute().parent == Path(sys.prefix).absolute() / "bin"
