"""Show and change settings.

Defaults < ~/.lorelog/config.toml < <project>/.lorelog.toml < LORELOG_* variables < flags. A project's file may
not choose providers, addresses or keys. Keys are never stored: embedding.api_key takes env:NAME.

examples:
  lorelog config list                       every value and where it came from
  lorelog config get search.k
  lorelog config set embedding.provider openai
  lorelog config set --local search.k 10    for this project
  lorelog config init                       a commented file to edit
"""

from __future__ import annotations

import argparse

from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.paper import note, print_json, printable, short_path, styled
from lorelog.wiring import Standpoint, settings_at, standpoint
from lorelog.wiring_settings import change_setting, found_settings, setting_text, settings_file


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    listing = verbs.add_parser("list", help="show every setting and where its value came from", allow_abbrev=False)
    get = verbs.add_parser("get", help="show one setting", allow_abbrev=False)
    get.add_argument("key", metavar="KEY", help="section.field")
    change = verbs.add_parser("set", help="change one setting", allow_abbrev=False)
    change.add_argument("key", metavar="KEY", help="section.field")
    change.add_argument("value", metavar="VALUE", help="lists as JSON or comma-separated")
    unset = verbs.add_parser("unset", help="go back to the layer below", allow_abbrev=False)
    unset.add_argument("key", metavar="KEY", help="section.field")
    init = verbs.add_parser("init", help="write a commented settings file", allow_abbrev=False)
    for verb in (change, unset, init):
        verb.add_argument(
            "--local", action="store_true", help="in this project's .lorelog.toml instead of your own file"
        )
    for verb in (listing, get, change, unset, init):
        add_common(verb, asks=False)


def run(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    here = standpoint(project=args.project)
    if args.verb == "list":
        _list(here, as_json=args.json)
    elif args.verb == "get":
        _get(here, args.key, as_json=args.json)
    elif args.verb == "init":
        path = found_settings(here, of_project=args.local)
        _say(f"Wrote {short_path(str(path))}.", {"path": str(path)}, as_json=args.json)
    else:
        _change(here, args)
    return 0


def _list(here: Standpoint, *, as_json: bool) -> None:
    settings = settings_at(here)
    chosen = list(settings)
    for warning in settings.warnings:
        note(warning)
    if as_json:
        print_json({"settings": {one.key: {"value": one.value, "origin": one.origin} for one in chosen}})
        return
    width = max(len(one.key) for one in chosen)
    values = [setting_text(one.value) for one in chosen]
    room = max(map(len, values))
    for one, value in zip(chosen, values, strict=True):
        print(f"{one.key:<{width}}  {printable(value):<{room}}  {styled(printable(one.origin), 'dim')}")


def _get(here: Standpoint, key: str, *, as_json: bool) -> None:
    settings = settings_at(here)
    value = settings.value(key)
    for warning in settings.warnings:
        note(warning)
    if as_json:
        print_json({"key": key, "value": value, "origin": settings.origin(key)})
    else:
        print(printable(value if isinstance(value, str) else setting_text(value)))


def _change(here: Standpoint, args: argparse.Namespace) -> None:
    changed = change_setting(here, args.key, getattr(args, "value", None), of_project=args.local)
    path = str(settings_file(here, of_project=args.local))
    if args.verb == "set":
        text = f"Set {args.key} = {args.value} in {short_path(path)}."
    else:
        text = (
            f"Removed {args.key} from {short_path(path)}."
            if changed
            else f"{args.key} was not set in {short_path(path)}."
        )
    _say(printable(text), {"key": args.key, "path": path, "changed": changed}, as_json=args.json)


def _say(text: str, shape: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        print_json(shape)
    else:
        print(text)
