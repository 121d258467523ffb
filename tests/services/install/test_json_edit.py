"""Entries come and go; every other byte of a JSON text stays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.errors import ConfigError
from lorelog.services.install import config_edit

KEYS = st.sampled_from(["a", "b", "plugins", "hooks", "é", 'q"uote', "x y", ""])
SCALARS = st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=12
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)
LAYOUTS = st.sampled_from([None, 1, 2, 4, "\t"])

COMMENTED = """\
{
  // what I changed
  "model": 'opus', /* my own */
  plugins: {
    "load": { "paths": ["/a", "/b"] }, // two
    "entries": {
      "other": { "enabled": true },  // keep
    },
  }, // the end
  "size": +0x10,
}
"""


def written(value: object, layout: int | str | None) -> str:
    return json.dumps(value, indent=layout, ensure_ascii=False) + ("\n" if layout else "")


@given(VALUES, LAYOUTS)
def test_what_json_reads_is_read_alike(value: object, layout: int | str | None) -> None:
    """Every JSON text is understood as the standard library understands it."""
    assert config_edit.parse_json(written(value, layout)).value == value


@given(st.text(max_size=40))
def test_no_text_makes_it_fail_otherwise_than_with_a_value_error(text: str) -> None:
    """Whatever a file holds, reading it either works or says that it cannot."""
    try:
        config_edit.parse_json(text)
    except ValueError:
        with pytest.raises(json.JSONDecodeError):
            json.loads(text)


@given(OBJECTS, LAYOUTS, st.lists(KEYS, min_size=1, max_size=3), VALUES)
def test_a_new_entry_is_the_only_difference_and_goes_again(
    config: dict[str, Any], layout: int | str | None, path: list[str], value: object
) -> None:
    """An entry that is put in is there, JSON still reads the text, and taking it out leaves what was there before."""
    text = written(config, layout)
    if config_edit.get(text, path) is not None or not fits(config, path):
        return
    changed = config_edit.put(text, path, value)
    assert config_edit.get(changed, path) == value
    assert json.loads(changed) == config_edit.parse_json(changed).value
    assert without_empty(json.loads(config_edit.drop(changed, path[:-1], path[-1])), path) == without_empty(
        config, path
    )


@given(OBJECTS, LAYOUTS, VALUES)
def test_lines_of_others_stay_as_they_are(config: dict[str, Any], layout: int | str | None, value: object) -> None:
    """Each line of a text that is written over several lines is still there after an entry was added."""
    text = written({"first": 1, **config}, layout or 2)
    changed = config_edit.put(text, ("zz-new",), value).splitlines()
    for line in text.splitlines():
        assert line in changed or f"{line}," in changed


@given(st.lists(VALUES, max_size=4), LAYOUTS, VALUES)
def test_items_come_and_go(items: list[Any], layout: int | str | None, value: object) -> None:
    """An item is appended to a list, and any one is taken out again."""
    text = written({"list": items, "after": 1}, layout)
    changed = config_edit.append(text, ("list",), value)
    assert json.loads(changed)["list"] == [*items, value]
    for number in range(len(items) + 1):
        left = json.loads(config_edit.drop(changed, ("list",), number))
        assert left == {"list": [item for at, item in enumerate([*items, value]) if at != number], "after": 1}


def test_comments_and_odd_writing_stay() -> None:
    """In a JSON5 file comments, single quotes, bare keys and trailing commas stay, with our entries between them."""
    text = config_edit.append(COMMENTED, ("plugins", "load", "paths"), "/ours")
    text = config_edit.put(text, ("plugins", "entries", "lorelog"), {"enabled": True})
    text = config_edit.put(text, ("plugins", "slots", "memory"), "lorelog")
    assert config_edit.get(text, ("plugins", "load", "paths")) == ["/a", "/b", "/ours"]
    assert config_edit.get(text, ("size",)) == 16
    for kept in (
        "// what I changed",
        "'opus', /* my own */",
        "plugins: {",
        "// two",
        "// keep",
        "// the end",
        "+0x10,",
    ):
        assert kept in text
    text = config_edit.drop(text, ("plugins",), "slots")
    text = config_edit.drop(text, ("plugins", "entries"), "lorelog")
    text = config_edit.drop(text, ("plugins", "load", "paths"), 2)
    assert text == COMMENTED


@pytest.mark.parametrize("text", ["{ // c\n}", "{/* } */}", "[]", '{"a": 1 // c\n}', '{"a": {"b": 1}}', "{}"])
def test_an_entry_finds_its_place_beside_comments(text: str) -> None:
    """Where only a comment stands, or one follows the last value, the new entry does not end up in it."""
    if text == "[]":
        with pytest.raises(ConfigError):
            config_edit.put(text, ("x",), 1)
        return
    changed = config_edit.put(text, ("x", "y"), [1])
    assert config_edit.get(changed, ("x", "y")) == [1]
    assert config_edit.parse_json(config_edit.drop(changed, (), "x")).value == config_edit.parse_json(text).value


def test_what_is_in_the_way_is_told() -> None:
    """An entry that would have to go below a text or a number is refused."""
    with pytest.raises(ConfigError, match="plugins is not an object"):
        config_edit.put('{"plugins": 3}', ("plugins", "x"), 1)
    with pytest.raises(ConfigError, match="is not a list"):
        config_edit.append('{"plugins": {"x": 1}}', ("plugins", "x"), 1)


def fits(config: Any, path: list[str]) -> bool:
    for key in path[:-1]:
        if not isinstance(config, dict):
            return False
        config = config.get(key, {})
    return isinstance(config, dict) and path[-1] not in config


def without_empty(config: Any, path: list[str]) -> Any:
    """A configuration without the objects that were made on the way to a path, and are empty."""
    for depth in range(len(path) - 1, 0, -1):
        holder = config
        for key in path[: depth - 1]:
            holder = holder.get(key, {}) if isinstance(holder, dict) else {}
        if isinstance(holder, dict) and holder.get(path[depth - 1]) == {}:
            holder.pop(path[depth - 1])
    return config
