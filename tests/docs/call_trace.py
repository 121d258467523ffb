"""Run a command and print which functions of lorelog it called, in the order of their first calls.

    python tests/docs/call_trace.py OUTPUT COMMAND [ARGUMENT ...]

COMMAND is an argument of `lorelog`, or `daemon` for the daemon process itself. The order is written to OUTPUT as lines of
`module:qualified.name`, without the package's name.
"""

from __future__ import annotations

import atexit
import runpy
import sys
import threading
from pathlib import Path
from types import FrameType

PACKAGE = "lorelog."


def record(path: Path) -> None:
    """Write each function of the package to a file when it is first called, in this process."""
    seen = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code in seen:
            return
        seen.add(code)
        module = frame.f_globals.get("__name__", "")
        if module.startswith(PACKAGE):
            with path.open("a", encoding="utf-8") as output:  # opened each time: the daemon closes files it inherits
                output.write(f"{module.removeprefix(PACKAGE)}:{code.co_qualname}\n")

    atexit.register(sys.setprofile, None)
    threading.setprofile(note)
    sys.setprofile(note)


def main() -> None:
    path, command, *arguments = sys.argv[1:]
    record(Path(path))
    if command == "daemon":
        sys.argv = ["lorelog-daemon", *arguments]
        runpy.run_module("lorelog.surfaces.daemon.process", run_name="__main__")
        return
    from lorelog.surfaces.cli.main import main as run_command

    sys.exit(run_command([command, *arguments]))


if __name__ == "__main__":
    main()
