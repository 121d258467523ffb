"""The language server as an editor sees it: a process, and messages over its pipes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.surfaces.conftest import Shell, write
from tests.surfaces.lsp.client import Editor

from lorelog.core import extras
from lorelog.core.errors import MissingExtra

CODE = "LIMIT = 3\n\n\ndef total_price(items):\n    return sum(items)\n"
HOSTILE = '`total_price` [free](command:evil) <img src=x onerror="evil()">\x1b[31m and ```\n# more'


@pytest.fixture
def file(project: Path, shell: Shell) -> Path:
    """A file of a repository, and a memory about its function."""
    write(project / "src" / "pricing.py", CODE)
    for words in (("init", "-q"), ("add", "-A"), ("-c", "user.name=M", "-c", "user.email=m@x", "commit", "-qm", "one")):
        subprocess.run(["git", *words], check=True, cwd=project)
    shell("add", "--type", "decision", "`total_price` in src/pricing.py returns cents")
    return project / "src" / "pricing.py"


@pytest.fixture
def editor(file: Path) -> Iterator[Editor]:
    with Editor(file.parents[1], write=True) as editor:
        yield editor


def hovered(editor: Editor, uri: str, line: int, character: int = 0) -> str:
    found = editor.at("hover", uri, line, character)
    return found["contents"]["value"] if found else ""


def test_a_line_says_why_it_is_there(editor: Editor, file: Path) -> None:
    """A hover has the memories about the word and the commit of the line, without the daemon too."""
    uri = editor.open(file)

    assert editor.eventually(lambda: "commit" in hovered(editor, uri, 3, 6))
    assert editor.eventually(lambda: "returns cents" in hovered(editor, uri, 3, 6).partition("\n")[0])


@pytest.mark.slow
def test_what_is_not_a_saved_line_of_a_project_has_no_answer(editor: Editor, file: Path, tmp_path: Path) -> None:
    """Lines outside the file, lines that are not saved, and files of no project are answered with nothing."""
    uri = editor.open(file)
    editor.eventually(lambda: editor.lenses(uri))
    editor.insert(uri, 3, "x = 1\n")
    outside = tmp_path / "alone.py"
    write(outside, CODE)
    alone = editor.open(outside)

    assert [hovered(editor, uri, line) for line in (3, 500)] == ["", ""]
    assert hovered(editor, alone, 3, 6) == ""
    assert editor.lenses(alone) == []


@pytest.mark.slow
def test_lenses_move_with_their_lines(editor: Editor, file: Path) -> None:
    """The number of memories stands above a definition, also while lines are typed above it."""
    uri = editor.open(file)

    assert editor.eventually(lambda: editor.lenses(uri)) == [(0, "1 decision"), (3, "1 decision")]
    editor.insert(uri, 1, "\n\n")
    assert editor.lenses(uri) == [(0, "1 decision"), (5, "1 decision")]


@pytest.mark.slow
def test_an_edit_against_a_guard_is_marked(editor: Editor, file: Path, shell: Shell) -> None:
    """An added line that a guard matches is marked, as information, until it is gone; so is one in code that a decision names."""
    guard = shell("guard", "add", "--content", "float(", "--message", "prices are Decimal", "--json").json["guard"][
        "id"
    ]
    shell("guard", "enable", guard)
    uri = editor.open(file)
    editor.insert(uri, 4, "    x = float(items)\n")

    found = editor.hears("textDocument/publishDiagnostics")["diagnostics"]
    assert [(each["severity"], each["range"]["start"]["line"]) for each in found] == [(3, 4), (3, 4)]
    assert found[0]["code"] == guard
    assert "changes total_price" in found[1]["message"]
    at = {"start": {"line": 4, "character": 0}, "end": {"line": 5, "character": 0}}
    document = {"uri": uri, "version": 3}
    editor.tell("textDocument/didChange", textDocument=document, contentChanges=[{"range": at, "text": ""}])
    assert editor.hears("textDocument/publishDiagnostics")["diagnostics"] == []


@pytest.mark.slow
def test_a_person_can_remember_and_let_expire(editor: Editor, file: Path, shell: Shell) -> None:
    """Actions add the line as a memory, which is opened, and let one expire."""
    uri = editor.open(file)
    editor.eventually(lambda: editor.lenses(uri))
    remember, outdated = (action["command"] for action in editor.actions(uri, 3))

    editor.ask("workspace/executeCommand", command=outdated["command"], arguments=outdated["arguments"])
    assert "not shown" in editor.hears("window/showMessage")["message"]
    assert "cents" not in shell("list").out
    editor.ask("workspace/executeCommand", command=remember["command"], arguments=remember["arguments"])
    assert editor.hears("window/showDocument")["uri"].endswith(".md")
    assert "About src/pricing.py:4" in shell("list", "--json").out


@pytest.mark.slow
def test_it_reads_only_unless_the_settings_say_otherwise(file: Path, shell: Shell) -> None:
    """Without the setting no action is offered, and one that is sent anyway writes nothing."""
    with Editor(file.parents[1]) as editor:
        uri = editor.open(file)
        editor.eventually(lambda: editor.lenses(uri))

        assert editor.actions(uri, 3) == []
        editor.ask("workspace/executeCommand", command="lorelog.remember", arguments=[uri, 0, 1])
        assert "read only" in editor.hears("window/showMessage")["message"]
    assert len(shell("list", "--json").json["memories"]) == 1


@pytest.mark.slow
def test_memories_are_symbols_of_the_workspace(editor: Editor, file: Path) -> None:
    """Memories are found by words, and the newest are listed without any."""
    for query in ("", "cents"):
        (found,) = editor.ask("workspace/symbol", query=query)
        assert found["name"] == "`total_price` in src/pricing.py returns cents"
        assert found["location"]["uri"].endswith(".md")


@pytest.mark.slow
def test_hostile_text_is_shown_as_text(file: Path, shell: Shell) -> None:
    """A memory that came with the repository is labelled, on one line, as plain text without control characters."""
    journal = file.parents[1] / ".lorelog" / "memory" / "2020-01-01.md"
    write(journal, f"# 2020-01-01\n\n### 10:00\n<!-- memory:m1 type:decision origin:user -->\n{HOSTILE}\n")
    shell("index")
    with Editor(file.parents[1], write=True) as editor:
        uri = editor.open(file)
        editor.eventually(lambda: editor.lenses(uri))
        hover = editor.at("hover", uri, 3, 6)["contents"]

    (line,) = [line for line in hover["value"].split("\n") if "evil" in line][:1]
    assert hover["kind"] == "plaintext"
    assert "came with the repository, quoted" in line
    assert "\x1b" not in hover["value"]


@pytest.mark.slow
def test_changes_do_not_pile_up(editor: Editor, file: Path) -> None:
    """An editor that sends a thousand changes and hovers at once is answered at once, and checked a few times."""
    uri = editor.open(file)
    editor.eventually(lambda: editor.lenses(uri))
    for number in range(1_000):
        editor.insert(uri, 0, f"# {number}\n", number + 2)
    asked = [editor.send("textDocument/hover", textDocument={"uri": uri}, position={"line": 1_003, "character": 6})]
    asked += [editor.send("textDocument/codeLens", textDocument={"uri": uri}) for _ in range(50)]

    answers = [editor.receive(number) for number in asked]
    assert len(answers) == 51
    assert answers[1][1]["range"]["start"]["line"] == 1_003
    editor.hears("textDocument/publishDiagnostics")
    assert editor.is_silent()


@pytest.mark.slow
def test_other_files_wait_for_none_that_is_too_large(editor: Editor, file: Path) -> None:
    """Edits in a file of 40 MB, which has no answers, and in a minified one hold up no hover."""
    huge = editor.open(write(file.with_name("huge.py"), "x\n"), "x = 1  # total_price\n" * 2_000_000)
    minified = editor.open(write(file.with_name("min.js"), "x\n"), "var a=1;" * 250_000)
    for number in range(100):
        editor.insert(huge, number, "x", number + 2)
        editor.insert(minified, 0, "x", number + 2)
    assert hovered(editor, huge, 3) == ""
    assert editor.lenses(minified) == []


def test_malformed_messages_are_passed_over(file: Path) -> None:
    """What is no message, or names no file of a project, has no answer, holds nothing up, and its text is not logged."""
    with Editor(file.parents[1]) as editor:
        for body in (b"{", b"[]", b"null", b'{"jsonrpc":"2.0","method":5}', b"[" * 100_000, b"\xff"):
            editor.write_body(body)
        for uri in ("file:///a%00b", "file://../../etc/passwd", "untitled:1", "", "%", f"file:///{'x' * 5_000}"):
            document = {"uri": uri, "languageId": "x", "version": 1, "text": "secret"}
            editor.tell("textDocument/didOpen", textDocument=document)
            editor.insert(uri, 0, "float(")
            assert hovered(editor, uri, 0) == ""
            editor.tell("textDocument/didSave", textDocument={"uri": uri})
            editor.tell("textDocument/didClose", textDocument={"uri": uri})
        uri = editor.open(file)
        assert editor.eventually(lambda: "commit" in hovered(editor, uri, 3, 6))
    assert b"secret" not in editor.errors


def test_without_its_extra_the_command_says_what_to_install(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pygls the command names the extra."""
    monkeypatch.setitem(sys.modules, "pygls", None)

    with pytest.raises(MissingExtra, match="pygls"):
        extras.require_extra("lsp", "x")
    ended = shell("lsp")
    assert ended.status == 1
    assert "lorelog[lsp]" in ended.err
