"""What is built: a wheel that embeds without a network, and an sdist without the model."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODEL = "src/lorelog/models/data/e5-small-v2"
OUTSIDE = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
"""No package index: whatever needs one fails."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what Git keeps of the package, without the model. The README's text is not what is tested here."""
    place = tmp_path / "checkout"
    shutil.copytree(ROOT / "src", place / "src", ignore=shutil.ignore_patterns("__pycache__", "data"))
    shutil.copytree(ROOT / "scripts", place / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("hatch_build.py", "pyproject.toml", "LICENSE", "NOTICE", ".gitignore"):
        shutil.copy(ROOT / name, place / name)
    (place / "README.md").write_text("# lorelog\n")
    return place


def put_model(checkout: Path) -> None:
    shutil.copytree(ROOT / MODEL, checkout / MODEL)


def build(checkout: Path, target: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(checkout / "dist")],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **OUTSIDE},
    )


@pytest.mark.slow
def test_the_wheel_embeds_without_a_network(checkout: Path, tmp_path: Path) -> None:
    """The wheel holds the model, its licence and our notices, and what is unpacked from it embeds on its own."""
    put_model(checkout)
    done = build(checkout, "wheel")
    assert done.returncode == 0, done.stderr
    (wheel,) = (checkout / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    names = {path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("*")}
    assert {f"lorelog/models/data/e5-small-v2/{name}" for name in ("model.onnx", "tokenizer.json", "LICENSE")} <= names
    assert {f"lorelog/hosts/sources/{name}" for name in ("SKILL.md", "hook.ts", "commands/recall.md")} <= names
    assert {name.rpartition("/")[2] for name in names if ".dist-info/licenses/" in name} == {"LICENSE", "NOTICE"}
    program = (
        "import lorelog.models.embed as models\n"
        "from lorelog.core.options import EmbedOptions\n"
        "embedder = models.open_embedder(EmbedOptions())\n"
        "print(models.__file__, len(embedder.embed_query('hello')))\n"
    )
    alone = ["unshare", "-rn"] if _can_unshare() else []
    ran = subprocess.run(
        [*alone, sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
    )
    place, size = ran.stdout.split()
    assert Path(place).is_relative_to(tmp_path / "site")
    assert int(size) == 384 * 4


def _can_unshare() -> bool:
    """Whether this machine lets us take the network away from a process; Linux often does."""
    tool = shutil.which("unshare")
    return bool(tool) and subprocess.run([str(tool), "-rn", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.slow
def test_no_wheel_is_built_without_the_model(checkout: Path) -> None:
    """When the model is neither there nor to be had, the build fails and says how to bring it."""
    done = build(checkout, "wheel")
    assert done.returncode != 0
    assert "cannot be built without its model" in done.stderr
    assert "--from WHEEL" in done.stderr
    assert not list((checkout / "dist").glob("*.whl"))


@pytest.mark.slow
def test_the_sdist_carries_the_script_instead_of_the_model(checkout: Path) -> None:
    """An sdist needs no model to be built and holds none even when it is there, but all that it takes to fetch it."""
    put_model(checkout)
    done = build(checkout, "sdist")
    assert done.returncode == 0, done.stderr
    (sdist,) = (checkout / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"scripts/fetch_model.py", "hatch_build.py", "LICENSE", "NOTICE"} <= names
    assert not [name for name in names if "models/data" in name]
