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
    from collections.abc import Sequence
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


def declare(parser: Any, name: str) -> dict[str, Any]:
    """Declare the arguments of a command and its verbs. Return what is derived from operations, by words."""
    derived, module = read_derived(name), load_module(name)
    own: dict[str, dict[str, str]] = getattr(module, "ARGUMENTS", {})
    parser.default_verb = DEFAULT_VERBS.get(name, "")
    if configure := getattr(module, "configure", None):
        configure(parser)
        return derived
    known = [*(words for words in own if words not in derived), *derived]
    verbs = [words for words in known if words.startswith(f"{name} ")]
    for words in verbs or [name]:
        command, declared = derived.get(words), own.get(words, {})
        verb = parser
        if verbs:
            verb = _add_verb(parser, words.partition(" ")[2], command["summary"] if command else declared[""])
        add_arguments(verb, command["arguments"] if command else ())
        add_options(verb, declared)
        if configure := find_function(words, "configure"):
            configure(verb)
        if command:
            add_shared(verb, "json", "project", "tenant", "daemon")
    return derived


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


def request_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the given options of a derived command as arguments of its operation."""
    request: dict[str, Any] = {}
    for argument in args.derived["arguments"]:
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


def add_shared(parser: Any, *names: str) -> None:
    """Declare options that mean the same for every command: json, project, tenant, daemon, port.

    The help of a command only names those of them that most commands take; `lorelog help options` explains these.
    """
    for name in names:
        option = parser.add_argument(f"--{name}", **_SHARED[name])
        option.is_global = f"--{name}" in GLOBAL_OPTIONS


def add_options(parser: Any, declared: dict[str, str]) -> None:
    """Declare arguments of the shell alone by their form and help.

    `--dry-run` is a flag; `-n --lines N` takes a number, `--wait SECONDS` a fraction of one, `--who ID` any text, `--format {text,tsv}`
    one of the words, and `--tag T...` may be repeated; `--to URI!` is required. `ids ID+`, `path PATH?` and `words REMOTE*` have
    no name on the command line; `to_global --global` has another one. `shared` names options of several commands, `settings`
    adds those that change a setting, and an empty form has the help of a verb.
    """
    for form, text in declared.items():
        *names, last = form.split() or [""]
        metavar = last.rstrip("!?*+.")
        options: dict[str, Any] = {"help": text}
        if form == "shared":
            add_shared(parser, *text.split())
        elif form == "settings":
            add_setting_options(parser, chunking=text == "chunking")
        elif last.startswith("-"):
            if names and not names[0].startswith("-"):
                options["dest"] = names.pop(0)
            parser.add_argument(*names, last, action="store_true", **options)
        elif form:
            options |= {"metavar": metavar, "type": {"N": int, "SECONDS": float}.get(metavar)}
            if last.startswith("{"):
                options |= {"metavar": None, "choices": tuple(last.strip("{}").split(","))}
            if last.endswith("..."):
                options |= {"action": "append", "default": []}
            elif names[0].startswith("-"):
                options["required"] = last.endswith("!")
            elif metavar != last:
                options["nargs"] = last[-1]
            parser.add_argument(*names, **options)


def _add_verb(parser: Any, name: str, help_text: str) -> argparse.ArgumentParser:
    """Declare a verb of a command, with the command's formatter: argparse's default one imports `shutil`."""
    if not hasattr(parser, "verbs"):
        parser.verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    verb: argparse.ArgumentParser = parser.verbs.add_parser(
        name,
        help=help_text,
        description=f"{help_text[:1].upper()}{help_text[1:]}.",
        formatter_class=parser.formatter_class,
        allow_abbrev=False,
    )
    return verb


_SETTING_OPTIONS = (
    ("--provider", "NAME", "embedding.provider", "who embeds text"),
    ("--model", "NAME", "embedding.model", "the provider's model"),
    ("--base-url", "URL", "embedding.base_url", "the provider's server"),
    ("--batch-size", "N", "embedding.batch_size", "texts embedded in one call"),
    ("--milvus-uri", "URI", "store.uri", "where the search index is kept"),
    ("--collection", "NAME", "store.collection", "what names of Milvus collections begin with"),
)
_CHUNKING_OPTIONS = (
    ("--max-chunk-size", "N", "chunking.max_chunk_size", "characters of a chunk"),
    ("--overlap-lines", "N", "chunking.overlap_lines", "lines that chunks share"),
)


def add_setting_options(parser: argparse.ArgumentParser, *, chunking: bool = False) -> None:
    """Declare options that change a setting for this command: their destination is the setting's variable."""
    group = parser.add_argument_group("settings for this command only")
    for flag, metavar, setting, text in (*_SETTING_OPTIONS, *(_CHUNKING_OPTIONS if chunking else ())):
        group.add_argument(flag, dest=_variable_of(setting), metavar=metavar, help=f"{text} ({setting})")


def _variable_of(setting: str) -> str:
    return f"LORELOG_{setting.replace('.', '_').upper()}"


def option_of_variable(variable: str) -> str:
    """Return the option that sets a variable."""
    options = (*_SETTING_OPTIONS, *_CHUNKING_OPTIONS)
    return next(flag for flag, _, setting, _ in options if _variable_of(setting) == variable)


def parse_host(word: str) -> str:
    """Return the canonical name of a host. Raise UsageError if there is none."""
    from lorelog.hosts import HOSTS, resolve_host

    host = resolve_host(word)
    if not host:
        raise UsageError(f"there is no host {word!r}", hint=f"one of {', '.join(HOSTS)}; by hand: lorelog docs hosts")
    return host


def expand_path(path: str) -> str:
    """Return a path with `~` expanded here, because the daemon's HOME may differ. A leading `!` is kept."""
    mark, bare = ("!", path[1:]) if path.startswith("!") else ("", path)
    return mark + os.path.expanduser(bare)


def read_text(argument: str, *, file: bool = False) -> str:
    """Return the argument, or what the file of this name holds; the text on standard input if it is `-`."""
    if argument != "-" and not file:
        return argument
    if argument == "-" and sys.stdin is None:
        raise UsageError("standard input is closed", hint="give the text as an argument")
    try:
        if argument == "-":
            return sys.stdin.buffer.read().decode("utf-8")
        with open(argument, encoding="utf-8") as stream:
            return stream.read()
    except UnicodeDecodeError as error:
        name = "standard input" if argument == "-" else argument
        raise UsageError(f"{name} is not UTF-8 text: {error.reason} at byte {error.start}") from error


_FLAGS = {"store_true": True, "store_false": False}
_ACTIONS = ("store", "append", "store_const", *_FLAGS)


class NeedsArgparse(Exception):
    """A command line that only argparse understands, or whose fault it names."""


def with_default_verb(words: Sequence[str], verb: str) -> Sequence[str]:
    """Return the words of a command with its default verb, unless they begin with a verb or ask for help."""
    is_bare = verb and (not words or words[0].startswith("-")) and words[:1] not in (["-h"], ["--help"])
    return [verb, *words] if is_bare else words


class OptionTable:
    """The declarations of a command, or of options of it that exclude each other. It takes those of argparse that commands use."""

    formatter_class = None
    default_verb = ""

    def __init__(self, entries: list[Any] | None = None) -> None:
        self._entries = [] if entries is None else entries
        self._is_exclusive = entries is not None
        self._verbs: dict[str, OptionTable] = {}

    def add_argument(self, *names: str, **declared: Any) -> Any:
        """Declare an option or argument. Raise ValueError for one that argparse alone understands."""
        action, nargs, is_option = declared.get("action", "store"), declared.get("nargs"), names[0].startswith("-")
        if action not in _ACTIONS or nargs not in ((None,) if is_option else (None, "?", "*", "+")):
            raise ValueError(f"a table has no action {action!r} of {names[0]} with {nargs!r}")
        if declared.get("type") is not None and isinstance(declared.get("default"), str):
            raise ValueError(f"{names[0]} has a text as its default, which argparse would convert")
        long_name = next((name for name in names if name.startswith("--")), names[0])
        flag = _FLAGS.get(action)
        entry = {
            "names": names if is_option else (),
            "dest": long_name.lstrip("-").replace("-", "_") if is_option else names[0],
            "action": action,
            "const": flag,
            "default": None if flag is None else not flag,
            "group": self if self._is_exclusive else None,
            **dict.fromkeys(("nargs", "type", "choices", "required")),
        }
        self._entries.append(SimpleNamespace(**entry | declared))
        return self._entries[-1]

    def add_argument_group(self, _title: str) -> OptionTable:
        """Declare a part of the help text."""
        return self

    def add_mutually_exclusive_group(self) -> OptionTable:
        """Declare options that exclude each other."""
        return OptionTable(self._entries)

    def add_subparsers(self, **_: Any) -> OptionTable:
        """Declare that verbs follow."""
        return self

    def add_parser(self, name: str, **_: Any) -> OptionTable:
        self._verbs[name] = OptionTable()
        return self._verbs[name]

    def parse(self, words: Sequence[str]) -> SimpleNamespace | None:
        """Return the values of a command line, or None if argparse has to parse it."""
        try:
            return SimpleNamespace(**self._read(with_default_verb(words, self.default_verb)))
        except NeedsArgparse:
            return None

    def _read(self, words: Sequence[str]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for entry in self._entries:
            values.setdefault(entry.dest, entry.default)
        given: list[Any] = []
        arguments: list[str] = []
        end = at = 0
        while at < len(words):
            word = words[at]
            at += 1
            if word.startswith("-"):
                at = self._take_option(word, words, at, values, given)
            elif self._verbs:
                if word not in self._verbs:
                    raise NeedsArgparse
                values |= {"verb": word, **self._verbs[word]._read(words[at:])}
                break
            else:
                if arguments and end != at - 1:  # not in one piece
                    raise NeedsArgparse
                arguments.append(word)
                end = at
        else:
            if self._verbs:
                raise NeedsArgparse
        self._assign_positionals(arguments, values, given)
        # What lacks an option, or has two that exclude each other, is left to argparse.
        groups = [entry.group for number, entry in enumerate(given) if entry.group and entry not in given[:number]]
        if len(groups) != len(set(groups)) or any(entry.required and entry not in given for entry in self._entries):
            raise NeedsArgparse
        return values

    def _take_option(self, word: str, words: Sequence[str], at: int, values: dict[str, Any], given: list[Any]) -> int:
        """Take an option, and return the position of the word after it and its value."""
        name, equals, text = word.partition("=") if word.startswith("--") else (word, "", "")
        entry = next((entry for entry in self._entries if name in entry.names), None)
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
        value = _convert(entry, text)
        values[entry.dest] = [*(values.get(entry.dest) or ()), value] if entry.action == "append" else value
        return at

    def _assign_positionals(self, words: list[str], values: dict[str, Any], given: list[Any]) -> None:
        """Assign the words that are not options to the arguments; only the last one may take any number."""
        places = [entry for entry in self._entries if not entry.names]
        if not places:
            if words:
                raise NeedsArgparse
            return
        *firsts, last = places
        count = len(words) - len(firsts)
        fits = {None: count == 1, "?": count in (0, 1), "*": count >= 0, "+": count >= 1}
        if not fits[last.nargs] or any(entry.nargs for entry in firsts):
            raise NeedsArgparse
        for entry, word in zip(firsts, words, strict=False):
            values[entry.dest] = _convert(entry, word)
            given.append(entry)
        rest = [_convert(last, word) for word in words[len(firsts) :]]
        if rest:
            values[last.dest] = rest[0] if last.nargs in (None, "?") else rest
            given.append(last)
        elif last.nargs == "*" and last.default is None:
            values[last.dest] = []


def _convert(entry: Any, word: str) -> Any:
    try:
        value = entry.type(word) if entry.type else word
    except Exception:
        raise NeedsArgparse from None
    if entry.choices is not None and value not in entry.choices:
        raise NeedsArgparse
    return value
