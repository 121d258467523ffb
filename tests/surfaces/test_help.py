"""The frame of the command line: front page, help, options before the command, and errors about words."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.surfaces.conftest import Shell

from lorelog.core import VERSION
from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.commands import (
    COMMANDS,
    FRONT_PAGE,
    format_all_commands,
    format_front_page,
    format_global_options,
    format_welcome,
)
from lorelog.surfaces.cli.main import _name_option
from lorelog.surfaces.cli.parser import command_parser


def test_lorelog_alone_welcomes_a_new_user(shell: Shell) -> None:
    """In a new home `lorelog` prints four lines; as soon as something is remembered, the front page."""
    new = shell()
    shell("add", "a first memory", "--global")
    used = shell()

    assert (new.status, new.err, new.out.count("\n")) == (0, "", 4)
    assert [line.split("  ")[1] for line in new.out.splitlines()[1:]] == [
        "lorelog hosts install",
        "lorelog backfill",
        'lorelog search "..."',
    ]
    assert (used.status, used.err, used.out) == (0, "", shell("--help").out)


def test_the_front_page_has_few_commands(shell: Shell) -> None:
    """It has at most 14 commands in 3 groups, and names the page that has all of them."""
    shown = [line.split()[0] for line in shell("--help").out.splitlines() if line.startswith("  ")]

    assert shown == [name for names in FRONT_PAGE.values() for name in names]
    assert (len(FRONT_PAGE), len(shown) <= 14, "lorelog help all" in shell("help").out) == (3, True, True)


def test_help_all_lists_every_command(shell: Shell) -> None:
    """Every command is listed once; those that only programs run come last."""
    lines = shell("help", "all").out.splitlines()
    names = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]

    assert names == list(COMMANDS)
    assert {"batch", "ops", "session-start", "hook"} <= set(names[-7:])


@pytest.mark.parametrize("words", [("search",), ("task", "start")])
def test_help_explains_a_command(shell: Shell, words: tuple[str, ...]) -> None:
    """`help COMMAND` prints what `COMMAND --help` does, also for verbs."""
    done = shell("help", *words)

    assert (done.status, done.out) == (0, shell(*words, "--help").out)
    assert "global options: --project, --tenant, --daemon" in done.out
    assert all(option in shell("help", "options").out for option in ("--project", "--tenant", "--daemon", "--json"))


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_help_of_a_command_has_examples(name: str) -> None:
    """Each command shows how it is typed."""
    text = command_parser(name).format_help()

    assert f"lorelog {name}" in text.partition("examples:")[2]


def test_the_version_is_printed(shell: Shell) -> None:
    """`version`, --version and -V print it, with --json as JSON."""
    assert shell("version", "--json").json == {"version": VERSION}
    assert {shell(word).out for word in ("version", "--version", "-V")} == {f"lorelog {VERSION}\n"}


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_help_fits_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No line of a help text is wider than the terminal, but for commands in examples, which are not cut below 80."""
    monkeypatch.setenv("COLUMNS", str(columns))
    helps = [parser.format_help() for name in COMMANDS for parser in _with_verbs(command_parser(name))]
    pages = (format_welcome(), format_front_page(), format_all_commands(), format_global_options(), *helps)
    wide = [line for text in pages for line in text.splitlines() if len(line) > columns]

    assert [line for line in wide if columns >= 80 or not (line.startswith("  ") and "lorelog " in line)] == []


def _with_verbs(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                yield from _with_verbs(verb)


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ("serach x", "there is no command 'serach'", "did you mean 'lorelog search'?"),
        ("help serach", "there is no command 'serach'", "did you mean 'lorelog search'?"),
        ("search x --topk 3", "'lorelog search' has no option --topk", "did you mean --top-k?"),
        ("task list --statsu x", "'lorelog task list' has no option --statsu", "did you mean --status?"),
        ("task strat", "there is no command 'task strat'", "did you mean 'lorelog task start'?"),
        ("code defintion x", "there is no command 'code defintion'", "did you mean 'lorelog code def'?"),
        (
            "search x --lane lexcal",
            "there is no lane 'lexcal'; there are: hybrid, lexical, dense",
            "did you mean lexical?",
        ),
        ("get x", "there is no command 'get'", "did you mean 'lorelog show'?"),
        ("feedback x y", "'lorelog feedback' needs relevant or irrelevant", "lorelog feedback --help"),
        ("config set", "'lorelog config set' needs KEY and VALUE", "lorelog config set --help"),
        ("backup --chek x", "'lorelog backup' has no option --chek", "lorelog backup --help"),
        ("completion nu", "there is no shell 'nu'; there are: bash, zsh, fish, tcsh, powershell", "--help"),
        ("serve --port -1", "--port must be at least 0 (got -1)", "lorelog serve --help"),
        ("serve --port 70000", "--port must be at most 65535 (got 70000)", "lorelog serve --help"),
        ("serve --port 1.5", "--port must be a whole number (got '1.5')", "lorelog serve --help"),
        ("search x -k three", "-k must be a whole number (got 'three')", "lorelog search --help"),
        ("search x -k", "-k needs a value", "lorelog search --help"),
        ("search x --explain=yes", "--explain takes no value", "lorelog search --help"),
        ("search", "'lorelog search' needs QUERY", "lorelog search --help"),
        ("add one two", "'lorelog add' does not take the argument 'two'", "in quotes"),
        ("--tenat x search y", "lorelog has no option --tenat", "did you mean --tenant?"),
        ("--tenant", "--tenant needs a value", "lorelog help options"),
        ("--tenant x", "a command must follow --tenant x", "lorelog --help"),
        ("search walrus -k 0", "-k must be at least 1 (got 0)", "lorelog search --help"),
        (
            "search walrus --min-relevance 50",
            "--min-relevance must be a number from 0 to 1, such as 0.5 (got 50)",
            "lorelog search --help",
        ),
        ("search walrus --since 2026-02-30", "'2026-02-30' is not a day", "write 2026-03-05, today"),
        ("list --limit 0", "--limit must be at least 1 (got 0)", "lorelog list --help"),
        ("code callers x --depth 99", "--depth must be at most 3 (got 99)", "lorelog code callers --help"),
        (f"search walrus --tag {'a' * 201}", "--tag must have at most 200 characters", "lorelog search --help"),
        ("search ' '", "the query is empty", "give words or a question to search for"),
        (
            "index --max-chunk-size 9",
            "--max-chunk-size is 9: expected a whole number from 100 to 100000",
            "it sets chunking.max_chunk_size for one command",
        ),
        ("add ''", "the text is empty: there is nothing to remember", 'lorelog add "what you learned"'),
        ("add x --expires yesterday", "'yesterday' is over already: nothing would be remembered", "name the last day"),
        ("add x --expires someday", "'someday' is not a day", "write 2026-03-05, today, tomorrow"),
        ("restore .", ". is a directory", "name the file that 'lorelog backup FILE' wrote"),
        ("eval --feedback", "nothing was judged relevant yet", "lorelog feedback"),
    ],
)
def test_a_wrong_word_is_explained(shell: Shell, project: Path, words: str, message: str, hint: str) -> None:
    """A usage error names the wrong word or value as it was typed, and what there is, or the nearest, with status 2."""
    done = shell(*(word.strip("'") for word in words.split()))
    first, second = done.err.splitlines()

    assert (done.status, done.out, first) == (2, "", f"lorelog: {message}")
    assert hint in second


def test_global_options_may_stand_before_the_command(shell: Shell, project: Path) -> None:
    """Options before the command hold as if they stood behind it, and before `--`."""
    shell("--tenant", "other", "--daemon=off", "add", "a heron")

    assert [hit["content"] for hit in shell("--json", "--tenant", "other", "search", "--", "heron").json["hits"]]
    assert not shell("search", "heron", "--json").json["hits"]
    assert shell("--project", str(project / "nowhere"), "call", "stats").json["error"]["code"] == "not_found"


def test_arguments_may_stand_on_both_sides_of_an_option(shell: Shell, project: Path) -> None:
    """A list of arguments is not ended by an option."""
    for name in ("a", "b"):
        (project / f"{name}.md").write_text("# Otter\n\nan otter\n", "utf-8")

    assert shell("index", "a.md", "--words-only", "b.md", "--json").json["files"] == 2


def test_a_field_is_named_by_its_option_also_without_a_verb() -> None:
    """An operation's error about a field names the option of a command whose verb is optional and was left out."""
    error = UsageError("memory.stats: tenant must be a string", hint="lorelog ops memory.stats")

    named = _name_option(error, command_parser("status"), ["--json"])

    assert (named.message, named.hint) == ("--tenant must be a string", "lorelog status overview --help")
