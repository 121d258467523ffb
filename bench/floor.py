"""What our paths cost beyond the libraries that they need: each beside a script that uses the libraries alone.

    python -m bench.floor [--chunks 1000] [--rounds 15] [--questions 200]

The floor of a path is the least it may cost while it uses Python and these libraries: the interpreter, the imports, the index opened with
tantivy, the rows read with sqlite3, the optimized model opened and run with onnxruntime. It ranks nothing, checks nothing, and knows nothing
of projects, settings, changes, snippets or relevance; it is not a rival but what no work of ours can go below. Both sides read the same files, take
turns, and are measured by CPU time, which a busy machine disturbs less than wall time. Linux only.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.contenders import own_program
from bench.corpus import questions, write_journals
from bench.measure import median, require, run
from bench.result import format_table
from bench.warm_home import home_environment, new_project, show_mb, show_ms, start_daemon

LIBRARIES = """
import sqlite3
import tantivy
from pathlib import Path
import json, sys

cache = Path(sys.argv[1])
state = json.loads((cache / "lexical" / "current.json").read_text())
index = tantivy.Index.open(str(cache / "lexical" / state["folder"]))
catalog = sqlite3.connect(cache / "catalog.db")

def find(question):
    terms = [tantivy.Query.term_query(index.schema, "body", word) for word in question.lower().split()]
    query = tantivy.Query.boolean_query([(tantivy.Occur.Should, term) for term in terms])
    searcher = index.searcher()
    hits = searcher.search(query, 200, count=False).hits
    rows = searcher.fast_field_values("row", [address for _, address in hits])[:20]
    marks = ",".join("?" * len(rows))
    return catalog.execute(f"SELECT * FROM chunks WHERE row IN ({marks})", rows).fetchall()
"""
MODEL = """
import numpy
import onnxruntime

options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
options.enable_mem_reuse = False
options.intra_op_num_threads = options.inter_op_num_threads = 1
options.add_session_config_entry("session.intra_op.allow_spinning", "0")
path = next((cache.parent / ".models").glob("*.onnx"))
model = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

def embed(question):
    ids = numpy.full((1, len(question.split()) + 4), 1000, dtype=numpy.int64)
    return model.run(None, {"input_ids": ids, "attention_mask": numpy.ones_like(ids)})
"""
STATUS = """
import sys
sys.modules["typing_extensions"] = None
import msgspec
del sys.modules["typing_extensions"]
import sqlite3, json, _socket, select, fcntl, threading, pathlib, datetime, re, typing
"""
"""Without what `status` does not load: msgspec uses `typing_extensions` only if it is there, and that loads `inspect`."""
WARM = """
import time

def cpu_ms(calls):
    began = time.process_time()
    for call in calls:
        call()
    return (time.process_time() - began) / len(calls) * 1e3

asked = json.loads(sys.argv[2])
find(asked[0]), embed(asked[0])
resident = next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1]
print(json.dumps({
    "find": cpu_ms([lambda text=text: find(text) for text in asked]),
    "embed": cpu_ms([lambda text=text: embed(text) for text in asked]),
    "resident": int(resident) * 1024,
}))
"""


def main() -> int:
    options = _arguments()
    asked = questions(options.rounds * 2 + options.questions * 2 + 60)
    with tempfile.TemporaryDirectory(prefix="floor-") as made:
        place = Path(made)
        project = new_project(place)
        write_journals(project / "notes", options.chunks)
        environment = home_environment(place)
        program = own_program()
        require(run([program, "index", "notes", "--daemon", "off"], environment, project), "index")
        cache = Path(environment["LORELOG_HOME"], "cache", "default")
        cold = _cold(cache, project, environment, asked[: options.rounds * 2])
        warm = _warm(cache, project, environment, asked[options.rounds * 2 :], options.questions)
    print(f"### {options.chunks:,} chunks\n")
    print(format_table(["CPU of one command", "lorelog", "floor", "beyond it"], cold))
    print(
        "\nFloors of commands: the interpreter and the libraries that the command needs, with one question where it asks one.\n"
    )
    print(format_table(["the daemon", "lorelog", "floor", "beyond it"], warm))
    print(
        "\nOne client, each question new. Floors: 200 candidates of tantivy and 20 rows of SQLite; with vectors, one run of the model too."
    )
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=1_000, metavar="N", help="chunks in the index (1,000)")
    parser.add_argument("--rounds", type=int, default=15, metavar="N", help="runs of each command (15)")
    parser.add_argument(
        "--questions", type=int, default=200, metavar="N", help="questions to the daemon of each kind (200)"
    )
    return parser.parse_args()


def _cold(cache: Path, project: Path, environment: Mapping[str, str], asked: Sequence[str]) -> list[list[str]]:
    """Return rows of commands without the daemon."""
    program, python = own_program(), sys.executable
    scripts = {
        "search by words": LIBRARIES + "find(sys.argv[2])",
        "search with the built-in model": LIBRARIES + MODEL + "find(sys.argv[2]), embed(sys.argv[2])",
        "status": STATUS,
    }
    commands = {
        "search by words": ("search", "--lane", "lexical"),
        "search with the built-in model": ("search",),
        "status": ("status",),
    }
    ours: dict[str, list[float]] = {name: [] for name in scripts}
    floors: dict[str, list[float]] = {name: [] for name in scripts}
    for number, question in enumerate(asked):
        for name, script in scripts.items():
            words = () if name == "status" else (question,)
            verb, *rest = commands[name]
            line = [program, verb, *words, *rest, "--daemon", "off", "--json"]
            cpu = require(run(line, environment, project), name).cpu_s
            floor = require(
                run([python, "-c", script, str(cache), question], environment, project), f"floor of {name}"
            ).cpu_s
            if number >= len(asked) // 2:  # the first half writes compiled files and fills the page cache
                ours[name].append(cpu)
                floors[name].append(floor)
    return [_row(name, median(ours[name]), median(floors[name])) for name in scripts]


def _warm(
    cache: Path, project: Path, environment: Mapping[str, str], asked: Sequence[str], count: int
) -> list[list[str]]:
    """Return rows of the daemon: CPU time of a question, and its memory."""
    line = [sys.executable, "-c", LIBRARIES + MODEL + WARM, str(cache), json.dumps(list(asked[:count]))]
    done = subprocess.run(line, env=dict(environment), capture_output=True, text=True, check=True)
    floor = json.loads(done.stdout)
    cpu_s, unasked = {}, iter(asked)
    with start_daemon(project, environment) as home:
        for lane in ("lexical", "hybrid"):
            new = [next(unasked) for _ in range(count + 30)]
            for question in new[count:]:
                home.call("memory.search", query=question, k=5, lane=lane)
            began = home.cpu_s()
            for question in new[:count]:
                home.call("memory.search", query=question, k=5, lane=lane)
            cpu_s[lane] = (home.cpu_s() - began) / count
        resident = home.resident()
    least = floor["find"] / 1e3
    return [
        _row("a question by words, CPU", cpu_s["lexical"], least),
        _row("a question with vectors, CPU", cpu_s["hybrid"], least + floor["embed"] / 1e3),
        ["memory in use", show_mb(resident), show_mb(floor["resident"]), show_mb(resident - floor["resident"])],
    ]


def _row(name: str, ours: float, floor: float) -> list[str]:
    return [name, show_ms(ours), show_ms(floor), show_ms(ours - floor)]


if __name__ == "__main__":
    sys.exit(main())
