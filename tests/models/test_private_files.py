"""What is secret is for its owner only: whatever the umask, whoever laid a link, and whatever was there."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from models.private_files import (
    OPEN_FOLDER,
    PRIVATE_FILE,
    PRIVATE_FOLDER,
    new_file,
    new_folder,
    open_kept,
    private_file,
    readable_by_others,
)


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A folder through which everybody gets: pytest's own are closed."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(OPEN_FOLDER)
        yield Path(folder)


@pytest.mark.usefixtures("umask")
def test_a_private_file_is_private_also_in_place_of_a_wider_one(tmp_path: Path) -> None:
    path = tmp_path / "counts"
    path.write_text("an earlier version's")
    path.chmod(0o666)
    with private_file(path) as file:
        file.write(b"new")
    assert (path.read_bytes(), rights(path)) == (b"new", PRIVATE_FILE)
    assert [each.name for each in tmp_path.iterdir()] == ["counts"]


def test_a_private_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "counts"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), private_file(path) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["counts"]


def test_a_link_laid_in_a_files_place_is_replaced_and_not_followed(tmp_path: Path) -> None:
    """Nor is one in the place of a draft, whose name can be guessed."""
    target, path = tmp_path / "victim", tmp_path / "counts"
    target.write_text("untouched")
    path.symlink_to(target)
    (tmp_path / f".counts.{os.getpid()}.new").symlink_to(target)
    with private_file(path) as file:
        file.write(b"secret")
    assert target.read_text() == "untouched"
    assert not path.is_symlink()
    (tmp_path / "laid").symlink_to(target)
    with pytest.raises(FileExistsError):
        new_file(tmp_path / "laid", PRIVATE_FILE)


def test_a_pipe_is_written_as_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with private_file(tmp_path / "pipe") as file:
        file.write(b"through")
    assert os.read(reader, 10) == b"through"
    os.close(reader)


@pytest.mark.usefixtures("umask")
def test_a_file_that_goes_on_loses_the_rights_it_should_not_have(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("line\n")
    path.chmod(0o664)
    os.close(open_kept(path, os.O_RDWR | os.O_APPEND, PRIVATE_FILE))
    assert (rights(path), path.read_text()) == (0o600, "line\n")
    path.chmod(0o400)
    os.close(open_kept(path, os.O_RDONLY, PRIVATE_FILE))
    assert rights(path) == 0o400  # narrower ones are the owner's wish


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can lay another user's link")
def test_a_link_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("")
    (tmp_path / "log").symlink_to(tmp_path / "target")
    os.chown(tmp_path / "log", 65534, 65534, follow_symlinks=False)
    with pytest.raises(PermissionError, match="user 65534"):
        open_kept(tmp_path / "log", os.O_RDWR, PRIVATE_FILE)
    os.chown(tmp_path / "log", 0, 0, follow_symlinks=False)
    os.close(open_kept(tmp_path / "log", os.O_RDWR, PRIVATE_FILE))


@pytest.mark.usefixtures("umask")
def test_nobody_else_puts_anything_into_a_new_folder(tmp_path: Path) -> None:
    new_folder(tmp_path / "a" / "b" / "keys", PRIVATE_FOLDER)
    assert not rights(tmp_path / "a") & 0o022
    assert not rights(tmp_path / "a" / "b") & 0o022
    assert rights(tmp_path / "a" / "b" / "keys") == PRIVATE_FOLDER


@pytest.mark.parametrize(("mode", "is_open"), [(0o600, False), (0o400, False), (0o640, True), (0o604, True)])
def test_who_else_reads_a_secret(open_place: Path, mode: int, is_open: bool) -> None:
    key = open_place / "a key"
    key.write_text("x")
    key.chmod(mode)
    fault = readable_by_others(key)
    assert (fault is not None) == is_open
    if fault is not None:
        assert fault[1] == f"chmod 600 '{key}'"
        assert os.system(fault[1]) == 0
        assert readable_by_others(key) is None


def test_a_closed_folder_closes_what_is_in_it(open_place: Path) -> None:
    """As deploy/make-secrets.sh makes them: the container reads the file, others must not get there."""
    folder = open_place / "secrets"
    new_folder(folder, PRIVATE_FOLDER)
    (folder / "noise.key").write_text("x")
    (folder / "noise.key").chmod(0o444)
    assert readable_by_others(folder / "noise.key") is None
    folder.chmod(0o755)
    assert readable_by_others(folder / "noise.key") is not None
    assert readable_by_others(folder / "none") is None


@pytest.mark.parametrize(("name", "kind"), [("none", FileNotFoundError), ("file", NotADirectoryError)])
def test_a_folder_that_is_not_there_is_named_and_no_draft(
    tmp_path: Path, name: str, kind: type[OSError]
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(kind) as raised, private_file(tmp_path / name / "x.html"):
        pass
    assert raised.value.filename == str(tmp_path / name)
