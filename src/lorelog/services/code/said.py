"""What the head of a definition says about types: of parameters, of what is returned, of what a variable holds.

Read from the signature's text, which the index keeps for people; so nothing more has to be kept. Half of a type is as
good as none: what is not understood is None, and nobody guesses from it.
"""

from __future__ import annotations

import re
from functools import lru_cache

_NAME = re.compile(r"[^\W\d][\w$]*(?:(?:\.|::)[^\W\d][\w$]*)*")
_OPEN, _CLOSE = "([{<", ")]}>"
_THROUGH = re.compile(
    r"Optional|Annotated|Final|ClassVar|[Tt]ype|Required|NotRequired|ReadOnly|Awaitable|Coroutine|Readonly|Promise|Box|Rc|Arc|"
    r"Option|Mutex|RwLock|Ref"
)
"""Around a type, and of no matter to whoever asks for its members."""
_MAPPINGS = ("dict", "Dict", "Mapping", "MutableMapping", "defaultdict", "DefaultDict", "OrderedDict")
_COLLECTIONS = (
    *(
        "list",
        "List",
        "tuple",
        "Tuple",
        "set",
        "Set",
        "frozenset",
        "FrozenSet",
        "deque",
        "Deque",
        "Sequence",
        "MutableSequence",
    ),
    *(
        "Iterable",
        "Iterator",
        "Collection",
        "Container",
        "AbstractSet",
        "Generator",
        "AsyncIterable",
        "AsyncIterator",
        "AsyncGenerator",
    ),
)
_NOTHING = frozenset({"None", "null", "undefined", "void", "never", "nil"})
_TYPE_FIRST = frozenset({"java", "c", "cpp", "csharp"})


@lru_cache(maxsize=20_000)
def parameters(signature: str, language: str) -> dict[str, str]:
    """Return the parameters of a function, each with its type as it is written; empty where none is."""
    start = signature.find("(")
    if language == "go" and signature.startswith("func ("):
        start = signature.find("(", _closing(signature, start) + 1)
    if start < 0:
        return {}
    end = _closing(signature, start)
    found: dict[str, str] = {}
    for part in _split(signature[start + 1 : end], ","):
        name, said = _parameter(part.strip(), language)
        if name:
            found[name] = said
    return found


@lru_cache(maxsize=20_000)
def returned(signature: str, language: str) -> str:
    """Return the type that a function says it returns; empty where it says none."""
    if language in _TYPE_FIRST:
        before = signature.partition("(")[0].split()
        return before[-2] if len(before) > 1 else ""
    start = signature.find("(")
    if language == "go" and signature.startswith("func ("):
        start = signature.find("(", _closing(signature, start) + 1)
    if start < 0:
        return ""
    rest = signature[_closing(signature, start) + 1 :].strip()
    for mark in ("->", ":"):
        if rest.startswith(mark):
            return rest[len(mark) :].strip().rstrip("{:;=").strip()
    return rest.strip("(){ ").partition(",")[0] if language == "go" else ""


@lru_cache(maxsize=20_000)
def held(signature: str) -> tuple[str, str]:
    """Return what a variable says of itself: its type, and what it is given (as written); either may be empty."""
    place = _outside(signature, "=")
    head, value = (signature[:place], signature[place + 1 :].strip()) if place >= 0 else (signature, "")
    colon = _outside(head, ":")
    return (head[colon + 1 :].strip() if colon >= 0 else ""), value


@lru_cache(maxsize=20_000)
def types_in(said: str) -> tuple[str, ...]:
    """Return the names of the types that a type consists of: `Optional["Foo"]` is Foo, `A | None` is A, `list[Foo]` is list."""
    text = said.strip().strip("\"'").strip().lstrip("&*").removeprefix("mut ").strip()
    for mark in ("|",):
        parts = _split(text, mark)
        if len(parts) > 1:
            return tuple(dict.fromkeys(name for part in parts for name in types_in(part)))
    if text in _NOTHING or not text:
        return ()
    text = text.removeprefix("dyn ").removeprefix("impl ").removesuffix("[]").removesuffix("?").rstrip("*& ")
    found = _NAME.match(text)
    if found is None:
        return ()
    name, rest = found[0].replace("::", "."), text[found.end() :].strip()
    last = name.rpartition(".")[2]
    if rest[:1] in {"[", "<"} and (last == "Union" or _THROUGH.fullmatch(last)):
        inner = _split(rest[1 : _closing(rest, 0)], ",")
        if last == "Coroutine":
            inner = inner[-1:]
        elif last != "Union":
            inner = inner[:1]
        return tuple(dict.fromkeys(one for part in inner for one in types_in(part)))
    return (name,)


@lru_cache(maxsize=20_000)
def element(said: str, *, key: bool = False) -> str:
    """Return the type of what is in something of a type: `Foo` of `list[Foo]`; of a mapping its values', or its keys'."""
    for part in _split(said.strip().strip("\"'"), "|"):
        found = _NAME.match(part.strip())
        rest = part.strip()[found.end() :].strip() if found else ""
        if found is None or not rest.startswith("["):
            continue
        inner = [one.strip() for one in _split(rest[1 : _closing(rest, 0)], ",")]
        last = found[0].rpartition(".")[2]
        if last == "Optional":
            return element(inner[0], key=key)
        if last in _MAPPINGS:
            return inner[0] if key else inner[-1]
        return inner[0] if last in _COLLECTIONS else ""
    return ""


@lru_cache(maxsize=20_000)
def made_by(value: str) -> tuple[str, str]:
    """Return what makes a value: `("call", "pkg.Foo")` for a call, `("name", "self.x")` for a plain name, else two empty texts."""
    text = value.strip().removeprefix("await ").removeprefix("new ").lstrip("&").strip()
    found = _NAME.match(text)
    if found is None:
        return "", ""
    rest = text[found.end() :].strip()
    name = found[0].replace("::", ".")
    if not rest or rest[0] in ",;":
        return "name", name
    whole = rest[0] == "(" and _closing(rest, 0) >= len(rest.rstrip(";")) - 1  # or cut off, as signatures are
    return ("call", name) if whole or rest[0] == "{" else ("", "")


def _parameter(part: str, language: str) -> tuple[str, str]:
    if language in _TYPE_FIRST:
        words = part.partition("=")[0].replace("*", " ").replace("&", " ").split()
        return (words[-1], words[-2]) if len(words) > 1 else ("", "")
    if language == "go":
        name, _, said = part.partition(" ")
        return name, said.strip()
    equals = _outside(part, "=")
    head = part[:equals] if equals >= 0 else part
    colon = _outside(head, ":")
    name, said = (head[:colon], head[colon + 1 :]) if colon >= 0 else (head, "")
    words = name.replace("?", " ").strip().lstrip("*&.").split()
    if part.startswith("*") and language == "python":
        said = "tuple" if not part.startswith("**") else "dict"
    return (words[-1] if words else ""), said.strip()


def _closing(text: str, start: int) -> int:
    """Return where a bracket is closed; the text's length where it is not."""
    depth, quote = 0, ""
    for place in range(start, len(text)):
        letter = text[place]
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in _OPEN:
            depth += 1
        elif letter in _CLOSE and text[place - 1 : place + 1] not in {"->", "=>"}:
            depth -= 1
            if depth == 0:
                return place
    return len(text)


def _split(text: str, mark: str) -> list[str]:
    """Return the parts of a text between marks that are inside no bracket."""
    parts, last = [], 0
    for place in _places(text, mark):
        parts.append(text[last:place])
        last = place + 1
    return [*parts, text[last:]]


def _outside(text: str, mark: str) -> int:
    """Return where a mark first stands inside no bracket, and is not part of an operator; -1 where nowhere."""
    for place in _places(text, mark):
        around = text[max(0, place - 1) : place + 2]
        if mark == "=" and (around[:1] in "!<>=+-*/%&|^~" or around.endswith(("==", "=>"))):
            continue
        if mark == ":" and ("::" in around or ":=" in around):
            if ":=" in around:
                return -1
            continue
        return place
    return -1


def _places(text: str, mark: str) -> list[int]:
    found, depth, quote = [], 0, ""
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'" and mark not in "\"'":
            quote = letter
        elif letter in _OPEN:
            depth += 1
        elif letter in _CLOSE and text[place - 1 : place + 1] not in {"->", "=>"}:
            depth -= 1
        elif letter == mark and depth <= 0:
            found.append(place)
    return found
