"""Writes plugins/ and the marketplace from src/lorelog/hosts, or with --check fails when they are out of date.

Whatever else lies in a bundle's directory is removed: a file that is not generated would be shipped and never looked
at.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))  # the tree this script belongs to, whatever is installed

from lorelog.hosts.bundles import repository_files  # noqa: E402

KEPT = {"plugins/package.json", "plugins/package-lock.json", "plugins/tsconfig.json"}
"""Configuration of the TypeScript check, written by hand."""


def stale(root: Path) -> list[str]:
    """Return the paths that are missing, outdated or unexpected."""
    meant = repository_files()
    found = {path.relative_to(root).as_posix() for path in _generated(root)}
    return sorted(
        [path for path in meant if not (root / path).is_file() or (root / path).read_bytes() != meant[path]]
        + [path for path in found if path not in meant and path not in KEPT]
    )


def write(root: Path) -> list[str]:
    """Update the repository, and return the changed paths."""
    meant, changed = repository_files(), stale(root)
    for path in changed:
        place = root / path
        if path in meant:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(meant[path])
        else:
            place.unlink()
    return changed


def _generated(root: Path) -> list[Path]:
    places = [root / "plugins", root / ".claude-plugin"]
    found = [path for place in places for path in place.rglob("*") if path.is_file()]
    by_hand = {"node_modules", "vscode", "github-action", "pre-commit"}  # these plugins are written by hand
    return [path for path in found if by_hand.isdisjoint(path.relative_to(root).parts)]


def main() -> int:
    """Write the files, or report the outdated ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when something is out of date")
    args = parser.parse_args()
    changed = stale(ROOT) if args.check else write(ROOT)
    for path in changed:
        print(f"{'stale' if args.check else 'wrote'} {path}")
    return 1 if args.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
