"""Latency of warm commands: lorelog's daemon and memsearch's command, in one run.

Four commands take turns, each a process of its own as a shell or a hook starts it: a bare interpreter, memsearch's
search, lorelog's search through the daemon, and lorelog's search on its own. Then one, four and sixteen clients ask at once, of a daemon
that starts no reader process and of one that does, and ten thousand operations show whether the daemon grows. Exits with 1
when a target is missed.

    python bench/latency.py [--rival-env DIR] [--entries 2000] [--rounds 20] [--only lorelog]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.contenders import Contender, Lorelog, Memsearch, hits, own_program, own_version, rival_program, versions
from bench.corpus import questions, write_journals
from bench.measure import CommandFailed, Measured, embedding_service, median, require, run
from bench.result import Verdicts, describe_machine

REPOSITORY = Path(__file__).resolve().parents[1]
TIMES_FASTER = 30.0
OVER_PYTHON_S = 0.030
COLD_LEXICAL_S, COLD_BUILTIN_S = 0.120, 0.400
"""Most CPU time of a search without the daemon."""
AT_ONCE_A_SECOND, AT_ONCE_P99_S = 150, 0.200
GROWTH = 1.10
CLIENTS = (1, 4, 16)
LANES = ("hybrid", "lexical")
WITHOUT_READERS = """
from sys import argv
from lorelog.surfaces.daemon import process, readers
readers._MAX_READERS = 0
process.main(["--home", argv[1]])
"""
BUILTIN = "the built-in model"
ASKED_BY_EACH = 60
MANY = 10_000
QUIET_S = 20.0
BARE, WARM = "python -c pass", "lorelog search, warm"
COLD, COLD_LEXICAL = "lorelog search, --daemon off", "lorelog search --lane lexical, --daemon off"


def main() -> int:
    """Measure everything and print the tables."""
    options = _arguments()
    if options.client:
        return _be_client(*options.client, asked=options.asked, lane=options.lane)
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
        for title, builtin in (("the same embedding service for both", False), (f"{BUILTIN}, lorelog alone", True)):
            _warm_commands(title, contenders, corpus, options.rounds, verdicts, builtin=builtin)
        ours = contenders[0]
        for title, environment in (
            ("the same embedding service", _warm(ours)),
            (BUILTIN, _with_builtin(_warm(ours), ours.home)),
        ):
            _many_at_once(title, environment, corpus, options.asked, verdicts)
        with _daemon(_warm(ours), corpus) as pid:
            _growth(ours, corpus, pid, options, verdicts)
    print(f"\n{verdicts.table()}")
    return 1 if verdicts.missed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rival-env", type=Path, default=REPOSITORY / ".bench" / "memsearch", metavar="DIR")
    parser.add_argument("--entries", type=int, default=2000, help="journal entries (default 2000)")
    parser.add_argument("--rounds", type=int, default=20, help="searches of each command (default 20)")
    parser.add_argument("--only", choices=["lorelog"], help="leave memsearch out; ratios are not judged")
    parser.add_argument(
        "--asked", type=int, default=ASKED_BY_EACH, metavar="N", help="queries of each client at once (60)"
    )
    parser.add_argument("--operations", type=int, default=MANY, metavar="N", help="operations of the long run (10000)")
    parser.add_argument("--quiet", type=float, default=QUIET_S, metavar="S", help="seconds before memory is read (20)")
    parser.add_argument("--lane", default="hybrid", help=argparse.SUPPRESS)
    parser.add_argument("--client", nargs=2, metavar=("DIRECTORY", "NUMBER"), help=argparse.SUPPRESS)
    return parser.parse_args()


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def _heading(options: argparse.Namespace, contenders: Sequence[Contender]) -> str:
    machine = describe_machine()
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
                BARE: run([sys.executable, "-c", "pass"], cold, corpus),
                WARM: run(ours.search_command(query), warm, corpus),
                COLD: run(ours.search_command(query), cold, corpus),
            }
            if not builtin:
                turn[COLD_LEXICAL] = run([*ours.search_command(query), "--lane", "lexical"], cold, corpus)
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
    _judge_commands(title, seen, verdicts, builtin=builtin)


def _judge_commands(title: str, seen: Mapping[str, Sequence[Measured]], verdicts: Verdicts, *, builtin: bool) -> None:
    middle = {name: median(item.wall_s for item in many) for name, many in seen.items()}
    warm, bare = middle[WARM], middle[BARE]
    if "memsearch search" in middle:
        times = middle["memsearch search"] / warm
        what = "memsearch's search over lorelog's warm one"
        verdicts.judge(what, f"{times:.1f}x", f">= {TIMES_FASTER:g}x", met=times >= TIMES_FASTER)
    over = warm - bare
    what = f"warm search beyond a bare interpreter, {title}"
    verdicts.judge(what, _ms(over), f"<= {_ms(OVER_PYTHON_S)}", met=over <= OVER_PYTHON_S, headline=True)
    name, most_s = (COLD, COLD_BUILTIN_S) if builtin else (COLD_LEXICAL, COLD_LEXICAL_S)
    cpu_s = median(item.cpu_s for item in seen[name])
    what = f"cold search, {BUILTIN if builtin else 'lexical'}: CPU"
    verdicts.judge(what, _ms(cpu_s), f"<= {_ms(most_s)}", met=cpu_s <= most_s, headline=True)


def _warm(ours: Contender) -> dict[str, str]:
    return ours.environment() | {"LORELOG_DAEMON_WARM": "auto"}


def _with_builtin(environment: Mapping[str, str], home: Path) -> dict[str, str]:
    kept = {name: value for name, value in environment.items() if not name.startswith("LORELOG_EMBEDDING_")}
    return kept | {"LORELOG_HOME": str(home / "builtin")}


@contextmanager
def _daemon(environment: Mapping[str, str], directory: Path, *, readers: bool = True) -> Iterator[int]:
    """Start a daemon before the measurement and stop it afterwards."""
    program = own_program()
    if readers:
        require(run([program, "daemon", "start", "--json"], environment, directory), "daemon start")
    else:
        words = [sys.executable, "-c", WITHOUT_READERS, environment["LORELOG_HOME"]]
        subprocess.run(words, env=dict(environment), check=True, stderr=subprocess.DEVNULL)
    try:
        status = json.loads(
            require(run([program, "daemon", "status", "--json"], environment, directory), "status").output
        )
        yield int(status["pid"])
    finally:
        run([program, "daemon", "stop"], environment, directory)


# -- at once -------------------------------------------------------------------------------------------------------------


def _many_at_once(title: str, environment: Mapping[str, str], corpus: Path, asked: int, verdicts: Verdicts) -> None:
    """Ask with one, four and sixteen clients at once, without reader processes and with them."""
    print(f"\n**clients at once, {asked} different questions each, {title}**\n")
    print(
        "| lane | clients | readers | errors | questions a second | median | p99 | CPU a question | memory, shared pages in parts |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|---|")
    told: dict[tuple[str, int], list[tuple[float, float, int]]] = {}
    for readers in (False, True):
        with _daemon(environment, corpus, readers=readers):
            for lane in LANES:
                _at_once(environment, corpus, asked, CLIENTS[-1], lane)  # loads the model, and starts the readers
                for clients in CLIENTS:
                    seconds, took, errors, cpu_s, memory = _at_once(environment, corpus, asked, clients, lane)
                    rate, p99 = len(seconds) / took, seconds[int(len(seconds) * 0.99)]
                    told.setdefault((lane, clients), []).append((rate, p99, errors))
                    print(
                        f"| {lane} | {clients} | {len(memory) - 1} | {errors} | {rate:.0f} | {_ms(median(seconds))} "
                        f"| {_ms(p99)} | {_ms(cpu_s / len(seconds))} | {', '.join(f'{size / 1e6:.0f} MB' for size in memory)} |"
                    )
    what, headline = f"{CLIENTS[-1]} clients at once, hybrid, {title}", title == BUILTIN
    (without, _, _), (rate, p99, errors) = told["hybrid", CLIENTS[-1]]
    verdicts.judge(f"{what}: errors", str(errors), "none", met=errors == 0)
    verdicts.judge(
        f"{what}: questions a second",
        f"{rate:.0f} ({rate / without:.2f}x those without readers)",
        f">= {AT_ONCE_A_SECOND}",
        met=rate >= AT_ONCE_A_SECOND,
        headline=headline,
    )
    verdicts.judge(f"{what}: p99", _ms(p99), f"<= {_ms(AT_ONCE_P99_S)}", met=p99 <= AT_ONCE_P99_S, headline=headline)


def _at_once(
    environment: Mapping[str, str], corpus: Path, asked: int, count: int, lane: str
) -> tuple[list[float], float, int, float, list[int]]:
    """Have processes ask at once, repeatedly; they begin together, when all of them have started.

    Return the sorted times of the questions, the time of all, the errors, the CPU time of daemon and readers, and the memory of each.
    """
    words = [
        sys.executable,
        str(Path(__file__).resolve()),
        "--asked",
        str(asked),
        "--lane",
        lane,
        "--client",
        str(corpus),
    ]
    clients = [
        subprocess.Popen(
            [*words, str(number)],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    for client in clients:
        assert client.stdout is not None
        client.stdout.readline()
    used = {pid: _cpu_s(pid) for pid in _processes(environment, corpus)}
    started = time.perf_counter()
    for client in clients:
        assert client.stdin is not None
        client.stdin.write("go\n")
        client.stdin.flush()
    told = [json.loads(client.communicate()[0] or '{"errors": 1, "seconds": []}') for client in clients]
    took = time.perf_counter() - started
    pids = _processes(environment, corpus)
    cpu_s = sum(_cpu_s(pid) - used.get(pid, 0.0) for pid in pids)
    seconds = sorted(second for item in told for second in item["seconds"])
    return seconds, took, sum(item["errors"] for item in told), cpu_s, list(map(_proportional, pids))


def _processes(environment: Mapping[str, str], directory: Path) -> list[int]:
    """Return the ids of the daemon and its readers."""
    program = own_program()
    status = json.loads(require(run([program, "daemon", "status", "--json"], environment, directory), "status").output)
    return [status["pid"], *(reader["pid"] for reader in status["readers"])]


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _proportional(pid: int) -> int:
    """Return a process's memory, with its part of the pages that others map too."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _be_client(directory: str, number: str, *, asked: int, lane: str) -> int:
    """Run queries that are not cached; print their times."""
    from lorelog.core.errors import LorelogError
    from lorelog.light import daemon_client as client

    queries = questions(asked, seed=hash((number, time.time())))
    print("ready", flush=True)
    sys.stdin.readline()
    seconds, errors = [], 0
    for query in queries:
        started = time.perf_counter()
        try:
            client.call_daemon("memory.search", {"query": f"{query} {number}", "lane": lane}, directory=directory)
        except LorelogError as error:
            print(error, file=sys.stderr)
            errors += 1
        seconds.append(time.perf_counter() - started)
    print(json.dumps({"seconds": seconds, "errors": errors}))
    return 0


# -- growth --------------------------------------------------------------------------------------------------------------


def _growth(ours: Contender, corpus: Path, pid: int, options: argparse.Namespace, verdicts: Verdicts) -> None:
    """Send ten thousand requests, and compare the daemon's memory after one thousand and at the end."""
    from lorelog.light import daemon_client as client

    many = options.operations
    few = many // 10
    asked = iter(questions(many, seed=77))
    held: dict[int, int] = {}
    started = time.perf_counter()
    identity = ""
    for number in range(1, many + 1):
        op, arguments = _step(number, next(asked), identity)
        reply = client.call_daemon(op, arguments, directory=str(corpus), environment=_warm(ours))
        if op == "memory.search":
            identity = reply["hits"][0]["id"]
        if number in (few, many):
            time.sleep(options.quiet)  # what a write needed is given back a moment after it
            held[number] = _resident(pid)
    took = time.perf_counter() - started
    print(f"\n**{many:,} operations** (searches, sections, lists, sizes, and a new memory each 200)\n")
    print("| after | resident memory | |\n|--:|--:|---|")
    print(f"| {few:,} | {held[few] / 1e6:.1f} MB | |")
    print(f"| {many:,} | {held[many] / 1e6:.1f} MB | {many / took:.0f} operations a second |")
    times = held[many] / held[few]
    what = f"memory after {many:,} operations over that after {few:,}"
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
