"""Adding and removing a table keeps comments and all other settings of a TOML text."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.errors import ConfigError
from lorelog.services.install import config_edit

PATH = ("mcp_servers", "lorelog")
VALUES = {"command": '/opt/a "b"\\c', "args": ["mcp"], "env": {"LORELOG_HOME": "/x"}}
PIECES = st.sampled_from(
    [
        "# a comment\n",
        "\n",
        'model = "x"   # mine\n',
        "[projects.'/a b']\ntrust_level = \"trusted\"\n",
        "[mcp_servers.other]\ncommand = 'y'\n\n",
        "[mcp_servers.another]\n# about it\n",
        '[[lists]]\nname = """\n[mcp_servers.lorelog]\n"""\n',
        "[tui]\n",
    ]
)


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


@given(st.lists(PIECES, max_size=6))
def test_a_table_is_added_and_removed(pieces: list[str]) -> None:
    """The table is added without losing a line, and removing it restores all lines."""
    text = "".join(pieces)
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    changed = config_edit.put_table(text, PATH, VALUES)
    data = tomllib.loads(changed)
    assert data["mcp_servers"].pop("lorelog") == VALUES
    assert {name: value for name, value in data.items() if value or name in before} == before
    assert set(lines(text)) <= set(lines(changed))
    # tomlkit moves parts of an array of tables together, so the order is not compared.
    assert sorted(lines(config_edit.drop_table(changed, PATH))) == sorted(lines(text))


def test_text_after_the_table_survives() -> None:
    """Tables and comments that a host adds after our table stay, and a subtable of ours is removed with it."""
    ours = config_edit.put_table("a = 1\n", PATH, VALUES)
    text = f"{ours}\n# about projects\n[projects]\nx = 1\n\n[mcp_servers.lorelog.tools]\nz = 1\n[last]\ny = 2\n"
    assert config_edit.drop_table(text, PATH) == "a = 1\n\n# about projects\n[projects]\nx = 1\n\n[last]\ny = 2\n"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            'mcp_servers = { other = { command = "x" }, lorelog = { command = "y" } } # mine\n',
            'mcp_servers = { other = { command = "x" }  } # mine\n',
        ),
        (
            'mcp_servers.other.command = "x" # mine\nmcp_servers.lorelog.command = "y"\n',
            'mcp_servers.other.command = "x" # mine\n',
        ),
    ],
)
def test_inline_tables_and_dotted_keys_are_edited(text: str, left: str) -> None:
    """Servers in an inline table or with dotted keys are added and removed like tables."""
    assert config_edit.drop_table(text, PATH) == left
    changed = config_edit.put_table(left, PATH, VALUES)
    assert tomllib.loads(changed)["mcp_servers"] == {"other": {"command": "x"}, "lorelog": VALUES}
    assert "# mine\n" in changed


def test_a_value_in_the_way_is_refused() -> None:
    """A table cannot be added below a number."""
    with pytest.raises(ConfigError, match="mcp_servers is not a table"):
        config_edit.put_table("mcp_servers = 3\n", PATH, VALUES)
