"""Show and change settings.

Precedence, lowest first: defaults, ~/.lorelog/config.toml, <project>/.lorelog.toml, LORELOG_* variables, options. A project's
file cannot set providers, addresses or keys. Keys are never stored: embedding.api_key takes env:NAME.

examples:
  lorelog config list                       every value and its origin
  lorelog config get search.k
  lorelog config set embedding.provider openai
  lorelog config set --local search.k 10    for this project
  lorelog config init                       write a commented file to edit
"""

from __future__ import annotations

import argparse

from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.render import print_json, print_note, printable, short_path, stylize
from lorelog.wiring import (
    Location,
    change_setting,
    create_settings_file,
    format_setting,
    resolve_location,
    settings_at,
    settings_file,
)

TYPE_CHECKING = False


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    listing = verbs.add_parser("list", help="show every setting and the origin of its value", allow_abbrev=False)
    get = verbs.add_parser("get", help="show one setting", allow_abbrev=False)
    get.add_argument("key", metavar="KEY", help="name of the setting, such as search.k")
    change = verbs.add_parser("set", help="change one setting", allow_abbrev=False)
    change.add_argument("key", metavar="KEY", help="name of the setting, such as search.k")
    change.add_argument("value", metavar="VALUE", help="new value; lists as JSON or comma-separated")
    unset = verbs.add_parser("unset", help="remove a setting from the file", allow_abbrev=False)
    unset.add_argument("key", metavar="KEY", help="name of the setting, such as search.k")
    init = verbs.add_parser("init", help="write a commented settings file", allow_abbrev=False)
    for verb in (change, unset, init):
        verb.add_argument(
            "--local", action="store_true", help="use this project's .lorelog.toml instead of ~/.lorelog/config.toml"
        )
    for verb in (listing, get, change, unset, init):
        add_common(verb, with_scope=False)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    location = resolve_location(project=args.project)
    if args.verb == "list":
        _list(location, as_json=args.json)
    elif args.verb == "get":
        _get(location, args.key, as_json=args.json)
    elif args.verb == "init":
        path = create_settings_file(location, of_project=args.local)
        _print_result(f"Wrote {short_path(str(path))}.", {"path": str(path)}, as_json=args.json)
    else:
        _change(location, args)
    return 0


def _list(location: Location, *, as_json: bool) -> None:
    settings = settings_at(location)
    listed = list(settings)
    for warning in settings.warnings:
        print_note(warning)
    if as_json:
        print_json(
            {"settings": {setting.key: {"value": setting.value, "origin": setting.origin} for setting in listed}}
        )
        return
    values = [format_setting(setting.value) for setting in listed]
    key_width, value_width = max(len(setting.key) for setting in listed), max(map(len, values))
    for setting, value in zip(listed, values, strict=True):
        origin = stylize(printable(setting.origin), "dim")
        print(f"{setting.key:<{key_width}}  {printable(value):<{value_width}}  {origin}")


def _get(location: Location, key: str, *, as_json: bool) -> None:
    settings = settings_at(location)
    value = settings.value(key)
    for warning in settings.warnings:
        print_note(warning)
    if as_json:
        print_json({"key": key, "value": value, "origin": settings.origin(key)})
    else:
        print(printable(value if isinstance(value, str) else format_setting(value)))


def _change(location: Location, args: argparse.Namespace) -> None:
    changed = change_setting(location, args.key, getattr(args, "value", None), of_project=args.local)
    path = str(settings_file(location, of_project=args.local))
    if args.verb == "set":
        text = f"Set {args.key} = {args.value} in {short_path(path)}."
    else:
        text = (
            f"Removed {args.key} from {short_path(path)}."
            if changed
            else f"{args.key} was not set in {short_path(path)}."
        )
    _print_result(printable(text), {"key": args.key, "path": path, "changed": changed}, as_json=args.json)
    if changed and args.key.startswith("embedding."):
        from lorelog.operations.settings import MODEL_KEYS, model_notes

        for note in model_notes(location) if args.key in MODEL_KEYS else ():
            print_note(note)


def _print_result(text: str, reply: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        print_json(reply)
    else:
        print(text)
