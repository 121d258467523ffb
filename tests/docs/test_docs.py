"""The pages say what the program does."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.pages import PAGES, ROOT, blocks, command_lines, headings, links, lorelog_words, read, rows, spans

from lorelog.core.errors import LorelogError, UsageError
from lorelog.surfaces.cli import main as cli
from lorelog.surfaces.cli.commands import COMMANDS
from lorelog.surfaces.cli.parser import command_parser

NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
HAVE_COMMANDS = [
    name
    for name in NAMES
    if not name.startswith("bench") and any(map(list, map(lorelog_words, command_lines(read(name)))))
]


def all_parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    found = [parser]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found += [verb for choice in action.choices.values() for verb in all_parsers(choice)]
    return found


def all_errors(top: type[LorelogError] = LorelogError) -> list[type[LorelogError]]:
    """Return an error class and all below it; for users, one with the code of its parent is the parent."""
    kinds = [kind for kind in top.__subclasses__() if kind.code != top.code]
    return [top, *(error for kind in kinds for error in all_errors(kind))]


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_and_option_is_documented(name: str) -> None:
    """docs/cli.md has a heading for each command and verb, and names each of its options and arguments."""
    page = read("docs/cli.md")
    missing = []
    for parser in all_parsers(command_parser(name)):
        _, found, rest = page.partition(f"# {parser.prog}\n")
        section = rest.split("\n#", 1)[0]
        missing += [] if found else [parser.prog]
        for action in parser._actions:
            if action.dest == "help" or isinstance(action, argparse._SubParsersAction):
                continue
            for word in action.option_strings or [str(action.metavar or next(iter(action.choices or ())))]:
                missing += [] if word in section else [f"{parser.prog} {word}"]

    assert missing == []


def test_every_error_is_documented() -> None:
    """docs/errors.md has each error's class, code, meaning and the exit status that the shell really gives."""
    table = {row[0]: row[1:] for row in rows(read("docs/errors.md")) if len(row) == 4}

    assert table == {
        f"`{kind.code}`": [f"`{kind.__name__}`", kind.__doc__, str(cli._print_error(kind("x"), as_json=False))]
        for kind in all_errors()
    }


def test_the_error_tree_is_drawn_whole() -> None:
    """Every error class stands in the tree that docs/errors.md draws."""
    (tree,) = (block for block in blocks(read("docs/errors.md"), "text") if "LorelogError" in block)

    assert {line.strip("│├└─ ") for line in tree.split("\n") if line} == {kind.__name__ for kind in all_errors()}


@pytest.mark.slow
@pytest.mark.parametrize("name", HAVE_COMMANDS)
def test_every_command_line_shown_can_be_typed(name: str) -> None:
    """Whatever a page tells its reader to type, the real parsers accept."""
    wrong = []
    for line in command_lines(read(name)):
        for command, *words in map(cli.move_global_options, lorelog_words(line)):
            if command in {"--help", "--version", "version"}:
                continue
            if command not in COMMANDS:
                wrong.append(line)
                continue
            try:
                command_parser(command).parse_args(words)
            except (SystemExit, UsageError):
                # In prose a command may stand for itself: `lorelog search`.
                if words or line != f"lorelog {command}":
                    wrong.append(line)

    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
def test_every_link_leads_somewhere(name: str) -> None:
    """Relative links name files and headings that exist."""
    page = ROOT / name
    broken = []
    for link in links(read(name)):
        if "://" in link:
            continue
        path, _, fragment = link.partition("#")
        target = (page.parent / path) if path else page
        if not target.exists() or (fragment and fragment not in headings(target.read_text("utf-8"))):
            broken.append(link)

    assert broken == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["README.md", "docs/python.md"])
def test_python_examples_run(name: str, tmp_path: Path) -> None:
    """The Python shown runs as it stands, in a directory with notes."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "cache.md").write_text("# Cache\n\nWhy redis: it runs already.\n", "utf-8")
    examples = blocks(read(name), "python")

    done = subprocess.run(
        [sys.executable, "-c", "\n".join(examples)],
        cwd=tmp_path,
        env={"LORELOG_HOME": str(tmp_path / "home"), "LORELOG_EMBEDDING_PROVIDER": "fake", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "notes/cache.md" in done.stdout


def test_python_page_lists_exported_names() -> None:
    """docs/python.md lists exactly the names that the package exports."""
    import lorelog

    listed = read("docs/python.md").split("## Names")[1]

    assert {name for name in spans(listed) if name in lorelog.__all__} == set(lorelog.__all__)
    assert "no others" in listed


def test_where_has_a_heading_for_every_package() -> None:
    """Each package, and each below services/ and surfaces/, has a heading of its own in docs/where.md."""
    source = ROOT / "src" / "lorelog"
    folders = [path.parent for glob in ("*", "services/*", "surfaces/*") for path in source.glob(f"{glob}/__init__.py")]
    packages = {folder.relative_to(source).as_posix() for folder in folders} - {"services", "surfaces"}
    headings = [line.removeprefix("## ") for line in read("docs/where.md").splitlines() if line.startswith("## ")]

    assert packages - {name for heading in headings for name in heading.split(", ")} == set()


def test_where_names_existing_files() -> None:
    """Each row of docs/where.md names files that exist and names that occur in them."""
    wrong = []
    for question, files, names in (row for row in rows(read("docs/where.md")) if len(row) == 3):
        found = [(ROOT / "src" / "lorelog" / span, ROOT / span) for span in spans(files)]
        paths = [next((path for path in pair if path.is_file()), None) for pair in found]
        if not paths or None in paths:
            wrong.append(question)
            continue
        text = "\n".join(path.read_text("utf-8") for path in paths if path)
        wanted = [name for name in spans(names) if "/" not in name]
        wrong += [f"{question}: {name}" for name in wanted if name.rpartition(".")[2] not in text and name not in text]

    assert wrong == []
