"""Derivation of the shell's options from the declarations of operations: the source of `options.jsonl`.

A request's struct has every field with its type, limits, default and description; `ShellCommand` adds the words of the
command and what its fields are called there. `scripts/generate_reference.py` writes the result as one JSON line per command,
because a warm command may import neither msgspec nor an operation. `surfaces/cli/arguments.py` reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, UNSET, inspect, json

from lorelog.operations.operation import Operation, ShellCommand
from lorelog.operations.requests import FilteredRequest, OperationRequest

LIMIT_NAMES = ("-k", "-n", "--limit", "--top-k")
"""Names of the fields `k` and `limit`, the same for every command that lists or searches."""
_LONG_TEXT_CHARS = 10_000
_FILTERS = frozenset(FilteredRequest.__struct_fields__) - frozenset(OperationRequest.__struct_fields__)
_SCALARS = {inspect.IntType: "int", inspect.FloatType: "float"}


def render_options(operations: Iterable[Operation[Any, Any]]) -> str:
    """Return the text of `options.jsonl`: one line per command."""
    commands = [describe_command(operation, shell) for operation in operations for shell in operation.commands]
    return "".join(json.encode(command).decode() + "\n" for command in commands)


def describe_command(operation: Operation[Any, Any], shell: ShellCommand) -> dict[str, Any]:
    """Return a command: its words, operation, summary, and the arguments of the request's fields."""
    described = inspect.type_info(operation.request)
    assert isinstance(described, inspect.StructType)
    fields = {field.name: field for field in described.fields}
    hints = get_type_hints(operation.request, include_extras=True)
    places = [name.rstrip("?!.") for name in shell.positional]
    unknown = {*places, *shell.options, *shell.hidden, *shell.offered, *shell.metavars, *shell.defaults} - {*fields}
    if unknown:
        raise ValueError(f"{operation.name} has no field {', '.join(sorted(unknown))}")
    arguments = [_positional(fields[place], name, shell) for place, name in zip(places, shell.positional, strict=True)]
    for name, field in fields.items():
        is_offered = not shell.offered or name in shell.offered or name in shell.options
        if name not in places and is_offered and name not in ("project", "tenant", *shell.hidden):
            group = "filters" if name in _FILTERS and issubclass(operation.request, FilteredRequest) else ""
            arguments += [
                {**option, "group": group} if group else option for option in _options(field, shell.options, shell)
            ]
    for argument in arguments:
        if "choices" in argument["options"]:  # msgspec sorts them
            argument["options"]["choices"] = [value for value in _literals(hints[argument["field"]]) if value]
    summary = shell.summary or operation.summary
    return {
        "words": shell.words,
        "operation": operation.name,
        "warms": operation.warms,
        "summary": summary[:1].lower() + summary[1:].removesuffix("."),
        "arguments": arguments,
    }


def _literals(hint: Any) -> tuple[Any, ...]:
    """Return the values of the Literal in a type, in the order of its declaration."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return next(filter(None, map(_literals, get_args(hint))), ())


def _positional(field: inspect.Field, name: str, shell: ShellCommand) -> dict[str, Any]:
    """Return an argument without a name. `name...` joins words to a text, `name?` may be left out, `name!` not."""
    kind, description, extra = _unwrap(field.type)
    is_collection = isinstance(kind, inspect.CollectionType)
    word = field.name.removesuffix("s") if is_collection else field.name.removesuffix("_id")
    text = shell.helps.get(field.name) or _help(description)
    options = {"metavar": shell.metavars.get(field.name) or word.upper(), "help": text}
    options |= _value_options(kind)
    is_list = is_collection or name.endswith("...")
    is_optional = "!" not in name and (not field.required or name.endswith("?"))
    if is_list or is_optional:
        options["nargs"] = ("*" if is_optional else "+") if is_list else "?"
    if "choices" in options and field.name not in shell.metavars:
        del options["metavar"]
    return _argument(field.name, [field.name], options, extra, joined=name.endswith("..."))


def _options(field: inspect.Field, names: Mapping[str, str], shell: ShellCommand) -> Iterator[dict[str, Any]]:
    """Yield the option of a field, or both of one that has a name for yes and one for no: `--supports/--against`."""
    kind, description, extra = _unwrap(field.type)
    default = shell.defaults.get(field.name, field.default)
    spelled = names.get(field.name) or _option_name(field.name, kind)
    if isinstance(kind, inspect.BoolType):
        yes, _, no = spelled.partition("/")
        text = shell.helps.get(field.name) or _help(description)
        if default in (True, False, NODEFAULT):
            flag: dict[str, Any] = {"action": "store_false" if default is True else "store_true", "help": text}
            if field.name in shell.defaults:
                flag["default"] = default
            yield _argument(field.name, (no if default is True else yes).split(), flag, {})
            return
        for value, name, help_text in zip((True, False), (yes, no), text.split(" / "), strict=True):
            flag = {"action": "store_const", "const": value, "help": help_text}
            yield {**_argument(field.name, [name], flag, {}), "exclusive": field.name}
        return
    flags = list(LIMIT_NAMES) if field.name in ("k", "limit") and field.name not in names else spelled.split()
    options = _value_options(kind)
    if field.required and field.name not in shell.defaults:
        options["required"] = True
    notes = []
    if isinstance(kind, inspect.CollectionType | inspect.DictType):
        options |= {"action": "append", "default": []}
        notes = ["repeatable"]
    elif field.name in shell.defaults:
        options["default"] = default
    if default not in (NODEFAULT, UNSET, None, "", False) and not isinstance(kind, inspect.CollectionType):
        notes = [f"default {default}"]
    text = shell.helps.get(field.name) or _help(description)
    options["help"] = text + (f" ({'; '.join(notes)})" if notes else "")
    if "choices" not in options or field.name in shell.metavars:
        is_id = field.name.endswith("_id")
        options["metavar"] = shell.metavars.get(field.name) or ("ID" if is_id else _metavar(kind, flags[-1], extra))
    yield _argument(field.name, flags, options, extra)


def _option_name(field: str, kind: inspect.Type) -> str:
    """Return the option of a field: `--tag` of `tags`, which is repeatable, `--session` of `session_id`, `--global` of `to_global`."""
    name = field.removeprefix("to_").removesuffix("_id").removesuffix("_name")
    if isinstance(kind, inspect.CollectionType | inspect.DictType):
        name = f"{name[:-3]}y" if name.endswith("ies") else name.removesuffix("s")
    return f"--{name.replace('_', '-')}"


def _argument(
    field: str, names: list[str], options: Mapping[str, Any], extra: Mapping[str, Any], *, joined: bool = False
) -> dict[str, Any]:
    argument: dict[str, Any] = {"field": field, "names": names, "options": options}
    if joined:
        argument["joined"] = True
    if extra.get("path"):
        argument["path"] = True
    return argument


def _unwrap(kind: inspect.Type) -> tuple[inspect.Type, str, dict[str, Any]]:
    """Return a type without None and metadata, its description, and the `extra` of its metadata."""
    description = ""
    extra: dict[str, Any] = {}
    while isinstance(kind, inspect.Metadata | inspect.UnionType):
        if isinstance(kind, inspect.Metadata):
            description = description or (kind.extra_json_schema or {}).get("description", "")
            extra |= kind.extra or {}
            kind = kind.type
        else:
            kind = next(item for item in kind.types if not isinstance(item, inspect.NoneType))
    if isinstance(kind, inspect.CollectionType) and isinstance(kind.item_type, inspect.Metadata):
        extra |= kind.item_type.extra or {}
    return kind, description, extra


def _value_options(kind: inspect.Type) -> dict[str, Any]:
    item = _unwrap(kind.item_type)[0] if isinstance(kind, inspect.CollectionType) else kind
    if isinstance(item, inspect.LiteralType):
        return {"choices": list(item.values)}
    if isinstance(item, inspect.FloatType) and (item.ge, item.le) == (0, 1):
        return {"type": "fraction"}
    return {"type": _SCALARS[type(item)]} if type(item) in _SCALARS else {}


def _metavar(kind: inspect.Type, name: str, extra: Mapping[str, Any]) -> str:
    item = _unwrap(kind.item_type)[0] if isinstance(kind, inspect.CollectionType) else kind
    if extra.get("path") or extra.get("metavar"):
        return str(extra.get("metavar") or "PATH")
    if isinstance(item, inspect.FloatType):
        return "P"
    if isinstance(item, inspect.IntType):
        return "N"
    is_long = isinstance(item, inspect.StrType) and (item.max_length or 0) >= _LONG_TEXT_CHARS
    return "TEXT" if is_long else name.lstrip("-").rpartition("-")[2].upper()


def _help(description: str) -> str:
    """Return a description as a help text: without capital and full stop, with argparse's percent signs."""
    first = description[:1] if description[1:2].isupper() else description[:1].lower()
    return (first + description[1:]).removesuffix(".").replace("`", "'").replace("%", "%%")
