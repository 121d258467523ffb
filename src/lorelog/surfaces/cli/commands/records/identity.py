"""Manage the keys that sign records.

An identity is a name with a key pair. If `records.identity` is set to it, every record you write is signed, and anyone with
the public key can verify that you wrote it. Without a passphrase any process of your account can sign with the key; with
one, any process that has LORELOG_IDENTITY_PASSPHRASE. 'lorelog docs identity' explains what a signature proves.

examples:
  lorelog identity create mara
  lorelog config set records.identity mara   sign from now on
  lorelog identity export mara               print the public key for others
  lorelog identity trust otto ed25519:…      accept otto's signatures
  lorelog identity forget otto               stop accepting them
"""

from __future__ import annotations

from lorelog.surfaces.cli.render import one_line, plural, print_json, print_note, short_path, stylize

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from lorelog.services.records.keyring import KeyIdentity, Keyring

_FINGERPRINT_CHARS = 8
_NAME_HELP = "name of the identity"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    create = verbs.add_parser("create", help="create a key pair for a name", allow_abbrev=False)
    create.add_argument("name", metavar="NAME", help=_NAME_HELP)
    create.add_argument(
        "--passphrase",
        action="store_true",
        help="encrypt the key; the passphrase is read from LORELOG_IDENTITY_PASSPHRASE or asked for",
    )
    listing = verbs.add_parser("list", help="list your own and trusted identities", allow_abbrev=False)
    show = verbs.add_parser("show", help="show keys, fingerprints and the path of the private key", allow_abbrev=False)
    export = verbs.add_parser("export", help="print the public key to give to others", allow_abbrev=False)
    trust = verbs.add_parser("trust", help="accept signatures of a public key under a name", allow_abbrev=False)
    forget = verbs.add_parser("forget", help="stop accepting a name's signatures", allow_abbrev=False)
    for verb in (show, export, trust, forget):
        verb.add_argument("name", metavar="NAME", help=_NAME_HELP)
    trust.add_argument("key", metavar="PUBLICKEY", help="public key, as printed by 'lorelog identity export'")
    trust.add_argument("--also", action="store_true", help="add to the name's keys, for a second machine or a new key")
    for verb in (create, listing, show, export, trust, forget):
        verb.add_argument("--json", action="store_true", help="print JSON instead of text (lorelog docs json)")


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    from lorelog.services.records.keyring import Keyring
    from lorelog.wiring import IDENTITIES_FOLDER, resolve_location

    files = Keyring(resolve_location().home / IDENTITIES_FOLDER)
    reply = {
        "create": _create,
        "list": _list,
        "show": _show,
        "export": _export,
        "trust": _trust,
        "forget": _forget,
    }[args.verb](files, args)
    if args.json:
        print_json(reply)
    return 0


def _create(files: Keyring, args: argparse.Namespace) -> dict[str, Any]:
    passphrase = _read_passphrase() if args.passphrase else ""
    identity = files.create(args.name, passphrase)
    reply = {**_identity_json(identity), "encrypted": bool(passphrase)}
    if not args.json:
        print(f"Created {stylize(one_line(identity.name), 'cyan')}: {reply['keys'][0]['fingerprint']}")
        print(f"To sign with it, run: lorelog config set records.identity {_quote_name(identity.name)}")
        if not passphrase:
            print_note("the key has no passphrase: any process of your account can sign with it")
    return reply


def _list(files: Keyring, args: argparse.Namespace) -> dict[str, Any]:
    identities = files.identities()
    if not args.json:
        for identity in identities:
            keys = ", ".join(key.fingerprint[:_FINGERPRINT_CHARS] for key in identity.keys) or "forgotten"
            print(f"{stylize(one_line(identity.name), 'cyan')}  {'own' if identity.path else 'trusted'}  {keys}")
        if not identities:
            print("No identities yet; use 'lorelog identity create NAME'.")
    return {"identities": [_identity_json(identity) for identity in identities]}


def _show(files: Keyring, args: argparse.Namespace) -> dict[str, Any]:
    identity = files.get(args.name)
    if not args.json:
        print(stylize(one_line(identity.name), "bold"))
        for key in identity.keys:
            print(f"  key          ed25519:{key.key}")
            print(f"  fingerprint  {key.fingerprint}")
            print(f"  known since  {key.since}")
        if not identity.keys:
            print("  no accepted key: it was forgotten")
        if identity.path:
            print(f"  private key  {short_path(identity.path)}")
    return _identity_json(identity)


def _export(files: Keyring, args: argparse.Namespace) -> dict[str, Any]:
    from lorelog.core.errors import NotFound
    from lorelog.services.records.keyring import format_public_line

    identity = files.get(args.name)
    key = identity.public or next((key.key for key in identity.keys), "")
    if not key:
        raise NotFound(
            f"the public key of {identity.name!r} is missing", hint="its .pub file was deleted or is damaged"
        )
    line = format_public_line(identity.name, key)
    if not args.json:
        print(one_line(line))
    return {"name": identity.name, "line": line}


def _trust(files: Keyring, args: argparse.Namespace) -> dict[str, Any]:
    added = files.trust(args.name, args.key, also=args.also)
    if not args.json:
        print(f"Now accepting signatures of {stylize(one_line(added.name), 'cyan')}: {added.fingerprint}")
        print_note("compare the fingerprint with the one its owner sees (lorelog identity show)")
    return _identity_json(files.get(added.name))


def _forget(files: Keyring, args: argparse.Namespace) -> dict[str, Any]:
    keys = files.forget(args.name)
    path = files.private_path(args.name)
    own = path.exists()
    if not args.json:
        print(f"Forgot {plural(len(keys), 'key')} of {one_line(keys[0].name)}: their records count as unsigned.")
        if own:
            print_note(f"its private key was kept: {short_path(str(path))}")
    return {
        "name": keys[0].name,
        "forgotten": [key.fingerprint for key in keys],
        "private_key": str(path) if own else "",
    }


def _identity_json(identity: KeyIdentity) -> dict[str, Any]:
    return {
        "name": identity.name,
        "own": bool(identity.path),
        "private_key": identity.path,
        "keys": [
            {"public_key": f"ed25519:{key.key}", "fingerprint": key.fingerprint, "since": key.since}
            for key in identity.keys
        ],
    }


def _quote_name(name: str) -> str:
    import shlex

    return one_line(shlex.quote(name))


def _read_passphrase() -> str:
    """Return the passphrase from the environment, or ask for one twice."""
    import os
    import sys
    from getpass import getpass

    from lorelog.core.errors import UsageError
    from lorelog.services.records.keyring import PASSPHRASE_VARIABLE

    if passphrase := os.environ.get(PASSPHRASE_VARIABLE, ""):
        return passphrase
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            "cannot ask for a passphrase: standard input is not a terminal", hint=f"set {PASSPHRASE_VARIABLE}"
        )
    first = getpass("Passphrase: ")
    if not first:
        raise UsageError("the passphrase is empty", hint="omit --passphrase for a key without one")
    if getpass("Repeat passphrase: ") != first:
        raise UsageError("the passphrases differ", hint="no key was created; try again")
    return first
