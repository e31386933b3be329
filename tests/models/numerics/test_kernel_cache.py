"""Compiled kernels are kept where that is possible and safe, and whoever compiles in vain is told why."""

# ruff: noqa: E501 - what another process runs, or says, is one line
from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from models.numerics.shipped import VARIABLE
from tests import ROOT

USE = """
import errno, os, sys
import numba, numpy as np
from models.numerics.eigenvalues import _below
{before}
assert _below(np.ones(2), np.ones(1), 0.5) == 1
print(sum(_below.stats.cache_hits.values()))
"""
ANOTHER_USER = "numba.njit(lambda values: np.sort(values))(np.ones(2)); uid = 54_321; os.setgroups([]); os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)"
FULL_DISK = """
from models.numerics import kernel_cache
class Full(kernel_cache._File):
    def _save_data(self, name, data):
        if {where!r} in self._cache_path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super()._save_data(name, data)
kernel_cache._File = Full
"""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
pytestmark = pytest.mark.slow


def use(before: str = "", **environment: str | None) -> tuple[str, str]:
    """How often a kernel was loaded, 0 or 1, and what is said; one line at most is not about time."""
    own = {name: value for name, value in environment.items() if value is not None}
    left = {name: value for name, value in os.environ.items() if name not in environment}
    done = subprocess.run(
        [sys.executable, "-c", USE.format(before=before)],
        env=left | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", VARIABLE: ""} | own,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.strip(), done.stderr


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A folder that another user reaches, too; pytest closes its own to others whenever it begins."""
    with tempfile.TemporaryDirectory() as reachable:
        Path(reachable).chmod(0o755)
        yield Path(reachable)


def folder_for(path: Path, owner: int = 0, mode: int = 0o755) -> Path:
    path.mkdir(parents=True)
    os.chown(path, owner, owner)
    path.chmod(mode)
    return path


@as_root
def test_a_folder_that_cannot_be_written_to_is_named_and_another_is_used(open_path: Path) -> None:
    """As where root made it: the second time all is there, and nothing is said."""
    cache = folder_for(open_path / "of root")
    temporary = folder_for(open_path / "tmp", 54_321)
    environment = {"XDG_CACHE_HOME": str(cache), "NUMBA_CACHE_DIR": None, "TMPDIR": str(temporary)}
    loaded, said = use(ANOTHER_USER, **environment)
    assert loaded == "0"
    instead = temporary / "kernels-of-tallyguard-54321"
    (line,) = said.splitlines()
    assert line == (
        "compiled kernels must be kept in a folder that user 54321 can write to, got "
        f"{str(cache / 'tallyguard' / 'kernels')!r} (Permission denied): they are kept in {str(instead)!r} until "
        "that is emptied; make it writable, see that its disk has room, or set NUMBA_CACHE_DIR to another"
    )
    assert stat.S_IMODE(instead.stat().st_mode) == 0o700
    assert use(ANOTHER_USER, **environment) == ("1", "")


@as_root
def test_where_nothing_can_be_kept_it_is_not_said_that_it_is_once(open_path: Path) -> None:
    """Nor where the folder among the temporary ones was put there, or opened, by somebody else."""
    cache, temporary = folder_for(open_path / "of root"), folder_for(open_path / "tmp", 54_321)
    folder_for(temporary / "kernels-of-tallyguard-54321", 12_345, 0o777)
    environment = {"XDG_CACHE_HOME": str(cache), "NUMBA_CACHE_DIR": None, "TMPDIR": str(temporary)}
    impatient = "; import models.numerics.compiling; models.numerics.compiling._PATIENCE = 0.0"
    for _ in range(2):
        loaded, said = use(ANOTHER_USER + impatient, **environment)
        assert loaded == "0"
        assert "they are compiled again at every command, which takes minutes" in said
        assert "compiling, and nothing of it can be kept" in said
        assert "once" not in said
    assert list(temporary.rglob("*.nb?")) == []


@as_root
def test_a_folder_that_can_only_be_read_is_read(open_path: Path) -> None:
    """As in an image, or mounted so that who computes cannot put machine code there for the others."""
    cache = folder_for(open_path / "image")
    assert use(NUMBA_CACHE_DIR=str(cache))[0] == "0"
    temporary = folder_for(open_path / "tmp", 54_321)
    environment = {"NUMBA_CACHE_DIR": str(cache), "TMPDIR": str(temporary)}
    assert use(ANOTHER_USER, **environment) == ("1", "")
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("mode", [0o755, 0o700], ids=["open", "closed"])
def test_what_lies_among_temporary_files_is_used_only_if_it_is_closed_to_others(
    tmp_path: Path, mode: int
) -> None:
    """Who could write there could have us run anything."""
    folder = tmp_path / f"kernels-of-tallyguard-{os.geteuid()}"
    folder.mkdir()
    folder.chmod(mode)
    environment = {"XDG_CACHE_HOME": "/dev/null", "NUMBA_CACHE_DIR": None, "TMPDIR": str(tmp_path)}
    loaded = [use(**environment)[0] for _ in range(2)]
    assert loaded == (["0", "1"] if mode == 0o700 else ["0", "0"])


def test_a_link_among_temporary_files_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (tmp_path / f"kernels-of-tallyguard-{os.geteuid()}").symlink_to(elsewhere)
    use(XDG_CACHE_HOME="/dev/null", NUMBA_CACHE_DIR=None, TMPDIR=str(tmp_path))
    assert list(elsewhere.iterdir()) == []


@as_root
def test_a_user_without_a_home_keeps_kernels_too(open_path: Path) -> None:
    """As in a container that is started with a number for a user."""
    temporary = folder_for(open_path / "tmp", 54_321)
    environment = {"HOME": None, "XDG_CACHE_HOME": None, "NUMBA_CACHE_DIR": None, "TMPDIR": str(temporary)}
    loaded, said = use(ANOTHER_USER, **environment)
    assert loaded == "0"
    assert f"they are kept in {str(temporary)!r}"[:-1] in said
    assert use(ANOTHER_USER, **environment)[0] == "1"


@pytest.mark.parametrize("home", ["", "relative/cache"])
def test_a_cache_home_that_is_no_whole_path_is_ignored(tmp_path: Path, home: str) -> None:
    """It made folders in whatever folder a command was started in."""
    environment = {"XDG_CACHE_HOME": home, "HOME": str(tmp_path / "home"), "NUMBA_CACHE_DIR": None}
    before = set(ROOT.iterdir())
    use(before=f"os.chdir({str(tmp_path)!r})", **environment)
    assert {each.name for each in tmp_path.iterdir()} == {"home"}
    assert set(ROOT.iterdir()) == before


@pytest.mark.parametrize("where", ["of ours", "/"], ids=["the wanted folder", "everywhere"])
def test_a_full_disk_is_said_and_stops_nothing(tmp_path: Path, where: str) -> None:
    cache = tmp_path / "of ours"
    (tmp_path / "tmp").mkdir()
    before = FULL_DISK.format(where=where)
    loaded, said = use(before, NUMBA_CACHE_DIR=str(cache), TMPDIR=str(tmp_path / "tmp"))
    assert loaded == "0"
    assert f"got {str(cache / 'tallyguard')!r} (No space left on device)" in said
    assert ("they are kept in" if where == "of ours" else "again at every command") in said


@cache
def compiled() -> dict[Path, bytes]:
    """A cache with a kernel in it: what its files hold."""
    with tempfile.TemporaryDirectory() as folder:
        use(NUMBA_CACHE_DIR=folder)
        files = [each for each in Path(folder).rglob("*") if each.is_file()]
        return {each.relative_to(folder): each.read_bytes() for each in files}


@pytest.mark.parametrize("ending", ["nbi", "nbc", "both"])
@pytest.mark.parametrize("harm", ["empty", "torn", "other bytes"])
def test_a_file_that_is_torn_is_compiled_again(tmp_path: Path, ending: str, harm: str) -> None:
    """As by a power loss: it ended every command with an error of pickle's."""
    for name, content in compiled().items():
        (tmp_path / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    files = [each for each in tmp_path.rglob("*.nb?") if ending in ("both", each.suffix[1:])]
    assert files
    for each in files:
        kept = each.read_bytes()
        half = kept[: len(kept) // 2]
        each.write_bytes(
            {"empty": b"", "torn": half, "other bytes": half + bytes(len(kept) - len(half))}[harm]
        )
    assert use(NUMBA_CACHE_DIR=str(tmp_path)) == ("0", "")
    assert use(NUMBA_CACHE_DIR=str(tmp_path)) == ("1", "")


def test_two_versions_at_once_do_not_take_turns(tmp_path: Path) -> None:
    """Each has folders of its own, and neither takes the other's away."""
    newer = "import llvmlite; llvmlite.__version__ = '0.99'; assert llvmlite.__version__ == '0.99'"
    found = [use(before, NUMBA_CACHE_DIR=str(tmp_path))[0] for before in ("", newer, "", newer)]
    assert found == ["0", "0", "1", "1"]
    assert len({each.parent for each in tmp_path.rglob("*.nbi") if re.search("_below", each.name)}) == 2
