"""Invalid input: a clear message, the right exit status, and no data loss."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.surfaces.conftest import Shell, command_line, run_process, write


@pytest.fixture
def good(shell: Shell, project: Path) -> Path:
    """A project with one indexed note."""
    write(project / "notes" / "good.md", "# Good\n\nthe walrus sleeps\n")
    assert shell("index", "notes").status == 0
    return project


def check_good_is_found(shell: Shell) -> None:
    assert shell("search", "walrus", "--lane", "lexical", "--json").json["hits"]


def run_on_a_small_disk(project: Path, most_bytes: int, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command that cannot write a file beyond a size."""
    script = write(
        project / "small_disk.py",
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({most_bytes}, {most_bytes}))\n"
        "from lorelog.surfaces.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n",
    )
    command = [command_line()[0], str(script), *words]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def check_no_traceback(*texts: str) -> None:
    for text in texts:
        assert "Traceback" not in text


def test_a_vanished_root_loses_nothing(shell: Shell, good: Path) -> None:
    """A missing root (an unmounted disk) fails the run and keeps its documents; an emptied one loses them."""
    (good / "notes").rename(good / "away")

    assert shell("index", "notes").status == 1
    check_good_is_found(shell)
    (good / "notes").mkdir()
    assert shell("index", "notes").status == 0

    assert shell("status", "index", "--json").json["documents"] == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x7fELF\x02\x01\x01\x00\xff\xe9\x00" * 500, "is not text"),
        (b"\xff\xfe# Bad", "UTF-16"),
        (b"# Bad\n" + b"x" * 50_000_000, "max_file_bytes"),
    ],
    ids=["binary", "half UTF-16", "50 MB"],
)
def test_a_bad_file_is_reported_and_the_rest_is_indexed(shell: Shell, good: Path, content: bytes, said: str) -> None:
    """A binary or oversized file is named with the reason, the others are indexed, and the status is 1 every time."""
    (good / "notes" / "bad.md").write_bytes(content)
    write(good / "notes" / "new.md", "fresh otter\n")

    for _ in range(2):
        done = shell("index", "notes")
        assert done.status == 1
        assert "bad.md" in done.err
        assert said in done.err

    assert shell("search", "otter", "--json").json["hits"]
    check_good_is_found(shell)


def test_a_file_that_turns_bad_keeps_its_old_version(shell: Shell, good: Path) -> None:
    """A file that is no longer valid text is still found with its old content."""
    (good / "notes" / "good.md").write_bytes(b"\xff\xfe\x00")

    assert shell("index", "notes").status == 1
    check_good_is_found(shell)


@pytest.mark.parametrize("words", [["search", "x", "--nonsense"], ["show"], ["nonsense"], ["search", "", "--k"]])
def test_wrong_words_are_json_too(shell: Shell, project: Path, words: list[str]) -> None:
    """With --json a mistake in the command line is an error object like any other."""
    done = shell(*words, "--json")

    assert done.status == 2
    assert done.json["error"]["code"] == "usage"
    assert done.err == ""


@pytest.mark.slow
def test_a_read_only_home_can_be_searched(shell: Shell, good: Path, home: Path) -> None:
    """With a read-only home, search works and index names the reason."""
    places = [home, *home.rglob("*")]
    modes = [place.stat().st_mode for place in places]
    for place in places:
        place.chmod(0o555 if place.is_dir() else 0o444)
    write(good / "notes" / "new.md", "fresh otter\n")
    try:
        search = run_process(["search", "walrus", "--json"], good, mortal=True)
        index = run_process(["index", "notes"], good, mortal=True)
        add = run_process(["add", "kept in the file"], good, mortal=True)
    finally:
        for place, mode in zip(places, modes, strict=True):
            place.chmod(mode)

    assert search.status == 0, search.err
    assert search.json["hits"]
    assert index.status == 1
    assert "LORELOG_HOME" in index.err
    check_no_traceback(search.err, index.err, add.err)
    assert add.status == 1
    assert "not searchable yet" in add.err
    assert shell("index").status == 0
    assert shell("search", "kept in the file", "--lane", "lexical", "--json").json["hits"]


@pytest.mark.slow
def test_a_full_disk_is_named_and_nothing_is_lost(shell: Shell, good: Path) -> None:
    """When the disk fills while indexing, the run fails with the reason and the old index answers."""
    for number in range(60):
        write(good / "notes" / f"{number}.md", f"# {number}\n\n" + f"otter {number} " * 2000)

    done = run_on_a_small_disk(good, 300_000, "index", "notes")

    assert done.returncode == 1
    assert "full" in done.stderr
    check_no_traceback(done.stderr)
    check_good_is_found(shell)
    assert shell("index", "notes").status == 0
    assert shell("status", "index", "--json").json["documents"] == 61


@pytest.mark.slow
def test_two_indexers_at_once_agree(shell: Shell, good: Path) -> None:
    """A second run waits for the first and finds its work done; both succeed."""
    for number in range(40):
        write(good / "notes" / f"{number}.md", "".join(f"## s{n}\n\notter {number} {n}\n\n" for n in range(20)))

    running = [
        subprocess.Popen(
            command_line("index", "notes", "--json"),
            cwd=good,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    outcomes = [process.communicate(timeout=300) for process in running]

    assert [process.returncode for process in running] == [0, 0], outcomes
    stats = shell("status", "index", "--json").json
    assert (stats["documents"], stats["chunks"]) == (41, 801)


def test_searching_never_waits_for_an_index_run(shell: Shell, good: Path) -> None:
    """While another process indexes, and even while it holds every lock, a search answers."""
    home = Path(os.environ["LORELOG_HOME"])
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from lorelog.stores.embedded.connection import hold_lock\n"
        f"index = Path({str(home / 'cache' / 'default')!r})\n"
        "with hold_lock(index / 'run.lock', wait_s=5), hold_lock(index / 'writer.lock', wait_s=5):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    holder = subprocess.Popen(
        [command_line()[0], "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    try:
        check_good_is_found(shell)
        assert shell("list", "--json").json["memories"]
        assert shell("status", "index").status == 0
    finally:
        holder.communicate("")


@pytest.mark.parametrize("mtime", [253_402_300_800 + 10**9, -(10**11)])
def test_a_file_from_another_age_is_indexed(shell: Shell, good: Path, mtime: int) -> None:
    """A time stamp beyond any calendar does not stop a run."""
    path = write(good / "notes" / "odd.md", "a timeless axolotl\n")
    os.utime(path, (mtime, mtime))

    assert shell("index", "notes").status == 0
    assert shell("search", "axolotl", "--json").json["hits"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "lorelog show $'\\xff' --json",
        "lorelog add $'\\xff' --json",
        "printf '\\xff' | lorelog add - --json",
        "lorelog search x --tag $'\\xff' --json",
        "lorelog search x --source $'\\xff' --json",
        "lorelog index '~nosuchuser/x' --json",
        "lorelog search x --source '~nosuchuser/x' --json",
        "lorelog add - <&- --json",
        "mkdir gone && cd gone && rmdir ../gone && lorelog search x --json",
        "mkdir $'\\xff' && cd $'\\xff' && lorelog add x --json",
        "lorelog search walrus --json > /dev/full",
        "lorelog search walrus >&-",
        "lorelog list | head -0",
        "lorelog batch --jsonl /nonexistent/x.jsonl",
    ],
)
def test_no_line_typed_ends_in_a_traceback(good: Path, line: str) -> None:
    """Whatever is typed, and wherever it is typed, the answer is a message and a status."""
    shim = f'lorelog() {{ {command_line()[0]} -m lorelog "$@"; }}\n'

    done = subprocess.run(["bash", "-c", shim + line], cwd=good, capture_output=True, check=False)

    assert b"Traceback" not in done.stderr
    assert b"a fault of lorelog itself" not in done.stderr + done.stdout
    assert done.returncode in {0, 1, 2}
    if b'"error"' in done.stdout:
        assert b'"message"' in done.stdout


def test_labels_do_not_drive_the_terminal(shell: Shell, good: Path) -> None:
    """Escape sequences in anchors, file names and duplicates are not sent to the terminal."""
    text = "### 10:00\n<!-- memory:0199 type:\x1b[31mred tags:\x9b1m,\u202eevil -->\nthe manatee \x7fworld\n"
    write(good / "notes" / "2026-03-05.md", text)
    write(good / "notes" / "new\nline.md", text)
    shell("index", "notes")

    out = shell("search", "world").out + shell("list").out + shell("show", "0199").out

    assert not set(out) & set("\x1b\x9b\x7f\u202e\x07")
    assert "«world»" in out
    assert "new\nline" not in out


def test_a_tenant_is_not_missed_for_its_variable(shell: Shell, good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that leaves the section out is an error: data must not go to the default tenant unnoticed."""
    monkeypatch.setenv("LORELOG_TENANT", "client-a")

    done = shell("search", "walrus")

    assert done.status == 1
    assert "LORELOG_SCOPE_TENANT" in done.err


@pytest.mark.slow
def test_many_processes_remember_all_their_roots(shell: Shell, project: Path) -> None:
    """Roots that are indexed at the same time are all remembered."""
    for number in range(8):
        write(project / f"r{number}" / "a.md", f"root {number}\n")
    running = [
        subprocess.Popen(command_line("index", f"r{n}"), cwd=project, stdout=subprocess.DEVNULL) for n in range(8)
    ]
    assert [process.wait(timeout=300) for process in running] == [0] * 8
    shell("reset", "--yes")

    assert shell("index", "--json").json["files"] == 8
