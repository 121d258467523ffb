"""The cost of a hook for its host: lorelog's under failures, a bare interpreter, and memsearch's.

Under each condition these processes take turns: `python -c pass` and our hook at each moment (a session starts in a
project with 30 journals, a prompt that was never submitted before, one that names what one of the 600 entries names, a turn ends, a tool call begins that matches a cue and a guard, one that
matches nothing, one with a megabyte of text, one that failed), each fed through a pipe as a host does. Every answer must
be JSON and every exit a success. As root on Linux it runs in a mount namespace of its own, so that a disk can be full
and a home read-only; elsewhere a limit on file sizes and a mode stand in. Exits with 1 when a target is missed; on a
machine with other work the bare interpreter's own p99 says how much of a miss is that work's, and so does the CPU time.

memsearch's hooks come with its source archive, which `pip download` fetches once. They run with its real command, a
`claude` that answers at once, and no network.

    python bench/hooks.py [--runs 1000] [--rival-runs 3] [--rival-env DIR] [--only lorelog] [--condition NAME]
"""

import argparse
import contextlib
import fcntl
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.contenders import RIVAL_REQUIREMENT, own_program, own_version, rival_program, versions
from bench.corpus import questions, write_journals
from bench.measure import CommandFailed, EmbeddingService, clean_environment, embedding_service, require, run
from bench.result import Verdicts, describe_machine, format_table

REPOSITORY = Path(__file__).resolve().parents[1]
WANTED_S, MEDIAN_S = 0.100, 0.010
"""Most that a hook may take beyond a bare interpreter: at the 99th percentile, and half of the time."""
JOURNALS, ENTRIES = 30, 600
MOMENTS = ("session-start", "prompt", "turn-end", "tool-before", "tool-failed")
NAMING = "prompt that names an entry"
CALLS = {NAMING: "prompt", "tool-before, no match": "tool-before", "tool-before, 1 MB": "tool-before"}
"""Further payloads of a moment. Of prompts only one that names what few entries name is searched for."""
BARE = "python -c pass"
INSIDE = "LORELOG_BENCH_INSIDE"
QUOTED_STOP_S = 15


@dataclass(frozen=True)
class Place:
    """Folders of one condition."""

    home: Path
    project: Path
    payloads: Mapping[str, bytes]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Condition:
    """A failure condition and how to produce it."""

    name: str
    about: str
    around: Callable[[Place], AbstractContextManager[None]]
    file_size: int | None = None
    """Limit of file sizes, in place of a full disk."""


def main() -> int:
    """Measure everything and print the table."""
    options = _arguments()
    if _can_mount() and not os.environ.get(INSIDE):
        words = ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv]
        os.execvpe("unshare", words, {**os.environ, INSIDE: "1"})
    print(_heading(options))
    verdicts = Verdicts()
    print(
        "\n| condition | process | p50 | p99 | slowest | p50 beyond Python | p99 beyond Python | CPU p50 | CPU p99 | |"
    )
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|---|")
    for condition in _conditions():
        if options.condition in (None, condition.name):
            with tempfile.TemporaryDirectory(prefix="hooks-") as made:
                place = _place(Path(made))
                if condition.name == "alive":  # elsewhere nobody answers a prompt
                    require(run([own_program(), "index"], place.environment, place.project), "lorelog index")
                _measure(condition, place, options.runs, verdicts)
    if options.only != "lorelog":
        with tempfile.TemporaryDirectory(prefix="hooks-") as made, embedding_service() as service:
            _rival(options, Path(made), service)
    missed = [figure.cells() for figure in verdicts.figures if figure.met is False]
    met = len(verdicts.figures) - len(missed)
    print(f"\n{met} of {len(verdicts.figures)} targets met (beyond Python: p50 {_ms(MEDIAN_S)}, p99 {_ms(WANTED_S)}).")
    if missed:
        print("\n" + format_table(["missed", "measured", "required", ""], missed))
    return 1 if missed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, metavar="N")
    parser.add_argument("--rival-runs", type=int, default=3, metavar="N")
    parser.add_argument("--rival-env", type=Path, default=REPOSITORY / ".bench" / "memsearch", metavar="DIR")
    parser.add_argument("--only", choices=["lorelog"], help="leave memsearch out")
    parser.add_argument(
        "--condition", choices=[condition.name for condition in _conditions()], help="measure under one condition only"
    )
    return parser.parse_args()


def _heading(options: argparse.Namespace) -> str:
    machine = describe_machine()
    means = "mounts" if os.environ.get(INSIDE) else "limits and modes in the place of mounts"
    load = os.getloadavg()[0]
    return f"{options.runs} runs each. {machine}, load {load:.1f}, {means}. {own_version(own_program())}"


# -- ours ----------------------------------------------------------------------------------------------------------------


def _place(made: Path) -> Place:
    home, project = made / "home", made / "app"
    home.mkdir(mode=0o700)
    (project / ".git" / "objects").mkdir(parents=True)
    (project / ".git" / "refs").mkdir()
    (project / ".git" / "HEAD").write_text("ref: refs/heads/main\n", "utf-8")
    journals = project / ".lorelog" / "memory"
    write_journals(journals, ENTRIES)
    if len(list(journals.glob("*.md"))) != JOURNALS:
        raise CommandFailed(f"{ENTRIES} entries are not {JOURNALS} journals any more")
    transcript = made / "s1.jsonl"
    _write_transcript(transcript)
    common = {"session_id": "s1", "transcript_path": str(transcript), "cwd": str(project)}
    payloads = {
        "session-start": {**common, "source": "startup"},
        "prompt": {**common, "prompt_id": "p1", "prompt": "why did we choose this cache and not the other?"},
        "turn-end": {**common, "prompt_id": "p1", "stop_hook_active": False, "last_assistant_message": "Done. " * 200},
        "tool-before": {**common, **_tool("Bash", command="npm install left-pad")},
        "tool-before, no match": {**common, **_tool("Bash", command="ls -l")},
        "tool-before, 1 MB": {
            **common,
            **_tool("Write", file_path=f"{project}/a.txt", content="lorem ipsum " * 85_000),
        },
        "tool-failed": {
            **common,
            **_tool("Bash", command="make test"),
            "error": "Exit code 2\nKeyError: 'customer_id'",
        },
    }
    environment = clean_environment(made) | {"LORELOG_HOME": str(home), "LORELOG_WATCH_ENABLED": "false"}
    place = Place(home, project, {name: json.dumps(item).encode() for name, item in payloads.items()}, environment)
    _add_rules(place)
    return place


def _tool(name: str, **given: str) -> dict[str, object]:
    return {"tool_name": name, "tool_input": given, "tool_use_id": "t1"}


def _add_rules(place: Place) -> None:
    """Add memories with cues, and a guard that warns."""
    environment = {**place.environment, "LORELOG_DAEMON_WARM": "off"}
    program = own_program()
    for number in range(20):
        words = ["add", f"rule {number}", "--when-running", f"tool{number} *", "--when-editing", f"src/{number}/**"]
        require(run([program, *words], environment, place.project), "lorelog add")
    for words in (
        ["add", "use pnpm, not npm", "--type", "preference", "--when-running", "npm *"],
        ["guard", "add", "--command", "npm publish*", "--message", "releases are made by CI"],
    ):
        require(run([program, *words], environment, place.project), " ".join(words[:2]))


def _write_transcript(path: Path) -> None:
    said = [("user", "why did we choose this cache?"), ("assistant", "Because it is fast. " * 20)]
    lines = [
        {
            "type": role,
            "uuid": f"u{number}",
            "parentUuid": f"u{number - 1}" if number else None,
            "promptId": "p1",
            "isSidechain": False,
            "sessionId": "s1",
            "timestamp": f"2026-02-14T10:00:0{number}.000Z",
            "message": {"role": role, "id": f"m{number}", "content": [{"type": "text", "text": text}]},
        }
        for number, (role, text) in enumerate([*said, *said])
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def _measure(condition: Condition, place: Place, runs: int, verdicts: Verdicts) -> None:
    """Run the processes alternately under one condition, print their lines, and judge them."""
    program = str(own_program())
    commands = {BARE: [sys.executable, "-c", "pass"]}
    moments = {moment: moment for moment in MOMENTS} | CALLS
    commands |= {name: [program, "hook", "claude", moment] for name, moment in moments.items()}
    took: dict[str, list[Timed]] = {name: [] for name in commands}
    failures = 0
    with condition.around(place):
        asked = {"prompt": questions(runs + 1), NAMING: _naming_prompts(place, runs + 1)}
        for number in range(runs + 1):
            for name, command in commands.items():
                limit = condition.file_size if name != BARE else None
                payload = place.payloads.get(name, b"")
                if name in asked:
                    payload = json.dumps(
                        {**json.loads(place.payloads["prompt"]), "prompt": asked[name][number]}
                    ).encode()
                one = _timed(command, place, payload, limit)
                failures += one.status != 0 or (name != BARE and not _is_answer(one.answer))
                if number:  # the first round fills caches
                    took[name].append(one)
    start_s = statistics.median(one.wall_s for one in took[BARE])
    for name, rounds in took.items():
        walls, cpu = [one.wall_s for one in rounds], [one.cpu_s for one in rounds]
        beyond = _percentile(walls, 99) - start_s
        middle = _percentile(walls, 50) - start_s
        verdict = ""
        if name != BARE:
            verdict = "ok" if beyond <= WANTED_S and middle <= MEDIAN_S else "MISSED"
            for what, value, most in (("p50", middle, MEDIAN_S), ("p99", beyond, WANTED_S)):
                verdicts.judge(
                    f"{name}, {condition.about}: {what} beyond Python",
                    _ms(value),
                    f"<= {_ms(most)}",
                    met=value <= most,
                    headline=what == "p50" and condition.name == "alive" and name in MOMENTS[:3],
                )
        cells = [_percentile(walls, 50), _percentile(walls, 99), max(walls), middle, beyond]
        cells += [_percentile(cpu, 50), _percentile(cpu, 99)]
        print(f"| {condition.about} | {name} | {' | '.join(map(_ms, cells))} | {verdict} |", flush=True)
    if failures:
        print(f"| {condition.about} | {failures} answers were no JSON or no success | | | | | | | | MISSED |")
        verdicts.judge(f"wrong answers, {condition.about}", str(failures), "none", met=False)


@dataclass(frozen=True)
class Timed:
    """One run of a process: wall time from the fork, and CPU time with its children."""

    wall_s: float
    cpu_s: float
    answer: bytes
    status: int


def _timed(command: list[str], place: Place, payload: bytes, file_size: int | None) -> Timed:
    """Run a process to its end, with input as from a host."""

    def limit() -> None:
        if file_size is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))

    began = time.perf_counter()
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=place.project,
        env=dict(place.environment),
        preexec_fn=limit if file_size is not None else None,  # noqa: PLW1509  (no thread is around)
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(payload)
            process.stdin.close()
        answer = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
    return Timed(wall_s, usage.ru_utime + usage.ru_stime, answer, process.returncode)


def _naming_prompts(place: Place, count: int) -> list[str]:
    """Return prompts with the ticket and the first words of an entry each, another one as long as there are any."""
    journals = sorted((place.project / ".lorelog" / "memory").glob("2*.md"))
    lines = [line for file in journals for line in file.read_text("utf-8").splitlines() if "Ticket ENTRY-" in line]
    words = [line[2:].replace(":", "").split()[:9] for line in lines]
    return [f"why did {' '.join(words[number % len(words)])}" for number in range(count)]


def _is_answer(held: bytes) -> bool:
    try:
        return isinstance(json.loads(held), dict) and held.count(b"\n") == 1
    except ValueError:
        return False


def _percentile(values: list[float], number: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * number // 100)]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


# -- conditions ----------------------------------------------------------------------------------------------------------


def _conditions() -> tuple[Condition, ...]:
    inside = bool(os.environ.get(INSIDE))
    return (
        Condition("alive", "daemon alive", _alive),
        Condition("dead", "daemon dead, dies when started", _dead),
        Condition("hung", "daemon stopped (SIGSTOP)", _hung),
        Condition("locked", "lock held, nobody listens", _locked),
        Condition("full", "disk full", _full if inside else _small, None if inside else 0),
        Condition("read-only", "home read-only", _read_only),
    )


@contextmanager
def _alive(place: Place) -> Iterator[None]:
    program = own_program()
    require(run([program, "daemon", "start"], place.environment, place.project), "lorelog daemon start")
    try:
        yield
    finally:
        run([program, "daemon", "stop"], place.environment, place.project)


@contextmanager
def _dead(place: Place) -> Iterator[None]:
    (place.home / "run" / "daemon.lock").mkdir(parents=True)
    (place.home / "run").chmod(0o700)
    yield
    time.sleep(1)  # the last one that was started dies


@contextmanager
def _hung(place: Place) -> Iterator[None]:
    with _alive(place):
        pid = int((place.home / "run" / "daemon.pid").read_text("ascii"))
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)


@contextmanager
def _locked(place: Place) -> Iterator[None]:
    folder = place.home / "run"
    folder.mkdir(mode=0o700)
    with (folder / "daemon.lock").open("w", encoding="ascii") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


@contextmanager
def _full(place: Place) -> Iterator[None]:
    with _mounted("-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", str(place.home)):
        with contextlib.suppress(OSError), (place.home / "rest").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        yield


@contextmanager
def _small(place: Place) -> Iterator[None]:
    yield


@contextmanager
def _read_only(place: Place) -> Iterator[None]:
    if not os.environ.get(INSIDE):
        place.home.chmod(0o500)
        yield
        place.home.chmod(0o700)
        return
    with _mounted("--bind", str(place.home), str(place.home)):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(place.home)], check=True)
        yield


@contextmanager
def _mounted(*words: str) -> Iterator[None]:
    subprocess.run(["mount", *words], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", words[-1]], check=True)


def _can_mount() -> bool:
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return False
    return subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode == 0


# -- memsearch's ---------------------------------------------------------------------------------------------------------


def _rival(options: argparse.Namespace, made: Path, service: EmbeddingService) -> None:
    """Time memsearch's hooks for Claude Code, with a model that answers at once."""
    print(f"\n**memsearch's hooks**, {options.rival_runs} runs each, a `claude` that answers at once\n")
    try:
        program = rival_program(options.rival_env)
        hooks = _rival_hooks(options.rival_env.parent / "memsearch-source")
    except (CommandFailed, OSError, StopIteration) as error:
        print(
            f"not measured here ({error}). Quoted from an earlier reading of ours: its Stop takes about {QUOTED_STOP_S} s."
        )
        return
    place = _place(made)
    _fake_programs(made / "bin", program)
    environment = clean_environment(made) | {
        "PATH": f"{made / 'bin'}:/usr/bin:/bin",
        "OPENAI_API_KEY": "bench",
        "CLAUDE_PLUGIN_ROOT": str(hooks.parent),
        "CLAUDE_PROJECT_DIR": str(place.project),
    }
    write_journals(place.project / ".memsearch" / "memory", ENTRIES)
    for key, value in {"provider": "openai", "base_url": service.base_url, "model": "text-embedding-3-small"}.items():
        run([program, "config", "set", f"embedding.{key}", value], environment, place.project)
    theirs = Place(place.home, place.project, place.payloads, environment)
    print(f"{versions(options.rival_env)}\n\n| hook | median | slowest | answers |\n|---|--:|--:|---|")
    scripts = {"session-start": "session-start.sh", "prompt": "user-prompt-submit.sh", "turn-end": "stop.sh"}
    for moment, script in scripts.items():
        rounds = [
            _timed(["bash", str(hooks / script)], theirs, theirs.payloads[moment], None)
            for _ in range(options.rival_runs)
        ]
        times = [run.wall_s for run in rounds]
        sound = sum(_is_json(run.answer) and run.status == 0 for run in rounds)
        print(f"| {script} | {statistics.median(times):.2f} s | {max(times):.2f} s | {sound} of {len(rounds)} JSON |")
    _end_children_of(made)


def _is_json(held: bytes) -> bool:
    try:
        return isinstance(json.loads(held), dict)
    except ValueError:
        return False


def _rival_hooks(folder: Path) -> Path:
    """Return the folder of memsearch's hook scripts, from its source archive."""
    if not folder.exists():
        with tempfile.TemporaryDirectory() as fetched:
            words = ["download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", fetched, RIVAL_REQUIREMENT]
            if subprocess.run([sys.executable, "-m", "pip", *words], check=False).returncode != 0:
                raise CommandFailed("its source archive could not be fetched")
            with tarfile.open(next(Path(fetched).glob("*.tar.gz"))) as archive:
                archive.extractall(folder, filter="data")
    return next(folder.glob("*/plugins/claude-code/hooks"))


def _fake_programs(folder: Path, memsearch: Path) -> None:
    folder.mkdir()
    (folder / "memsearch").symlink_to(memsearch)
    (folder / "python3").symlink_to(memsearch.parent / "python3")
    for name, text in (
        ("claude", "cat >/dev/null\necho '- User asked about the cache.'\n"),
        ("curl", "exit 1\n"),  # nothing leaves this machine
    ):
        (folder / name).write_text(f"#!/bin/sh\n{text}", "utf-8")
        (folder / name).chmod(0o755)


def _end_children_of(home: Path) -> None:
    """End background processes of the hooks: those with our temporary home."""
    mark = f"HOME={home}\0".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)


if __name__ == "__main__":
    raise SystemExit(main())
