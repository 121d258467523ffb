"""List the operations, or show one: its arguments, errors, and the surfaces that offer it.

examples:
  lorelog ops
  lorelog ops memory.search
  lorelog ops --json                        the JSON Schema of every operation
"""

from __future__ import annotations

from lorelog.surfaces.cli.render import print_json, stylize

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("op", nargs="?", metavar="OP", help="name of an operation")
    parser.add_argument("--json", action="store_true", help="print JSON (docs/json.md) instead of text")


def run(args: argparse.Namespace) -> int:
    """Print one operation or all."""
    from lorelog.operations.catalogue import describe_all, describe_operation, find_operation

    if args.op:
        operation = describe_operation(find_operation(args.op))
        if args.json:
            print_json(operation)
        else:
            _show_operation(operation)
        return 0
    if args.json:
        print_json({"operations": describe_all()})
    else:
        operations = describe_all()
        width = max(len(operation["name"]) for operation in operations)
        for operation in operations:
            print(f"{stylize(operation['name'].ljust(width), 'cyan')}  {operation['summary']}")
    return 0


def _show_operation(operation: dict[str, Any]) -> None:
    print(f"{stylize(operation['name'], 'cyan')}\n\n{operation['description']}\n")
    required = set(operation["request"].get("required", ()))
    for name, field in operation["request"]["properties"].items():
        kind = "required" if name in required else f"default {_format_default(field)}"
        print(f"  {stylize(name, 'bold')} ({kind})  {_format_meaning(field)}")
    print(f"\nerrors: {', '.join(operation['errors'])}")
    for surface, reason in operation["surfaces"].items():
        if reason is not True:
            print(f"not available over {surface}: {reason}")


def _format_default(field: dict[str, Any]) -> str:
    value = field.get("default")
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)


def _format_meaning(field: dict[str, Any]) -> str:
    text: str = field.get("description", "")
    choices = field.get("enum") or next(
        (variant["enum"] for variant in field.get("anyOf", ()) if "enum" in variant), None
    )
    return f"{text} ({', '.join(map(str, choices))})" if choices else text
