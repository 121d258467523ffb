"""Puts the pinned hosts into a cache, each in a folder of its own, with whatever registry npm is set up for.

What is already there in the pinned version is left alone and needs no network. A folder is filled beside its place and
then moved there, so that an install that was cut off is never taken for a host. The versions are in versions.json:
behaviour differs between versions of every one of these programs, and npm picks an old one silently when the Node at
hand is older than what the newest asks for.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

_HERE = Path(__file__).resolve().parent
SEEN_FILE = _HERE / "seen.json"
"""By host and row: the version and the day in which it was last seen. docs/hosts.md shows it."""
_LIMIT_S = 900
NODE = "node"
"""Node in the version that OpenClaw needs; not a host."""
PROGRAMS = {
    "node": "node",
    **{name: name for name in ("claude", "codex", "opencode", "openclaw", "gemini", "qwen", "copilot")},
    **{name: name for name in ("droid", "pi", "omp", "kilo", "kimi", "cline")},
}
COMPANIONS = ("codex", "claude")
"""Fast hosts, installed for every run: they write the memory that another host recalls."""


class CannotInstall(Exception):
    """A host is missing; the message says which one and why."""


@dataclasses.dataclass(frozen=True)
class Installed:
    """A host in the cache."""

    name: str
    version: str
    folder: Path

    @property
    def programs(self) -> Path:
        return self.folder / "node_modules" / ".bin"

    @property
    def program(self) -> Path:
        return self.programs / PROGRAMS[self.name]


def pinned() -> dict[str, dict[str, str]]:
    """Packages with versions, by host."""
    found: dict[str, dict[str, str]] = json.loads((_HERE / "versions.json").read_text())
    return found


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the cache folder of hosts."""
    return Path(environment.get("LORELOG_E2E_CACHE") or "~/.cache/lorelog-e2e").expanduser().resolve()


def install(name: str, cache: Path) -> Installed:
    """Return an installed host, installing it if needed. Raise CannotInstall."""
    packages = pinned()[name]
    place = cache / name
    if not _is_there(name, place, packages):
        _fetch(name, place, packages)
        if not _is_there(name, place, packages):
            raise CannotInstall(f"{name}: npm ended well, but {packages} are not in {place}")
    return Installed(name, next(iter(packages.values())), place)


def install_all(names: list[str], cache: Path) -> tuple[dict[str, Installed], dict[str, str]]:
    """Return the available hosts with their requirements, and the reasons for the others."""
    there: dict[str, Installed] = {}
    missing: dict[str, str] = {}
    for name in dict.fromkeys((NODE, *names, *COMPANIONS)):
        try:
            there[name] = install(name, cache)
        except CannotInstall as error:
            missing[name] = str(error)
    if NODE in missing:
        return {}, dict.fromkeys(names, missing[NODE])
    return there, {name: why for name, why in missing.items() if name in names}


def _is_there(name: str, place: Path, packages: Mapping[str, str]) -> bool:
    modules = place / "node_modules"
    return (modules / ".bin" / PROGRAMS[name]).exists() and all(
        _version_in(modules / package) == version for package, version in packages.items()
    )


def _version_in(package: Path) -> str:
    try:
        return str(json.loads((package / "package.json").read_text())["version"])
    except (OSError, ValueError, KeyError):
        return ""


def _fetch(name: str, place: Path, packages: Mapping[str, str]) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise CannotInstall(f"{name}: there is no npm on PATH to install it with")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=place.parent) as passing:
        fresh = Path(passing) / name
        fresh.mkdir()
        (fresh / "package.json").write_text(json.dumps({"private": True, "dependencies": dict(packages)}))
        _run_npm(name, npm, fresh, place.parent)
        shutil.rmtree(place, ignore_errors=True)
        fresh.rename(place)


def _run_npm(name: str, npm: str, folder: Path, cache: Path) -> None:
    quiet = {"npm_config_update_notifier": "false", "npm_config_fund": "false", "npm_config_audit": "false"}
    newer = cache / NODE / "node_modules" / ".bin"
    path = f"{newer}{os.pathsep}{os.environ.get('PATH', '')}"  # install scripts of OpenClaw refuse an old Node
    try:
        done = subprocess.run(
            [npm, "install", "--no-package-lock", "--loglevel=error"],
            cwd=folder,
            env={**os.environ, **quiet, "PATH": path},
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CannotInstall(f"{name}: npm had not installed it after {_LIMIT_S} seconds") from error
    if done.returncode != 0:
        said = [line.removeprefix("npm error").strip() for line in done.stderr.splitlines()]
        raise CannotInstall(f"{name}: npm ended with {done.returncode}: {' | '.join(list(filter(None, said))[:5])}")
