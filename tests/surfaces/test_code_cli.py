"""Questions about code in the CLI, in Python, over MCP and in searches, and what `lorelog code index` reports."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.surfaces.conftest import Shell, write
from tests.surfaces.otter_project import git_init

CORE = '''"""Core."""


class Engine:
    """Does it all."""

    def search(self, query: str) -> list[str]:
        return parse_words(query)


def parse_words(text: str) -> list[str]:
    """Cut a text into words."""
    return text.split()
'''
MAIN = """import json
from core import Engine


def main() -> None:
    engine = Engine()
    print(json.dumps(engine.search("x")))
"""


@pytest.fixture
def code(project: Path, shell: Shell) -> Path:
    """A project whose code is indexed."""
    write(project / "core.py", CORE)
    write(project / "main.py", MAIN)
    assert shell("code", "index").status == 0
    return project


def test_definitions_are_shown_with_place_and_signature(shell: Shell, code: Path) -> None:
    """A definition has a location that editors open, its full name, kind, signature and docstring."""
    out = shell("code", "def", "parse_words").out

    assert out == (
        "core.py:11:5  parse_words  function  lines 11-13\n"
        "   def parse_words(text: str) -> list[str]\n   Cut a text into words.\n"
    )
    assert shell("code", "def", "nothing_like_it").out == "Nothing found.\n"


def test_references_are_shown_below_the_definition(shell: Shell, code: Path) -> None:
    """References have their use, container and source line; --use selects kinds."""
    out = shell("code", "refs", "Engine").out

    assert out.splitlines() == [
        "core.py:4:7  Engine  class  lines 4-8",
        "",
        "main.py:2:18  import",
        "   from core import Engine",
        "main.py:6:14  call  in main",
        "   engine = Engine()",
    ]
    assert "import" not in shell("code", "refs", "Engine", "--use", "call").out.split("\n", 2)[2].split("engine =")[0]


def test_callers_are_shown_up_to_a_depth(shell: Shell, code: Path) -> None:
    """Callers are named; indirect ones with the call path."""
    out = shell("code", "callers", "parse_words", "--depth", 2).out

    assert "core.py:8:16  Engine.search  method\n   return parse_words(query)\n" in out
    assert "main.py:7:29  main  function  calls Engine.search (2 calls away)\n" in out


def test_imports_outline_and_search_are_shown(shell: Shell, code: Path) -> None:
    """Imports, outlines and symbol search have their results."""
    assert shell("code", "imports", "json").out == "main.py:1:8\n   import json\n"
    outline = shell("code", "outline", "core.py").out
    assert "core.py  python, 13 lines" in outline
    assert "       7    def search(self, query: str) -> list[str]" in outline
    assert "parse_words" in shell("code", "search", "parsew").out
    assert shell("code", "outline", "nowhere").status == 1


def test_code_that_is_not_indexed_says_how_to_begin(shell: Shell) -> None:
    """Code is not read unasked, and the error says how to index it."""
    asked = shell("code", "def", "main")

    assert (asked.status, asked.out) == (0, "Nothing found.\n")
    assert "lorelog code index" in asked.err


def test_memories_of_a_file_are_listed_and_nothing_else(shell: Shell, code: Path) -> None:
    """Each is a line with the place of what it names; none is told as a note."""
    shell("add", "`parse_words` cuts at white space", "--type", "decision")
    listed = shell("code", "memories", "core.py")

    assert (listed.out.count("\n"), listed.out[:10], listed.err) == (1, "core.py:11", "")


def test_a_line_needs_its_file(shell: Shell, code: Path) -> None:
    """--line without --in is a usage error."""
    asked = shell("code", "def", "Engine", "--line", 3)

    assert asked.status == 2
    assert "line requires path" in asked.err


def test_a_run_is_told_in_a_line_and_what_was_left_out_in_another(shell: Shell, project: Path) -> None:
    """The report counts files, changes and languages; minified files are noted, and listed by status."""
    write(project / "a.py", "def alpha(): pass\n")
    write(project / "b.js", "function beta() {}\n")
    write(project / "c.min.js", "x=1;" * 5_000)
    first, again = shell("code", "index"), shell("code", "index")
    assert first.status == again.status == 0
    assert "Indexed 3 files: 3 changed, 0 unchanged (1 python, 1 javascript). 2 symbols" in first.out
    assert "skipped: 1 minified" in first.err
    assert "3 unchanged. 0 symbols" in again.out
    status = shell("code", "status").out
    assert "2 files, 2 symbols: " in status
    assert "skipped: c.min.js (minified)" in status


def test_a_part_and_a_forgotten_tree(shell: Shell, project: Path) -> None:
    """A directory can be indexed and forgotten; forgetting twice and --forget with --force are errors."""
    write(project / "src" / "a.py", "def alpha(): pass\n")
    write(project / "b.py", "def beta(): pass\n")
    git_init(project)
    assert "Indexed 1 file" in shell("code", "index", "src").out
    assert "only src" in shell("code", "status").out
    assert shell("code", "index", "--forget", "--force").status == 2
    assert "1 file. Your files are unchanged." in shell("code", "index", "--forget").out
    assert "No code is indexed" in shell("code", "status").out
    missing = shell("code", "index", "--forget")
    assert missing.status != 0
    assert "lorelog code status" in missing.err


def test_a_file_that_cannot_be_taken_fails_the_command_and_not_the_run(shell: Shell, project: Path) -> None:
    """If a file fails, the others are indexed, the file is named, and the exit status is 1."""
    write(project / "a.py", "def alpha(): pass\n")
    (project / "bad\udcff.py").write_text("def beta(): pass\n")
    run = shell("code", "index")
    assert run.status == 1
    assert "not valid UTF-8" in run.err
    assert "1 failed" in run.out
    assert shell("code", "def", "alpha").status == 0
