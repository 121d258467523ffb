"""What whoever started a daemon leaves with it: nothing that was meant for one command, and nothing that others have otherwise."""

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
from lorelog.surfaces.cli.main import main
from lorelog.surfaces.daemon.client import ask
from lorelog.surfaces.daemon.control import environment_of_daemon
from lorelog.surfaces.resident import own_environment

STARTER = """
import os, signal, sys
exec(sys.argv[1])
from lorelog.surfaces.daemon.client import ask
ask("memory.stats", {}, directory="/", starts=True)
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


def test_what_was_set_for_one_command_is_not_the_watchers(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon started with other settings in the environment watches by config.toml: vectors are made, roots stay."""
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
    """Of our variables only those about the daemon hold for it; keys, addresses and all others stay."""
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

    kept = own_environment(given, "/home")

    assert kept == {
        **{
            name: value
            for name, value in given.items()
            if name not in {"LORELOG_EMBEDDING_PROVIDER", "LORELOG_PROJECT"}
        },
        "LORELOG_HOME": "/home",
    }


# -- modes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_journals_have_the_modes_that_a_command_alone_gives_them(
    warm: Warm, mask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files and directories in a project are made by the caller's mask; nobody else can enter what is in the home."""
    before = os.umask(mask)
    try:
        warm.ask("memory.add", {"text": "warm"})
        warm.ask("memory.add", {"text": "warm", "to_global": True})
        made = modes(warm.project)
        assert [len(warm.pids()), len(made)] == [1, 3]
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
    assert [path for path in open_to_others if not path.startswith("tenants/default/index/")] == []
    assert home.stat().st_mode & 0o077 == 0


def modes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): stat.S_IMODE(path.lstat().st_mode) for path in folder.rglob("*")}


def test_who_has_another_mask_writes_without_it(warm: Warm) -> None:
    """The daemon does not write for a caller whose files are to have other modes; it reads for them."""
    start_with("os.umask(0o077)")
    before = os.umask(0o022)
    try:
        with pytest.raises(DaemonError, match="umask 0077, not 0022"):
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


def test_days_and_times_are_the_callers(warm: Warm) -> None:
    """Whoever has another time zone than the daemon finds their own time in the journal, by doing it themselves."""
    start_with("", TZ="UTC")
    for zone in ("Etc/GMT+12", "Etc/GMT-14"):
        words = [sys.executable, "-c", ZONED, "add", f"in {zone}"]
        subprocess.run(words, env={**os.environ, "TZ": zone}, check=True, timeout=120, capture_output=True)
    words = [sys.executable, "-c", ZONED, "list", "--since", "today", "--warm", "required"]
    environment = {**os.environ, "TZ": "Etc/GMT+12"}
    refused = subprocess.run(words, env=environment, check=False, timeout=120, capture_output=True, text=True)
    assert "another zone" in refused.stderr

    # 26 hours lie between both: they never share a day.
    assert len(list((warm.project / ".lorelog" / "memory").glob("*.md"))) == 2


def test_who_names_the_same_zone_otherwise_is_served(warm: Warm) -> None:
    """What counts is what the clocks show, not how the zone was chosen."""
    start_with("", TZ="UTC")
    told = "from lorelog.surfaces.daemon.client import ask\nask('memory.add', {'text': 'same'})"
    subprocess.run(
        [sys.executable, "-c", told], cwd=warm.project, env={**os.environ, "TZ": "Etc/GMT"}, check=True, timeout=120
    )


# -- the process -----------------------------------------------------------------------------------------------------


def test_modules_named_by_the_starter_are_not_the_daemons(warm: Warm) -> None:
    """Neither PYTHONPATH nor what else is said to Python for one command lasts."""
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
    """Of PYTHONPATH stays what lorelog was imported from, if it stood there."""
    import lorelog

    ours = os.path.realpath(Path(lorelog.__file__).parent.parent)
    kept = environment_of_daemon(
        {"PYTHONPATH": f".:/elsewhere:{ours}:", "PYTHONHOME": "/p", "PYTHONINSPECT": "1", "A": "b"}
    )

    assert kept == {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": ours, "PYTHONHOME": "/p", "A": "b"}
    assert "PYTHONPATH" not in environment_of_daemon({"PYTHONPATH": "src:."})


def test_signals_that_the_starter_ignored_are_not_ignored(warm: Warm) -> None:
    """A starter that ignores signals does not make its daemon deaf to them."""
    ignored = (signal.SIGUSR1, signal.SIGALRM, signal.SIGTERM)
    start_with("".join(f"signal.signal({int(one)}, signal.SIG_IGN);" for one in ignored))

    status = Path(f"/proc/{warm.status()['pid']}/status").read_text("utf-8")
    mask = int(next(line for line in status.splitlines() if line.startswith("SigIgn")).split()[1], 16)

    assert [one for one in ignored if mask >> (one - 1) & 1] == []


def test_a_tilde_is_the_callers(
    warm: Warm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`~` in a command's paths is the home directory of whoever types it, whatever the daemon's is."""
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
    assert main(["roots", "remove", "~/notes"]) == 0
    assert warm.ask("memory.stats")["documents"] == 0


# -- writes that nobody waits for ------------------------------------------------------------------------------------


def test_a_hung_model_holds_up_no_other_writer(warm: Warm) -> None:
    """While one's model does not answer, another one's memory is written; what was begun is finished though its client went."""
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
            assert warm.ask("memory.add", {"text": "meanwhile"}, starts=False)["searchable"]
            assert [one["op"] for one in warm.status()["at_work"]] == ["memory.add"]
        free.set()
        eventually(lambda: not warm.status()["at_work"], "it is done")
    finally:
        free.set()
        server.stop()
    text = "".join(path.read_text("utf-8") for path in (warm.project / ".lorelog" / "memory").glob("*.md"))
    assert (text.count("begun before"), text.count("meanwhile")) == (1, 1)


# -- the log ---------------------------------------------------------------------------------------------------------


def test_waiting_for_another_writer_is_no_error_in_the_log(warm: Warm) -> None:
    """A watcher that finds the index busy again and again says so once, and follows when it is free."""
    from lorelog.stores.embedded.lock import hold

    write_settings(warm, '[embedding]\nprovider = "fake"\n[watch]\ndebounce_ms = 50\n')
    notes = warm.project / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("# A\n\nthe first text\n", "utf-8")
    warm.ask("memory.index", {"paths": ["notes"]})
    eventually(lambda: str(notes) in ((warm.status()["watch"] or {}).get("roots") or []), "it is watched")
    tenant = Path(warm.address.home) / "tenants" / "default" / "index"
    lock = next(path for path in tenant.rglob("*.lock") if path.name not in {"run.lock", "codes.lock"})
    before: set[str] = set()
    with hold(lock, wait_s=30):
        for number in range(2):
            (notes / "a.md").write_text(f"# A\n\nthe zebra text {number}\n", "utf-8")
            before.add(eventually(lambda: _error_beside(warm, before), "it is busy"))
    eventually(lambda: warm.ask("memory.search", {"query": "zebra", "lane": "lexical"})["hits"], "it is found")

    log = Path(warm.address.log).read_text("utf-8")
    assert [line for line in log.splitlines() if " watch: " in line and "waits for its turn" not in line] == []
    assert log.count("waits for its turn") == 1


def _error_beside(warm: Warm, known: set[str]) -> str:
    error = ((warm.status()["watch"] or {}).get("last_error") or {}).get("at", "")
    return "" if error in known else error


def test_ask_says_who_asks(warm: Warm) -> None:
    """A client that says nothing of its zone and mask, as older ones do, is served."""
    warm.start()
    with warm.connect() as connection:
        connection.sendall(request("memory.add", {"text": "from before"}, caller={"directory": str(warm.project)}))
        with connection.makefile("rb") as lines:
            assert b'"working"' in lines.readline()
            assert b'"ok": true' in lines.readline().replace(b'"ok":true', b'"ok": true')
    assert ask("daemon.status", {}, directory="/")["calls"] >= 1
