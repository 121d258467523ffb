"""The language server in real editors, headless, with real edits.

    python -m e2e.editors [EDITOR ...]

The editors are the distribution's packages. Missing ones are installed by apt-get where this is run as root, and skipped, with
the reason, elsewhere: a row that was skipped proves nothing. Exits with 1 when a row failed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from e2e.behaviours import add_guard
from e2e.installing import cache_folder
from e2e.model import Model
from e2e.world import Failed, World

_HERE = Path(__file__).parent
_LIMIT_S, _INSTALL_S = 300, 120
_CODE = "LIMIT = 3\n\n\ndef total_price(items):\n    return sum(items)\n"
_TEXT = "`total_price` returns cents"
EDITORS = {
    "neovim": (("neovim",), ["nvim", "--headless", "-u", "NONE", "-c", f"luafile {_HERE / 'neovim.lua'}"]),
    "emacs": (("emacs-nox", "elpa-eglot"), ["emacs", "--batch", "-l", str(_HERE / "emacs.el")]),
}
"""Packages and command of each editor."""
_PROMISES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a lens counts the memories of a definition": lambda seen: seen["lenses"] == ["1 decision"],
    "a hover has the memory and the line's commit": lambda seen: _TEXT in seen["hover"] and "commit" in seen["hover"],
    "a typed line that a guard matches is marked": lambda seen: {each[0] for each in seen["marked"]} == {4},
    "the words of the guard and of the decision are shown": lambda seen: all(
        any(words in each[2] for each in seen["marked"]) for words in ("prices are Decimal", _TEXT)
    ),
    "a line that is not saved has no reason": lambda seen: "commit" not in seen["unsaved"],
    "the mark goes with the line": lambda seen: seen["unmarked"] == 0,
    "a memory is a symbol of the workspace": lambda seen: seen["symbols"] == [_TEXT],
    "two actions are offered, and one lets a memory expire": lambda seen: (
        len(seen["actions"]) == 2 and seen["after"] == 1
    ),
    "500 changes and a hover are answered within 10 s": lambda seen: seen["typed_ms"] < 10_000,
}


def install(name: str) -> str:
    """Install an editor if it is missing; return why it is not there, or nothing."""
    packages, command = EDITORS[name]
    if shutil.which(command[0]) is None or (name == "emacs" and not Path("/usr/share/emacs/site-lisp/elpa").is_dir()):
        if os.geteuid() or shutil.which("apt-get") is None:
            return f"install {' and '.join(packages)} first: apt-get install {' '.join(packages)}"
        words = ["timeout", str(_INSTALL_S), "apt-get", "install", "-y", "-q", "--no-install-recommends", *packages]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return f"apt-get: {done.stderr.strip()[-300:]}" if done.returncode else ""
    return ""


def look(name: str, place: Path) -> dict[str, Any]:
    """Run an editor's script in a world of its own, and return what it saw."""
    model = Model()  # no editor asks it
    model.start()
    world = World(place, model, {})
    try:
        git = ["git", "-c", "user.name=e2e", "-c", "user.email=e2e@localhost", "-C", str(world.project)]
        (world.project / "src").mkdir()
        (world.project / "src" / "pricing.py").write_text(_CODE)
        for words in (["add", "."], ["commit", "-q", "-m", "prices"]):
            subprocess.run([*git, *words], check=True, env=world.environment())
        world.lorelog("add", "--type", "decision", _TEXT)
        add_guard(world, "--content", "float(", "--message", "prices are Decimal")
        seen = place / "seen.json"
        done = subprocess.run(
            EDITORS[name][1],
            cwd=world.project,
            env=world.environment(SEEN=str(seen)),
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
        if not seen.exists():
            raise Failed(f"{name} ended with {done.returncode}: {(done.stdout + done.stderr)[-600:]}")
        found: dict[str, Any] = json.loads(seen.read_text())
        return found
    finally:
        world.close()


def main() -> int:
    names, failed = sys.argv[1:] or list(EDITORS), 0
    for name in names:
        if missing := install(name):
            print(f"!!! NOT PROVEN IN {name.upper()}: {missing}", file=sys.stderr, flush=True)
            continue
        worlds = cache_folder() / "worlds"
        worlds.mkdir(parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=worlds))
        try:
            seen = look(name, place)
        except Failed as error:
            seen = {"problem": str(error)}
        for promise, check in _PROMISES.items():
            try:
                holds = bool(check(seen))
            except (KeyError, IndexError, TypeError):
                holds = False
            failed += not holds
            print(f"{'ok  ' if holds else 'FAIL'} {name:8} {promise}", flush=True)
        if "problem" in seen or failed:
            print(f"     {name} saw {json.dumps(seen)[:2000]}", flush=True)
        print(f"     {name}: 500 changes and a hover took {seen.get('typed_ms', 0):.0f} ms")
        shutil.rmtree(place, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
