"""Instructions of common commands, counted by valgrind: the same in each run whatever else the machine does, so that a landing can be held to them.

CPU time differs by a tenth between runs on a shared machine. The instructions of one command differ by less than half a percent
with the same interpreter, packages and seed of hashes (`PYTHONHASHSEED=0`), also between checkouts in different folders. What they
leave out: waiting, syncs, the kernel, and the daemon's side. The built-in model is left out: its library picks its code by the processor.

`python -m bench.trend` records and compares them; see there.
"""

import os
import platform
import re
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from bench.common_commands import Case, Checkout, prepared_cases, take
from bench.corpus import questions

MAX_MORE = 1.05
"""A command with more than so many times the instructions of its baseline fails."""
SAME_INTERPRETER = 0.01
"""Two builds of one Python version differ by more than this in `python -c pass`, and then in all else."""
_TOOL = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
_REFERENCES = re.compile(r"I\s+refs:\s+([\d,]+)")
_PATIENT = {"HOOK_TIMEOUT_S": "300"}
"""A command takes fifty times as long while it is counted, and must not give up."""


_ASKED = questions(2)


def can_count() -> bool:
    return shutil.which(_TOOL[0]) is not None


def describe_build() -> str:
    """What counts depend on before any code of ours."""
    return f"{platform.machine()}, Python {platform.python_version()}"


def count_instructions(checkout: Checkout, made: Path) -> tuple[dict[str, int], dict[str, str]]:
    """Return the instructions of each command, and why others could not be counted."""
    made.mkdir(parents=True, exist_ok=True)
    # The same path of modules for every folder: 1 % of a command depended on whether it is also that of the installed package.
    (made / "tree").symlink_to(checkout.source.parent.resolve())
    checkout = replace(checkout, source=made / "tree" / "src")
    with prepared_cases(checkout, made, model=False) as cases:
        for case in cases.values():  # writes compiled files, and shows what does not run here
            if not case.failure:
                take(case, case.command(checkout, _ASKED[0], 0), _environment(checkout, case), counted=False)
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            numbers = dict(zip(cases, pool.map(lambda case: _count(checkout, case), cases.values()), strict=True))
    counted = {name: number for name, number in numbers.items() if number}
    return counted, {name: case.failure for name, case in cases.items() if name not in counted}


def _environment(checkout: Checkout, case: Case) -> dict[str, str]:
    return checkout.environment(case.place, {**case.settings, **_PATIENT}) | {"PYTHONHASHSEED": "0"}


def _count(checkout: Checkout, case: Case) -> int:
    if case.failure:
        return 0
    with tempfile.NamedTemporaryFile("r") as log:
        command = [*_TOOL, f"--log-file={log.name}", *case.command(checkout, _ASKED[1], 1)]
        take(case, command, _environment(checkout, case), counted=False)
        found = _REFERENCES.search(log.read())
    if not found:
        case.failure = case.failure or "valgrind printed no count"
        return 0
    return int(found[1].replace(",", ""))
