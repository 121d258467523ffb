"""Into each host and out again: nothing twice, nothing of others, back to the byte."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples

from lorelog.core.errors import ConfigError
from lorelog.hosts import HOSTS
from lorelog.hosts.bundles import HOOK_EVENTS, hook_command
from lorelog.services.install.manifests import build_manifest
from lorelog.services.install.plan import (
    InstallContext,
    apply_install,
    apply_uninstall,
    effective_changes,
    plan_install,
    plan_uninstall,
)
from lorelog.services.install.status import pending_approvals

OLD = "/old/place/lorelog"
CODEX_HOOKS = """{ "hooks": {
    "Stop": [ { "hooks": [{ "type": "command", "command": "notify-send done" }] } ] } }
"""
CODEX_CONFIG = """\
# mine
model = "gpt"   # the best
[mcp_servers.other]
command = "other"
"""
OPENCLAW = """\
{
  // my lobster
  gateway: { mode: 'local' },
  "plugins": {
    "slots": { "memory": "memory-core" },
    "entries": { "other": { "enabled": true } }, // keep
    "allow": ["other"],
  },
}
"""
SCALARS = st.none() | st.booleans() | st.integers(-99, 99) | st.text('ab/é"\\ {}[]', max_size=6)
VALUES = st.recursive(
    SCALARS, lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text(max_size=4), one, max_size=3)
)


def setting(tmp_path: Path, *, command: str = "lorelog", approve: bool = False) -> InstallContext:
    return InstallContext(tmp_path, tmp_path / ".lorelog", command, {"PATH": os.defpath}, approve)


def install(host: str, where: InstallContext) -> int:
    """Install, and return how many files changed."""
    changes = plan_install(host, build_manifest(host, where), where)
    apply_install(host, changes, where)
    return len(effective_changes(changes))


def uninstall(host: str, where: InstallContext) -> int:
    changes = plan_uninstall(host, build_manifest(host, where), where)
    apply_uninstall(host, changes, where)
    return len(effective_changes(changes))


def configured(tmp_path: Path) -> None:
    """Give every host a configuration of somebody's own."""
    for path, text in {
        ".codex/hooks.json": CODEX_HOOKS,
        ".codex/config.toml": CODEX_CONFIG,
        ".openclaw/openclaw.json": OPENCLAW,
        ".claude/settings.json": '{"model": "opus"}',
        ".claude/skills/mine/SKILL.md": "mine",
        ".config/opencode/opencode.jsonc": "{} // mine",
        ".config/opencode/plugins/mine.ts": "export {}",
        ".copilot/mcp-config.json": '{"mcpServers": {}}',
        ".gemini/GEMINI.md": "mine",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)


def everything(tmp_path: Path) -> dict[str, bytes]:
    """Return all files of a home but our own."""
    return {
        path.relative_to(tmp_path).as_posix(): path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_file() and ".lorelog" not in path.relative_to(tmp_path).parts
    }


def folders(tmp_path: Path) -> set[str]:
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_dir()}
    return {path for path in found if not path.startswith(".lorelog")}


@pytest.mark.parametrize("filled", [True, False])
@pytest.mark.parametrize("host", HOSTS)
def test_uninstalling_gives_back_every_byte(host: str, filled: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """After installing and uninstalling, all that was there is as it was, and nothing else is there."""
    if filled:
        configured(tmp_path)
    before, rooms = everything(tmp_path), folders(tmp_path)
    where = setting(tmp_path, approve=True)
    assert install(host, where) > 0
    assert uninstall(host, where) > 0
    assert everything(tmp_path) == before
    assert folders(tmp_path) == rooms
    assert uninstall(host, where) == 0


@pytest.mark.parametrize("host", HOSTS)
def test_installing_twice_changes_nothing_more(host: str, tmp_path: Path) -> None:
    """Asked again it finds all in place, also where another version or place of lorelog was installed before."""
    configured(tmp_path)
    before = everything(tmp_path)
    where = setting(tmp_path)
    install(host, setting(tmp_path, command=OLD))
    assert install(host, where) > 0
    now = everything(tmp_path)
    assert not any(OLD.encode() in content for content in now.values())
    assert install(host, where) == 0
    assert everything(tmp_path) == now
    uninstall(host, where)
    assert everything(tmp_path) == before


def test_codex_gets_a_hook_for_each_event_beside_those_of_others(tmp_path: Path) -> None:
    """Codex's own file keeps its hooks, and ours stand behind them; its settings keep comments and other servers."""
    configured(tmp_path)
    install("codex", setting(tmp_path))
    hooks = json.loads((tmp_path / ".codex/hooks.json").read_text())["hooks"]
    assert hooks["Stop"][0]["hooks"][0]["command"] == "notify-send done"
    assert hooks["Stop"][1]["hooks"][0]["command"] == hook_command("codex", "turn-end")
    assert set(hooks) == set(HOOK_EVENTS["codex"])
    config = (tmp_path / ".codex/config.toml").read_text()
    assert config.startswith(CODEX_CONFIG)
    servers = tomllib.loads(config)["mcp_servers"]
    assert servers == {"other": {"command": "other"}, "lorelog": {"command": "lorelog", "args": ["mcp"]}}


def test_what_others_change_afterwards_stays(tmp_path: Path) -> None:
    """A host that writes to its files while we are installed keeps what it wrote; only our entries go."""
    configured(tmp_path)
    where = setting(tmp_path)
    for host in HOSTS:
        install(host, where)
    config = tmp_path / ".codex/config.toml"
    config.write_text(config.read_text() + '\n[projects."/p"]\ntrust_level = "trusted"\n')
    claw = tmp_path / ".openclaw/openclaw.json"
    claw.write_text(claw.read_text().replace("'local'", "'remote'"))
    for host in ("codex", "openclaw"):
        assert install(host, where) == 0
        uninstall(host, where)
    assert config.read_text() == CODEX_CONFIG + '\n[projects."/p"]\ntrust_level = "trusted"\n'
    assert claw.read_text() == OPENCLAW.replace("'local'", "'remote'")


def test_what_a_person_adds_to_our_entries_survives_an_update(tmp_path: Path) -> None:
    """An approval, a limit or another choice in our own entry is kept when a newer version is installed."""
    configured(tmp_path)
    for host in ("codex", "openclaw"):
        install(host, setting(tmp_path, command=OLD))
    config = tmp_path / ".codex/config.toml"
    config.write_text(config.read_text() + "startup_timeout_sec = 20\n")
    claw = tmp_path / ".openclaw/openclaw.json"
    approved = '"lorelog": { "enabled": true, "hooks": { "allowConversationAccess": true } }'
    claw.write_text(claw.read_text().replace('"lorelog": {"enabled": true}', approved))
    where = setting(tmp_path)
    assert pending_approvals("openclaw", where) == []
    for host in ("codex", "openclaw"):
        install(host, where)
    ours = tomllib.loads(config.read_text())["mcp_servers"]["lorelog"]
    assert ours == {"command": "lorelog", "args": ["mcp"], "startup_timeout_sec": 20}
    assert pending_approvals("openclaw", where) == []


def test_the_memory_slot_is_given_back(tmp_path: Path) -> None:
    """OpenClaw's slot is given back also where the file has been changed since; access is granted only when asked for."""
    configured(tmp_path)
    where = setting(tmp_path)
    install("openclaw", where)
    claw = tmp_path / ".openclaw/openclaw.json"
    assert '"memory": "lorelog"' in claw.read_text()
    assert "allowConversationAccess" not in claw.read_text()
    assert pending_approvals("openclaw", where)
    install("openclaw", setting(tmp_path, approve=True))
    assert pending_approvals("openclaw", where) == []
    claw.write_text(claw.read_text() + "// a last word\n")
    uninstall("openclaw", where)
    assert claw.read_text() == OPENCLAW + "// a last word\n"


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(25), deadline=None)
@given(config=st.dictionaries(st.text(max_size=5), VALUES, max_size=4), layout=st.sampled_from([None, 2, "\t"]))
def test_any_configuration_keeps_its_entries(config: dict[str, Any], layout: int | str | None, tmp_path: Path) -> None:
    """Random configurations keep all their entries while we are installed, and come back to the byte."""
    where = setting(tmp_path)
    text = json.dumps(config, indent=layout)
    hooks, claw = tmp_path / ".codex/hooks.json", tmp_path / ".openclaw/openclaw.json"
    for path in (hooks, claw):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    for host, path in (("codex", hooks), ("openclaw", claw)):
        install(host, where)
        now = json.loads(path.read_text())
        assert all(now[key] == value for key, value in config.items())
        path.write_text(path.read_text() + "\n")  # by somebody else: the copy does not serve any more
        uninstall(host, where)
        left = json.loads(path.read_text())
        assert {key: value for key, value in left.items() if value != {} or key in config} == config
        path.write_text(text)
        install(host, where)
        uninstall(host, where)
        assert path.read_text() == text


@pytest.mark.parametrize(
    ("host", "path", "text"),
    [
        ("codex", ".codex/hooks.json", '{"hooks": {"Stop": ['),
        ("codex", ".codex/hooks.json", '{"hooks": {"Stop": "x"}}'),
        ("codex", ".codex/config.toml", "model = \n"),
        ("codex", ".codex/config.toml", "mcp_servers = 3\n"),
        ("openclaw", ".openclaw/openclaw.json", "{ plugins: "),
        ("openclaw", ".openclaw/openclaw.json", "[]"),
        ("copilot", ".copilot/mcp-config.json", '{"mcpServers": '),
    ],
)
def test_what_cannot_be_understood_is_left_alone(host: str, path: str, text: str, tmp_path: Path) -> None:
    """A broken or unusual configuration is refused before anything is written, and it is said what to write by hand."""
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(text)
    where = setting(tmp_path)
    with pytest.raises(ConfigError) as caught:
        install(host, where)
    assert path.rpartition("/")[2] in caught.value.message
    assert "lorelog" in caught.value.hint
    assert everything(tmp_path) == {path: text.encode()}
    assert not where.home.exists()


@pytest.mark.parametrize("text", ["another tool's skill", "Use it to lorelog what was said."])
def test_a_file_of_somebody_else_under_our_name_is_refused(tmp_path: Path, text: str) -> None:
    """A skill of the same name that another tool has put there is not overwritten, whatever words it has."""
    theirs = tmp_path / ".codex/skills/memory-recall/SKILL.md"
    theirs.parent.mkdir(parents=True)
    theirs.write_text(text)
    with pytest.raises(ConfigError, match="not ours"):
        install("codex", setting(tmp_path))
    assert theirs.read_text() == text
    assert uninstall("codex", setting(tmp_path)) == 0


@pytest.mark.parametrize("again", [True, False])
def test_another_folder_of_the_host_is_a_place_of_its_own(again: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """What a person wrote into a file that we had made stays when we are installed elsewhere, and when all of it goes."""
    moved = tmp_path / "work"
    there = InstallContext(tmp_path, tmp_path / ".lorelog", "lorelog", {"PATH": os.defpath, "CODEX_HOME": str(moved)})
    install("codex", there)
    config = moved / "config.toml"
    config.write_text('model = "mine"\n\n' + config.read_text())
    if again:
        install("codex", setting(tmp_path))
        assert "mcp_servers" in config.read_text()
        assert (moved / "skills" / "memory-recall" / "SKILL.md").exists()
    uninstall("codex", setting(tmp_path))

    assert everything(tmp_path) == {"work/config.toml": b'model = "mine"\n'}


@pytest.mark.parametrize(
    "command",
    [
        "tee -a log; lorelog hook codex turn-end",
        "notify 'lorelog hook codex turn-end'",
        "log lorelog hook codex turn-end",
        "/opt/notlorelog hook codex turn-end",
        "lorelog 'hook codex",
    ],
)
def test_hooks_of_others_that_name_us_stay(command: str, tmp_path: Path) -> None:
    """A hook that is not just our call is its owner's, also where the configuration was changed since."""
    path = tmp_path / ".codex" / "hooks.json"
    path.parent.mkdir()
    group = {"hooks": [{"type": "command", "command": command}]}
    path.write_text(json.dumps({"hooks": {"Stop": [group]}}))
    install("codex", setting(tmp_path))
    path.write_text(path.read_text() + "\n")
    uninstall("codex", setting(tmp_path))

    assert json.loads(path.read_text()) == {"hooks": {"Stop": [group]}}


@pytest.mark.parametrize("command", ["/a b/lorelog", "/it's/lorelog", '/"q"/$x/lorelog'])
def test_any_place_of_ours_is_recognised(command: str, tmp_path: Path) -> None:
    """Installed from a path with spaces, quotes or dollars, all of it is replaced by the next, and goes again."""
    (tmp_path / ".codex").mkdir()
    path = tmp_path / ".codex" / "hooks.json"
    path.write_text(CODEX_HOOKS)
    for place in (command, "lorelog", command):
        install("codex", setting(tmp_path, command=place))
        assert path.read_text().count("hook codex turn-end") == 1
    path.write_text(path.read_text() + "\n")
    uninstall("codex", setting(tmp_path, command=command))

    assert json.loads(path.read_text()) == json.loads(CODEX_HOOKS)


@pytest.mark.parametrize(
    "text", ["", " \n", "{}", '{"plugins": {}}', '{"plugins": {"load": {"paths": []}}}', "\ufeff{}"]
)
def test_what_says_nothing_comes_back_to_the_byte(text: str, tmp_path: Path) -> None:
    """Empty files and empty objects are the person's too: they are not tidied up, and a byte order mark is no obstacle."""
    path = tmp_path / ".openclaw" / "openclaw.json"
    path.parent.mkdir()
    path.write_text(text, "utf-8")
    where = setting(tmp_path)

    assert uninstall("openclaw", where) == 0
    assert install("openclaw", where) > 0
    uninstall("openclaw", where)
    assert path.read_text("utf-8") == text


def test_a_pipe_in_the_place_of_a_file_does_not_block(tmp_path: Path) -> None:
    """What is no regular file is told, and not read."""
    (tmp_path / ".codex").mkdir()
    os.mkfifo(tmp_path / ".codex" / "hooks.json")
    with pytest.raises(ConfigError, match="not a regular file"):
        install("codex", setting(tmp_path))


def test_the_hint_fits_what_was_wanted(tmp_path: Path) -> None:
    """Who cannot be installed is told what to write, who cannot be uninstalled what to take out."""
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "hooks.json").write_text("{")
    with pytest.raises(ConfigError) as installing:
        install("codex", setting(tmp_path))
    with pytest.raises(ConfigError) as uninstalling:
        uninstall("codex", setting(tmp_path))

    assert "add by hand" in installing.value.hint
    assert "remove by hand" in uninstalling.value.hint


def test_mode_and_link_stay(tmp_path: Path) -> None:
    """A private file stays private, and a link into a dotfiles directory stays a link."""
    kept = tmp_path / "dotfiles" / "codex.toml"
    kept.parent.mkdir()
    kept.write_text(CODEX_CONFIG)
    kept.chmod(0o640)
    (tmp_path / ".codex").mkdir()
    link = tmp_path / ".codex/config.toml"
    link.symlink_to(kept)
    install("codex", setting(tmp_path))
    assert link.is_symlink()
    assert "lorelog" in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
    copies = list((tmp_path / ".lorelog/backups/hosts/codex").iterdir())
    assert {stat.S_IMODE(copy.stat().st_mode) for copy in copies} == {0o600}
    uninstall("codex", setting(tmp_path))
    assert link.is_symlink()
    assert kept.read_text() == CODEX_CONFIG


def test_a_link_out_of_the_home_is_not_followed(tmp_path: Path) -> None:
    """A link that leads elsewhere is refused, and its target stays as it is."""
    outside, inside = tmp_path / "outside.toml", tmp_path / "home"
    outside.write_text(CODEX_CONFIG)
    (inside / ".codex").mkdir(parents=True)
    (inside / ".codex/config.toml").symlink_to(outside)
    with pytest.raises(ConfigError, match="outside your home"):
        install("codex", setting(inside))
    assert outside.read_text() == CODEX_CONFIG


def test_a_folder_that_was_chosen_may_lie_anywhere(tmp_path: Path) -> None:
    """CODEX_HOME outside the home is written to; the usual folder is not followed there by a link."""
    inside, outside = tmp_path / "home", tmp_path / "elsewhere"
    inside.mkdir()
    outside.mkdir()
    where = InstallContext(inside, inside / ".lorelog", "lorelog", {"CODEX_HOME": str(outside)})
    assert install("codex", where) == 4
    assert uninstall("codex", where) == 4
    assert everything(outside) == {}
    (inside / ".codex").symlink_to(outside)
    with pytest.raises(ConfigError, match="outside your home"):
        install("codex", setting(inside))
    assert everything(outside) == {}


def test_what_cannot_be_written_is_told_with_what_to_do(tmp_path: Path) -> None:
    """Where a host's folder cannot be written, the error says which file, and that it is as it was."""
    where = InstallContext(tmp_path, tmp_path / ".lorelog", "lorelog", {"CODEX_HOME": "/sys/lorelog"})  # also for root
    with pytest.raises(ConfigError) as caught:
        install("codex", where)
    assert "/sys/lorelog/skills/lorelog-review/SKILL.md cannot be written" in caught.value.message
    assert "--dry-run" in caught.value.hint


def test_a_file_in_the_way_is_told(tmp_path: Path) -> None:
    """A file where a folder should be is an error, and nothing is written."""
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex/skills").write_text("a file where a folder should be")
    with pytest.raises(ConfigError, match="Not a directory"):
        install("codex", setting(tmp_path))
    assert everything(tmp_path) == {".codex/skills": b"a file where a folder should be"}


def test_a_change_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    """What a host writes between our reading and our writing is not lost."""
    configured(tmp_path)
    where = setting(tmp_path)
    changes = plan_install("codex", build_manifest("codex", where), where)
    config = tmp_path / ".codex/config.toml"
    config.write_text(CODEX_CONFIG + "later = 1\n")
    with pytest.raises(ConfigError, match="changed meanwhile"):
        apply_install("codex", changes, where)
    assert config.read_text() == CODEX_CONFIG + "later = 1\n"


def test_windows_line_ends_stay(tmp_path: Path) -> None:
    """A file with carriage returns keeps them on every line, ours too."""
    path = tmp_path / ".codex/hooks.json"
    path.parent.mkdir()
    path.write_bytes(b'{\r\n  "hooks": {}\r\n}\r\n')
    install("codex", setting(tmp_path))
    content = path.read_bytes()
    assert content.count(b"\n") == content.count(b"\r\n") > 10
    uninstall("codex", setting(tmp_path))
    assert path.read_bytes() == b'{\r\n  "hooks": {}\r\n}\r\n'


KILLED = """
import os, pathlib, sys
left = int(sys.argv[1])
real = os.replace
def replace(*paths, **folders):
    global left
    left -= 1
    if left < 0:
        os._exit(9)
    return real(*paths, **folders)
os.replace = replace
from tests_of_plan import install, setting
install(sys.argv[2], setting(pathlib.Path(sys.argv[3])))
"""


@pytest.mark.slow
@pytest.mark.parametrize("host", ["codex", "openclaw"])
def test_a_process_that_dies_leaves_whole_files(host: str, tmp_path: Path) -> None:
    """Killed before any of its renames, an installation leaves each file old or new, and can be finished and taken back."""
    (tmp_path / "tests_of_plan.py").write_text(Path(__file__).read_text())
    for steps in range(40):
        home = tmp_path / f"home{steps}"
        configured(home)
        before = everything(home)
        words = [sys.executable, "-c", KILLED, str(steps), host, str(home)]
        died = subprocess.run(words, check=False, env={**os.environ, "PYTHONPATH": str(tmp_path)}).returncode
        for path, content in everything(home).items():
            if path in before and content != before[path]:
                assert b"lorelog" in content
        for path in (".codex/hooks.json", ".codex/config.toml", ".openclaw/openclaw.json"):
            assert (home / path).read_bytes().strip()
        install(host, setting(home))
        uninstall(host, setting(home))
        assert {path: everything(home)[path] for path in before} == before
        if died == 0:
            break
    assert died == 0
    assert steps > 3


def test_what_openclaws_own_installer_wrote_stays(tmp_path: Path) -> None:
    """Where our plugin is linked by OpenClaw itself too, its entry and slot stay when ours goes."""
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "openclaw.plugin.json").write_text('{"id": "lorelog"}')
    shape = {
        "load": {"paths": [str(linked)]},
        "slots": {"memory": "lorelog"},
        "entries": {"lorelog": {"enabled": True}},
    }
    claw = tmp_path / ".openclaw/openclaw.json"
    claw.parent.mkdir()
    claw.write_text(json.dumps({"plugins": shape}))
    where = setting(tmp_path)
    install("openclaw", where)
    claw.write_text(claw.read_text() + "\n")
    uninstall("openclaw", where)
    assert json.loads(claw.read_text()) == {"plugins": shape}
