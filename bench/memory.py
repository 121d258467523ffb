"""What memory a daemon needs: in use, after a pause, and idle.

    python -m bench.memory [--chunks 1000] [--questions 50] [--idle 20]

A home with the built-in model, whose optimized copy is there, and the daemon's own settings, files watched. Texts are indexed, then questions are asked, then nothing
is. Idle means after `daemon.model_idle_s` without a call, which is 600 seconds by default and `--idle` seconds here: what follows is the
same, only sooner. Resident memory is what the kernel says (VmRSS); the part that no file backs is RssAnon. The rest is libraries, the
index and the model's weights: pages of files, which the system may drop, and which all processes share. Linux only.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.corpus import Writer
from bench.result import Verdicts
from bench.warm_home import WarmHome, home_environment, new_project, show_mb, show_ms, start_daemon

MOST_IN_USE = {1_000: 130e6, 100_000: 260e6}
MOST_IDLE = 45e6
CHUNKS_IN_A_FILE = 20
PATIENCE_S = 330.0
"""The watcher, which waited for the index run, tries again after at most 300 seconds; the daemon does not restart before."""


def main() -> int:
    options = _arguments()
    verdicts = Verdicts()
    writer = Writer(11)
    rows: list[tuple[str, int, int]] = []
    with tempfile.TemporaryDirectory(prefix="memory-") as made:
        place = Path(made)
        project = new_project(place)
        _write_notes(project / "notes", options.chunks, writer)
        environment = home_environment(place, WATCH_ENABLED="true", DAEMON_MODEL_IDLE_S=str(options.idle))
        with start_daemon(project, environment) as home:
            _ask(home, writer, 1)  # makes the optimized copy of the model, once in a home
        with start_daemon(project, environment) as home:

            def note(what: str) -> int:
                rows.append((what, home.resident(), home.anonymous()))
                return rows[-1][1]

            time.sleep(3)
            note("started")
            home.call("memory.index", paths=["notes"])
            note("indexed")
            _ask(home, writer, options.questions)
            in_use = note(f"in use: after {options.questions} questions")
            time.sleep(min(5, options.idle / 2))
            note("after a pause of 5 s")
            _wait_for_restart(home, options.idle)
            time.sleep(5)  # its background threads have started
            idle = note("idle")
            again_s = home.timed("memory.search", query=writer.phrase(5))
            note("after the next question")
    _show(rows, options.chunks)
    print(f"\nThe first question after it was idle took {show_ms(again_s)}: it loads the model and the index again.\n")
    limit = next((most for chunks, most in MOST_IN_USE.items() if options.chunks <= chunks), None)
    if limit:
        what = f"daemon in use, {options.chunks:,} chunks"
        verdicts.judge(what, show_mb(in_use), f"<= {show_mb(limit)}", met=in_use <= limit, headline=True)
    verdicts.judge("daemon idle", show_mb(idle), f"<= {show_mb(MOST_IDLE)}", met=idle <= MOST_IDLE, headline=True)
    print(verdicts.table())
    return 1 if verdicts.missed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=1_000, metavar="N", help="chunks in the index (1,000)")
    parser.add_argument("--questions", type=int, default=50, metavar="N", help="different questions (50)")
    parser.add_argument("--idle", type=int, default=20, metavar="S", help="daemon.model_idle_s (20)")
    return parser.parse_args()


def _write_notes(folder: Path, chunks: int, writer: Writer) -> None:
    folder.mkdir()
    for number in range(max(1, chunks // CHUNKS_IN_A_FILE)):
        sections = [
            f"## {writer.phrase(4)}\n\n{writer.sentence()} {writer.sentence()}" for _ in range(CHUNKS_IN_A_FILE)
        ]
        (folder / f"{number:05d}.md").write_text("\n\n".join(sections), "utf-8")


def _ask(home: WarmHome, writer: Writer, count: int) -> None:
    for number in range(count):
        home.call("memory.search", query=f"{writer.phrase(5)} {number}")


def _wait_for_restart(home: WarmHome, idle_s: float) -> None:
    end, pid = time.monotonic() + idle_s + PATIENCE_S, home.pid
    while home.pid in {0, pid} and time.monotonic() < end:
        time.sleep(0.5)


def _show(rows: list[tuple[str, int, int]], chunks: int) -> None:
    print(f"Resident memory of the daemon, built-in model, {chunks:,} chunks.\n")
    print("| | resident | of that backed by no file |")
    print("|---|--:|--:|")
    for what, resident, anonymous in rows:
        print(f"| {what} | {show_mb(resident)} | {show_mb(anonymous)} |")


if __name__ == "__main__":
    sys.exit(main())
