"""The generated files of host bundles."""

from __future__ import annotations

import importlib.util
import json
import shlex
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from lorelog.core import VERSION
from lorelog.hosts import HOSTS, host_adapter
from lorelog.hosts.bundles import HOOK_EVENTS, bundle_files, hook_command, render_skill, repository_files, skill_files
from lorelog.surfaces.cli.parser import command_parser

ROOT = Path(__file__).parents[2]
ODD = "/opt/a b/it's/lorelog"


def generator() -> ModuleType:
    """Load the script that generates the repository's bundles."""
    spec = importlib.util.spec_from_file_location("generate_plugins", ROOT / "scripts" / "generate_plugins.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_bundles_in_the_repository_are_current() -> None:
    """plugins/ contains exactly the generated files: `make plugins` updates it."""
    assert generator().stale(ROOT) == []


def test_a_stale_missing_or_foreign_file_is_told(tmp_path: Path) -> None:
    """The check of plugins/ detects a changed, a missing and an added file, and writing repairs all three."""
    script = generator()
    script.write(tmp_path)
    assert script.stale(tmp_path) == []
    (tmp_path / "plugins/opencode/lorelog.ts").write_text("// changed by hand")
    (tmp_path / "plugins/openclaw/package.json").unlink()
    (tmp_path / "plugins/claude-code/left.md").write_text("left")
    changed = ["plugins/claude-code/left.md", "plugins/openclaw/package.json", "plugins/opencode/lorelog.ts"]
    assert script.stale(tmp_path) == changed
    assert script.write(tmp_path) == changed
    assert script.stale(tmp_path) == []


@pytest.mark.parametrize("host", HOSTS)
def test_every_file_is_text_without_what_should_have_been_filled_in(host: str) -> None:
    """No file of a bundle is empty, contains a template word, or names a path of the build machine."""
    for path, content in bundle_files(host).items():
        text = content.decode()
        assert text.strip(), path
        assert text.endswith("\n"), path
        for word in ("$COMMAND", "$TOOLS", "$QUESTION", "$ALLOWED", "$DESCRIPTION", "_WHEN", "#include"):
            assert word not in text, (path, word)
        assert str(ROOT) not in text, path


def test_every_manifest_carries_our_version() -> None:
    """Every manifest contains our version."""
    versions = {
        path: shape["version"]
        for path, content in repository_files().items()
        if path.endswith(("plugin.json", "package.json"))
        for shape in [json.loads(content)]
    }
    assert set(versions.values()) == {VERSION}
    assert len(versions) == 9
    (offered,) = json.loads(repository_files()[".claude-plugin/marketplace.json"])["plugins"]
    assert offered["version"] == VERSION
    assert (ROOT / offered["source"] / ".claude-plugin" / "plugin.json").is_file()


@pytest.mark.parametrize("host", sorted(HOOK_EVENTS))
def test_hooks_listen_to_events_that_the_dialect_knows(host: str) -> None:
    """Each event in a hooks file maps to the same moment as in the host's adapter."""
    spoken = host_adapter(host).MOMENTS
    assert {event: spoken[event] for event in HOOK_EVENTS[host]} == dict(HOOK_EVENTS[host])


@pytest.mark.parametrize("shell", [shell for shell in ("sh", "bash", "zsh", "dash") if shutil.which(shell)])
@pytest.mark.parametrize("command", ["lorelog-is-not-there", "/bin/false", ODD])
def test_a_hook_answers_with_json_where_lorelog_is_missing_or_broken(shell: str, command: str) -> None:
    """Without a working lorelog a hook still prints JSON and exits 0, in every shell; a new session says what is wrong."""
    done = subprocess.run(
        [shell, "-c", hook_command("claude", "turn-end", command)],
        capture_output=True,
        text=True,
        check=False,
        input="{}",
    )
    assert (done.returncode, json.loads(done.stdout), done.stderr) == (0, {}, "")
    start = hook_command("claude", "session-start", command)
    said = subprocess.run([shell, "-c", start], capture_output=True, check=True, input=b"{}")
    assert "this session is not remembered" in json.loads(said.stdout)["systemMessage"]


def test_a_command_elsewhere_is_written_into_every_file_that_calls_it(tmp_path: Path) -> None:
    """A custom path of lorelog is used in every file, quoted for a shell where needed."""
    place = tmp_path / "it's a place" / "lorelog"
    place.parent.mkdir()
    place.write_text("#!/bin/sh\necho '{\"ran\": 1}'\n")
    place.chmod(0o755)
    ran = subprocess.run(["sh", "-c", hook_command("claude", "prompt", str(place))], capture_output=True, check=True)
    assert json.loads(ran.stdout) == {"ran": 1}
    claude = bundle_files("claude", str(place))
    assert json.loads(claude[".mcp.json"])["mcpServers"]["lorelog"]["command"] == str(place)
    for host, path in (("opencode", "lorelog.ts"), ("openclaw", "index.ts")):
        assert f"const COMMAND = {json.dumps(str(place))}\n" in bundle_files(host, str(place))[path].decode()
    assert shlex.quote(str(place)) in render_skill("codex", str(place))


def test_hooks_of_claude_code_are_commands_of_ours() -> None:
    """Each hook is `lorelog hook HOST MOMENT` without variables of the host."""
    for event, (group,) in json.loads(bundle_files("claude")["hooks/hooks.json"])["hooks"].items():
        (hook,) = group["hooks"]
        assert shlex.split(hook["command"])[:4] == ["lorelog", "hook", "claude", HOOK_EVENTS["claude"][event]]
        assert "PLUGIN_ROOT" not in hook["command"]


@pytest.mark.parametrize("host", HOSTS)
def test_the_skill_shows_commands_that_parse(host: str) -> None:
    """Every command in the skills is accepted by the command line."""
    lines = [line for text in skill_files(host).values() for line in text.splitlines()]
    shown = [line.split("`")[1].partition(" <<")[0] for line in lines if "`lorelog " in line]
    assert [shlex.split(line)[1] for line in shown] == ["search", "show", "transcript", *["review"] * 3]
    for line in shown:
        _, verb, *words = shlex.split(line)
        parsed = command_parser(verb).parse_args(words)
        assert verb == "review" or not parsed.json  # text costs an agent a fraction of the tokens
        assert verb != "search" or parsed.short


def test_the_skill_is_one_text_with_front_matter_of_each_host() -> None:
    """All hosts get the same text; only Claude Code gets `context: fork` and allowed tools."""
    texts = {host: render_skill(host) for host in HOSTS}
    forked = {host for host, text in texts.items() if "context: fork" in text}
    assert forked == {"claude"}
    assert "Bash(lorelog search:*)" in texts["claude"]
    steps = {text[text.index("Work step by step") : text.index("Run only these")] for text in texts.values()}
    assert len(steps) == 1


def test_the_plugins_import_nothing_but_what_node_brings() -> None:
    """A plugin imports only modules that come with Node."""
    for host, path in (("opencode", "lorelog.ts"), ("openclaw", "index.ts")):
        imports = [line for line in bundle_files(host)[path].decode().splitlines() if line.startswith("import ")]
        assert imports
        for line in imports:
            assert line.startswith("import type ") or 'from "node:' in line, line


def test_openclaw_offers_what_memsearch_offers_there() -> None:
    """The plugin has the subcommands search, index and status, and settings for provider, capture and recall that its code reads."""
    files = bundle_files("openclaw")
    schema = json.loads(files["openclaw.plugin.json"])["configSchema"]["properties"]
    source = files["index.ts"].decode()

    defaults = {name: setting["default"] for name, setting in schema.items()}
    assert defaults == {"provider": "", "autoCapture": True, "autoRecall": True}
    assert all(source.count(name) > 3 for name in schema)
    assert "process.env.LORELOG_EMBEDDING_PROVIDER = provider" in source
    assert [f'own.command("{name}")' in source for name in ("search", "index", "status")] == [True] * 3
    assert command_parser("index").parse_args(["--", "notes"]).paths == ["notes"]
