"""Changes single entries of a JSON text and leaves every other byte as it is: comments, order, spacing, numbers.

A host's configuration belongs to its person. Parsing and writing it anew would lose comments (OpenClaw reads JSON5) and turn
a change of one line into a change of the file. So the text is scanned for where its values stand, and only there is cut.

Every edit is checked: the new text must read as the old one plus what was meant, else ConfigError is raised and nothing is
written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lorelog.core.errors import ConfigError

Path = Sequence[str]

_SPACE = re.compile(r"(?:\s|\ufeff|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_TAIL = re.compile(r"[ \t]*(?:/\*[^\n]*?\*/[ \t]*)*(?://[^\n]*)?")
"""What stands behind a value on its own line."""
_BARE = re.compile(r"[^\s,:\[\]{}\"'/]+")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": ""}
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}
_DEEPEST = 200


@dataclass(frozen=True, slots=True)
class Node:
    """A value and where it stands in the text; an object's members and an array's items with it."""

    start: int
    end: int
    value: Any
    members: tuple[Member, ...] = ()

    def find(self, key: str) -> Member | None:
        """Return a member by its key; of two, the last: that is the one which counts."""
        return next((one for one in reversed(self.members) if one.key == key), None)


@dataclass(frozen=True, slots=True)
class Member:
    """One entry of an object or array: where it begins, and where the comma behind it stands (or -1)."""

    key: str
    start: int
    node: Node
    comma: int = field(default=-1)


def read(text: str) -> Node:
    """Scan a JSON text, with comments and what else JSON5 allows. Raise ValueError where it is none."""
    begin = _skip(text, 0)
    node = _value(text, begin, 0)
    if _skip(text, node.end) != len(text):
        raise ValueError(f"more than one value, at character {node.end}")
    return node


def put(text: str, path: Path, value: Any) -> str:
    """Set what stands at a path of keys; objects on the way are made."""
    meant = read(text).value
    holder = _holder(meant, path[:-1])
    holder[path[-1]] = value
    return _checked(_put(text, path, value), meant)


def append(text: str, path: Path, value: Any) -> str:
    """Add an item to the list at a path, which is made where there is none."""
    meant = read(text).value
    holder = _holder(meant, path[:-1])
    items = holder.setdefault(path[-1], [])
    if not isinstance(items, list):
        raise _unfit(path, "a list")
    items.append(value)
    node = _find(read(text), path)
    if node is None:
        return _checked(_put(text, path, [value]), meant)
    return _checked(_insert(text, node, None, value), meant)


def drop(text: str, path: Path) -> str:
    """Take away the entry at a path of keys; nothing happens where there is none."""
    meant = read(text).value
    holder = _find(read(text), path[:-1])
    if holder is None or not isinstance(holder.value, dict) or path[-1] not in holder.value:
        return text
    _holder(meant, path[:-1]).pop(path[-1])
    while (node := _find(read(text), path[:-1])) and (member := node.find(path[-1])):
        text = _cut(text, node, node.members.index(member))
    return _checked(text, meant)


def drop_item(text: str, path: Path, index: int) -> str:
    """Take away one item of the list at a path."""
    meant = read(text).value
    node = _find(read(text), path)
    if node is None or not isinstance(node.value, list):
        raise _unfit(path, "a list")
    _holder(meant, path[:-1])[path[-1]].pop(index)
    return _checked(_cut(text, node, index), meant)


def at(text: str, path: Path) -> Any:
    """Return the value at a path of keys, or None."""
    node = _find(read(text), path)
    return None if node is None else node.value


def _put(text: str, path: Path, value: Any) -> str:
    node, depth = read(text), 0
    for key in path:
        member = node.find(key)
        if member is None:
            break
        node, depth = member.node, depth + 1
    if depth == len(path):
        return text[: node.start] + _rendered(value, _indent_at(text, node.start), _unit(text)) + text[node.end :]
    for key in reversed(path[depth + 1 :]):
        value = {key: value}
    return _insert(text, node, path[depth], value)


def _insert(text: str, node: Node, key: str | None, value: Any) -> str:
    """Put an entry behind the last one of an object (with a key) or a list."""
    unit, outer = _unit(text), _indent_at(text, node.start)
    label = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    if not node.members:
        close = node.end - 1
        inner = text[node.start + 1 : close].rstrip()  # comments may stand in an empty object
        entry = f"\n{outer}{unit}{label}{_rendered(value, outer + unit, unit)}\n{outer}"
        return text[: node.start + 1] + inner + entry + text[close:]
    last = node.members[-1]
    if "\n" not in text[node.start : last.start]:  # written on one line
        entry = label + json.dumps(value, ensure_ascii=False)
        if last.comma >= 0:
            return text[: last.comma + 1] + f" {entry}," + text[last.comma + 1 :]
        return text[: last.node.end] + f", {entry}" + text[last.node.end :]
    indent = _indent_at(text, last.start)
    entry = f"\n{indent}{label}{_rendered(value, indent, unit)}"
    if last.comma >= 0:
        place = _tail(text, last.comma + 1)
        return text[:place] + entry + "," + text[place:]  # who ends the last line with a comma goes on so
    place = _tail(text, last.node.end)
    return text[: last.node.end] + "," + text[last.node.end : place] + entry + text[place:]


def _cut(text: str, node: Node, index: int) -> str:
    """Take an entry out, with the comma that parted it from the rest."""
    member = node.members[index]
    start, end = len(text[: member.start].rstrip()), member.node.end
    if text[start - 1] not in "{[," and _rest_of_line(text, max(end, member.comma + 1)).strip():
        start = member.start  # a comment stands before it, and what stands behind it must not become a part of that
    elif "\n" in text[start : member.start]:
        start = text.rindex("\n", start, member.start)
    if member.comma >= 0:
        return text[:start] + text[end : member.comma] + text[member.comma + 1 :]
    text = text[:start] + text[end:]
    if index > 0:
        comma = node.members[index - 1].comma
        text = text[:comma] + text[comma + 1 :]
    elif not text[node.start + 1 : text.index("]" if isinstance(node.value, list) else "}", node.start)].strip():
        close = text.index("]" if isinstance(node.value, list) else "}", node.start)
        text = text[: node.start + 1] + text[close:]
    return text


def _checked(text: str, meant: Any) -> str:
    try:
        found = read(text).value
    except ValueError:
        found = None
    if found != meant:
        raise ConfigError("it cannot be changed without risk to what it says", hint="make the change by hand")
    return text


def _find(node: Node, path: Path) -> Node | None:
    for key in path:
        member = node.find(key) if isinstance(node.value, dict) else None
        if member is None:
            return None
        node = member.node
    return node


def _holder(value: Any, path: Path) -> dict[str, Any]:
    for depth, key in enumerate(path):
        if not isinstance(value, dict):
            raise _unfit(path[:depth], "an object")
        value = value.setdefault(key, {})
    if not isinstance(value, dict):
        raise _unfit(path, "an object")
    return value


def _unfit(path: Path, kind: str) -> ConfigError:
    return ConfigError(f"{'.'.join(path) or 'the whole'} is not {kind} there", hint="correct it by hand first")


def _rendered(value: Any, indent: str, unit: str) -> str:
    return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", f"\n{indent}")


def _indent_at(text: str, place: int) -> str:
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    """Return what the text is indented by."""
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else "  "


def _rest_of_line(text: str, place: int) -> str:
    end = text.find("\n", place)
    return text[place:] if end < 0 else text[place:end]


def _tail(text: str, place: int) -> int:
    found = _TAIL.match(text, place)
    return found.end() if found else place


def _skip(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return found.end() if found else place


def _value(text: str, place: int, depth: int) -> Node:
    if depth > _DEEPEST:
        raise ValueError("nested too deeply")
    first = text[place : place + 1]
    if first in {"{", "["}:
        return _entries(text, place, depth)
    if first in {'"', "'"}:
        return _string(text, place)
    found = _BARE.match(text, place)
    if found is None:
        raise ValueError(f"a value is missing at character {place}")
    return Node(place, found.end(), _bare(found[0], place))


def _entries(text: str, place: int, depth: int) -> Node:
    keyed, close = (True, "}") if text[place] == "{" else (False, "]")
    members: list[Member] = []
    here = _skip(text, place + 1)
    while text[here : here + 1] != close:
        if members and members[-1].comma < 0:
            raise ValueError(f"a comma is missing at character {here}")
        start, key = here, ""
        if keyed:
            name = _key(text, here)
            key, here = name.value, _skip(text, name.end)
            if text[here : here + 1] != ":":
                raise ValueError(f"a colon is missing at character {here}")
            here = _skip(text, here + 1)
        node = _value(text, here, depth + 1)
        here = _skip(text, node.end)
        comma = here if text[here : here + 1] == "," else -1
        members.append(Member(key, start, node, comma))
        if comma >= 0:
            here = _skip(text, comma + 1)
    value: Any = {one.key: one.node.value for one in members} if keyed else [one.node.value for one in members]
    return Node(place, here + 1, value, tuple(members))


def _key(text: str, place: int) -> Node:
    if text[place : place + 1] in {'"', "'"}:
        return _string(text, place)
    found = _BARE.match(text, place)
    if found is None:
        raise ValueError(f"a key is missing at character {place}")
    return Node(place, found.end(), found[0])


def _string(text: str, place: int) -> Node:
    quote, here = text[place], place + 1
    out: list[str] = []
    while here < len(text):
        letter = text[here]
        if letter == quote:
            return Node(place, here + 1, _paired("".join(out)))
        if letter == "\\":
            letter, here = _escape(text, here + 1)
        elif letter == "\n":
            break
        else:
            here += 1
        out.append(letter)
    raise ValueError(f"a text that begins at character {place} does not end")


def _escape(text: str, here: int) -> tuple[str, int]:
    """Return what an escape stands for, and where the text goes on."""
    letter = text[here : here + 1]
    if letter in {"u", "x"}:
        size = 4 if letter == "u" else 2
        return chr(int(text[here + 1 : here + 1 + size], 16)), here + 1 + size
    return _ESCAPES.get(letter, letter), here + 1


def _paired(text: str) -> str:
    """Return a text in which two halves of a character have become one."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _bare(word: str, place: int) -> Any:
    if word in _WORDS:
        return _WORDS[word]
    try:
        return json.loads(word)
    except ValueError:
        pass
    sign, digits = (-1, word[1:]) if word[0] == "-" else (1, word.lstrip("+"))
    try:
        return sign * (int(digits, 16) if digits[:2].lower() == "0x" else float(digits))
    except ValueError:
        raise ValueError(f"{word!r} at character {place} is no value") from None
