"""One contender in a process of its own: inserts, answers one question from cold, or serves questions while warm.

Responsible for the clock standing as close to the store as it can: everything is timed in here but the cold start,
which begins before this file is read. Told what to do by one JSON argument and answers in JSON lines; argparse would
cost more than some of what is measured. Runs in the contender's environment, so it imports the standard library only.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.scale.contender import Deadline, Opened, contender
from bench.scale.material import Material, Question

Answer = dict[str, Any]


def insert(task: dict[str, Any]) -> Answer:
    """Fill an empty folder."""
    store = contender(task["contender"])
    started, cpu = time.perf_counter(), time.process_time()
    rows = store.insert(Path(task["folder"]), Material(Path(task["material"])), Deadline.after(task["limit_s"]))
    return {
        "rows": rows,
        "seconds": time.perf_counter() - started,
        "cpu": time.process_time() - cpu,
        "peak": peak_bytes(),
    }


def cold(task: dict[str, Any]) -> Answer:
    """Answer one question from nothing; the one who started this process looks at the clock when the answer comes."""
    (question,) = Material(Path(task["material"])).questions(task["question"], task["question"] + 1)
    found = contender(task["contender"]).open(Path(task["folder"])).hybrid(question)
    return {"hits": len(found), "cpu": time.process_time()}


def opening(task: dict[str, Any]) -> Answer:
    """Time our store's own opening: libraries are loaded, files are not; ends with the lexical lane's first answer."""
    import numpy as np
    import tantivy

    (question,) = Material(Path(task["material"])).questions(task["question"], task["question"] + 1)
    store = contender(task["contender"])
    ready = bool(np.float32(1)) and bool(tantivy.Occur)  # what is imported lazily is now there
    started = time.perf_counter()
    hits = len(_way(store.open(Path(task["folder"])), "lexical")(question)) if ready else 0
    return {"seconds": time.perf_counter() - started, "hits": hits}


def serve(task: dict[str, Any]) -> Iterator[Answer]:
    """Open once, then answer what is asked on standard input until it ends."""
    material = Material(Path(task["material"]))
    opened = contender(task["contender"]).open(Path(task["folder"]))
    yield {"ready": True}
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["do"] == "memory":
            yield memory(Path(task["folder"]))
        else:
            questions = material.questions(asked["first"], asked["last"])
            yield answers(_way(opened, asked["do"]), questions, asked["budget_s"])
    opened.close()


def answers(ask: Callable[[Question], list[int]], questions: list[Question], budget_s: float) -> Answer:
    """Ask one after the other, each timed; stop early when the budget is spent, but not before three were asked."""
    end = time.monotonic() + budget_s
    seconds: list[float] = []
    cpu: list[float] = []
    found: list[list[int]] = []
    for question in questions:
        started, used = time.perf_counter(), time.process_time()
        found.append(ask(question))
        seconds.append(time.perf_counter() - started)
        cpu.append(time.process_time() - used)
        if time.monotonic() > end and len(found) >= 3:
            break
    return {"seconds": seconds, "cpu": cpu, "found": found}


def _way(opened: Opened, name: str) -> Callable[[Question], list[int]]:
    way: Callable[[Question], list[int]] = getattr(opened, name)
    return way


def peak_bytes() -> int:
    """Return the most memory this process ever had resident, files it has mapped included."""
    try:
        status = Path("/proc/self/status").read_text("ascii")
    except OSError:  # not Linux
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    # Not ru_maxrss: that one inherits the peak of whoever started the process.
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def memory(folder: Path) -> Answer:
    """Return what is resident: all of it, what only this process can hold, and the store's mapped files."""
    try:
        rollup = Path("/proc/self/smaps_rollup").read_text("ascii")
        maps = Path("/proc/self/smaps").read_text("utf-8", "replace")
    except OSError:  # not Linux
        return {"resident": peak_bytes()}
    fields = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in rollup.splitlines()[1:]}
    mapped, mapped_resident = _mapped(maps, str(folder.resolve()))
    return {
        "resident": fields["Rss"],
        "anonymous": fields["Anonymous"],
        "private": fields["Private_Clean"] + fields["Private_Dirty"],
        "shared": fields["Shared_Clean"] + fields["Shared_Dirty"],
        "mapped": mapped,
        "mapped_resident": mapped_resident,
    }


def _mapped(maps: str, folder: str) -> tuple[int, int]:
    """Return how much of the files below a folder is mapped, and how much of that is resident."""
    mapped = resident = 0
    inside = False
    for line in maps.splitlines():
        name, _, rest = line.partition(":")
        if "-" in name:  # a mapping's first line: an address range, and the path at its end
            inside = folder in line
        elif inside and name == "Size":
            mapped += int(rest.split()[0]) * 1024
        elif inside and name == "Rss":
            resident += int(rest.split()[0]) * 1024
    return mapped, resident


@contextmanager
def _own_output() -> Iterator[Callable[[Answer], None]]:
    """Keep standard output for answers: what libraries print goes to standard error."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as output:
        os.dup2(2, 1)

        def say(answer: Answer) -> None:
            output.write(json.dumps(answer) + "\n")
            output.flush()

        yield say


def main() -> int:
    task = json.loads(sys.argv[1])
    with _own_output() as say:
        if task["do"] == "serve":
            for answer in serve(task):
                say(answer)
        else:
            say({"insert": insert, "cold": cold, "opening": opening}[task["do"]](task))
    return 0


if __name__ == "__main__":
    sys.exit(main())
