"""Keep keys that prove who wrote a record.

An identity is a name with a key. With `records.identity` set to it, every record that you write is signed, and whoever knows the
public key can tell that nobody else wrote it. Without a passphrase any process of your account can sign with it; with one, whoever
has LORELOG_IDENTITY_PASSPHRASE can. docs/identity.md says what a signature proves, and what not.

examples:
  lorelog identity create mara
  lorelog config set records.identity mara    sign from now on
  lorelog identity export mara                the line to give to others
  lorelog identity trust otto ed25519:…       have otto's signatures count here
  lorelog identity forget otto                have them count no longer
"""

from __future__ import annotations

from lorelog.surfaces.cli.paper import note, one_line, plural, print_json, short_path, styled

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from lorelog.services.records.keys_folder import Identity, KeyFolder

_ENOUGH = 8
_WHO = "an agent's id"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    create = verbs.add_parser("create", help="make a key for a name", allow_abbrev=False)
    create.add_argument("name", metavar="NAME", help=_WHO)
    create.add_argument(
        "--passphrase",
        action="store_true",
        help="encrypt the key: asks for a passphrase, unless LORELOG_IDENTITY_PASSPHRASE holds one",
    )
    listed = verbs.add_parser("list", help="list identities, your own and those that you trust", allow_abbrev=False)
    shown = verbs.add_parser("show", help="show keys, fingerprints and where the private one lies", allow_abbrev=False)
    exported = verbs.add_parser("export", help="print the public line to give to others", allow_abbrev=False)
    trusted = verbs.add_parser("trust", help="have a public key count under a name", allow_abbrev=False)
    forgotten = verbs.add_parser("forget", help="have no key count under a name any more", allow_abbrev=False)
    for verb in (shown, exported, trusted, forgotten):
        verb.add_argument("name", metavar="NAME", help=_WHO)
    trusted.add_argument("key", metavar="PUBLICKEY", help="what 'lorelog identity export' printed elsewhere")
    trusted.add_argument(
        "--also", action="store_true", help="beside the keys that the name has: a second machine, or a new key"
    )
    for verb in (create, listed, shown, exported, trusted, forgotten):
        verb.add_argument("--json", action="store_true", help="print JSON (docs/json.md) instead of text")


def run(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    from lorelog.services.records.keys_folder import KeyFolder
    from lorelog.wiring import IDENTITIES, standpoint

    files = KeyFolder(standpoint().home / IDENTITIES)
    shape = {
        "create": _create,
        "list": _list,
        "show": _show,
        "export": _export,
        "trust": _trust,
        "forget": _forget,
    }[args.verb](files, args)
    if args.json:
        print_json(shape)
    return 0


def _create(files: KeyFolder, args: argparse.Namespace) -> dict[str, Any]:
    passphrase = _passphrase() if args.passphrase else ""
    made = files.create(args.name, passphrase)
    shape = {**_shape(made), "encrypted": bool(passphrase)}
    if not args.json:
        print(f"Made {styled(one_line(made.name), 'cyan')}: {shape['keys'][0]['fingerprint']}")
        print(f"Sign with it from now on: lorelog config set records.identity {_typed(made.name)}")
        if not passphrase:
            note("the key has no passphrase: any process of your account can sign with it")
    return shape


def _list(files: KeyFolder, args: argparse.Namespace) -> dict[str, Any]:
    found = files.identities()
    if not args.json:
        for one in found:
            keys = ", ".join(key.fingerprint[:_ENOUGH] for key in one.keys) or "forgotten"
            print(f"{styled(one_line(one.name), 'cyan')}  {'own' if one.path else 'trusted'}  {keys}")
        if not found:
            print("No identities yet. 'lorelog identity create NAME' makes one.")
    return {"identities": [_shape(one) for one in found]}


def _show(files: KeyFolder, args: argparse.Namespace) -> dict[str, Any]:
    found = files.get(args.name)
    if not args.json:
        print(styled(one_line(found.name), "bold"))
        for one in found.keys:
            print(f"  key          ed25519:{one.key}")
            print(f"  fingerprint  {one.fingerprint}")
            print(f"  known since  {one.since}")
        if not found.keys:
            print("  no key of it counts here: it was forgotten")
        if found.path:
            print(f"  private key  {short_path(found.path)}")
    return _shape(found)


def _export(files: KeyFolder, args: argparse.Namespace) -> dict[str, Any]:
    from lorelog.core.errors import NotFound
    from lorelog.services.records.keys_folder import public_line

    found = files.get(args.name)
    key = found.public or next((one.key for one in found.keys), "")
    if not key:
        raise NotFound(f"the public key of {found.name!r} is not there", hint="its .pub file is gone or damaged")
    line = public_line(found.name, key)
    if not args.json:
        print(one_line(line))
    return {"name": found.name, "line": line}


def _trust(files: KeyFolder, args: argparse.Namespace) -> dict[str, Any]:
    added = files.trust(args.name, args.key, also=args.also)
    if not args.json:
        print(f"Signatures of {styled(one_line(added.name), 'cyan')} count from now on: {added.fingerprint}")
        note("compare the fingerprint with what its owner sees (lorelog identity show)")
    return _shape(files.get(added.name))


def _forget(files: KeyFolder, args: argparse.Namespace) -> dict[str, Any]:
    gone = files.forget(args.name)
    path = files.private_path(args.name)
    own = path.exists()
    if not args.json:
        print(f"Forgot {plural(len(gone), 'key')} of {one_line(gone[0].name)}: records signed so count as unsigned.")
        if own:
            note(f"its private key is still there: {short_path(str(path))}")
    return {
        "name": gone[0].name,
        "forgotten": [one.fingerprint for one in gone],
        "private_key": str(path) if own else "",
    }


def _shape(one: Identity) -> dict[str, Any]:
    return {
        "name": one.name,
        "own": bool(one.path),
        "private_key": one.path,
        "keys": [
            {"public_key": f"ed25519:{key.key}", "fingerprint": key.fingerprint, "since": key.since} for key in one.keys
        ],
    }


def _typed(name: str) -> str:
    import shlex

    return one_line(shlex.quote(name))


def _passphrase() -> str:
    """Return the passphrase of the environment, or ask for one, twice."""
    import os
    import sys
    from getpass import getpass

    from lorelog.core.errors import UsageError
    from lorelog.services.records.keys import PASSPHRASE

    given = os.environ.get(PASSPHRASE, "")
    if given:
        return given
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            "there is no terminal to ask for a passphrase at", hint=f"give it in the variable {PASSPHRASE}"
        )
    first = getpass("Passphrase: ")
    if not first:
        raise UsageError("the passphrase is empty", hint="leave --passphrase out for a key without one")
    if getpass("The same again: ") != first:
        raise UsageError("the two were not the same", hint="no key was made; try again")
    return first
