"""Builds what other package managers take: a man page, a Homebrew formula, an MCP bundle (.mcpb) and an npm package around uvx.

They are derived from pyproject.toml, the parsers, the tools of MCP and the distributions that lie in DIST already:

    python scripts/packages.py dist
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import re
import sys
import tarfile
import textwrap
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]  # the tree this script belongs to, whatever is installed

from scripts.generate_reference import placeholder, usage_line  # noqa: E402

from lorelog.core import VERSION  # noqa: E402
from lorelog.surfaces.cli.arguments import add_options  # noqa: E402
from lorelog.surfaces.cli.commands import COMMANDS, COMMANDS_BY_GROUP  # noqa: E402
from lorelog.surfaces.cli.parser import command_parser  # noqa: E402
from lorelog.surfaces.mcp.tools import TOOLS  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
ENCODER = tomllib.loads((ROOT / "encoder/pyproject.toml").read_text("utf-8"))["project"]
REPOSITORY = PROJECT["urls"]["Repository"]
MAN_PAGE, FORMULA = "lorelog.1", "lorelog.rb"
BUNDLE, NPM_PACKAGE = f"lorelog-{VERSION}.mcpb", f"lorelog-{VERSION}.tgz"
WHEELS = (f"lorelog_encoder-{ENCODER['version']}-py3-none-any.whl", f"lorelog-{VERSION}-py3-none-any.whl")
SDIST = f"lorelog-{VERSION}.tar.gz"
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The date of everything in an archive, so that two builds are the same bytes."""


def man_page() -> str:
    """Return the man page: every command with its verbs and options."""
    whole = argparse.ArgumentParser(prog="lorelog")
    add_options(whole, {"--version": "show the version", "shared": "project tenant daemon"})
    released = re.search(
        rf"^## \[{re.escape(VERSION)}\] - (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
    )
    lines = [
        f'.TH LORELOG 1 "{released[1] if released else ""}" "lorelog {VERSION}" "User Commands"',
        ".SH NAME",
        f"lorelog \\- {_roff(PROJECT['description'])}",
        ".SH SYNOPSIS",
        ".B lorelog",
        "COMMAND [OPTIONS]",
        ".SH DESCRIPTION",
        "lorelog stores what was learned as plain Markdown files, and finds it again by keyword and by meaning, on this machine.",
        "Without a command it shows where to begin.",
        "A command with verbs runs",
        ".I list",
        "or",
        ".I status",
        "if it is given none.",
        ".SH GLOBAL OPTIONS",
        *_options(whole),
    ]
    for group, names in COMMANDS_BY_GROUP.items():
        lines.append(f".SH {group.upper()}")
        for name in names:
            lines += _command(command_parser(name), COMMANDS[name])
    lines += [
        ".SH EXIT STATUS",
        "0 on success, 1 if the command failed, 2 if it was called wrongly.",
        *(
            ".SH FILES",
            ".TP",
            ".I ~/.lorelog",
            "settings, the index and memories of every project; LORELOG_HOME names another folder",
        ),
        *(".TP", ".I .lorelog/memory", "the memories of a project, as Markdown"),
        *(
            ".SH SEE ALSO",
            ".B lorelog docs",
            "shows the documentation, and",
            ".B lorelog docs configuration",
            "every setting.",
        ),
    ]
    return "\n".join(lines) + "\n"


def _command(parser: argparse.ArgumentParser, summary: str) -> Iterator[str]:
    about = (parser.description or "").partition("examples:\n")[0].strip() or summary
    yield f".SS {_roff(usage_line(parser))}"
    for number, paragraph in enumerate(about.split("\n\n")):
        yield from (*[".PP"][:number], *(_roff(line.strip()) for line in paragraph.splitlines()))
    yield from _options(parser)
    for action in parser._actions:  # noqa: SLF001  (argparse offers no other way)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}  # noqa: SLF001
            for name, verb in action.choices.items():
                verb.description = f"{helps[name][:1].upper()}{helps[name][1:]}."
                yield from _command(verb, helps[name])


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:  # noqa: SLF001
        if action.dest != "help" and not isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            value = "" if action.nargs == 0 else placeholder(action)
            spelled = ", ".join(f"{option} {value}".strip() for option in action.option_strings) or value
            yield from (".TP", f".B {_roff(spelled)}", _roff(action.help or ""))


def _roff(text: str) -> str:
    """Return text with nothing that roff reads as a request."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def formula(files: Mapping[str, bytes]) -> str:
    """Return the Homebrew formula. It installs the pinned packages of the sdist and both wheels into an environment of its own."""
    resources = "\n\n".join(
        f'  resource "{name}" do\n    {_download(files, file)}, using: :nounzip\n    {_checksum(files, file)}\n  end'
        for name, file in (("lorelog-encoder", WHEELS[0]), ("lorelog", WHEELS[1]), ("man", MAN_PAGE))
    )
    return f"""class Lorelog < Formula
  desc "{PROJECT["description"]}"
  homepage "{REPOSITORY}"
  {_download(files, SDIST)}
  {_checksum(files, SDIST)}
  license "{PROJECT["license"]}"

  depends_on "python@3.13"

{resources}

  def install
    system "python3.13", "-m", "venv", libexec
    pip = [libexec/"bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    system(*pip, "--require-hashes", "-r", "requirements/run.txt")
    %w[lorelog-encoder lorelog].each do |name|
      resource(name).stage {{ system(*pip, "--no-deps", *Dir["*.whl"]) }}
    end
    resource("man").stage {{ man1.install "{MAN_PAGE}" }}
    bin.install_symlink libexec/"bin/lorelog"
    generate_completions_from_executable(bin/"lorelog", "completion")
  end

  test do
    ENV["LORELOG_HOME"] = (testpath/"home").to_s
    (testpath/"notes.md").write "Redis keys live for five minutes."
    system bin/"lorelog", "index", "notes.md"
    assert_match "notes.md", shell_output("#{{bin}}/lorelog search 'how long do keys live'")
  end
end
"""


def _download(files: Mapping[str, bytes], name: str) -> str:
    return f'url "{REPOSITORY}/releases/download/v{VERSION}/{name}"'


def _checksum(files: Mapping[str, bytes], name: str) -> str:
    return f'sha256 "{hashlib.sha256(files[name]).hexdigest()}"'


def manifest() -> dict[str, object]:
    """Return the manifest of the MCP bundle (version 0.4 of its specification, server type `uv`)."""
    arguments = ["run", "--project", "${__dirname}", "${__dirname}/server.py", "--project", "${user_config.project}"]
    return {
        "manifest_version": "0.4",
        "name": PROJECT["name"],
        "display_name": "lorelog",
        "version": VERSION,
        "description": PROJECT["description"],
        "author": {"name": "the lorelog developers", "url": REPOSITORY},
        "repository": {"type": "git", "url": REPOSITORY},
        "documentation": f"{REPOSITORY}/blob/main/docs/mcp.md",
        "license": PROJECT["license"],
        "keywords": PROJECT["keywords"],
        "server": {"type": "uv", "entry_point": "server.py", "mcp_config": {"command": "uv", "args": arguments}},
        "tools": [{"name": tool["name"], "description": tool["description"]} for tool in TOOLS],
        "compatibility": {"platforms": ["darwin", "linux"], "runtimes": {"python": PROJECT["requires-python"]}},
        "user_config": {
            "project": {
                "type": "directory",
                "title": "Project",
                "description": "The folder whose memories are searched and added to",
                "default": "${HOME}",
                "required": False,
            }
        },
    }


SERVER = '''"""Starts lorelog's MCP server in the environment that uv makes of pyproject.toml."""

import sys

from lorelog.surfaces.cli import entry

sys.argv[:1] = ["lorelog", "mcp"]
entry()
'''


def bundle(files: Mapping[str, bytes]) -> bytes:
    """Return the MCP bundle: the manifest, the start of the server, and both wheels. uv fetches what they depend on."""
    sources = "\n".join(f'{name.partition("-")[0].replace("_", "-")} = {{ path = "{name}" }}' for name in WHEELS)
    project = f"""[project]
name = "lorelog-bundle"
version = "{VERSION}"
requires-python = "{PROJECT["requires-python"]}"
dependencies = ["lorelog", "lorelog-encoder"]

[tool.uv]
package = false

[tool.uv.sources]
{sources}
"""
    contents = {
        "manifest.json": _json(manifest()),
        "pyproject.toml": project.encode(),
        "server.py": SERVER.encode(),
        "LICENSE": (ROOT / "LICENSE").read_bytes(),
        **{name: files[name] for name in WHEELS},
    }
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), content, zipfile.ZIP_DEFLATED)
    return output.getvalue()


SHIM = """#!/usr/bin/env node
// Runs the Python package lorelog of the same version by uvx, or by pipx. Everything else is in that package.
const { spawn } = require("node:child_process");
const { version } = require("./package.json");

const programs = [
  ["uvx", "--from", `lorelog==${version}`, "lorelog"],
  ["pipx", "run", "--spec", `lorelog==${version}`, "lorelog"],
];

function run([[program, ...words], ...others]) {
  const child = spawn(program, [...words, ...process.argv.slice(2)], { stdio: "inherit" });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  child.on("exit", (status, signal) => (signal ? process.kill(process.pid, signal) : process.exit(status)));
  child.on("error", (error) => {
    if (error.code === "ENOENT" && others.length) return run(others);
    const reason = error.code === "ENOENT" ? "neither uvx nor pipx is on PATH" : error.message;
    console.error(`lorelog: it cannot be started: ${reason}`);
    console.error("  hint: install uv, or install lorelog itself: pip install lorelog");
    process.exit(127);
  });
}

run(programs);
"""


def npm_package() -> bytes:
    """Return the npm package, as `npm pack` would write it: a program that runs uvx."""
    package = {
        "name": PROJECT["name"],
        "version": VERSION,
        "description": PROJECT["description"],
        "license": PROJECT["license"],
        "keywords": PROJECT["keywords"],
        "homepage": REPOSITORY,
        "repository": {"type": "git", "url": f"git+{REPOSITORY}.git"},
        "bin": {"lorelog": "lorelog.js"},
        "files": ["lorelog.js"],
        "engines": {"node": ">=18"},
        "os": ["darwin", "linux"],
    }
    about = f"""
        # lorelog

        {PROJECT["description"]}.

        This package starts the Python package of the same version with `uvx` (or `pipx`), which must be installed:

            npx lorelog --help
            npx lorelog mcp

        Everything else is at {REPOSITORY}.
    """
    contents = {
        "package.json": _json(package),
        "lorelog.js": SHIM.encode(),
        "README.md": textwrap.dedent(about).strip().encode() + b"\n",
        "LICENSE": (ROOT / "LICENSE").read_bytes(),
    }
    output = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=output, mode="wb", filename="", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name, content in contents.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size, member.mode = len(content), 0o755 if name == "lorelog.js" else 0o644
            archive.addfile(member, io.BytesIO(content))
    return output.getvalue()


def _json(value: object) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"


def build_packages(folder: Path) -> list[Path]:
    """Write all four beside the distributions, and return their paths."""
    for name in (*WHEELS, SDIST):
        if not (folder / name).is_file():
            raise SystemExit(f"{folder} has no {name}; 'python scripts/release.py build {folder}' builds it")
    files = {name: (folder / name).read_bytes() for name in (*WHEELS, SDIST)}
    files[MAN_PAGE] = man_page().encode()
    made = {
        MAN_PAGE: files[MAN_PAGE],
        FORMULA: formula(files).encode(),
        BUNDLE: bundle(files),
        NPM_PACKAGE: npm_package(),
    }
    for name, content in made.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in made]


def main() -> int:
    """Build them, and print their sizes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dist", type=Path, help="folder with the built wheels and the sdist")
    for path in build_packages(parser.parse_args().dist):
        print(f"{path.stat().st_size:>10,}  {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
