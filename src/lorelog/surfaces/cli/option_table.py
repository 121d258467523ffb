"""A parser of common command lines that stands in for argparse, whose import takes as long as Python takes to start.

A command declares its options once, in `configure`. Given an `OptionTable` there, the declarations are kept in a table, by
which a plain command line is read: options by their full names, values that do not begin with a dash, arguments in one
piece. For anything else (help, a fault, `-k5`, `--`) `parse` returns None, and argparse parses the same words by the same
declarations. A test compares both on generated command lines.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_FLAGS = {"store_true": True, "store_false": False}
_ACTIONS = ("store", "append", "store_const", *_FLAGS)


class ParsedArguments:
    """The values of a command line, as attributes."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__ = values


class _UnusualWords(Exception):
    """These words are for argparse."""


class _Declaration:
    """An option or argument."""

    __slots__ = ("action", "choices", "const", "convert", "default", "dest", "group", "is_global", "nargs", "required")

    def __init__(self, names: Sequence[str], action: str, nargs: str | None, group: object) -> None:
        long_name = next((name for name in names if name.startswith("--")), names[0])
        self.dest = long_name.lstrip("-").replace("-", "_") if names[0].startswith("-") else names[0]
        self.action, self.nargs, self.group = action, nargs, group
        self.const: Any = _FLAGS.get(action)
        self.default: Any = None if self.const is None else not self.const
        self.convert: Callable[[str], Any] | None = None
        self.choices: Any = None
        self.required = self.is_global = False

    def value(self, word: str) -> Any:
        """Return the value of a word."""
        try:
            value = self.convert(word) if self.convert else word
        except Exception:  # noqa: BLE001  (argparse reports it, and its class for that is not imported here)
            raise _UnusualWords from None
        if self.choices is not None and value not in self.choices:
            raise _UnusualWords
        return value


class _ExclusiveGroup:
    """Options of which one may be given."""

    def __init__(self, table: OptionTable) -> None:
        self._table = table

    def add_argument(self, *names: str, **declared: Any) -> _Declaration:
        """Declare an option of the group."""
        return self._table.declare(names, declared, self)


class _Verbs:
    """The verbs of a command, each with a table of its own."""

    def __init__(self, dest: str, *, required: bool) -> None:
        self.dest, self.required = dest, required
        self.tables: dict[str, OptionTable] = {}

    def add_parser(self, name: str, **_: Any) -> OptionTable:
        """Declare a verb."""
        self.tables[name] = OptionTable()
        return self.tables[name]


class OptionTable:
    """The declarations of a command. It takes those of argparse that commands use."""

    formatter_class = None
    unset = object()
    """The default of an option that has no value at all if it is not given."""

    def __init__(self) -> None:
        self._options: dict[str, _Declaration] = {}
        self._places: list[_Declaration] = []
        self._actions: list[_Declaration] = []
        self._verbs: _Verbs | None = None

    def add_argument(self, *names: str, **declared: Any) -> _Declaration:
        """Declare an option or argument."""
        return self.declare(names, declared, None)

    def add_argument_group(self, _title: str) -> OptionTable:
        """Declare a part of the help text."""
        return self

    def add_mutually_exclusive_group(self) -> _ExclusiveGroup:
        """Declare options that exclude each other."""
        return _ExclusiveGroup(self)

    def add_subparsers(self, *, dest: str, required: bool = False, **_: Any) -> _Verbs:
        """Declare that verbs follow."""
        self._verbs = _Verbs(dest, required=required)
        return self._verbs

    def declare(self, names: Sequence[str], declared: dict[str, Any], group: object) -> _Declaration:
        """Keep a declaration. Raise ValueError for one that argparse alone understands."""
        action = declared.get("action", "store")
        is_option, nargs = names[0].startswith("-"), declared.get("nargs")
        if action not in _ACTIONS or nargs not in ((None,) if is_option else (None, "?", "*", "+")):
            raise ValueError(f"a table has no action {action!r} of {names[0]} with {nargs!r}")
        entry = _Declaration(names, action, nargs, group)
        for name, value in declared.items():
            if name in {"dest", "default", "const", "choices", "required"}:
                setattr(entry, name, value)
        entry.convert = declared.get("type")
        if entry.convert is not None and isinstance(entry.default, str):
            raise ValueError(f"{names[0]} has a text as its default, which argparse would convert")
        if is_option:
            self._options.update(dict.fromkeys(names, entry))
        else:
            self._places.append(entry)
        self._actions.append(entry)
        return entry

    def parse(self, words: Sequence[str]) -> ParsedArguments | None:
        """Return the values of a command line, or None if argparse has to parse it."""
        try:
            return ParsedArguments(self._read(words))
        except _UnusualWords:
            return None

    def _read(self, words: Sequence[str]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for entry in self._actions:
            if entry.default is not self.unset:
                values.setdefault(entry.dest, entry.default)
        if self._verbs is not None:
            values.setdefault(self._verbs.dest, None)
        given: list[_Declaration] = []
        arguments: list[str] = []
        end = at = 0
        while at < len(words):
            word = words[at]
            at += 1
            if word.startswith("-"):
                at = self._take_option(word, words, at, values, given)
            elif self._verbs is not None:
                values |= self._read_verb(word, words[at:])
                break
            else:
                if arguments and end != at - 1:  # not in one piece
                    raise _UnusualWords
                arguments.append(word)
                end = at
        else:
            if self._verbs is not None and self._verbs.required:
                raise _UnusualWords
        self._place(arguments, values, given)
        self._check(given)
        return values

    def _read_verb(self, verb: str, words: Sequence[str]) -> dict[str, Any]:
        if self._verbs is None or self._places or verb not in self._verbs.tables:
            raise _UnusualWords
        return {self._verbs.dest: verb, **self._verbs.tables[verb]._read(words)}  # noqa: SLF001

    def _take_option(
        self, word: str, words: Sequence[str], at: int, values: dict[str, Any], given: list[_Declaration]
    ) -> int:
        """Take an option, and return the position of the word after it and its value."""
        name, equals, text = word.partition("=") if word.startswith("--") else (word, "", "")
        entry = self._options.get(name)
        if entry is None:
            raise _UnusualWords
        given.append(entry)
        if entry.action not in {"store", "append"}:
            if equals:
                raise _UnusualWords
            values[entry.dest] = entry.const
            return at
        if not equals:
            text = words[at] if at < len(words) else "-"
            at += 1
        if text.startswith("-") or (equals and not text):
            raise _UnusualWords
        value = entry.value(text)
        values[entry.dest] = [*(values.get(entry.dest) or ()), value] if entry.action == "append" else value
        return at

    def _place(self, words: list[str], values: dict[str, Any], given: list[_Declaration]) -> None:
        """Give the words that are no options to the arguments; only the last one may take any number."""
        *firsts, last = self._places or (None,)
        if last is None:
            if words:
                raise _UnusualWords
            return
        count = len(words) - len(firsts)
        fits = {None: count == 1, "?": count in (0, 1), "*": count >= 0, "+": count >= 1}
        if not fits[last.nargs] or any(entry is None or entry.nargs for entry in firsts):
            raise _UnusualWords
        for entry, word in zip(firsts, words, strict=False):
            if entry is not None:
                values[entry.dest] = entry.value(word)
                given.append(entry)
        rest = [last.value(word) for word in words[len(firsts) :]]
        if rest:
            values[last.dest] = rest[0] if last.nargs in (None, "?") else rest
            given.append(last)
        elif last.nargs == "*" and last.default is None:
            values[last.dest] = []

    def _check(self, given: list[_Declaration]) -> None:
        """Leave to argparse what lacks an option, or has two that exclude each other."""
        if any(entry.required and entry not in given for entry in self._actions):
            raise _UnusualWords
        groups = [entry.group for entry in dict.fromkeys(given) if entry.group is not None]
        if len(groups) != len(set(groups)):
            raise _UnusualWords
