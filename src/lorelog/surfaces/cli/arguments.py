"""Arguments of commands: their declaration, the options that several commands share, and a parser of common command lines.

A command declares its arguments once (`declare`). Given an `OptionTable` there, the declarations are kept in a table, by which
a plain command line is read without argparse, whose import takes as long as Python takes to start: options by their full
names, values that do not begin with a dash, arguments in one piece. For anything else (help, a fault, `-k5`, `--`) `parse`
returns None, and argparse parses the same words by the same declarations. A test compares both on generated command lines.
"""

from __future__ import annotations

import os
import sys

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.commands import DEFAULT_VERBS, GLOBAL_OPTIONS, find_function, load_module, read_derived

TYPE_CHECKING = False

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from types import SimpleNamespace
    from typing import Any
else:
    SimpleNamespace = type(sys.implementation)  # `types.SimpleNamespace`; the module `types` is slow to import


def port_number(text: str) -> int:
    """Return a number from 0 to 65535; a type of arguments."""
    try:
        number = int(text)
    except ValueError:
        raise _value_fault(f"must be a whole number (got {text!r})") from None
    if not 0 <= number <= 65_535:
        raise _value_fault(f"must be at {'least 0' if number < 0 else 'most 65535'} (got {number})")
    return number


def _value_fault(message: str) -> Exception:
    from argparse import ArgumentTypeError

    return ArgumentTypeError(message)


def fraction(text: str) -> float:
    """Return a number from 0 to 1; a type of arguments."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise _value_fault(f"must be a number from 0 to 1, such as 0.5 (got {text})")
    return number


DAEMON_MODES = ("auto", "off", "required")


_TYPES = {"int": int, "float": float, "fraction": fraction}


def declare(parser: argparse.ArgumentParser, name: str) -> dict[str, Any]:
    """Declare the arguments of a command and its verbs. Return what is derived from operations, by words."""
    derived = read_derived(name)
    configure = getattr(load_module(name), "configure", None)
    parser.default_verb = DEFAULT_VERBS.get(name, "")  # type: ignore[attr-defined]
    if name in derived and not configure:
        _declare_derived(parser, derived[name])
        return derived
    configure = configure or (None if derived else find_function(name, "configure"))
    if configure:
        configure(parser)
        return derived
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    default = f"{name} {DEFAULT_VERBS.get(name, '')}"
    configure_default = find_function(default, "configure")
    if configure_default and default not in derived:  # the others call an operation
        summary = (configure_default.__doc__ or "").removesuffix(".")
        configure_default(add_verb(parser, verbs, DEFAULT_VERBS[name], summary[:1].lower() + summary[1:]))
    for words, command in derived.items():
        _declare_derived(add_verb(parser, verbs, words.partition(" ")[2], command["summary"]), command)
    return derived


def _declare_derived(parser: argparse.ArgumentParser, command: dict[str, Any]) -> None:
    """Declare the arguments that are derived from an operation, those of the shell alone, and those of all commands."""
    add_arguments(parser, command["arguments"])
    configure = find_function(command["words"], "configure")
    if configure:
        configure(parser)
    add_shared(parser, "json", "project", "tenant", "daemon")


def search_filters() -> list[Any]:
    """Return the filters of `search`, for other commands that search."""
    return [argument for argument in read_derived("search")["search"]["arguments"] if argument.get("group")]


def add_arguments(parser: argparse.ArgumentParser, arguments: Sequence[Any]) -> None:
    """Declare arguments that are derived from the fields of a request."""
    groups: dict[str, Any] = {}
    for argument in arguments:
        options = argument["options"]
        if "type" in options:
            options["type"] = _TYPES[options["type"]]
        if argument["names"][0].startswith("-"):
            options["dest"] = argument["field"]
        title, exclusive = argument.get("group", ""), argument.get("exclusive", "")
        if title and title not in groups:
            groups[title] = parser.add_argument_group(title)
        elif exclusive and exclusive not in groups:
            groups[exclusive] = parser.add_mutually_exclusive_group()
        groups.get(title or exclusive, parser).add_argument(*argument["names"], **options)


def request_of(args: argparse.Namespace, arguments: Sequence[Any] | None = None) -> dict[str, Any]:
    """Return the given options as arguments of an operation: those of a derived command, or `arguments`."""
    request: dict[str, Any] = {}
    for argument in args.derived["arguments"] if arguments is None else arguments:
        value, options = getattr(args, argument["field"]), argument["options"]
        not_given = {"store_true": False, "store_false": True}.get(options.get("action", ""))
        if value is None or value == [] or (value is not_given and "default" not in options):
            continue
        if argument.get("joined"):
            value = " ".join(value)
        if argument.get("path"):
            value = expand_path(value) if isinstance(value, str) else [expand_path(path) for path in value]
        request[argument["field"]] = value
    return request


_SHARED: dict[str, dict[str, Any]] = {
    "json": {"action": "store_true", "help": "print JSON instead of text (lorelog docs json)"},
    "project": {"metavar": "DIR", "help": "use the project of DIR instead of the current directory"},
    "tenant": {"metavar": "NAME", "help": "use another tenant's memories (scope.tenant)"},
    "daemon": {
        "dest": "warm",
        "choices": DAEMON_MODES,
        "help": "use the daemon: auto, never (off), or require it (daemon.warm)",
    },
    "port": {"type": port_number, "metavar": "N", "help": "port; 0 chooses a free one (http.port)"},
}


def add_shared(parser: argparse.ArgumentParser, *names: str) -> None:
    """Declare options that mean the same for every command: json, project, tenant, daemon, port.

    The help of a command only names those of them that most commands take; `lorelog help options` explains these.
    """
    for name in names:
        option = parser.add_argument(f"--{name}", **_SHARED[name])
        option.is_global = f"--{name}" in GLOBAL_OPTIONS  # type: ignore[attr-defined]


def add_flags(parser: Any, **helps: str) -> None:
    """Declare flags of a parser or group with their help: `dry_run` is --dry-run."""
    for name, text in helps.items():
        parser.add_argument(f"--{name.replace('_', '-')}", action="store_true", help=text)


def add_verb(parser: argparse.ArgumentParser, verbs: Any, name: str, help_text: str) -> argparse.ArgumentParser:
    """Declare a verb of a command, with the command's formatter: argparse's default one imports `shutil`."""
    verb: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=help_text,
        description=f"{help_text[:1].upper()}{help_text[1:]}.",
        formatter_class=parser.formatter_class,
        allow_abbrev=False,
    )
    return verb


_SETTING_OPTIONS = (
    ("--provider", "LORELOG_EMBEDDING_PROVIDER", "NAME", "who embeds text (embedding.provider)"),
    ("--model", "LORELOG_EMBEDDING_MODEL", "NAME", "the provider's model (embedding.model)"),
    ("--base-url", "LORELOG_EMBEDDING_BASE_URL", "URL", "the provider's server (embedding.base_url)"),
    ("--batch-size", "LORELOG_EMBEDDING_BATCH_SIZE", "N", "texts embedded in one call (embedding.batch_size)"),
    ("--milvus-uri", "LORELOG_STORE_URI", "URI", "where the search index is kept (store.uri)"),
    (
        "--collection",
        "LORELOG_STORE_COLLECTION",
        "NAME",
        "what names of Milvus collections begin with (store.collection)",
    ),
)
_CHUNKING_OPTIONS = (
    ("--max-chunk-size", "LORELOG_CHUNKING_MAX_CHUNK_SIZE", "N", "characters of a chunk (chunking.max_chunk_size)"),
    ("--overlap-lines", "LORELOG_CHUNKING_OVERLAP_LINES", "N", "lines that chunks share (chunking.overlap_lines)"),
)


def add_setting_options(parser: argparse.ArgumentParser, *, chunking: bool = False) -> None:
    """Declare options that change a setting for this command: as the variable that its destination is."""
    group = parser.add_argument_group("settings for this command only")
    for flag, variable, metavar, help_text in (*_SETTING_OPTIONS, *(_CHUNKING_OPTIONS if chunking else ())):
        group.add_argument(flag, dest=variable, metavar=metavar, help=help_text)


def option_of_variable(variable: str) -> str:
    """Return the option that sets a variable."""
    return next(flag for flag, name, _, _ in (*_SETTING_OPTIONS, *_CHUNKING_OPTIONS) if name == variable)


def parse_host(word: str) -> str:
    """Return the canonical name of a host whose sessions are captured. Raise UsageError if there is none."""
    from lorelog.hosts import HOSTS, resolve_host

    host = resolve_host(word)
    if not host:
        from lorelog.hosts.documented import ALL_TITLES, resolve_any_host

        documented = resolve_any_host(word)
        problem = (
            f"sessions of {ALL_TITLES[documented]} are not captured" if documented else f"there is no host {word!r}"
        )
        raise UsageError(problem, hint=f"one of {', '.join(HOSTS)}")
    return host


def parse_any_host(word: str) -> str:
    """Return the canonical name of a host that lorelog can be installed into. Raise UsageError if it is unknown."""
    from lorelog.hosts.documented import ALL_TITLES, resolve_any_host

    host = resolve_any_host(word)
    if not host:
        raise UsageError(f"there is no host {word!r}", hint=f"one of {', '.join(ALL_TITLES)}")
    return host


def expand_path(path: str) -> str:
    """Return a path with `~` expanded here, because the daemon's HOME may differ. A leading `!` is kept."""
    mark, bare = ("!", path[1:]) if path.startswith("!") else ("", path)
    return mark + os.path.expanduser(bare)


_FLAGS = {"store_true": True, "store_false": False}
_ACTIONS = ("store", "append", "store_const", *_FLAGS)


class NeedsArgparse(Exception):
    """A command line that only argparse understands, or whose fault it names."""


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
        except Exception:
            raise NeedsArgparse from None
        if self.choices is not None and value not in self.choices:
            raise NeedsArgparse
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


def with_default_verb(words: Sequence[str], verb: str) -> Sequence[str]:
    """Return the words of a command with its default verb, unless they begin with a verb or ask for help."""
    is_bare = verb and (not words or words[0].startswith("-")) and words[:1] not in (["-h"], ["--help"])
    return [verb, *words] if is_bare else words


class OptionTable:
    """The declarations of a command. It takes those of argparse that commands use."""

    formatter_class = None
    default_verb = ""

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

    def parse(self, words: Sequence[str]) -> SimpleNamespace | None:
        """Return the values of a command line, or None if argparse has to parse it."""
        try:
            return SimpleNamespace(**self._read(with_default_verb(words, self.default_verb)))
        except NeedsArgparse:
            return None

    def _read(self, words: Sequence[str]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for entry in self._actions:
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
                    raise NeedsArgparse
                arguments.append(word)
                end = at
        else:
            if self._verbs is not None and self._verbs.required:
                raise NeedsArgparse
        self._assign_positionals(arguments, values, given)
        self._check(given)
        return values

    def _read_verb(self, verb: str, words: Sequence[str]) -> dict[str, Any]:
        if self._verbs is None or self._places or verb not in self._verbs.tables:
            raise NeedsArgparse
        return {self._verbs.dest: verb, **self._verbs.tables[verb]._read(words)}

    def _take_option(
        self, word: str, words: Sequence[str], at: int, values: dict[str, Any], given: list[_Declaration]
    ) -> int:
        """Take an option, and return the position of the word after it and its value."""
        name, equals, text = word.partition("=") if word.startswith("--") else (word, "", "")
        entry = self._options.get(name)
        if entry is None:
            raise NeedsArgparse
        given.append(entry)
        if entry.action not in {"store", "append"}:
            if equals:
                raise NeedsArgparse
            values[entry.dest] = entry.const
            return at
        if not equals:
            text = words[at] if at < len(words) else "-"
            at += 1
        if text.startswith("-") or (equals and not text):
            raise NeedsArgparse
        value = entry.value(text)
        values[entry.dest] = [*(values.get(entry.dest) or ()), value] if entry.action == "append" else value
        return at

    def _assign_positionals(self, words: list[str], values: dict[str, Any], given: list[_Declaration]) -> None:
        """Assign the words that are not options to the arguments; only the last one may take any number."""
        if not self._places:
            if words:
                raise NeedsArgparse
            return
        *firsts, last = self._places
        count = len(words) - len(firsts)
        fits = {None: count == 1, "?": count in (0, 1), "*": count >= 0, "+": count >= 1}
        if not fits[last.nargs] or any(entry.nargs for entry in firsts):
            raise NeedsArgparse
        for entry, word in zip(firsts, words, strict=False):
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
            raise NeedsArgparse
        groups = [entry.group for entry in dict.fromkeys(given) if entry.group is not None]
        if len(groups) != len(set(groups)):
            raise NeedsArgparse
