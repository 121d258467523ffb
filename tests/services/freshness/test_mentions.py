"""What a text may name is found where it is written as code, and prose stays prose."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.services.freshness.mentions import MOST, Mention, MentionKind, find_mentions


def found(text: str, kind: MentionKind) -> list[str]:
    return [one.text for one in find_mentions(text) if one.kind is kind]


@pytest.mark.parametrize(
    ("text", "symbols"),
    [
        ("`parse_config()` decides", ["parse_config"]),
        ("parse_config decides", ["parse_config"]),
        ("call open() first", ["open"]),
        ("Engine.search is slow", ["Engine.search"]),
        ("`Engine::search` and `Foo#bar` and `a->begin_it`", ["Engine.search", "Foo.bar", "a.begin_it"]),
        ("`Asking` answers", ["Asking"]),
        ("the `x = open_engine(here)` line", ["open_engine"]),
        ("HTTPServer and camelCase", ["HTTPServer", "camelCase"]),
        ("search is slow, and so is Engine", []),
        ("`return value`", []),
        ("see https://a.example/parse_config.py#foo_bar", []),
        ("write to some_one@example.org", []),
        ("<!-- session:abc turn:def_ghi -->", []),
        ("```python\nparse_config()\n```", []),
        ("`if`, `self`, `ab`", []),
    ],
)
def test_names_are_found_where_they_are_written_as_code(text: str, symbols: list[str]) -> None:
    """Backticks, parentheses, underscores and humps make a name; a word of a sentence, a link or a code sample does not."""
    assert found(text, MentionKind.SYMBOL) == symbols


@pytest.mark.parametrize(
    ("text", "mention"),
    [
        ("in src/a/b.py:10-20 it", Mention(MentionKind.PATH, "src/a/b.py", 10, 20)),
        ("in ./src/a/b.py:10", Mention(MentionKind.PATH, "src/a/b.py", 10, 10)),
        ("`web/app.tsx#L3-L9`", Mention(MentionKind.PATH, "web/app.tsx", 3, 9)),
        ("the Makefile says", Mention(MentionKind.PATH, "Makefile")),
        ("below src/lorelog/code/.", Mention(MentionKind.PATH, "src/lorelog/code")),
        ("load.py, too", Mention(MentionKind.PATH, "load.py")),
    ],
)
def test_files_are_found_with_their_lines(text: str, mention: Mention) -> None:
    """A path keeps the lines that stand behind it, and loses the punctuation."""
    assert mention in find_mentions(text)


def test_settings_and_commands_are_found() -> None:
    """Keys with dots in backticks, names of variables, and what a runner is told to run; not every verb behind `make`."""
    text = "Set `search.k` or LORELOG_HOME, then `make bench-code`; make sure of it.\n```sh\n$ npm run build:all\nnpm install\n```\n"
    assert found(text, MentionKind.SETTING) == ["search.k", "LORELOG_HOME"]
    assert found(text, MentionKind.COMMAND) == ["make bench-code", "npm run build:all"]


def test_a_listing_names_only_its_first() -> None:
    """However long a text is, what is looked up for it is bounded."""
    assert len(find_mentions(" ".join(f"name_{number}" for number in range(500)))) == MOST


@pytest.mark.parametrize(
    "piece",
    [
        "`",
        "~",
        "``a",
        "` ",
        "```\n",
        "~~~\n```\n",
        ".",
        "_",
        "a.",
        "a/",
        "./",
        "../",
        "+",
        "a+",
        "a-",
        "a@",
        "A_",
        "aA.",
        "<!--",
        "x+",
        " \n",
    ],
)
def test_a_text_made_to_take_long_does_not(piece: str) -> None:
    """A hundred thousand letters of whatever patterns stumble over are looked through: with a pattern that goes back and forth this
    test would take hours.
    """
    assert len(find_mentions(piece * (100_000 // len(piece)))) <= MOST


@pytest.mark.parametrize(
    ("text", "symbols"),
    [
        ("~~~~\n~~~\ninside_it()\n~~~~\noutside_it()", ["outside_it"]),
        ("```\n~~~\ninside_it()\n```\noutside_it()", ["outside_it"]),
        ("```py\ninside_it()", []),
        ("```spanned_it()``` is a span, and outside_it() is not", ["outside_it"]),
        ("   ```\ninside_it()\n   ```\r\noutside_it()", ["outside_it"]),
    ],
)
def test_a_fence_ends_where_markdown_ends_it(text: str, symbols: list[str]) -> None:
    """Only a line of the same marks, as many or more, ends a sample; one that is never closed goes on to the end."""
    assert [one for one in found(text, MentionKind.SYMBOL) if one != "spanned_it"] == symbols


@given(st.text(alphabet="ab_./:`#L-1 \n()<>!$~é\x00", max_size=300))
def test_any_text_can_be_looked_through(text: str) -> None:
    """Nothing in a text makes it fail; each thing is named once, and without white space."""
    mentions = find_mentions(text)
    assert len(set(mentions)) == len(mentions)
    for one in mentions:
        assert one.text
        assert one.first_line <= one.last_line or not one.last_line
        assert one.kind is MentionKind.COMMAND or not any(letter.isspace() for letter in one.text)
