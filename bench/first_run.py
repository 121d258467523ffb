"""From nothing to the first right answer: commands, seconds, bytes and packages, beside other tools.

    python -m bench.first_run [--only lorelog,qmd] [--cache DIR] [--python PYTHON] [--output FILE.json]

Each tool gets an empty home, an empty environment and the same eleven notes (`examples/fortnight/memory`). The commands are those
of its own quickstart, as a person types them: install it, show it the notes, ask. A question is answered when the right note is among the
first three hits. The first question uses the words of its note, the second other words.

Downloads come first and are not timed: packages into a wheelhouse or an npm cache below `--cache`. The timed commands then run without
an index of packages, so that a network's speed is not measured. Making the virtual environment is not counted for anyone: `uv tool install`,
`pipx` and `npm -g` do it.

What needs a service that cannot be had here is given one that costs nothing: memsearch's default model is downloaded at first use, so it gets the
loopback embedding service of the speed run, whose vectors know no meaning. qmd runs its keyword search: its vectors need models that are downloaded
at first use. A tool that cannot be installed is listed with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.measure import CommandFailed, Measured, clean_environment, embedding_service, require, run

ROOT = Path(__file__).resolve().parent.parent
NOTES = ROOT / "examples" / "fortnight" / "memory"
QUESTIONS = (
    ("root cause of the double webhooks", ("2026-03-04",)),
    ("messages arriving more than once", ("2026-03-03", "2026-03-04")),
)
"""Questions, each with the names of the notes that answer it."""
MEGABYTE = 1_000_000
NPM_LIMIT_S = 300
NPM_SCRIPTS = ("--allow-scripts=bun,better-sqlite3", "--foreground-scripts")
"""npm 11 runs no script of a package that is not named; bun's fetches the program, better-sqlite3's its library."""


@dataclass(frozen=True)
class FirstRun:
    """What one tool needed, or why it could not be tried."""

    name: str
    version: str = ""
    commands: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    download_bytes: int = 0
    disk_bytes: int = 0
    packages: int = 0
    answered: tuple[bool, ...] = ()
    reason: str = ""


@dataclass
class Trial:
    """One tool's commands, counted and measured."""

    environment: dict[str, str]
    directory: Path
    commands: list[str] = field(default_factory=list)
    wall_s: float = 0.0
    cpu_s: float = 0.0

    def type(self, said: str, command: list[str | Path], environment: dict[str, str] | None = None) -> Measured:
        """Run a command that a person types as `said`."""
        measured = require(run(command, environment or self.environment, self.directory), said)
        self.commands.append(said)
        self.wall_s += measured.wall_s
        self.cpu_s += measured.cpu_s
        return measured

    def ask(self, said: str, command: Callable[[str], list[str | Path]]) -> tuple[bool, ...]:
        """Ask the questions. Only the first one counts: the tool has answered then, or never will."""
        first = self.type(said, command(QUESTIONS[0][0]))
        others = [require(run(command(text), self.environment, self.directory), said) for text, _ in QUESTIONS[1:]]
        replies = [first, *others]
        return tuple(
            any(note in _first_hits(reply.output) for note in notes)
            for reply, (_, notes) in zip(replies, QUESTIONS, strict=True)
        )


def _first_hits(output: str) -> str:
    """Return the text in which the first three hits name their files."""
    names = [line for line in output.splitlines() if ".md" in line]
    return "\n".join(names[:3])


@contextmanager
def fresh(name: str) -> Iterator[tuple[Path, Path]]:
    """An empty folder for the program and one for the home, which has the notes."""
    with tempfile.TemporaryDirectory(prefix=f"first-run-{name}-") as folder:
        home = Path(folder) / "home"
        shutil.copytree(NOTES, home / "work" / "notes")
        subprocess.run(["git", "init", "-q", str(home / "work")], check=True)
        yield Path(folder) / "env", home


def tree_bytes(folder: Path) -> int:
    """Return the sum of the sizes of all files."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink())


def pip_install(trial: Trial, environment: Path, wheels: Path, package: str) -> None:
    trial.type(
        f"pip install {package}",
        [environment / "bin/python", "-m", "pip", "install", "-q", "--no-index", "--find-links", wheels, package],
    )


def count_distributions(environment: Path) -> int:
    """Return the number of installed distributions, without those of an empty environment."""
    return sum(
        not folder.name.startswith(("pip-", "setuptools-"))
        for folder in environment.glob("lib/python*/site-packages/*.dist-info")
    )


def make_environment(python: str, environment: Path) -> int:
    """Make a virtual environment, and return its size, which is not counted."""
    subprocess.run([python, "-m", "venv", str(environment)], check=True)
    return tree_bytes(environment)


def download(python: str, wheels: Path, *requirements: str) -> None:
    """Download packages and what they need, once. Our own wheels are new each time, and the others stay."""
    if wheels.exists() and not any(wheel.endswith(".whl") for wheel in requirements):
        return
    wheels.mkdir(parents=True, exist_ok=True)
    for own in wheels.glob("lorelog*.whl"):
        own.unlink()
    command = [python, "-m", "pip", "download", "-q", "--disable-pip-version-check", "-d", str(wheels), *requirements]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(wheels)
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise CommandFailed(errors[-1].removeprefix("ERROR: ") if errors else "pip could not download it")


def try_lorelog(cache: Path, python: str) -> FirstRun:
    """Both distributions are built from this checkout."""
    wheels = cache / "lorelog"
    shutil.rmtree(cache / "built", ignore_errors=True)
    for source in (ROOT / "encoder", ROOT):
        build: list[str | Path] = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "-q",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            cache / "built",
            source,
        ]
        require(run(build, clean_environment(cache), ROOT), "building lorelog")
    built = [str(wheel) for wheel in (cache / "built").glob("*.whl")]
    download(python, wheels, *built)
    with fresh("lorelog") as (environment, home):
        empty = make_environment(python, environment)
        trial = Trial(clean_environment(home), home / "work")
        program = environment / "bin" / "lorelog"
        pip_install(trial, environment, wheels, "lorelog")
        trial.type("lorelog index notes", [program, "index", "notes"])
        answered = trial.ask("lorelog search …", lambda text: [program, "search", text])
        run([program, "daemon", "stop"], trial.environment, trial.directory)
        return _result(trial, program, answered, empty=empty, downloads=wheels)


def try_memsearch(cache: Path, python: str) -> FirstRun:
    """The provider is chosen by settings, as its quickstart says for one's own service."""
    wheels = cache / "memsearch"
    download(python, wheels, "memsearch==0.4.23")
    with fresh("memsearch") as (environment, home), embedding_service() as service:
        empty = make_environment(python, environment)
        trial = Trial(clean_environment(home) | {"OPENAI_API_KEY": "bench"}, home / "work")
        program = environment / "bin" / "memsearch"
        pip_install(trial, environment, wheels, "memsearch")
        trial.commands.append("export OPENAI_API_KEY=…")
        trial.type(
            "memsearch config set embedding.provider openai", [program, "config", "set", "embedding.provider", "openai"]
        )
        run([program, "config", "set", "embedding.base_url", service.base_url], trial.environment, trial.directory)
        trial.type("memsearch index notes", [program, "index", "notes"])
        answered = trial.ask("memsearch search …", lambda text: [program, "search", text])
        return _result(trial, program, answered, empty=empty, downloads=wheels)


def try_basic_memory(cache: Path, python: str) -> FirstRun:
    wheels = cache / "basic-memory"
    download(python, wheels, "basic-memory")
    with fresh("basic-memory") as (environment, home):
        empty = make_environment(python, environment)
        trial = Trial(clean_environment(home), home / "work")
        program = environment / "bin" / "basic-memory"
        pip_install(trial, environment, wheels, "basic-memory")
        trial.type(
            "basic-memory project add", [program, "project", "add", "notes", str(home / "work/notes"), "--default"]
        )
        trial.type("basic-memory sync", [program, "sync"])
        answered = trial.ask("basic-memory tool search-notes …", lambda text: [program, "tool", "search-notes", text])
        return _result(trial, program, answered, empty=empty, downloads=wheels)


def npm_install(trial: Trial, prefix: Path, cache: Path, package: str) -> None:
    """Install a package of npm twice: into the cache, which is not timed, and from it into an empty folder.

    npm has the user's settings, because they name its registry and certificates; the installed program does not.
    """
    settings = {**os.environ, "npm_config_cache": str(cache), "npm_config_prefix": str(prefix)}
    limited = ["timeout", str(NPM_LIMIT_S), "npm", "install", "-g", "--no-fund", "--no-audit", "--loglevel=error"]
    command: list[str | Path] = [*limited, *NPM_SCRIPTS, package]
    scratch = prefix.with_name("scratch")
    first = run(command, settings | {"npm_config_prefix": str(scratch)}, trial.directory)
    shutil.rmtree(scratch, ignore_errors=True)
    if not first.succeeded:
        said = [line.removeprefix("npm error").strip() for line in first.errors.splitlines()]
        raise CommandFailed(f"npm install {package}: {' '.join(filter(None, said))}")
    trial.type(f"npm install -g {package}", [*command, "--prefer-offline"], settings)


def try_qmd(cache: Path, python: str) -> FirstRun:
    """It runs on bun, which its installation asks for."""
    with fresh("qmd") as (environment, home):
        trial = Trial(clean_environment(home), home / "work")
        for package in ("bun", "@tobilu/qmd"):
            npm_install(trial, environment, cache / "qmd", package)
        program = environment / "bin" / "qmd"
        trial.environment["PATH"] = f"{environment / 'bin'}:{trial.environment['PATH']}"
        trial.type("qmd collection add notes", [program, "collection", "add", "notes", "--name", "notes"])
        answered = trial.ask("qmd search …", lambda text: [program, "search", text])
        result = _result(trial, program, answered, empty=0, downloads=cache / "qmd")
        return replace(result, packages=count_node_packages(environment))


def try_claude_mem(cache: Path, python: str) -> FirstRun:
    """It captures sessions and indexes no notes, so only its installation can be measured."""
    with fresh("claude-mem") as (environment, home):
        trial = Trial(clean_environment(home), home / "work")
        npm_install(trial, environment, cache / "claude-mem", "claude-mem")
        result = _result(trial, environment / "bin" / "claude-mem", (), empty=0, downloads=cache / "claude-mem")
        return replace(result, packages=count_node_packages(environment))


def count_node_packages(prefix: Path) -> int:
    """Return the number of packages below a prefix of npm."""
    folders = (file.parent for file in prefix.rglob("package.json"))
    return sum(
        folder.parent.name == "node_modules"
        or (folder.parent.name.startswith("@") and folder.parent.parent.name == "node_modules")
        for folder in folders
    )


def _result(trial: Trial, program: Path, answered: tuple[bool, ...], *, empty: int, downloads: Path) -> FirstRun:
    """Return what a trial came to. The program lies in the `bin` of its environment."""
    environment = program.parent.parent
    version = run([program, "--version"], trial.environment, trial.directory)
    return FirstRun(
        name=program.name,
        version=_version_number(version.output or version.errors) if version.succeeded else "",
        commands=len(trial.commands),
        wall_s=trial.wall_s,
        cpu_s=trial.cpu_s,
        download_bytes=tree_bytes(downloads),
        disk_bytes=tree_bytes(environment) - empty,
        packages=count_distributions(environment),
        answered=answered,
    )


def _version_number(text: str) -> str:
    found = re.search(r"\d+(\.\d+)+\S*", text)
    return found[0] if found else ""


TOOLS: Mapping[str, Callable[[Path, str], FirstRun]] = {
    "lorelog": try_lorelog,
    "memsearch": try_memsearch,
    "qmd": try_qmd,
    "basic-memory": try_basic_memory,
    "claude-mem": try_claude_mem,
}


def format_table(results: list[FirstRun]) -> str:
    """Return the results as a Markdown table."""
    lines = [
        "| tool | commands | seconds | CPU s | download MB | disk MB | packages | answered: words | answered: paraphrase |",
        "|---|--:|--:|--:|--:|--:|--:|---|---|",
    ]
    for result in results:
        if result.reason:
            lines.append(f"| {result.name} | not measured: {result.reason} |" + " |" * 7)
            continue
        marks = [*("yes" if right else "no" for right in result.answered), "–", "–"][:2]
        lines.append(
            f"| {result.name} {result.version} | {result.commands} | {result.wall_s:.0f} | {result.cpu_s:.0f} "
            f"| {result.download_bytes / MEGABYTE:.0f} | {result.disk_bytes / MEGABYTE:.0f} | {result.packages} | {marks[0]} | {marks[1]} |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(TOOLS), help="tools, with commas between them")
    parser.add_argument("--cache", type=Path, default=ROOT / ".bench" / "first_run")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the new environments")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    args.cache.mkdir(parents=True, exist_ok=True)
    results = []
    for name in args.only.split(","):
        print(f"{name} …", file=sys.stderr, flush=True)
        try:
            results.append(TOOLS[name](args.cache, args.python))
        except CommandFailed as error:
            results.append(FirstRun(name=name, reason=str(error)[:160]))
    print(format_table(results))
    if args.output:
        args.output.write_text(json.dumps([result.__dict__ for result in results], indent=2))
    return 0 if is_ahead(results) else 1


def is_ahead(results: list[FirstRun]) -> bool:
    """True if lorelog answered both questions, with fewer commands and seconds than any other tool that was asked."""
    ours = [result for result in results if result.name == "lorelog" and not result.reason]
    others = [result for result in results if result.name != "lorelog" and not result.reason and result.answered]
    return all(
        all(mine.answered) and mine.commands < other.commands and mine.wall_s < other.wall_s
        for mine in ours
        for other in others
    )


if __name__ == "__main__":
    sys.exit(main())
