"""Common commands of a checkout, with the homes that they run in; measured by `trend.py`, counted by `instructions.py`.

200 journal entries are indexed by keywords; `add` appends to a journal of 1,000 entries without the daemon; the hooks are a prompt and
a tool call that matches a rule, with the daemon alive. `{question}` and `{number}` in the words of a command are different in each run.

Imports the standard library only, and works with commits of long ago: what they do not know fails there, and is left out.
"""

import datetime as dt
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.corpus import SEED, Writer, journal_entry, write_journals
from bench.measure import Measured, clean_environment
from bench.result import REPOSITORY, git

BARE = "python -c pass"
ENTRIES, JOURNAL_ENTRIES = 200, 1_000
_START = "import sys; from {module} import {function}; sys.exit({function}())"
_NONE = {"EMBEDDING_PROVIDER": "none"}


@dataclass(frozen=True)
class Checkout:
    """Code to measure: a folder with `src/PACKAGE`, and the interpreter that has its dependencies."""

    source: Path
    package: str
    start: str
    """Python that starts the program as its entry script does."""

    @classmethod
    def at(cls, folder: Path) -> "Checkout":
        scripts: dict[str, str] = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
        module, _, function = next(iter(scripts.values())).partition(":")
        package = module.partition(".")[0]  # it had another name before the first version
        return cls(folder / "src", package, _START.format(module=module, function=function))

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-c", self.start, *words]

    def environment(self, place: Path, settings: Mapping[str, str]) -> dict[str, str]:
        prefix = self.package.upper()
        named = {"HOME": str(place / "home"), "DAEMON_WARM": "off", "WATCH_ENABLED": "false", **settings}
        given = {f"{prefix}_{name}": value for name, value in named.items()}
        # The sources come first on the path, whatever is installed in the environment.
        return clean_environment(place) | {"PYTHONPATH": str(self.source)} | given


@dataclass
class Case:
    """A command and its runs."""

    words: tuple[str, ...]
    place: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    payload: bytes = b""
    runs: list[Measured] = field(default_factory=list)
    failure: str = ""

    def command(self, checkout: Checkout, question: str, number: int) -> list[str]:
        if not self.words:
            return [sys.executable, "-c", "pass"]
        return checkout.command(*(word.format(question=question, number=number) for word in self.words))


@contextmanager
def checked_out(revision: str | None, made: Path) -> Iterator[Path]:
    """The tree of this file, or a worktree of a commit that is removed afterwards."""
    if revision is None:
        yield REPOSITORY
        return
    folder = made / "worktree"
    if git("worktree", "add", "--detach", str(folder), revision) is None:
        raise SystemExit(f"bench: no such commit: {revision}")
    try:
        yield folder
    finally:
        git("worktree", "remove", "--force", str(folder))


@contextmanager
def prepared_cases(checkout: Checkout, made: Path, *, model: bool = True) -> Iterator[dict[str, Case]]:
    """Fill the homes and start the daemon; without `model` no command uses the built-in one. The daemon is stopped afterwards."""
    cases = _cases(checkout, made, model=model)
    warm = next(case for name, case in cases.items() if name.startswith("warm"))
    daemon = checkout.environment(warm.place, {**warm.settings, "DAEMON_WARM": "auto"})
    no_daemon = run_quietly(checkout.command("daemon", "start"), daemon, warm.place)
    for case in cases.values():
        if case.settings.get("DAEMON_WARM"):
            case.failure = case.failure or no_daemon
    try:
        yield cases
    finally:
        run_quietly(checkout.command("daemon", "stop"), daemon, warm.place)


def run_quietly(command: Sequence[str], environment: Mapping[str, str], place: Path) -> str:
    """Run a command that is not measured; return why it failed, or nothing."""
    done = subprocess.run(command, env=dict(environment), cwd=place, capture_output=True, text=True, check=False)
    said = " ".join((done.stderr or done.stdout).split())[-200:]
    return (said or f"status {done.returncode}") if done.returncode else ""


def take(case: Case, command: Sequence[str], environment: Mapping[str, str], *, counted: bool = True) -> None:
    """Run a command with its input and measure it; a failure leaves the case out."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
        given.write(case.payload)
        given.seek(0)
        process = subprocess.Popen(
            command, env=dict(environment), cwd=case.place, stdin=given, stdout=subprocess.DEVNULL, stderr=errors
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            case.failure = errors.read().decode("utf-8", "replace").strip()[-200:] or f"status {process.returncode}"
            case.runs.clear()
        elif counted:
            case.runs.append(Measured(0.0, usage.ru_utime + usage.ru_stime, 0, 0, "", ""))


def _cases(checkout: Checkout, made: Path, *, model: bool) -> dict[str, Case]:
    small, large, vectors = made / "small", made / "large", made / "vectors"
    _fill(checkout, small, ENTRIES, _NONE)
    _fill(checkout, large, JOURNAL_ENTRIES, _NONE)
    rule = checkout.command("add", "Use pnpm, not npm", "--type", "decision", "--when-running", "npm *")
    run_quietly(rule, checkout.environment(small, _NONE), small)
    session = {"session_id": "s", "cwd": str(small), "transcript_path": ""}
    prompt = {**session, "prompt_id": "p", "prompt": "why this cache?"}
    call = {**session, "tool_name": "Bash", "tool_input": {"command": "npm install x"}, "tool_use_id": "t"}
    warm = _NONE | {"DAEMON_WARM": "auto"}
    search = ("search", "{question}", "--json")
    cases = {
        BARE: Case((), small),
        "--help": Case(("--help",), small),
        "hook": Case(("hook", "claude", "prompt"), small, warm, json.dumps(prompt).encode()),
        "hook, tool call": Case(("hook", "claude", "tool-before"), small, warm, json.dumps(call).encode()),
        "warm search": Case(search, small, _NONE | {"DAEMON_WARM": "required"}),
        "cold search, lexical": Case((*search, "--lane", "lexical"), small, _NONE),
        "status": Case(("status", "--json"), small, _NONE),
        "unchanged index": Case(("index", "--json"), small, _NONE),
        f"add, journal of {JOURNAL_ENTRIES:,}": Case(("add", "{question} {number}"), large, _NONE),
    }
    if model:
        cases["cold search, built-in model"] = Case(search, vectors, failure=_fill(checkout, vectors, 4, {}))
    return cases


def _fill(checkout: Checkout, place: Path, entries: int, settings: Mapping[str, str]) -> str:
    """Make a project with journals, indexed: many files, or one of today for `add`. Return why it could not be indexed."""
    make_project(place)
    journals = place / f".{checkout.package}" / "memory"
    if entries == JOURNAL_ENTRIES:
        journals.mkdir(parents=True)
        writer = Writer(SEED)
        text = "".join(journal_entry(writer, number, 0) for number in range(entries))
        (journals / f"{dt.date.today().isoformat()}.md").write_text(text, "utf-8")
    else:
        write_journals(journals, entries)
    return run_quietly(checkout.command("index"), checkout.environment(place, settings), place)


def make_project(place: Path) -> None:
    """Make a folder that counts as a project."""
    (place / ".git" / "objects").mkdir(parents=True)
    (place / ".git" / "refs").mkdir()
    (place / ".git" / "HEAD").write_text("ref: refs/heads/main\n", "utf-8")
