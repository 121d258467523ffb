"""Checks the TypeScript of plugins/ against the hosts' own types, pinned, from npm.

The packages are installed once into a cache, which the end-to-end tests share (LORELOG_E2E_CACHE, default
~/.cache/lorelog-e2e). OpenClaw brings its types only with itself, half a gigabyte; so this is not a part of `make
test`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOSTS: dict[str, dict[str, str]] = json.loads((ROOT / "e2e" / "versions.json").read_text())
PINNED = {
    "types": ("typescript@5.9.3", "@types/node@24.10.1", f"@opencode-ai/plugin@{HOSTS['opencode']['opencode-ai']}"),
    "openclaw": (f"openclaw@{HOSTS['openclaw']['openclaw']}",),
}
NOT_INSTALLED = 3
CHECKED = ("plugins/opencode/lorelog.ts", "plugins/openclaw/index.ts")


def main() -> int:
    """Install missing packages and run the compiler."""
    npm = shutil.which("npm")
    cache = Path(os.environ.get("LORELOG_E2E_CACHE") or "~/.cache/lorelog-e2e").expanduser()
    for name, packages in PINNED.items():
        if not _installed(cache / name, packages):
            why = "npm is not there" if npm is None else _install(npm, cache / name, packages)
            if why:
                print(
                    f"!!! the plugins' TypeScript was NOT checked: {why} ('make e2e' installs the hosts)",
                    file=sys.stderr,
                )
                return NOT_INSTALLED
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch) / "tsconfig.json"
        project.write_text(json.dumps(_project(cache)))
        compiler = cache / "types" / "node_modules" / ".bin" / "tsc"
        done = subprocess.run([compiler, "-p", project], check=False)
    print("plugins: the types hold" if done.returncode == 0 else "plugins: the types do not hold")
    return done.returncode


def _project(cache: Path) -> dict[str, object]:
    opencode = cache / "types" / "node_modules" / "@opencode-ai"
    openclaw = cache / "openclaw" / "node_modules" / "openclaw"
    paths = {
        "@opencode-ai/plugin": opencode / "plugin" / "dist" / "index.d.ts",
        "@opencode-ai/sdk": opencode / "sdk" / "dist" / "index.d.ts",
        "openclaw/plugin-sdk/plugin-entry": openclaw / "dist" / "plugin-sdk" / "plugin-entry.d.ts",
    }
    return {
        "extends": str(ROOT / "plugins" / "tsconfig.json"),
        "compilerOptions": {
            "typeRoots": [str(cache / "types" / "node_modules" / "@types")],
            "paths": {name: [str(path)] for name, path in paths.items()},
        },
        "files": [str(ROOT / path) for path in CHECKED],
    }


def _installed(place: Path, packages: tuple[str, ...]) -> bool:
    return all(_version(place, package.rpartition("@")[0]) == package.rpartition("@")[2] for package in packages)


def _version(place: Path, name: str) -> str:
    try:
        return str(json.loads((place / "node_modules" / name / "package.json").read_text())["version"])
    except (OSError, ValueError, KeyError):
        return ""


def _install(npm: str, place: Path, packages: tuple[str, ...]) -> str:
    """Install packages; return the reason of a failure. OpenClaw may need a newer Node than installed."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "package.json").write_text('{"private": true}')
    options = ["--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run([npm, "install", *options, *packages], cwd=place, check=False)
    return f"{' '.join(packages)} could not be installed" if done.returncode else ""


if __name__ == "__main__":
    sys.exit(main())
