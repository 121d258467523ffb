"""List the operations, or show one of them: what it takes, what it answers, where it can be asked for.

examples:
  lorelog ops
  lorelog ops memory.search
  lorelog ops --json                        the JSON Schema of every operation
"""

from __future__ import annotations

from lorelog.surfaces.cli.paper import print_json, styled

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("op", nargs="?", metavar="OP", help="one operation")
    parser.add_argument("--json", action="store_true", help="print JSON (docs/json.md) instead of text")


def run(args: argparse.Namespace) -> int:
    """Show one or all."""
    from lorelog.operations.catalogue import find_operation
    from lorelog.operations.schema import catalogue, describe

    if args.op:
        described = describe(find_operation(args.op))
        if args.json:
            print_json(described)
        else:
            _show(described)
        return 0
    if args.json:
        print_json({"operations": catalogue()})
    else:
        known = catalogue()
        width = max(len(one["name"]) for one in known)
        for one in known:
            print(f"{styled(one['name'], 'cyan')}{' ' * (width - len(one['name']))}  {one['summary']}")
    return 0


def _show(described: dict[str, Any]) -> None:
    print(f"{styled(described['name'], 'cyan')}\n\n{described['description']}\n")
    needed = set(described["request"].get("required", ()))
    for name, field in described["request"]["properties"].items():
        kind = "needed" if name in needed else f"default {_default(field)}"
        print(f"  {styled(name, 'bold')} ({kind})  {_meaning(field)}")
    print(f"\nerrors: {', '.join(described['errors'])}")
    for surface, reason in described["surfaces"].items():
        if reason is not True:
            print(f"not over {surface}: {reason}")


def _default(field: dict[str, Any]) -> str:
    value = field.get("default")
    return "not given" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)


def _meaning(field: dict[str, Any]) -> str:
    text: str = field.get("description", "")
    choices = field.get("enum") or next((one["enum"] for one in field.get("anyOf", ()) if "enum" in one), None)
    return f"{text} ({', '.join(map(str, choices))})" if choices else text
