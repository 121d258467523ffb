"""What hosts are given: one source, nothing stale, nothing decided in it."""

from __future__ import annotations

import importlib.util
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from lorelog.core.version import VERSION
from lorelog.hosts import HOSTS, dialect
from lorelog.hosts.bundles import EVENTS, bundle, hook_line, marketplace, repository, skill
from lorelog.surfaces.cli.main import COMMANDS, command_parser

ROOT = Path(__file__).parents[2]
ODD = "/opt/a b/it's/lorelog"


def generator() -> ModuleType:
    """The script that writes the repository's bundles."""
    spec = importlib.util.spec_from_file_location("generate_plugins", ROOT / "scripts" / "generate_plugins.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_bundles_in_the_repository_are_current() -> None:
    """What plugins/ holds is what is generated, and nothing else: `make plugins` brings it up to date."""
    assert generator().stale(ROOT) == []


def test_a_stale_missing_or_foreign_file_is_told(tmp_path: Path) -> None:
    """The check that guards plugins/ sees a changed, a missing and an added file, and writing mends all three."""
    script = generator()
    script.write(tmp_path)
    assert script.stale(tmp_path) == []
    (tmp_path / "plugins/opencode/lorelog.ts").write_text("// changed by hand")
    (tmp_path / "plugins/openclaw/package.json").unlink()
    (tmp_path / "plugins/claude-code/left.md").write_text("left")
    changed = [
        "plugins/claude-code/left.md",
        "plugins/openclaw/package.json",
        "plugins/opencode/lorelog.ts",
    ]
    assert script.stale(tmp_path) == changed
    assert script.write(tmp_path) == changed
    assert script.stale(tmp_path) == []


@pytest.mark.parametrize("host", HOSTS)
def test_every_file_is_text_without_what_should_have_been_filled_in(host: str) -> None:
    """No file of a bundle is empty, holds a template's word, or names a place of the machine it was made on."""
    for path, content in bundle(host).items():
        text = content.decode()
        assert text.strip(), path
        assert text.endswith("\n"), path
        for word in ("$COMMAND", "$TOOLS", "$QUESTION", "$ALLOWED", "$DESCRIPTION", "_WHEN", "#include"):
            assert word not in text, (path, word)
        assert str(ROOT) not in text, path


def test_every_manifest_carries_our_version() -> None:
    """A person who looks at an installed plugin sees which lorelog it belongs to."""
    versions = {
        path: shape["version"]
        for path, content in repository().items()
        if path.endswith(("plugin.json", "package.json"))
        for shape in [json.loads(content)]
    }
    assert set(versions.values()) == {VERSION}
    assert len(versions) == 5
    (offered,) = json.loads(marketplace()[".claude-plugin/marketplace.json"])["plugins"]
    assert offered["version"] == VERSION
    assert (ROOT / offered["source"] / ".claude-plugin" / "plugin.json").is_file()


@pytest.mark.parametrize("host", sorted(EVENTS))
def test_hooks_listen_to_events_that_the_dialect_knows(host: str) -> None:
    """Each event in a hooks file stands for the moment that the host's dialect says."""
    spoken = dialect(host).MOMENTS
    assert {event: spoken[event] for event in EVENTS[host]} == dict(EVENTS[host])


@pytest.mark.parametrize("shell", [one for one in ("sh", "bash", "zsh", "dash") if shutil.which(one)])
@pytest.mark.parametrize("command", ["lorelog-is-not-there", "/bin/false", ODD])
def test_a_hook_answers_with_json_where_lorelog_is_missing_or_broken(shell: str, command: str) -> None:
    """Without a working lorelog a hook's line still prints a JSON object and exits 0, in every shell."""
    done = subprocess.run(
        [shell, "-c", hook_line("claude", "turn-end", command)], capture_output=True, text=True, check=False, input="{}"
    )
    assert (done.returncode, json.loads(done.stdout), done.stderr) == (0, {}, "")


@pytest.mark.parametrize("moment", sorted(set(EVENTS["claude"].values())))
def test_a_hook_line_is_a_command_of_ours(moment: str) -> None:
    """What a line runs is `lorelog hook HOST MOMENT`, which the command line knows."""
    words = shlex.split(hook_line("codex", moment))
    assert words[:4] == ["lorelog", "hook", "codex", moment]
    assert "hook" in COMMANDS or (ROOT / "src/lorelog/surfaces/cli/hook.py").is_file()


def test_a_command_elsewhere_is_written_into_every_file_that_calls_it(tmp_path: Path) -> None:
    """A lorelog that is not on PATH is called by its place, quoted for a shell and as it is elsewhere."""
    place = tmp_path / "it's a place" / "lorelog"
    place.parent.mkdir()
    place.write_text("#!/bin/sh\necho '{\"ran\": 1}'\n")
    place.chmod(0o755)
    ran = subprocess.run(["sh", "-c", hook_line("claude", "prompt", str(place))], capture_output=True, check=True)
    assert json.loads(ran.stdout) == {"ran": 1}
    claude = bundle("claude", str(place))
    assert json.loads(claude[".mcp.json"])["mcpServers"]["lorelog"]["command"] == str(place)
    for host, path in (("opencode", "lorelog.ts"), ("openclaw", "index.ts")):
        assert f"const COMMAND = {json.dumps(str(place))}\n" in bundle(host, str(place))[path].decode()
    assert shlex.quote(str(place)) in skill("codex", str(place))


@pytest.mark.parametrize("host", HOSTS)
def test_the_skill_shows_commands_that_parse(host: str) -> None:
    """Every lorelog command that the skill shows is one that the command line takes."""
    shown = [line.split("`")[1] for line in skill(host).splitlines() if "`lorelog " in line]
    assert [shlex.split(line)[1] for line in shown] == ["search", "expand", "transcript"]
    for line in shown:
        _, verb, *words = shlex.split(line)
        assert command_parser(verb).parse_args(words).json


def test_the_skill_is_one_text_with_front_matter_of_each_host() -> None:
    """All hosts read the same advice; only Claude Code is told to fork and what it may run."""
    texts = {host: skill(host) for host in HOSTS}
    forked = {host for host, text in texts.items() if "context: fork" in text}
    assert forked == {"claude"}
    assert "Bash(lorelog search:*)" in texts["claude"]
    steps = {text[text.index("Work inward") : text.index("Run nothing but")] for text in texts.values()}
    assert len(steps) == 1


def test_the_plugins_import_nothing_but_what_node_brings() -> None:
    """A plugin loads where its host puts it: nothing is imported at run time that would have to be installed."""
    for host, path in (("opencode", "lorelog.ts"), ("openclaw", "index.ts")):
        imports = [line for line in bundle(host)[path].decode().splitlines() if line.startswith("import ")]
        assert imports
        for line in imports:
            assert line.startswith("import type ") or 'from "node:' in line, line


def test_bundles_are_made_without_anything_heavy() -> None:
    """Whoever asks for a bundle loads the standard library only."""
    program = "import sys, lorelog.hosts.bundles as b; b.repository(); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"numpy", "tomlkit", "msgspec"} & set(ran.stdout.split())
