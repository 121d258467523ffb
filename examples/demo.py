"""Runs `make demo`: indexes the sample memory in a temporary home, runs three searches, and suggests commands.

`python examples/demo.py ui` opens the page over the same memory instead, with sessions, guards and records.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
QUESTIONS = (
    ["why did we shorten the cache TTL?", "-k", "2"],
    ["customers received the same webhook twice", "-k", "2"],
    ["check_migrations.py", "-k", "1", "--explain"],
)


def main() -> int:
    """Run the demo in a temporary home, so that the user's own files are not touched."""
    with tempfile.TemporaryDirectory(prefix="lorelog-demo-") as place:
        project = Path(place) / "harbor"
        shutil.copytree(HERE / "fortnight" / "memory", project / "memory")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LORELOG_")}
        environment["LORELOG_HOME"] = str(Path(place) / "home")
        environment["LORELOG_DAEMON_WARM"] = "off"  # nothing stays behind, not even for half an hour
        steps = [["index", "memory"], *(["search", *question] for question in QUESTIONS)]
        for step in steps:
            print(f"\n$ lorelog {' '.join(repr(word) if ' ' in word else word for word in step)}", flush=True)
            status = subprocess.run(
                [sys.executable, "-m", "lorelog", *step], cwd=project, env=environment, check=False
            ).returncode
            if status:
                return status
    print(
        "That was a temporary copy. On your own notes:\n\n"
        "    source .venv/bin/activate              # or: python -m pip install ./encoder .\n"
        "    lorelog index ~/notes --global\n"
        '    lorelog search "what did I decide about …?"\n'
        '    lorelog add "what I learned today" --type lesson\n\n'
        "lorelog --help shows the rest."
    )
    return 0


def show_page(*options: str) -> int:
    """Open the page over a temporary home until Ctrl-C."""
    sys.path.insert(0, str(HERE.parent))
    from examples.demo_world import fill

    from lorelog import Lorelog

    with tempfile.TemporaryDirectory(prefix="lorelog-demo-") as place:
        project, home = Path(place) / "harbor", Path(place) / "home"
        project.mkdir()
        subprocess.run(["git", "init", "-q", str(project)], check=True)
        os.environ.update(LORELOG_HOME=str(home), LORELOG_DAEMON_WARM="off")
        os.chdir(project)
        with Lorelog(project=project) as memory:
            fill(project, home, memory.call)
        words = [sys.executable, "-m", "lorelog", "ui", "--port", "0", *options]
        return subprocess.run(words, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(show_page(*sys.argv[2:]) if sys.argv[1:2] == ["ui"] else main())
