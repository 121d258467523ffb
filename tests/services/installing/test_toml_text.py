"""One table comes and goes; the rest of a TOML text stays to the byte."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.errors import ConfigError
from lorelog.services.installing import toml_text

PATH = ("mcp_servers", "lorelog")
VALUES = {"command": '/opt/a "b"\\c', "args": ["mcp"], "env": {"LORELOG_HOME": "/x"}}
PIECES = st.sampled_from(
    [
        "# a comment\n",
        "\n",
        'model = "x"   # mine\n',
        "[projects.'/a b']\ntrust_level = \"trusted\"\n",
        "[mcp_servers.other]\ncommand = 'y'\n\n",
        '[[lists]]\nname = """\n[mcp_servers.lorelog]\n"""\n',
        "[tui]\n",
    ]
)


@given(st.lists(PIECES, max_size=6))
def test_a_table_goes_as_it_came(pieces: list[str]) -> None:
    """With the table the text says one thing more, and without it again it is what it was."""
    text = "".join(pieces)
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    changed = toml_text.put_table(text, PATH, VALUES)
    assert tomllib.loads(changed)["mcp_servers"]["lorelog"] == VALUES
    assert changed.startswith(text)
    assert tomllib.loads(toml_text.drop_table(changed, PATH)) == before
    assert toml_text.drop_table(changed, PATH) == text


def test_what_others_wrote_behind_it_stays() -> None:
    """A host that adds tables and comments behind ours keeps them, and a table below ours goes with it."""
    ours = toml_text.put_table("a = 1\n", PATH, VALUES)
    text = f"{ours}\n# about projects\n[projects]\nx = 1\n\n[mcp_servers.lorelog.tools]\nz = 1\n[last]\ny = 2\n"
    assert toml_text.drop_table(text, PATH) == "a = 1\n\n# about projects\n[projects]\nx = 1\n[last]\ny = 2\n"


def test_an_entry_on_one_line_goes_too() -> None:
    """A person who keeps all servers on one line keeps the others there."""
    text = 'mcp_servers = { other = { command = "x" }, lorelog = { command = "y" } } # mine\n'
    left = toml_text.drop_table(text, PATH)
    assert tomllib.loads(left) == {"mcp_servers": {"other": {"command": "x"}}}
    assert left.endswith("# mine\n")


@pytest.mark.parametrize("text", ["mcp_servers = { other = { command = 'x' } }\n", "mcp_servers = 3\n"])
def test_what_cannot_be_extended_is_refused(text: str) -> None:
    """Where the table cannot be added, nothing is, and it is said."""
    with pytest.raises(ConfigError):
        toml_text.put_table(text, PATH, VALUES)
