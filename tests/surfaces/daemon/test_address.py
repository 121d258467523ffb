"""Address of the daemon, and the files there that are not trusted."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from lorelog.core.errors import DaemonError
from lorelog.light.daemon_connection import (
    MAX_SOCKET_PATH_BYTES,
    DaemonAddress,
    check_socket,
    create_folders,
    find_address,
    wake,
)


def bound(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    return listener


def test_folder_and_socket_are_for_their_owner_only(home: Path) -> None:
    """The socket's directory gets mode 0700, even if it was wider."""
    address = DaemonAddress(str(home))
    Path(address.run).mkdir(parents=True, mode=0o755)

    create_folders(address)

    assert Path(address.run).stat().st_mode & 0o777 == 0o700


def test_a_home_is_found_as_commands_find_it(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An explicit home comes before LORELOG_HOME, which comes before ~/.lorelog; links are followed."""
    (tmp_path / "link").symlink_to(tmp_path)

    assert find_address(str(tmp_path / "link" / "a")).home == str(tmp_path / "a")
    assert find_address().home == str(home)
    assert find_address(environment={}).home == os.path.expanduser("~/.lorelog")  # noqa: PTH111


def test_a_long_home_has_its_socket_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the socket path would be too long, the socket is in a directory of this user, always the same one, whose path always fits."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/tmp")
    long = DaemonAddress(str(tmp_path / ("d" * 120)))
    other = DaemonAddress(str(tmp_path / ("e" * 120)))

    assert len(os.fsencode(long.socket)) < MAX_SOCKET_PATH_BYTES
    assert long.socket.startswith(f"/tmp/lorelog-{os.geteuid()}-")
    assert long.socket == DaemonAddress(long.home).socket != other.socket
    assert long.lock.startswith(long.home)
    for variable in ("XDG_RUNTIME_DIR", "TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(variable, str(tmp_path / ("r" * 120)))
    assert len(os.fsencode(DaemonAddress(long.home).socket)) < MAX_SOCKET_PATH_BYTES


def test_a_socket_in_a_folder_that_others_may_enter_is_refused(home: Path) -> None:
    """A socket that another user could have created is refused."""
    address = DaemonAddress(str(home))
    create_folders(address)
    with bound(address.socket):
        assert check_socket(address)
        os.chmod(address.run, 0o777)  # noqa: PTH101

        with pytest.raises(DaemonError, match="accessible to other users"):
            check_socket(address)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("what", ["folder", "socket"])
def test_what_belongs_to_someone_else_is_refused(home: Path, what: str) -> None:
    """A directory or socket of another user is an error that names the user."""
    address = DaemonAddress(str(home))
    create_folders(address)
    with bound(address.socket):
        os.chown(getattr(address, what), 12345, 12345)

        with pytest.raises(DaemonError, match="belongs to user 12345"):
            check_socket(address)


def test_what_stands_in_the_way_is_named(home: Path, tmp_path: Path) -> None:
    """A file or a link where a directory or a socket should be is an error, not a crash, and nobody talks with it."""
    address = DaemonAddress(str(home))
    home.mkdir()
    Path(address.run).write_text("", "utf-8")
    with pytest.raises(DaemonError, match="run"):
        create_folders(address)

    Path(address.run).unlink()
    Path(address.run).symlink_to(tmp_path)
    with pytest.raises(DaemonError, match="is not a directory"):
        create_folders(address)

    Path(address.run).unlink()
    create_folders(address)
    Path(address.socket).write_text("", "utf-8")
    for use in (check_socket, wake):
        with pytest.raises(DaemonError, match="is not a socket"):
            use(address)
