"""Command lines that are parsed without argparse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.commands import COMMANDS
from lorelog.surfaces.cli.main import parse_common
from lorelog.surfaces.cli.parser import CommandParser, command_parser

PARSERS = {name: command_parser(name) for name in COMMANDS}
VALUES = ("7", "0.5", "x", "two words", "", "-", "--", "-5", "=", "café", "2w", "lexical", "auto", "text", "user")


def words_of(parser: CommandParser) -> list[str]:
    """Return the options, verbs and choices of a command and of its verbs."""
    words = [option for action in parser._actions for option in action.option_strings if action.dest != "help"]
    words += [str(choice) for action in parser._actions for choice in action.choices or ()]
    for verb in (parser._verbs() or {}).values():
        words += words_of(verb)
    return words


@st.composite
def command_lines(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Return a command and words that it might be given."""
    name = draw(st.sampled_from(sorted(COMMANDS)))
    own = sorted({*words_of(PARSERS[name])})
    options = [word for word in own if word.startswith("-")] or ["--json"]
    word = st.sampled_from([*own, *own, *VALUES])
    assigned = st.builds("{}={}".format, st.sampled_from(options), st.sampled_from(VALUES))
    joined = st.builds("{}{}".format, st.sampled_from(options), st.sampled_from(VALUES))
    verbs = sorted(PARSERS[name]._verbs() or ())
    first = draw(st.sampled_from([[verb] for verb in verbs] or [[]]))
    return name, [*first, *draw(st.lists(word | word | word | assigned | joined, max_size=6))]


@given(command_lines())
def test_a_table_parses_as_argparse_does(line: tuple[str, list[str]]) -> None:
    """Without argparse a command line has the values that argparse would give it, or is left to argparse."""
    name, words = line
    parsed = parse_common(name, words)
    if parsed is not None:
        assert vars(parsed).items() >= vars(PARSERS[name].parse_args(words)).items()


@pytest.mark.parametrize(
    "line",
    [
        *("search why redis", "search redis -k 3 --json", "search redis --since=2w --tag a --tag b --project /p"),
        *("show 1234 5678 --history", "add text --type decision --tag x", "list", "list -n 5 --type note --json"),
        *(
            "call stats",
            "task",
            "status",
            "status cost --by day",
            "status --json",
            "why a b",
            "brief",
            "delete 12 --daemon off",
        ),
        *("task list --status all", "task start goal --json", "decide x --because y --origin user", "config list"),
        *("code def parse --limit 3", "guard --json", "hosts status claude", "daemon status", "index a.md b.md"),
    ],
)
def test_common_lines_need_no_argparse(line: str) -> None:
    """What people and agents usually type is parsed by the table, with the same values."""
    name, *words = line.split()
    parsed = parse_common(name, words)

    assert parsed is not None
    assert vars(parsed).items() >= vars(PARSERS[name].parse_args(words)).items()


@pytest.mark.parametrize(
    "line",
    [
        *("search", "search x -k", "search x -k y", "search x --lane z", "search x --bogus", "search x --jso"),
        *("search x -k -1", "search x --json=1", "show 1 --history --raw", "add", "wiki", "task nothing", "list extra"),
        *("task run-start goal", "expire 1 --expires", "search --since= x", "call a b c", "feedback a b maybe"),
    ],
)
def test_faults_are_left_to_argparse(line: str) -> None:
    """A wrong command line is never accepted by the table, so its error message is the usual one."""
    name, *words = line.split()

    assert parse_common(name, words) is None
    if line not in {"search x -k -1", "search --since= x"}:
        with pytest.raises(UsageError):
            PARSERS[name].parse_args(words)
