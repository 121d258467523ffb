"""Tool calls are checked against guards as a person would read the guard, and a broken log never blocks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.light.guard_check import check_guards, guard_notices, guard_problem, snapshot_path
from lorelog.services.guards.guard_log import GuardDraft, GuardLog

ROOT = "/work/app"


def made(folder: Path, action: str = "block", project: str = ROOT, **conditions: Any) -> str:
    """Return the log with one guard of a person that is on."""
    log = GuardLog(folder / "data" / "t" / "guards.jsonl")
    draft = GuardDraft(**conditions, message="use pnpm", action=action, project=project)
    log.enable(log.add(draft, "person").guard, "person")
    return str(log.path)


def check(file: str, **call: Any) -> str:
    """Return the action of the matching guard, or an empty text."""
    match = check_guards(file, ROOT, {"tool": "Bash", **call}, ROOT)
    return match["action"] if match else ""


def run(file: str, command: str) -> str:
    return check(file, kind="run", command=command)


def edit(file: str, path: str, content: str = "") -> str:
    return check(file, tool="Edit", kind="edit", paths=[path], content=content)


@pytest.mark.parametrize(
    ("command", "action"),
    [
        # A guard on `npm *` matches npm in lists, pipes, substitutions, wrappers and with an environment.
        ("npm install", "block"),
        ("npm", "block"),
        ("cd app && npm i", "block"),
        ("CI=1 NODE_ENV=test npm ci", "block"),
        ("sudo -u deploy npm i -g x", "block"),
        ("bash -lc 'cd a; npm test'", "block"),
        ("/usr/local/bin/npm run build 2>&1 | tail -3", "block"),
        ("for d in a b; do npm run $d; done", "block"),
        ("if ! npm test; then echo no; fi", "block"),
        ("x=$(npm root) true", "block"),
        ('echo "$(npm root)"', "block"),
        ("(cd a && npm i) &", "block"),
        ("timeout 30 npm test", "block"),
        ("NPM install", "block"),
        ("cat <<EOF > a.txt\nhello\nEOF\nnpm i", "block"),
        # Quoted text, here-documents, comments and other programs do not match.
        ("pnpm install", ""),
        ('echo "npm install"', ""),
        ("grep -rn 'npm install' docs", ""),
        ("git commit -m \"$(cat <<'EOF'\nuse npm install\n\nnpm i\nEOF\n)\"", ""),
        ("cat > notes.md <<'END'\nnpm install\nEND", ""),
        ("ls # npm install", ""),
        ("npmx", ""),
        ("cat npm.txt", ""),
        ("", ""),
    ],
)
def test_a_command_is_matched_where_it_is_run(tmp_path: Path, command: str, action: str) -> None:
    """A guard on `npm *` matches where npm is run, and not where it is only named."""
    assert run(made(tmp_path, command="npm *"), command) == action


def test_an_option_is_matched_as_a_word(tmp_path: Path) -> None:
    """`git push *--force *` matches the option in any place, not a longer option, and git's own options do not hide it."""
    file = made(tmp_path, command="git push *--force *")

    assert run(file, "git push --force") == "block"
    assert run(file, "git -C sub push origin main --force") == "block"
    assert run(file, "git push --force-with-lease") == ""
    assert run(file, "git push") == ""


def test_a_pattern_with_a_pipe_is_matched_against_the_whole_command(tmp_path: Path) -> None:
    """`curl * | sh` matches a download that is piped to a shell."""
    assert run(made(tmp_path, command="curl * | sh*"), "curl -s https://x.example  |  sh") == "block"


@pytest.mark.parametrize(
    "path",
    [
        "/work/app/src/db/schema.sql",
        "src/db/schema.sql",
        "./src/db/schema.sql",
        "lib/../src/db/x/y.sql",
        "SRC/DB/Schema.sql",
    ],
)
def test_a_file_is_found_however_it_is_written(tmp_path: Path, path: str) -> None:
    """Absolute, relative, with `..` and in another case, a path means the same file; a folder means all below it."""
    for number, pattern in enumerate(("src/db/**", "src/db", "./src/db/")):
        assert edit(made(tmp_path / str(number), paths=(pattern,)), path) == "block"


def test_a_file_outside_the_project_is_named_by_its_whole_path(tmp_path: Path) -> None:
    """A pattern with a leading slash means the root of the project or of the system."""
    assert edit(made(tmp_path / "a", paths=("/etc/hosts",)), "/etc/hosts") == "block"
    assert edit(made(tmp_path / "b", paths=("/src/*.py",)), "src/a.py") == "block"
    assert edit(made(tmp_path / "c", paths=("/src/*.py",)), "lib/src/a.py") == ""


def test_other_files_are_not_matched(tmp_path: Path) -> None:
    """A guard on a folder leaves files beside it, outside the project and read files alone."""
    file = made(tmp_path, paths=("src/db/**",))

    assert edit(file, "src/dbx/a.sql") == ""
    assert edit(file, "/elsewhere/src/db/a.sql") == ""
    assert edit(file, "src/db/../app.py") == ""
    assert check(file, tool="Read", kind="read", paths=["src/db/a.sql"]) == ""


def test_a_shell_command_that_writes_a_protected_file_is_matched(tmp_path: Path) -> None:
    """Redirections, rm, mv, sed -i and tee are edits of a file, also after cd."""
    file = made(tmp_path, paths=("src/db/**",))

    for command in (
        "rm -f src/db/a.sql",
        "echo x > src/db/a.sql",
        "cd src && sed -i s/a/b/ db/a.sql",
        "cat a | tee src/db/a.sql",
    ):
        assert run(file, command) == "block"
    assert run(file, "cat src/db/a.sql") == ""
    assert run(file, "cp src/db/a.sql /tmp/a.sql") == ""


def test_written_text_is_matched_in_files_of_its_kind(tmp_path: Path) -> None:
    """A content guard needs both the text and the kind of file."""
    file = made(tmp_path, content="console.log(", paths=("*.ts", "*.tsx"))

    assert edit(file, "src/deep/a.ts", "a\n  console.log(x)\n") == "block"
    assert edit(file, "src/a.py", "console.log(x)") == ""
    assert edit(file, "src/a.ts", "logger.info(x)") == ""
    assert edit(file, "src/a.ts", "x" * 30_000 + "console.log(x)") == ""


def test_a_guard_of_another_project_does_not_apply(tmp_path: Path) -> None:
    """A guard applies to its project, a global one to all."""
    assert run(made(tmp_path / "a", project="/work/other", command="npm *"), "npm i") == ""
    assert run(made(tmp_path / "b", project="", command="npm *"), "npm i") == "block"


def test_the_strongest_guard_wins(tmp_path: Path) -> None:
    """A guard that blocks is returned before one that warns."""
    made(tmp_path, action="block", command="npm *")
    file = made(tmp_path, action="warn", command="npm install *")

    assert run(file, "npm install") == "block"


@given(
    st.dictionaries(
        st.sampled_from(("tool", "kind", "paths", "command", "content", "id")),
        st.none() | st.integers() | st.text() | st.lists(st.text() | st.none()) | st.binary(),
    )
)
def test_no_call_makes_the_check_fail(tmp_path_factory: pytest.TempPathFactory, call: dict[str, Any]) -> None:
    """Whatever a host sends, the check returns a guard or None."""
    folder = tmp_path_factory.mktemp("guards")
    file = made(folder, command="npm *", paths=("src/**",), content="xy")

    assert check_guards(file, ROOT, call, ROOT) is None or call
    assert guard_problem(file) is None


@given(st.binary(min_size=1, max_size=60), st.integers(0, 4))
def test_a_damaged_log_never_blocks_and_says_so(
    tmp_path_factory: pytest.TempPathFactory, garbage: bytes, where: int
) -> None:
    """Garbage in the log: either every line is still valid, or nothing is blocked and the problem is reported."""
    file = Path(made(tmp_path_factory.mktemp("guards"), command="npm *"))
    lines = file.read_bytes().split(b"\n")
    lines.insert(min(where, len(lines) - 1), garbage)
    file.write_bytes(b"\n".join(lines))

    blocked = run(str(file), "npm i")

    assert (guard_problem(str(file)) is not None) == (blocked == "")


def test_a_torn_last_line_is_ignored(tmp_path: Path) -> None:
    """A power cut in the middle of a line loses that line only."""
    file = Path(made(tmp_path, command="npm *"))
    with file.open("ab") as stream:
        stream.write(b'{"event": "disa')

    assert run(str(file), "npm i") == "block"
    assert guard_problem(str(file)) is None


@pytest.mark.parametrize("content", [b"", b"\0\xff", b"[]", b"{}\n", b'{"event": "add"}\n', b"[1]\n" * 3])
def test_unknown_lines_allow_the_call(tmp_path: Path, content: bytes) -> None:
    """A file that is not a log of guards allows every call."""
    file = tmp_path / "guards.jsonl"
    file.write_bytes(content)

    assert run(str(file), "npm i") == ""
    assert (guard_problem(str(file)) is None) == (b"\n" not in content)


def test_a_folder_in_the_place_of_the_log_is_reported(tmp_path: Path) -> None:
    """An unreadable log allows the call and is reported; a missing one is no problem."""
    assert guard_problem(str(tmp_path / "none.jsonl")) is None
    (tmp_path / "guards.jsonl").mkdir()

    assert run(str(tmp_path / "guards.jsonl"), "npm i") == ""
    problem = guard_problem(str(tmp_path / "guards.jsonl"))
    assert problem is not None
    assert "not applied" in problem["error"]


def test_the_derived_file_is_used_only_for_its_own_log(tmp_path: Path) -> None:
    """An older, damaged or deleted derived file changes no answer."""
    file = made(tmp_path, command="npm *")
    snapshot = Path(snapshot_path(file))
    old = snapshot.read_bytes()
    log = GuardLog(Path(file))
    log.disable(log.all()[0], "person")

    for content in (old, b"{", b'{"stamp": 1}', b"[]"):
        snapshot.write_bytes(content)
        assert run(file, "npm i") == ""
    snapshot.unlink()
    assert run(file, "npm i") == ""


def test_thousands_of_events_are_read(tmp_path: Path) -> None:
    """A log of thousands of events gives the same answer with and without the derived file."""
    file = made(tmp_path, command="npm *")
    event = {"event": "disable", "id": "g0", "at": "2026-01-01", "by": "person"}
    with Path(file).open("a") as stream:
        stream.write((json.dumps(event) + "\n") * 10_000)

    assert run(file, "npm i") == "block"
    GuardLog(Path(file)).refresh_snapshot()
    assert run(file, "npm i") == "block"


def test_a_log_that_is_too_large_is_reported(tmp_path: Path) -> None:
    """A log beyond the limit allows the call and is reported, because reading it would delay the agent."""
    file = made(tmp_path, command="npm *")
    with Path(file).open("ab") as stream:
        stream.truncate(9_000_000)

    assert run(file, "npm i") == ""
    assert guard_problem(file) is not None


def test_a_retired_guard_is_announced_for_some_days(tmp_path: Path) -> None:
    """A notice says that a guard has retired, in its project and for a week."""
    file = made(tmp_path, command="npm *")
    log = GuardLog(Path(file))
    for _ in range(3):
        log.dismiss(log.all()[0], "person")
    day = log.all()[0].changed[:10]

    assert run(file, "npm i") == ""
    assert "has retired" in guard_notices(file, ROOT, day)[0]
    assert guard_notices(file, "/work/other", day) == []
    assert guard_notices(file, ROOT, "2999-01-01") == []
