"""Latency of warm commands: lorelog's daemon and memsearch's command, in one run.

Four commands take turns, each a process of its own as a shell or a hook starts it: a bare interpreter, memsearch's
search, lorelog's search through the daemon, and lorelog's search on its own. Then sixteen clients ask at once, and ten
thousand operations show whether the daemon grows. Exits with 1 when a target is missed.

    python bench/latency.py [--rival-env DIR] [--entries 2000] [--rounds 20] [--only lorelog]
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.contenders import Contender, Lorelog, Memsearch, hits, own_program, own_version, rival_program, versions
from bench.corpus import questions, write_journals
from bench.measure import CommandFailed, Measured, embedding_service, median, require, run

REPOSITORY = Path(__file__).resolve().parents[1]
TIMES_FASTER = 30.0
OVER_PYTHON_S = 0.060
GROWTH = 1.10
CLIENTS = 16
ASKED_BY_EACH = 60
FEW, MANY = 1_000, 10_000
QUIET_S = 20.0


@dataclass
class Verdicts:
    """Targets of this run and their results."""

    lines: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def judge(self, what: str, value: str, target: str, *, met: bool) -> None:
        """Record the result of one target."""
        self.lines.append(f"| {what} | {value} | {target} | {'ok' if met else 'MISSED'} |")
        if not met:
            self.missed.append(what)


def main() -> int:
    """Measure everything and print the tables."""
    options = _arguments()
    if options.client:
        return _be_client(*options.client)
    verdicts = Verdicts()
    with tempfile.TemporaryDirectory(prefix="latency-") as made, embedding_service() as service:
        place = Path(made)
        corpus = place / "corpus"
        write_journals(corpus, options.entries)
        contenders: list[Contender] = [Lorelog(own_program(), service, _folder(place / "ours"))]
        if options.only != "lorelog":
            contenders.append(Memsearch(rival_program(options.rival_env), service, _folder(place / "theirs")))
        for contender in contenders:
            environment = contender.environment() | {"LORELOG_DAEMON_WARM": "off"}
            require(run(contender.index_command(corpus), environment, corpus), f"{contender.name}'s index")
        print(_heading(options, contenders))
        for title, builtin in (
            ("the same embedding service for both", False),
            ("the built-in model, ours alone", True),
        ):
            _warm_commands(title, contenders, corpus, options.rounds, verdicts, builtin=builtin)
        ours = contenders[0]
        with _daemon(_warm(ours), corpus):
            _at_once(ours, corpus, verdicts)
        with _daemon(_warm(ours), corpus) as pid:
            _growth(ours, corpus, pid, verdicts)
    print("\n| target | measured | wanted | |\n|---|--:|---|---|")
    print("\n".join(verdicts.lines))
    return 1 if verdicts.missed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rival-env", type=Path, default=REPOSITORY / ".bench" / "memsearch", metavar="DIR")
    parser.add_argument("--entries", type=int, default=2000, help="journal entries (default 2000)")
    parser.add_argument("--rounds", type=int, default=20, help="searches of each command (default 20)")
    parser.add_argument("--only", choices=["lorelog"], help="leave memsearch out; ratios are not judged")
    parser.add_argument("--client", nargs=2, metavar=("DIRECTORY", "NUMBER"), help=argparse.SUPPRESS)
    return parser.parse_args()


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def _heading(options: argparse.Namespace, contenders: Sequence[Contender]) -> str:
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    rival = f"; {versions(options.rival_env)}" if len(contenders) > 1 else ""
    load = os.getloadavg()[0]
    return (
        f"{options.entries:,} journal entries, {options.rounds} rounds. {machine}, load {load:.1f}. "
        f"{own_version(own_program())}{rival}"
    )


# -- commands ------------------------------------------------------------------------------------------------------------


def _warm_commands(
    title: str, contenders: Sequence[Contender], corpus: Path, rounds: int, verdicts: Verdicts, *, builtin: bool
) -> None:
    """Run the commands alternately and compare their medians."""
    ours = contenders[0]
    warm = ours.environment() | {"LORELOG_DAEMON_WARM": "required"}
    if builtin:
        warm = _with_builtin(warm, ours.home)
        require(run(ours.index_command(corpus), warm | {"LORELOG_DAEMON_WARM": "off"}, corpus), "the index")
        contenders = contenders[:1]
    cold = warm | {"LORELOG_DAEMON_WARM": "off"}
    seen: dict[str, list[Measured]] = {}
    asked = iter(questions(rounds + 1))
    with _daemon(warm, corpus):
        for number in range(rounds + 1):
            query = next(asked)
            turn = {
                "python -c pass": run([sys.executable, "-c", "pass"], cold, corpus),
                "lorelog search, warm": run(ours.search_command(query), warm, corpus),
                "lorelog search, --daemon off": run(ours.search_command(query), cold, corpus),
            }
            for rival in contenders[1:]:
                turn["memsearch search"] = run(rival.search_command(query), rival.environment(), corpus)
            for name, measured in turn.items():
                require(measured, name)
                if "search" in name and not hits(measured):
                    raise CommandFailed(f"{name} found nothing: not the same work")
                if number:  # the first round warms caches of the system and the daemon's model
                    seen.setdefault(name, []).append(measured)
    print(f"\n**{title}**\n\n| command | wall, median | wall, 9 of 10 | CPU of the command |\n|---|--:|--:|--:|")
    for name, many in seen.items():
        walls = sorted(item.wall_s for item in many)
        cpu = median(item.cpu_s for item in many)
        print(f"| {name} | {_ms(median(walls))} | {_ms(walls[int(len(walls) * 0.9)])} | {_ms(cpu)} |")
    _judge_commands(title, seen, verdicts)


def _judge_commands(title: str, seen: Mapping[str, Sequence[Measured]], verdicts: Verdicts) -> None:
    middle = {name: median(item.wall_s for item in many) for name, many in seen.items()}
    warm, bare = middle["lorelog search, warm"], middle["python -c pass"]
    if "memsearch search" in middle:
        times = middle["memsearch search"] / warm
        what = "memsearch's search over lorelog's warm one"
        verdicts.judge(what, f"{times:.1f}x", f">= {TIMES_FASTER:g}x", met=times >= TIMES_FASTER)
    over = warm - bare
    what = f"warm search beyond a bare interpreter, {title}"
    verdicts.judge(what, _ms(over), f"<= {_ms(OVER_PYTHON_S)}", met=over <= OVER_PYTHON_S)


def _warm(ours: Contender) -> dict[str, str]:
    return ours.environment() | {"LORELOG_DAEMON_WARM": "auto"}


def _with_builtin(environment: Mapping[str, str], home: Path) -> dict[str, str]:
    kept = {name: value for name, value in environment.items() if not name.startswith("LORELOG_EMBEDDING_")}
    return kept | {"LORELOG_HOME": str(home / "builtin")}


@contextmanager
def _daemon(environment: Mapping[str, str], directory: Path) -> Iterator[int]:
    """Start a daemon before the measurement and stop it afterwards."""
    program = own_program()
    require(run([program, "daemon", "start", "--json"], environment, directory), "daemon start")
    try:
        status = json.loads(
            require(run([program, "daemon", "status", "--json"], environment, directory), "status").output
        )
        yield int(status["pid"])
    finally:
        run([program, "daemon", "stop"], environment, directory)


# -- at once -------------------------------------------------------------------------------------------------------------


def _at_once(ours: Contender, corpus: Path, verdicts: Verdicts) -> None:
    """Sixteen processes send requests at once, repeatedly."""
    environment = {**os.environ, **_warm(ours)}
    started = time.perf_counter()
    clients = [
        subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), "--client", str(corpus), str(number)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(CLIENTS)
    ]
    told = [json.loads(client.communicate()[0] or '{"errors": 1, "seconds": []}') for client in clients]
    took = time.perf_counter() - started
    seconds = sorted(second for item in told for second in item["seconds"])
    errors = sum(item["errors"] for item in told)
    print(f"\n**{CLIENTS} clients at once, {ASKED_BY_EACH} different questions each**\n")
    print("| questions | errors | questions a second | median | p99 |\n|--:|--:|--:|--:|--:|")
    p99 = seconds[int(len(seconds) * 0.99)]
    print(f"| {len(seconds)} | {errors} | {len(seconds) / took:.0f} | {_ms(median(seconds))} | {_ms(p99)} |")
    verdicts.judge(f"errors of {CLIENTS} clients at once", str(errors), "none", met=errors == 0)


def _be_client(directory: str, number: str) -> int:
    """Run queries that are not cached; print their times."""
    from lorelog.core.errors import LorelogError
    from lorelog.surfaces.daemon_client import client

    seconds, errors = [], 0
    for query in questions(ASKED_BY_EACH, seed=1000 + int(number)):
        started = time.perf_counter()
        try:
            client.call_daemon("memory.search", {"query": f"{query} {number}"}, directory=directory)
        except LorelogError as error:
            print(error, file=sys.stderr)
            errors += 1
        seconds.append(time.perf_counter() - started)
    print(json.dumps({"seconds": seconds, "errors": errors}))
    return 0


# -- growth --------------------------------------------------------------------------------------------------------------


def _growth(ours: Contender, corpus: Path, pid: int, verdicts: Verdicts) -> None:
    """Send ten thousand requests, and compare the daemon's memory after one thousand and at the end."""
    from lorelog.surfaces.daemon_client import client

    asked = iter(questions(MANY, seed=77))
    held: dict[int, int] = {}
    started = time.perf_counter()
    identity = ""
    for number in range(1, MANY + 1):
        op, arguments = _step(number, next(asked), identity)
        reply = client.call_daemon(op, arguments, directory=str(corpus), environment=_warm(ours))
        if op == "memory.search":
            identity = reply["hits"][0]["id"]
        if number in (FEW, MANY):
            time.sleep(QUIET_S)  # what a write needed is given back a moment after it
            held[number] = _resident(pid)
    took = time.perf_counter() - started
    print(f"\n**{MANY:,} operations** (searches, sections, lists, sizes, and a new memory each 200)\n")
    print("| after | resident memory | |\n|--:|--:|---|")
    print(f"| {FEW:,} | {held[FEW] / 1e6:.1f} MB | |")
    print(f"| {MANY:,} | {held[MANY] / 1e6:.1f} MB | {MANY / took:.0f} operations a second |")
    times = held[MANY] / held[FEW]
    what = f"memory after {MANY:,} operations over that after {FEW:,}"
    verdicts.judge(what, f"{times:.3f}", f"<= {GROWTH:g}", met=times <= GROWTH)


def _step(number: int, query: str, identity: str) -> tuple[str, dict[str, object]]:
    if number % 200 == 0:
        return "memory.add", {"text": f"{query}, said for the {number}th time"}
    if number % 10 == 0 and identity:
        return "memory.get", {"id": identity}
    if number % 7 == 0:
        return "memory.list", {"limit": 5}
    if number % 11 == 0:
        return "memory.stats", {}
    return "memory.search", {"query": query}


def _resident(pid: int) -> int:
    """Return a process's resident memory, including mapped files, as the target defines it."""
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


if __name__ == "__main__":
    raise SystemExit(main())
