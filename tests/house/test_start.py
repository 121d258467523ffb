"""Modules that each command may import, by name and not by time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from lorelog.light import daemon_client as client
from lorelog.light.daemon_connection import find_address
from lorelog.light.daemon_control import start, stop
from lorelog.operations import catalogue

HEAVY = {
    "numpy",
    "onnxruntime",
    "tokenizers",
    "tantivy",
    "rich",
    "tomlkit",
    "Stemmer",
    "shtab",
    "http.client",
    "cryptography",
    "pymilvus",
    "grpc",
    "pandas",
    "tree_sitter",
}


@pytest.fixture
def warm_home(tmp_path: Path, home: Path) -> Iterator[dict[str, str]]:
    """Return an environment with a running daemon and one indexed note."""
    (tmp_path / "a.md").write_text("# A\n\nalpha\n", "utf-8")
    environment = {**os.environ, "LORELOG_EMBEDDING_PROVIDER": "fake", "LORELOG_DAEMON_WARM": "required"}
    client.call_daemon(
        "memory.index", {"paths": ["a.md"]}, directory=str(tmp_path), environment=environment, start=start
    )
    yield environment
    client.call_daemon("daemon.stop", environment=environment)


class Start(NamedTuple):
    """What a command has imported when it ends, and how many classes of lorelog it has made."""

    modules: set[str]
    classes: int

    @property
    def own_modules(self) -> int:
        """Number of lorelog's own modules; those of the standard library differ between versions of Python."""
        return sum(name.partition(".")[0] == "lorelog" for name in self.modules)


def start_of(words: list[str], cwd: Path, env: dict[str, str] | None = None) -> Start:
    """Run a command and return what it imported and made."""
    script = (
        "import builtins, sys\n"
        "make, made = builtins.__build_class__, []\n"
        "def count(body, name, *bases, **options):\n"
        "    if body.__globals__.get('__name__', '').startswith('lorelog'): made.append(name)\n"
        "    return make(body, name, *bases, **options)\n"
        "builtins.__build_class__ = count\n"
        "from lorelog.surfaces.cli.main import main\n"
        "try: status = main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "loaded = sorted(sys.modules)\n"
        "import json\n"
        "print('LOADED' + json.dumps([loaded, len(made)]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *words], cwd=cwd, capture_output=True, text=True, check=True, env=env
    )
    modules, classes = json.loads(done.stdout.rsplit("LOADED", 1)[1])
    return Start(set(modules), classes)


def loaded_by(words: list[str], cwd: Path, env: dict[str, str] | None = None) -> set[str]:
    """Return the modules that a command has imported when it ends."""
    return start_of(words, cwd, env).modules


@pytest.mark.parametrize(
    "words",
    [["--help"], ["--version"], ["search", "--help"], ["eval", "--help"], ["index", "--help"], ["config", "list"]],
)
def test_help_loads_nothing_heavy(words: list[str], tmp_path: Path) -> None:
    """Help, version and settings import no heavy package."""
    assert loaded_by(words, tmp_path) & HEAVY == set()


@pytest.mark.parametrize("words", [[], ["--help"], ["version"]])
def test_the_front_page_needs_no_parser(words: list[str], tmp_path: Path) -> None:
    """`lorelog`, --help and `version` import no command, and neither argparse nor what it would need for the width."""
    loaded = loaded_by(words, tmp_path)

    assert loaded & {"argparse", "shutil", "textwrap", "pathlib", "typing", "difflib"} == set()
    assert {name for name in loaded if name.startswith("lorelog.surfaces.cli.")} <= {
        "lorelog.surfaces.cli.main",
        "lorelog.surfaces.cli.commands",
        "lorelog.surfaces.cli.help",
    }


def test_importing_the_package_loads_nothing(tmp_path: Path) -> None:
    """`import lorelog` imports no room until a name is used."""
    script = "import lorelog, sys; print([m for m in sys.modules if m.startswith('lorelog.')])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)

    assert done.stdout.strip() == "[]"


TOO_MUCH = (
    "a short command loads more than before; if it does not need it, import it in the function that does, "
    "or split the module by subject. Every 10 modules or 25 classes take about 2 ms. If it is needed, raise the limit."
)


@pytest.fixture
def indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with one indexed note."""
    (tmp_path / "a.md").write_text("# A\n\nalpha\n", "utf-8")
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "fake")
    loaded_by(["--daemon", "off", "index", "a.md"], tmp_path)
    return tmp_path


COLD = {
    *("numpy", "onnxruntime", "rich", "dataclasses", "difflib", "tomllib", "tomlkit", "inspect"),
    *("statistics", "fractions", "tempfile", "random", "shutil", "bz2", "lzma", "copy", "signal", "subprocess"),
    *("hashlib", "logging", "concurrent.futures", "asyncio", "http.client", "importlib.metadata", "unittest", "email"),
    *("lorelog.core.code", "lorelog.core.memory", "lorelog.models.http", "lorelog.services.llm.receipts"),
    *("lorelog.stores.embedded.catalog_writer", "lorelog.stores.embedded.dense"),
}
"""Modules that a cold lexical search once loaded, or that take a millisecond or more."""
COLD_STATUS = set("tomlkit tomllib hashlib shutil gzip lorelog.hosts.bundles lorelog.services.sessions.handoff".split())


def test_an_unchanged_index_loads_little(indexed: Path) -> None:
    """An unchanged index imports neither numpy nor tantivy nor a model, and makes no more classes than it did."""
    start = start_of(["--daemon", "off", "index", "a.md"], indexed)

    assert start.modules & {"numpy", "tantivy", "onnxruntime", "rich", "difflib", "hashlib"} == set()
    rooms = {"lorelog.ingest.markdown", "lorelog.services.search.postprocess", "lorelog.services.standing.memories"}
    assert start.modules & rooms == set()
    assert start.own_modules <= 93, TOO_MUCH
    assert start.classes <= 269, TOO_MUCH


def test_an_index_of_one_changed_file_loads_little(indexed: Path) -> None:
    """A changed line is embedded and stored without numpy, tantivy or OpenSSL, and files for hooks are left alone."""
    (indexed / "a.md").write_text("# A\n\nbeta\n", "utf-8")
    start = start_of(["--daemon", "off", "index", "a.md"], indexed)

    assert start.modules & {"numpy", "tantivy", "onnxruntime", "rich", "dataclasses", "hashlib"} == set()
    assert "lorelog.services.standing.memories" not in start.modules


def test_a_cold_search_for_words_loads_little(indexed: Path) -> None:
    """A lexical search in this process loads one verb and what it needs, and no slow module of the standard library."""
    start = start_of(["--daemon", "off", "search", "alpha", "--lane", "lexical"], indexed)

    assert start.modules & COLD == set()
    families = {f"lorelog.operations.{module}" for modules in catalogue.FAMILIES.values() for module in modules}
    assert start.modules & families == {"lorelog.operations.search"}
    assert start.own_modules <= 89, TOO_MUCH
    assert start.classes <= 233, TOO_MUCH


def test_a_cold_search_for_words_opens_no_client(indexed: Path) -> None:
    """A lexical search beside a vendor's model imports its adapter, which takes 5 ms, and not the HTTP client."""
    env = {**os.environ, "LORELOG_EMBEDDING_PROVIDER": "openai", "OPENAI_API_KEY": "k"}
    start = start_of(["--daemon", "off", "search", "alpha", "--lane", "lexical"], indexed, env)

    assert start.modules & COLD == {"lorelog.models.http"}


def test_a_cold_status_loads_what_it_shows(indexed: Path) -> None:
    """`status` without the daemon reads no transcript, hides no secret, ranks nothing and opens no lane."""
    start = start_of(["--daemon", "off", "status"], indexed)

    assert start.modules & {"numpy", "tantivy", "onnxruntime", "rich", "inspect", "tempfile", *COLD_STATUS} == set()
    unused = "ingest.transcripts ingest.redaction code records services.search services.memories.journal".split()
    unused += "services.standing.rules services.review.judge services.indexing.run operations.guard".split()
    unused += "core.session language.analyser stores.embedded.catalog_writer".split()
    rooms = tuple(f"lorelog.{room}" for room in unused)
    assert [name for name in start.modules if name.startswith(rooms)] == []
    assert start.own_modules <= 117, TOO_MUCH
    assert start.classes <= 317, TOO_MUCH


def test_help_makes_few_classes(tmp_path: Path) -> None:
    """`lorelog --help` imports a handful of modules and makes only the classes of errors."""
    start = start_of(["--help"], tmp_path)

    assert start.own_modules <= 7, TOO_MUCH
    assert start.classes <= 24, TOO_MUCH


# -- warm commands and hooks, counted --------------------------------------------------------------------------------------

SLOW_TO_IMPORT = HEAVY | {
    *("argparse", "gettext", "locale", "re", "enum", "json", "collections", "functools", "types", "contextlib"),
    *("importlib", "warnings", "signal", "hashlib", "mmap", "keyword", "dataclasses"),
    *("msgspec", "inspect", "typing", "pathlib", "shutil", "socket", "subprocess"),
}
"""The first line doubles the time that Python takes to start. The C modules below `json`, `signal` and `socket` are free."""


def imported_by(
    words: list[str], cwd: Path, env: dict[str, str], payload: Mapping[str, object] | None = None
) -> set[str]:
    """Return the modules that the program imports after Python's own start, until it exits."""
    script = "import sys\nfrom lorelog.surfaces.cli import entry\nentry()"
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", script, *words],
        input=json.dumps(payload or {}),
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
        env=env,
    )
    assert payload is None or isinstance(json.loads(done.stdout), dict)
    names = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")]
    return set(names[names.index("site") + 1 :])


WARM_COMMANDS = {
    "search alpha": 26,
    "search alpha -k 3 --json": 26,
    "list": 26,
    "show ID": 27,
    "add more": 26,
    "status": 28,
    "status index": 26,
    "call stats": 26,
    "task start goal": 27,
    "task list": 32,
    "decide x --because y": 27,
}
"""How many modules each command imports at most. Python's own start is not counted."""


def test_a_warm_command_imports_next_to_nothing(tmp_path: Path, warm_home: dict[str, str]) -> None:
    """With a daemon, commands import no slow module, only core and surfaces of lorelog, and few of them."""
    found = client.call_daemon("memory.search", {"query": "alpha"}, directory=str(tmp_path), environment=warm_home)
    for line, limit in WARM_COMMANDS.items():
        imported = imported_by(line.replace("ID", found["hits"][0]["id"]).split(), tmp_path, warm_home)

        assert imported & SLOW_TO_IMPORT == set(), line
        assert {name.split(".")[1] for name in imported if name.startswith("lorelog.")} == {
            "core",
            "light",
            "surfaces",
        }, line
        assert len(imported) <= limit, (line, sorted(imported))


def test_the_room_of_hooks_imports_no_slow_module() -> None:
    """No module of `light` imports a slow module, so neither cues nor guards nor logs bring one into a hook."""
    folder = Path(client.__file__).parent
    names = [f"lorelog.light.{path.stem}" for path in folder.glob("[a-z]*.py")]
    code = f"import sys; before = set(sys.modules)\nimport {', '.join(names)}\nprint(*set(sys.modules) - before)"
    environment = {
        "PYTHONPATH": str(folder.parents[1])
    }  # without site packages, whose start imports modules of its own
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env=environment, capture_output=True, text=True, check=True
    )

    assert set(names) <= set(done.stdout.split())
    assert set(done.stdout.split()) & SLOW_TO_IMPORT == set()


HOOK_MOMENTS = {
    "session-start": 32,
    "subagent-start": 32,
    "prompt": 32,
    "turn-end": 26,
    "session-end": 26,
    "tool-before": 27,
    "tool-failed": 29,
}
"""How many modules the hook of each moment imports at most."""


def test_a_hook_that_starts_a_daemon_imports_next_to_nothing(tmp_path: Path, home: Path) -> None:
    """A hook that finds no daemon, and begins to start one, imports no slow module either."""
    environment = {**os.environ, "LORELOG_EMBEDDING_PROVIDER": "fake", "LORELOG_DAEMON_WARM": "auto"}
    payload = {"session_id": "s1", "cwd": str(tmp_path), "prompt": "what do we know about alpha?"}
    try:
        imported = imported_by(["hook", "claude", "prompt"], tmp_path, environment, payload)
    finally:
        stop(find_address(None, environment))

    assert "lorelog.light.daemon_control" in imported
    assert imported & SLOW_TO_IMPORT == set()
    assert len(imported) <= HOOK_MOMENTS["prompt"] + 5, sorted(imported)


def test_a_hook_imports_next_to_nothing(tmp_path: Path, warm_home: dict[str, str]) -> None:
    """With a daemon, a hook imports no slow module, and of lorelog what its moment needs; neither commands nor settings."""
    journals = tmp_path / ".lorelog" / "memory"
    journals.mkdir(parents=True)
    (journals / "2026-11-15.md").write_text("- alpha\n", "utf-8")
    call = {"tool_name": "Bash", "tool_input": {"command": "make test"}, "error": "ValueError: alpha"}
    payload = {"session_id": "s1", "cwd": str(tmp_path), "prompt": "what do we know about alpha?", **call}
    for moment, limit in HOOK_MOMENTS.items():
        imported = imported_by(["hook", "claude", moment], tmp_path, warm_home, payload)

        assert imported & SLOW_TO_IMPORT == set(), moment
        assert imported & {"lorelog.surfaces.cli.main", "lorelog.surfaces.cli.arguments"} == set(), moment
        rooms = {name.split(".")[1] for name in imported if name.startswith("lorelog.")}
        assert rooms == {"core", "hosts", "light", "surfaces"}, moment
        assert len(imported) <= limit, (moment, sorted(imported))


def test_a_prompt_is_compared_with_rules_without_a_slow_module(tmp_path: Path, warm_home: dict[str, str]) -> None:
    """A prompt hook that finds a rule imports no slow module either."""
    words = ["-m", "lorelog", "add", "--type", "preference", "Always run `alpha --all`"]
    subprocess.run([sys.executable, *words], cwd=tmp_path, env=warm_home, check=True, capture_output=True)
    payload = {"session_id": "s1", "cwd": str(tmp_path), "prompt": "run alpha --all"}
    imported = imported_by(["hook", "claude", "prompt"], tmp_path, warm_home, payload)
    assert "lorelog.light.prompt_match" in imported
    assert imported & SLOW_TO_IMPORT == set()
