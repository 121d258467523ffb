"""Parse type annotations out of Python signatures: parameters, return types, variables and elements of collections.

The input is the signature text that the index stores for display, so no type information is stored separately. Parsing
never guesses: an annotation that is not understood gives an empty result. Base classes of all languages go through
`type_names`, which therefore also accepts `::`, `&` and `*`.
"""

from __future__ import annotations

import re
from functools import lru_cache

_NAME = re.compile(r"[^\W\d][\w$]*(?:(?:\.|::)[^\W\d][\w$]*)*")
_OPEN, _CLOSE = "([{<", ")]}>"
_TRANSPARENT_WRAPPERS = re.compile(
    r"Optional|Annotated|Final|ClassVar|[Tt]ype|Required|NotRequired|ReadOnly|Awaitable|Coroutine"
)
"""Generic types whose members are those of their argument."""
_MAPPINGS = re.compile(r"dict|Dict|Mapping|MutableMapping|defaultdict|DefaultDict|OrderedDict")
_COLLECTIONS = re.compile(
    r"list|List|tuple|Tuple|set|Set|frozenset|FrozenSet|deque|Deque|Sequence|MutableSequence|Iterable|Iterator|Collection|"
    r"Container|AbstractSet|Generator|AsyncIterable|AsyncIterator|AsyncGenerator"
)


@lru_cache(maxsize=20_000)
def parameter_types(signature: str) -> dict[str, str]:
    """Return the parameters of a function with their annotations; an empty annotation where there is none."""
    start = signature.find("(")
    if start < 0:
        return {}
    inside = signature[start + 1 : _closing_bracket(signature, start)]
    return {name: annotation for name, annotation in map(_parse_parameter, _split_top_level(inside, ",")) if name}


@lru_cache(maxsize=20_000)
def return_type(signature: str) -> str:
    """Return the return annotation of a function, or an empty string."""
    start = signature.find("(")
    if start < 0:
        return ""
    rest = signature[_closing_bracket(signature, start) + 1 :].strip()
    return rest[2:].strip().rstrip("{:;=").strip() if rest.startswith("->") else ""


@lru_cache(maxsize=20_000)
def variable_annotation(signature: str) -> tuple[str, str]:
    """Return the annotation and the assigned value of a variable as written; either may be empty."""
    equals = _find_top_level(signature, "=")
    head, value = (signature[:equals], signature[equals + 1 :].strip()) if equals >= 0 else (signature, "")
    colon = _find_top_level(head, ":")
    return (head[colon + 1 :].strip() if colon >= 0 else ""), value


@lru_cache(maxsize=20_000)
def type_names(annotation: str) -> tuple[str, ...]:
    """Return the type names: `Optional["Foo"]` gives Foo, `A | None` gives A, `list[Foo]` gives list."""
    text = annotation.strip().strip("\"'").strip().lstrip("&*").strip()
    parts = _split_top_level(text, "|")
    if len(parts) > 1:
        return tuple(dict.fromkeys(name for part in parts for name in type_names(part)))
    match = _NAME.match(text)
    if match is None or text == "None":
        return ()
    name, rest = match[0].replace("::", "."), text[match.end() :].strip()
    last = name.rpartition(".")[2]
    if rest.startswith("[") and (last == "Union" or _TRANSPARENT_WRAPPERS.fullmatch(last)):
        inner = _split_top_level(rest[1 : _closing_bracket(rest, 0)], ",")
        if last == "Coroutine":
            inner = inner[-1:]
        elif last != "Union":
            inner = inner[:1]
        return tuple(dict.fromkeys(type_name for part in inner for type_name in type_names(part)))
    return (name,)


@lru_cache(maxsize=20_000)
def element_annotation(annotation: str, *, key: bool = False) -> str:
    """Return the element type of a collection (`Foo` for `list[Foo]`), or the type of a mapping's values or keys."""
    for part in _split_top_level(annotation.strip().strip("\"'"), "|"):
        match = _NAME.match(part.strip())
        rest = part.strip()[match.end() :].strip() if match else ""
        if match is None or not rest.startswith("["):
            continue
        inner = [argument.strip() for argument in _split_top_level(rest[1 : _closing_bracket(rest, 0)], ",")]
        last = match[0].rpartition(".")[2]
        if last == "Optional":
            return element_annotation(inner[0], key=key)
        if _MAPPINGS.fullmatch(last):
            return inner[0] if key else inner[-1]
        return inner[0] if _COLLECTIONS.fullmatch(last) else ""
    return ""


@lru_cache(maxsize=20_000)
def value_origin(value: str) -> tuple[str, str]:
    """Return `("call", "pkg.Foo")` for a call, `("name", "self.x")` for a plain name, else two empty strings."""
    text = value.strip().removeprefix("await ").strip()
    match = _NAME.match(text)
    if match is None:
        return "", ""
    rest = text[match.end() :].strip()
    if not rest or rest[0] in ",;":
        return "name", match[0]
    # Signatures may be truncated, so an unclosed bracket counts as the whole call.
    is_call = rest[0] == "(" and _closing_bracket(rest, 0) >= len(rest.rstrip(";")) - 1
    return ("call", match[0]) if is_call else ("", "")


def _parse_parameter(text: str) -> tuple[str, str]:
    parameter = text.strip()
    equals = _find_top_level(parameter, "=")
    head = parameter[:equals] if equals >= 0 else parameter
    colon = _find_top_level(head, ":")
    name, annotation = (head[:colon], head[colon + 1 :]) if colon >= 0 else (head, "")
    if parameter.startswith("*"):
        annotation = "dict" if parameter.startswith("**") else "tuple"
    return name.strip().lstrip("*").strip(), annotation.strip()


def _closing_bracket(text: str, start: int) -> int:
    """Return the position of the bracket that closes the one at `start`, or the length of the text."""
    depth, quote = 0, ""
    for position in range(start, len(text)):
        letter = text[position]
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in _OPEN:
            depth += 1
        elif letter in _CLOSE and text[position - 1 : position + 1] != "->":
            depth -= 1
            if depth == 0:
                return position
    return len(text)


def _split_top_level(text: str, separator: str) -> list[str]:
    """Split a text at separators outside of brackets and quotes."""
    parts, start = [], 0
    for position in _top_level_positions(text, separator):
        parts.append(text[start:position])
        start = position + 1
    return [*parts, text[start:]]


def _find_top_level(text: str, mark: str) -> int:
    """Return the first position of `=` or `:` outside of brackets and operators, or -1."""
    for position in _top_level_positions(text, mark):
        around = text[max(0, position - 1) : position + 2]
        if mark == "=" and (around[:1] in "!<>=+-*/%&|^~" or around.endswith("==")):
            continue
        if mark == ":" and ":=" in around:
            return -1
        return position
    return -1


def _top_level_positions(text: str, mark: str) -> list[int]:
    positions, depth, quote = [], 0, ""
    for position, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in _OPEN:
            depth += 1
        elif letter in _CLOSE and text[position - 1 : position + 1] != "->":
            depth -= 1
        elif letter == mark and depth <= 0:
            positions.append(position)
    return positions
