"""Edit entries of TOML and JSON5 texts in place; comments and all other settings survive.

In TOML a table is added or removed. Every edit is verified with the standard library's parser: the new text must hold
the old data with or without the table.

In JSON5, for OpenClaw's configuration, all other bytes stay as they are. A parser that loads and dumps the file would
lose its comments. So the text is scanned for the positions of its values, and only there it is changed. Every edit is
verified: the new text must parse to the expected value, else ConfigError is raised. Plain JSON files are edited with
`json` instead.
"""

from __future__ import annotations

import functools
import json
import operator
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from lorelog.core.errors import ConfigError


def put_table(text: str, path: Sequence[str], values: Mapping[str, Any]) -> str:
    """Return the text with the table, which must not exist yet."""
    import tomlkit  # heavy, and only editing needs it
    from tomlkit.exceptions import TOMLKitError
    from tomlkit.items import InlineTable

    expected = tomllib.loads(text)
    _parent_object(expected, path[:-1], "a table")[path[-1]] = dict(values)
    parent: Any = tomlkit.parse(text)
    document = parent
    try:
        for name in path[:-1]:
            if name not in parent:
                parent[name] = tomlkit.table(is_super_table=True)
            parent = parent[name]
        table: Any = tomlkit.inline_table() if isinstance(parent, InlineTable) else tomlkit.table()
        for name, value in values.items():
            if isinstance(value, Mapping):
                table[name] = tomlkit.inline_table()
                table[name].update(value)
            else:
                table[name] = value
        parent[path[-1]] = table
    except TOMLKitError:
        raise _edit_error() from None
    return _verify_toml_edit(document.as_string(), expected)


def drop_table(text: str, path: Sequence[str]) -> str:
    """Return the text without the table and its subtables; comments below its last value stay."""
    expected = tomllib.loads(text)
    if _parent_object(expected, path[:-1], "a table").pop(path[-1], None) is None:
        return text
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    document = tomlkit.parse(text)
    try:
        _remove(document, path)
    except TOMLKitError:
        raise _edit_error() from None
    left = document.as_string()
    return _verify_toml_edit(left.rstrip("\n") + "\n" if left.strip() else "", expected)


def _remove(container: Any, path: Sequence[str]) -> None:
    """Remove a table from a tomlkit container, which may hold it in several parts."""
    import tomlkit
    from tomlkit.items import InlineTable, Table

    for index, (key, item) in enumerate(container.body):
        if key is None or key.key != path[0]:
            continue
        if len(path) == 1:
            container.body[index] = (None, tomlkit.ws(_trailing_comments(item)))
        elif isinstance(item, InlineTable) and len(path) == 2:
            item.remove(path[1])
        elif isinstance(item, Table | InlineTable):
            _remove(item.value, path[1:])


def _trailing_comments(item: Any) -> str:
    """Return the comments below the last value of a table: tomlkit counts those above the next table as part of it."""
    from tomlkit.items import Table

    if not isinstance(item, Table):
        return ""
    lines = ""
    for key, entry in reversed(item.value.body):
        if key is not None:
            lines = _trailing_comments(entry) + lines
            break
        lines = entry.as_string() + lines
    return lines.lstrip("\n") if lines.strip() else ""


def _verify_toml_edit(text: str, expected: Mapping[str, Any]) -> str:
    try:
        result = _drop_empty(tomllib.loads(text))
    except ValueError:
        raise _edit_error() from None
    if result != _drop_empty(expected):
        raise _edit_error()
    return text


def _edit_error() -> ConfigError:
    return ConfigError("it cannot be edited safely", hint="make the change by hand")


def _drop_empty(value: Any) -> Any:
    """Return a table without empty subtables: they come and go with their last entry."""
    if not isinstance(value, dict):
        return value
    inner = {name: _drop_empty(entry) for name, entry in value.items()}
    return {name: entry for name, entry in inner.items() if entry != {}}


KeyPath = Sequence[str]

_SPACE = re.compile(r"(?:\s|\ufeff|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_TAIL = re.compile(r"[ \t]*(?:/\*[^\n]*?\*/[ \t]*)*(?://[^\n]*)?")
"""The rest of a value's line: blanks and comments."""
_BARE = re.compile(r"[^\s,:\[\]{}\"'/]+")
_STRING = re.compile(r""""((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)'""", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": ""}
_MAX_DEPTH = 200


class JsonNode(Struct, frozen=True):
    """A value with its position in the text, and the entries of an object or array."""

    start: int
    end: int
    value: Any
    members: tuple[JsonMember, ...] = ()

    def find(self, key: str | int) -> int | None:
        """Return the index of the member with a key (the last of several counts), or of a list's item."""
        if isinstance(key, int) or not isinstance(self.value, dict):
            return key if isinstance(key, int) and isinstance(self.value, list) and key < len(self.members) else None
        matches = [index for index, member in enumerate(self.members) if member.key == key]
        return matches[-1] if matches else None


class JsonMember(Struct, frozen=True):
    """An entry of an object or array, its start, and the position of the comma after it (or -1)."""

    key: str
    start: int
    node: JsonNode
    comma: int = -1


def parse_json(text: str) -> JsonNode:
    """Parse a JSON5 text, with comments. Raise ValueError if it is malformed."""
    node = _parse_value(text, _skip_space(text, 0), 0)
    if _skip_space(text, node.end) != len(text):
        raise ValueError(f"more than one value, at character {node.end}")
    return node


def get(text: str, path: KeyPath) -> Any:
    """Return the value at a path of keys, or None."""
    node = _find(parse_json(text), path)
    return None if node is None else node.value


def put(text: str, path: KeyPath, value: Any) -> str:
    """Set the value at a path of keys; missing objects on the way are created."""
    expected = parse_json(text).value
    _parent_object(expected, path[:-1])[path[-1]] = value
    return _verify_json_edit(_put(text, path, value), expected)


def append(text: str, path: KeyPath, value: Any) -> str:
    """Append an item to the list at a path; a missing list is created."""
    expected = parse_json(text).value
    items = _parent_object(expected, path[:-1]).setdefault(path[-1], [])
    if not isinstance(items, list):
        raise _type_error(path, "a list")
    items.append(value)
    node = _find(parse_json(text), path)
    return _verify_json_edit(_put(text, path, [value]) if node is None else _insert(text, node, None, value), expected)


def drop(text: str, path: KeyPath, key: str | int) -> str:
    """Remove an entry of the object or list at a path; return the text unchanged if there is none."""
    expected = parse_json(text).value
    node = _find(parse_json(text), path)
    if node is None or node.find(key) is None:
        return text
    functools.reduce(operator.getitem, path, expected).pop(key)
    while node is not None and (index := node.find(key)) is not None:
        text = _cut(text, node, index)
        node = _find(parse_json(text), path) if isinstance(key, str) else None
    return _verify_json_edit(text, expected)


def _put(text: str, path: KeyPath, value: Any) -> str:
    node, depth = parse_json(text), 0
    while depth < len(path) and (index := node.find(path[depth])) is not None:
        node, depth = node.members[index].node, depth + 1
    if depth == len(path):
        return text[: node.start] + _render(value, _indent_at(text, node.start), _indent_unit(text)) + text[node.end :]
    for key in reversed(path[depth + 1 :]):
        value = {key: value}
    return _insert(text, node, path[depth], value)


def _insert(text: str, node: JsonNode, key: str | None, value: Any) -> str:
    """Insert an entry after the last one of an object (with a key) or a list."""
    unit, outer = _indent_unit(text), _indent_at(text, node.start)
    label = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    if not node.members:
        close = node.end - 1
        inner = text[node.start + 1 : close].rstrip()  # an empty object may hold comments
        entry = f"\n{outer}{unit}{label}{_render(value, outer + unit, unit)}\n{outer}"
        return text[: node.start + 1] + inner + entry + text[close:]
    last = node.members[-1]
    if "\n" not in text[node.start : last.start]:  # all on one line
        entry = label + json.dumps(value, ensure_ascii=False)
        if last.comma >= 0:
            return text[: last.comma + 1] + f" {entry}," + text[last.comma + 1 :]
        return text[: last.node.end] + f", {entry}" + text[last.node.end :]
    indent = _indent_at(text, last.start)
    entry = f"\n{indent}{label}{_render(value, indent, unit)}"
    if last.comma >= 0:
        tail = _match_end(_TAIL, text, last.comma + 1)
        return text[:tail] + entry + "," + text[tail:]  # keep the style of a trailing comma
    tail = _match_end(_TAIL, text, last.node.end)
    return text[: last.node.end] + "," + text[last.node.end : tail] + entry + text[tail:]


def _cut(text: str, node: JsonNode, index: int) -> str:
    """Remove an entry and the comma that separates it from the rest."""
    member = node.members[index]
    start, end = len(text[: member.start].rstrip()), member.node.end
    rest = text[max(end, member.comma + 1) :].partition("\n")[0]
    if text[start - 1] not in "{[," and rest.strip():
        start = member.start  # a comment precedes it, and the text after it must not become part of that comment
    elif "\n" in text[start : member.start]:
        start = text.rindex("\n", start, member.start)
    if member.comma >= 0:
        return text[:start] + text[end : member.comma] + text[member.comma + 1 :]
    text = text[:start] + text[end:]
    if index > 0:
        comma = node.members[index - 1].comma
        return text[:comma] + text[comma + 1 :]
    close = text.index("]" if isinstance(node.value, list) else "}", node.start)
    return text if text[node.start + 1 : close].strip() else text[: node.start + 1] + text[close:]


def _verify_json_edit(text: str, expected: Any) -> str:
    try:
        result = parse_json(text).value
    except ValueError:
        result = None
    if result != expected:
        raise _edit_error()
    return text


def _find(node: JsonNode, path: KeyPath) -> JsonNode | None:
    for key in path:
        index = node.find(key)
        if index is None:
            return None
        node = node.members[index].node
    return node


def _parent_object(value: Any, path: KeyPath, kind: str = "an object") -> dict[str, Any]:
    for depth, key in enumerate(path):
        if not isinstance(value, dict):
            raise _type_error(path[:depth], kind)
        value = value.setdefault(key, {})
    if not isinstance(value, dict):
        raise _type_error(path, kind)
    return value


def _type_error(path: KeyPath, kind: str) -> ConfigError:
    return ConfigError(f"{'.'.join(path) or 'the top-level value'} is not {kind}", hint="correct it by hand first")


def _render(value: Any, indent: str, unit: str) -> str:
    return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", f"\n{indent}")


def _indent_at(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _indent_unit(text: str) -> str:
    match = re.search(r"\n([ \t]+)\S", text)
    return match[1] if match else "  "


def _match_end(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position


def _skip_space(text: str, position: int) -> int:
    return _match_end(_SPACE, text, position)


def _parse_value(text: str, position: int, depth: int) -> JsonNode:
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    if text[position : position + 1] in {"{", "["}:
        return _parse_entries(text, position, depth)
    if text[position : position + 1] in {'"', "'"}:
        return _parse_string(text, position)
    match = _BARE.match(text, position)
    if match is None:
        raise ValueError(f"a value is missing at character {position}")
    return JsonNode(position, match.end(), _parse_bare(match[0], position))


def _parse_entries(text: str, start: int, depth: int) -> JsonNode:
    keyed, close = (True, "}") if text[start] == "{" else (False, "]")
    members: list[JsonMember] = []
    position = _skip_space(text, start + 1)
    while text[position : position + 1] != close:
        if members and members[-1].comma < 0:
            raise ValueError(f"a comma is missing at character {position}")
        member_start, key = position, ""
        if keyed:
            if text[position : position + 1] in {'"', "'"}:
                name = _parse_string(text, position)
                key, position = name.value, _skip_space(text, name.end)
            elif match := _BARE.match(text, position):
                key, position = match[0], _skip_space(text, match.end())
            else:
                raise ValueError(f"a key is missing at character {position}")
            if text[position : position + 1] != ":":
                raise ValueError(f"a colon is missing at character {position}")
            position = _skip_space(text, position + 1)
        node = _parse_value(text, position, depth + 1)
        position = _skip_space(text, node.end)
        comma = position if text[position : position + 1] == "," else -1
        members.append(JsonMember(key, member_start, node, comma))
        if comma >= 0:
            position = _skip_space(text, comma + 1)
    items = [member.node.value for member in members]
    value = dict(zip([member.key for member in members], items, strict=True)) if keyed else items
    return JsonNode(start, position + 1, value, tuple(members))


def _parse_string(text: str, position: int) -> JsonNode:
    match = _STRING.match(text, position)
    if match is None:
        raise ValueError(f"the string at character {position} is not closed")
    value = _ESCAPE.sub(_unescape, match[1] if match[1] is not None else match[2])
    # Two \u escapes may be the halves of one character.
    value = value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return JsonNode(position, match.end(), value)


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    if code:
        return chr(int(code, 16))
    if match[3] in "ux":
        raise ValueError(f"\\{match[3]} without digits")
    return _ESCAPED.get(match[3], match[3])


def _parse_bare(word: str, position: int) -> Any:
    try:
        return json.loads(word)
    except ValueError:
        pass
    sign, digits = (-1, word[1:]) if word[0] == "-" else (1, word.lstrip("+"))
    try:
        return sign * (int(digits, 16) if digits[:2].lower() == "0x" else float(digits))
    except ValueError:
        raise ValueError(f"{word!r} at character {position} is not a value") from None
