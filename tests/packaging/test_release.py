"""What is released besides the wheels, and the workflow that releases it."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from lorelog.core import VERSION
from lorelog.surfaces.cli.commands import COMMANDS

ROOT = Path(__file__).parents[2]
if not (ROOT / "encoder").is_dir():
    pytest.skip("the sdist has no encoder", allow_module_level=True)
from scripts import packages, release  # noqa: E402

FILES = {name: name.encode() for name in (*packages.WHEELS, packages.SDIST, packages.MAN_PAGE)}
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text("utf-8"))


def test_the_workflow_runs_scripts_that_exist() -> None:
    """Each step names a version of an action, or a script and options that exist; all jobs follow the build, and two steps are checked."""
    jobs: dict[str, Any] = WORKFLOW["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    commands = [shlex.split(line) for step in steps for line in step.get("run", "").splitlines()]
    scripts = [words[1:] for words in commands if words[0] == "python" and words[1] != "-m"]
    done = [release.make_parser().parse_args(words[1:]).step for words in scripts if words[0] == "scripts/release.py"]
    files = [words[words.index("-r") + 1] for words in commands if "-r" in words]

    assert done == ["build", "check", "install"]
    assert [name for name in (*files, *(words[0] for words in scripts)) if not (ROOT / name).is_file()] == []
    assert [step["uses"] for step in steps if "uses" in step and not re.fullmatch(r"[\w/-]+@\S+", step["uses"])] == []
    assert {name: job.get("needs") for name, job in jobs.items()} == {
        "build": None,
        "sign": "build",
        "publish": "sign",
        "npm": "publish",
        "release": "publish",
    }
    writers = {name: sorted(job.get("permissions", ())) for name, job in jobs.items()}
    assert (writers["build"], writers["publish"]) == ([], ["id-token"])
    assert WORKFLOW["permissions"] == {"contents": "read"}


def test_a_tag_that_does_not_fit_is_refused() -> None:
    """A release needs a tag of its version and a dated section in the changelog."""
    assert release.check_tag("v9.9.9")[0] == f"the tag is v9.9.9, and the version {VERSION}"


def test_the_man_page_has_every_command() -> None:
    """Each command and verb has a heading, and no line of text is read as a request."""
    page = packages.man_page()

    assert [name for name in COMMANDS if f"\n.SS lorelog {name}".replace("-", r"\-") not in page] == []
    assert {"task start", "config set", "hosts install"} <= set(
        re.findall(r"^\.SS lorelog (\w+ \w+)", page, re.MULTILINE)
    )
    assert {line.split()[0] for line in page.splitlines() if line[:1] in ".'"} == set(
        ".TH .SH .SS .PP .TP .B .I".split()
    )
    assert packages._roff(".x \\-") == r"\&.x \e\-"


def test_the_formula_downloads_what_was_built() -> None:
    """The Homebrew formula names each file of the release with its SHA-256, and is Ruby if that is here to say so."""
    text = packages.formula(FILES)
    found = dict(re.findall(r'/([^/"]+)"(?:, using: :nounzip)?\n +sha256 "(\w+)"', text))

    assert found == {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    if ruby := shutil.which("ruby"):
        assert subprocess.run([ruby, "-c"], input=text.encode(), capture_output=True, check=False).returncode == 0


def test_the_bundle_starts_the_server(tmp_path: Path) -> None:
    """The MCP bundle has the wheels that its project file names, and the command of its manifest answers `initialize`."""
    with zipfile.ZipFile(io.BytesIO(packages.bundle(FILES))) as archive:
        archive.extractall(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    ask = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": ask})
    _, _, folder, *words = manifest["server"]["mcp_config"]["args"]
    places = {"${__dirname}": str(tmp_path), "${user_config.project}": str(tmp_path)}
    for name, value in places.items():
        words = [word.replace(name, value) for word in words]
    said = subprocess.run([sys.executable, *words], input=f"{request}\n", capture_output=True, text=True, check=True)

    assert (folder, words[0]) == ("${__dirname}", str(tmp_path / manifest["server"]["entry_point"]))
    assert json.loads(said.stdout)["result"]["serverInfo"]["name"] == "lorelog"
    sources = re.findall(r'path = "([^"]+)"', (tmp_path / "pyproject.toml").read_text())
    assert [(tmp_path / name).read_bytes() for name in sources] == [FILES[name] for name in packages.WHEELS]


@pytest.mark.skipif(not shutil.which("node"), reason="needs node")
def test_the_npm_package_runs_uvx(tmp_path: Path) -> None:
    """The program of the npm package runs the same version by uvx, with its words and exit status; without uvx it says what to do."""
    with tarfile.open(fileobj=io.BytesIO(packages.npm_package())) as archive:
        archive.extractall(tmp_path, filter="data")
    uvx = tmp_path / "uvx"
    uvx.write_text('#!/bin/sh\necho "$@"\nexit 7\n')
    uvx.chmod(0o755)
    shim = [str(shutil.which("node")), str(tmp_path / "package/lorelog.js"), "search", "two words"]
    with_uvx, without = (
        subprocess.run(shim, env={"PATH": path}, capture_output=True, text=True, check=False)
        for path in (f"{tmp_path}:/bin", str(tmp_path / "package"))
    )

    assert (with_uvx.returncode, with_uvx.stdout) == (7, f"--from lorelog=={VERSION} lorelog search two words\n")
    assert (without.returncode, "neither uvx nor pipx" in without.stderr) == (127, True)
