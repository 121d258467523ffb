"""What the daemon takes from the environment of the process that starts it, and what not."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.models.embedding_server import Answer, EmbeddingServer, Request, well
from tests.surfaces.daemon.conftest import Warm, eventually, request

from lorelog.core.errors import DaemonError
from lorelog.light.daemon_control import spawn_environment
from lorelog.surfaces.cli.main import main
from lorelog.surfaces.daemon.process import daemon_environment

STARTER = """
import os, signal, sys
exec(sys.argv[1])
from lorelog.light.daemon_client import call_daemon
from lorelog.light.daemon_control import start
call_daemon("memory.stats", {}, directory="/", start=start)
"""


def start_with(preparation: str, **variables: str) -> None:
    """Start a daemon from a process of its own."""
    words = [sys.executable, "-c", STARTER, preparation]
    subprocess.run(words, env={**os.environ, **variables}, check=True, timeout=120)


def write_settings(warm: Warm, text: str) -> None:
    home = Path(warm.address.home)
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(text, "utf-8")


# -- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_was_set_for_one_command_is_not_the_watchers(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon started with other variables still watches with the settings of config.toml."""
    monkeypatch.delenv("LORELOG_EMBEDDING_PROVIDER")
    write_settings(warm, '[embedding]\nprovider = "fake"\n')
    (warm.project / "CLAUDE.md").write_text("# Rules\n\nthe okapi hides\n", "utf-8")
    notes = warm.project / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("# A\n\nthe first text\n", "utf-8")
    start_with(
        "",
        LORELOG_EMBEDDING_PROVIDER="none",
        LORELOG_INDEX_AUTO_MEMORY="false",
        LORELOG_SCOPE_TENANT="nobody",
        LORELOG_WATCH_DEBOUNCE_MS="50",
    )
    warm.ask("memory.index", {"paths": ["notes"]})
    warm.ask("memory.index")
    known = {root["path"] for root in warm.ask("roots.list")["roots"]}
    assert str(warm.project / "CLAUDE.md") in known
    eventually(lambda: str(notes) in ((warm.status()["watch"] or {}).get("roots") or []), "it is watched")

    (notes / "a.md").write_text("# A\n\nanother text altogether\n", "utf-8")
    eventually(lambda: warm.ask("memory.search", {"query": "altogether", "lane": "lexical"})["hits"], "it is found")
    by_meaning = warm.ask("memory.search", {"query": "altogether", "lane": "dense"})["hits"]

    assert str(notes / "a.md") in {hit["source"] for hit in by_meaning}
    assert {root["path"] for root in warm.ask("roots.list")["roots"]} == known


def test_own_environment_is_that_of_config_and_of_the_daemon() -> None:
    """Of lorelog's variables only those that configure the daemon are kept; all other variables are kept."""
    given = {
        "LORELOG_EMBEDDING_PROVIDER": "none",
        "LORELOG_PROJECT": "/elsewhere",
        "LORELOG_HOME": "~/other",
        "LORELOG_WATCH_ENABLED": "false",
        "LORELOG_DAEMON_IDLE_S": "3",
        "LORELOG_HTTP_PORT": "7",
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": "u",
        "CLAUDE_CONFIG_DIR": "c",
    }

    kept = daemon_environment(given, "/home")

    assert kept == {
        **{
            name: value
            for name, value in given.items()
            if name not in {"LORELOG_EMBEDDING_PROVIDER", "LORELOG_PROJECT"}
        },
        "LORELOG_HOME": "/home",
    }


# -- modes -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_journals_have_the_modes_that_a_command_alone_gives_them(
    warm: Warm, mask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files in a project have the client's umask; files in the home are private."""
    before = os.umask(mask)
    try:
        warm.ask("memory.add", {"text": "warm"})
        warm.ask("memory.add", {"text": "warm", "to_global": True})
        made = modes(warm.project)
        assert [len(warm.pids()), len(made)] == [1, 4]  # the journal, its two folders and .gitignore
        journals = warm.project / ".lorelog"
        journals.rename(warm.project.parent / "aside")
        monkeypatch.setenv("LORELOG_DAEMON_WARM", "off")
        assert main(["add", "cold"]) == 0
        assert modes(warm.project) == made
        monkeypatch.setenv("LORELOG_DAEMON_WARM", "auto")
    finally:
        os.umask(before)
    home = Path(warm.address.home)
    # The lanes of the index make files themselves, in a directory that only its owner enters.
    open_to_others = [path for path, mode in modes(home).items() if mode & 0o077]
    assert [path for path in open_to_others if not path.startswith("cache/default/")] == []
    assert home.stat().st_mode & 0o077 == 0


def modes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): stat.S_IMODE(path.lstat().st_mode) for path in folder.rglob("*")}


@pytest.mark.slow
def test_a_client_with_another_umask_writes_itself(warm: Warm) -> None:
    """The daemon does not write for a client with another umask, but reads for it."""
    start_with("os.umask(0o077)")
    before = os.umask(0o022)
    (warm.project / ".lorelog").mkdir(mode=0o755)  # a folder that is open to others has journals that are
    try:
        with pytest.raises(DaemonError, match="umask 0077, the client 0022"):
            warm.ask("memory.add", {"text": "not here"})
        assert warm.ask("memory.search", {"query": "x"})["hits"] == []
        assert main(["add", "by itself"]) == 0
        (journal,) = (warm.project / ".lorelog" / "memory").glob("*.md")
        assert stat.S_IMODE(journal.stat().st_mode) == 0o644
        assert "not here" not in journal.read_text("utf-8")
    finally:
        os.umask(before)


# -- time ------------------------------------------------------------------------------------------------------------

ZONED = "import sys\nfrom lorelog.surfaces.cli.main import main\nsys.exit(main(sys.argv[1:]))"


@pytest.mark.slow
def test_days_and_times_are_the_callers(warm: Warm) -> None:
    """A client in another time zone writes its own local time, by working without the daemon; offsets count, not names."""
    start_with("", TZ="UTC")
    for zone in ("Etc/GMT+12", "Etc/GMT-14"):
        words = [sys.executable, "-c", ZONED, "add", f"in {zone}"]
        subprocess.run(words, env={**os.environ, "TZ": zone}, check=True, timeout=120, capture_output=True)
    words = [sys.executable, "-c", ZONED, "list", "--since", "today", "--daemon", "required"]
    refused, served = (
        subprocess.run(words, env={**os.environ, "TZ": zone}, check=False, timeout=120, capture_output=True, text=True)
        for zone in ("Etc/GMT+12", "Etc/GMT")
    )
    assert "another time zone" in refused.stderr
    assert served.returncode == 0, served.stderr

    # 26 hours lie between both: they never share a day.
    assert len(list((warm.project / ".lorelog" / "memory").glob("*.md"))) == 2


# -- the process -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_modules_named_by_the_starter_are_not_the_daemons(warm: Warm) -> None:
    """PYTHONPATH and other variables of Python do not reach the daemon."""
    (warm.project / "evil").mkdir()
    (warm.project / "evil" / "usercustomize.py").write_text("", "utf-8")
    (warm.project / "evil" / "tantivy.py").write_text("raise SystemExit('taken over')", "utf-8")
    paths = [str(warm.project / "evil"), "evil", *filter(None, [os.environ.get("PYTHONPATH")])]
    start_with("", PYTHONPATH=os.pathsep.join(paths), PYTHONDONTWRITEBYTECODE="1", PYTHONSTARTUP="evil.py")

    assert warm.ask("memory.add", {"text": "as ever"})["searchable"]
    if Path("/proc").exists():
        told = Path(f"/proc/{warm.status()['pid']}/environ").read_bytes()
        assert b"evil" not in told
        assert b"PYTHONDONTWRITEBYTECODE" not in told


def test_only_the_path_that_lorelog_comes_from_stays() -> None:
    """PYTHONPATH keeps the directory that lorelog was imported from."""
    import lorelog

    ours = os.path.realpath(Path(lorelog.__file__).parent.parent)
    kept = spawn_environment(
        {"PYTHONPATH": f".:/elsewhere:{ours}:", "PYTHONHOME": "/p", "PYTHONINSPECT": "1", "A": "b"}
    )

    assert kept == {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": ours, "PYTHONHOME": "/p", "A": "b"}
    assert "PYTHONPATH" not in spawn_environment({"PYTHONPATH": "src:."})


@pytest.mark.slow
def test_signals_that_the_starter_ignored_are_not_ignored(warm: Warm) -> None:
    """A daemon started by a process that ignores signals still handles them."""
    ignored = (signal.SIGUSR1, signal.SIGALRM, signal.SIGTERM)
    start_with("".join(f"signal.signal({int(number)}, signal.SIG_IGN);" for number in ignored))

    status = Path(f"/proc/{warm.status()['pid']}/status").read_text("utf-8")
    mask = int(next(line for line in status.splitlines() if line.startswith("SigIgn")).split()[1], 16)

    assert [number for number in ignored if mask >> (number - 1) & 1] == []


@pytest.mark.slow
def test_a_tilde_is_the_callers(
    warm: Warm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`~` in paths is the client's home directory, whatever the daemon's is."""
    warm.start()
    mine = tmp_path / "mine"
    (mine / "notes" / "drafts").mkdir(parents=True)
    for name in ("a.md", "drafts/b.md"):
        (mine / "notes" / name).write_text("# A\n\nthe okapi hides\n", "utf-8")
    monkeypatch.setenv("HOME", str(mine))
    monkeypatch.setenv("LORELOG_DAEMON_WARM", "required")

    assert main(["index", "~/notes", "!~/notes/drafts"]) == 0

    assert [root["path"] for root in warm.ask("roots.list")["roots"] if "notes" in root["path"]] == [
        str(mine / "notes")
    ]
    assert warm.ask("memory.stats")["documents"] == 1
    capsys.readouterr()
    assert main(["search", "okapi", "--source", "~/notes", "--all-projects", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["hits"]) == 1
    assert main(["index", "--remove", "~/notes"]) == 0
    assert warm.ask("memory.stats")["documents"] == 0


# -- writes that nobody waits for ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_hung_model_holds_up_no_other_writer(warm: Warm) -> None:
    """While one tenant's model hangs, another tenant can write; begun work is finished although its client left."""
    free = threading.Event()

    def late(asked: Request) -> Answer:
        free.wait(60)
        return well(asked)

    server = EmbeddingServer(late)
    slow = {
        "LORELOG_EMBEDDING_PROVIDER": "openai",
        "LORELOG_EMBEDDING_MODEL": "late",
        "LORELOG_EMBEDDING_BASE_URL": server.url,
        "OPENAI_API_KEY": "a-key",
    }
    warm.start()
    try:
        with warm.connect() as hanging:
            caller = {"directory": str(warm.project), "environment": slow}
            hanging.sendall(request("memory.add", {"text": "begun before"}, caller=caller))
            eventually(lambda: server.requests, "the model is asked")
            assert warm.ask("memory.add", {"text": "meanwhile"}, start=None)["searchable"]
            assert [job["op"] for job in warm.status()["at_work"]] == ["memory.add"]
        free.set()
        eventually(lambda: not warm.status()["at_work"], "it is done")
    finally:
        free.set()
        server.stop()
    text = "".join(path.read_text("utf-8") for path in (warm.project / ".lorelog" / "memory").glob("*.md"))
    assert (text.count("begun before"), text.count("meanwhile")) == (1, 1)
