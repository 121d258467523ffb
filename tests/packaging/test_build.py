"""What is built, without a network: the encoder's wheel, the program's wheel, and sdists with docs and tests."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from hatch_build import absolute_links

import lorelog_encoder

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://example.org/lorelog"
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
"""No package index: whatever needs one fails."""
needs_encoder = pytest.mark.skipif(not (ROOT / "encoder").is_dir(), reason="the sdist has no encoder")


def build(source: Path, output: Path, *targets: str, **variables: str) -> list[Path]:
    alone = ["unshare", "-rn"] if _can_unshare() else []
    wanted = [option for target in targets for option in ("-t", target)]
    subprocess.run(
        [*alone, sys.executable, "-m", "hatchling", "build", *wanted, "-d", str(output)],
        cwd=source,
        capture_output=True,
        check=True,
        env={**os.environ, **OFFLINE, **variables},
    )
    return sorted(output.iterdir())


def _can_unshare() -> bool:
    """Whether this machine lets us take the network away from a process; Linux often does."""
    tool = shutil.which("unshare")
    return bool(tool) and subprocess.run([str(tool), "-rn", "true"], capture_output=True, check=False).returncode == 0


def test_the_committed_model_has_its_checksum() -> None:
    """The encoder's files have the SHA-256 that the package states, and weigh at most 40 MB."""
    for name, digest in lorelog_encoder.SHA256.items():
        assert hashlib.sha256((lorelog_encoder.FOLDER / name).read_bytes()).hexdigest() == digest
    files = [path for path in (ROOT / "encoder").rglob("*") if path.is_file() and "dist" not in path.parts]
    assert sum(path.stat().st_size for path in files) <= 40e6


def test_the_base_is_small() -> None:
    """A base installation has at most 25 distributions, the program and the encoder among them."""
    names = re.findall(r"^([\w.-]+)==", (ROOT / "requirements/run.txt").read_text("utf-8"), re.MULTILINE)
    assert len(set(names)) + 2 <= 25


def test_links_are_absolute_on_the_index() -> None:
    """Relative links of the README lead to the repository; others stay."""
    text = '[a](docs/a.md#b) ![p](./p.svg) [c](https://x.y) [d](#d) <img src="p.svg">'
    assert absolute_links(text, REPOSITORY) == (
        f"[a]({REPOSITORY}/blob/main/docs/a.md#b) ![p]({REPOSITORY}/raw/main/p.svg) [c](https://x.y) [d](#d) "
        f'<img src="{REPOSITORY}/raw/main/p.svg">'
    )


@pytest.mark.slow
@needs_encoder
def test_the_wheels_embed_without_a_network(tmp_path: Path) -> None:
    """Both wheels are built and used without a network, and hold the model, docs, licences and notices."""
    for source in ("encoder", "."):
        build(ROOT / source, tmp_path / "dist", "wheel")
    for wheel in (tmp_path / "dist").glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(tmp_path / "site")
        assert wheel.name.startswith("lorelog_encoder") or wheel.stat().st_size <= 2.5e6
    names = {path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("*")}
    assert not [name for name in names if name.startswith("lorelog/docs/") and name.endswith((".png", ".svg"))]
    assert {"lorelog_encoder/model.onnx", "lorelog_encoder/vocab.txt", "lorelog/docs/search.md"} <= names
    assert {f"lorelog/hosts/sources/{name}" for name in ("SKILL.md", "hook.ts", "commands/recall.md")} <= names
    licences = {name.rpartition("/")[2] for name in names if ".dist-info/licenses/" in name}
    assert licences == {"LICENSE", "NOTICE", "LICENSE-APACHE", "LICENSE-MODEL"}
    program = (
        "import lorelog.models.embed as models\n"
        "from lorelog.core.options import EmbedOptions\n"
        "embedder = models.open_embedder(EmbedOptions())\n"
        "print(models.__file__, len(embedder.embed_query('hello')))\n"
    )
    ran = subprocess.run(
        [*(["unshare", "-rn"] if _can_unshare() else []), sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
    )
    place, size = ran.stdout.split()
    assert Path(place).is_relative_to(tmp_path / "site")
    assert int(size) == 384 * 4


@pytest.mark.slow
@needs_encoder
def test_a_packager_can_keep_the_model_elsewhere(tmp_path: Path) -> None:
    """Built with LORELOG_ENCODER_DIR, the encoder's wheel names that folder and holds no weights."""
    (wheel,) = build(ROOT / "encoder", tmp_path, "wheel", LORELOG_ENCODER_DIR="/usr/share/lorelog/encoder")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("lorelog_encoder/folder.txt") == b"/usr/share/lorelog/encoder\n"
        assert not [name for name in archive.namelist() if name.endswith(("model.onnx", "vocab.txt"))]


@pytest.mark.slow
def test_the_sdist_has_docs_and_tests(tmp_path: Path) -> None:
    """Who packages from the sdist can run the tests and ship the docs."""
    (sdist,) = build(ROOT, tmp_path, "sdist")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"docs/search.md", "tests/conftest.py", "Makefile", "LICENSE", "NOTICE", "CHANGELOG.md", "hatch_build.py"}
    wanted |= {"mkdocs.yml", ".claude-plugin/marketplace.json", ".github/workflows/ci.yml"}
    assert wanted <= names
    assert not [name for name in names if name.endswith(".onnx")]
