"""Kernels in a file beside the sources serve where they fit, with the same bits, and nowhere else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from models.numerics import kernel_cache, shipped
from models.numerics.eigenvalues import _below
from models.numerics.kernel_cache import KernelCache, cache_of
from models.numerics.linked import CalledCache
from models.numerics.shipped import VARIABLE, Shipped, file_name, take_shipped, write_compiled
from tests import ROOT

KERNEL = _below.py_func


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache of a process that had no file, and the file written from it."""
    folder = tmp_path_factory.mktemp("one machine")
    assert in_a_process(folder, "") == ("0", "")
    assert write_compiled(folder / "tallyguard", folder / file_name()) == 1
    return folder


def in_a_process(folder: Path, kernels: str | Path) -> tuple[str, str]:
    """How often the kernel was loaded, and what was said."""
    code = (
        "import numpy as np; from models.numerics.eigenvalues import _below;"
        "assert _below(np.ones(2), np.ones(1), 0.5) == 1; print(sum(_below.stats.cache_hits.values()))"
    )
    own = {"NUMBA_CACHE_DIR": str(folder), VARIABLE: str(kernels), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | own, capture_output=True, text=True, check=True
    )
    return done.stdout.strip(), done.stderr


@pytest.mark.slow
def test_another_machine_loads_what_the_first_has_compiled(compiled: Path, tmp_path: Path) -> None:
    """The same code, byte for byte; and written again it is the same file."""
    assert in_a_process(tmp_path, compiled) == ("1", "")
    again = tmp_path / "again" / file_name()
    write_compiled(tmp_path / "tallyguard", again)
    assert again.read_bytes() == (compiled / file_name()).read_bytes()


Here = Callable[[Path], KernelCache]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    """Looks for the kernel in the file of a folder, as a process with an empty cache."""
    monkeypatch.setattr(kernel_cache, "WANTED", tmp_path / "cache")

    def look(folder: Path) -> KernelCache:
        monkeypatch.setenv(VARIABLE, str(folder))
        shipped._shipped.cache_clear()
        kept = cache_of(KERNEL, CalledCache)
        assert isinstance(kept, KernelCache)
        assert not kept.is_there
        take_shipped(kept)
        return kept

    yield look
    shipped._shipped.cache_clear()


def changed(compiled: Path, folder: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """A folder with a file whose members were changed."""
    with zipfile.ZipFile(compiled / file_name()) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
        comment = archive.comment
    change(members)
    with zipfile.ZipFile(folder / file_name(), "w") as archive:
        archive.comment = comment if members["contents.json"] else b""
        for name, each in members.items():
            archive.writestr(name, each)
    return folder


def rewritten(folder: Path, **values: str) -> Path:
    """The same file as another machine would have written it, with other versions."""
    path = folder / file_name()
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    contents = json.loads(members["contents.json"])
    contents["needs"] |= values
    members["contents.json"] = json.dumps(contents).encode()
    with zipfile.ZipFile(path, "w") as archive:
        archive.comment = shipped._digest(members["contents.json"]).encode()
        for name, each in members.items():
            archive.writestr(name, each)
    return folder


def test_kernels_of_other_sources_are_not_found(
    compiled: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel whose file, or a file with a kernel that it calls, has changed since is compiled."""
    assert here(compiled).is_there
    file = Path(KERNEL.__code__.co_filename)
    assert kernel_cache.source_stamp(file) in Shipped(compiled / file_name())
    sources = kernel_cache._kernel_source
    monkeypatch.setattr(kernel_cache, "_kernel_source", lambda path: sources(path) + b"# changed\n")
    kernel_cache.source_stamp.cache_clear()
    try:
        assert not here(compiled).is_there
    finally:
        kernel_cache.source_stamp.cache_clear()


@pytest.mark.parametrize("version", ["numba", "llvmlite", "python", "system", "cpu", "svml"])
def test_kernels_of_other_versions_or_cpus_are_left_out_in_silence(
    compiled: Path, tmp_path: Path, here: Here, version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = changed(compiled, tmp_path, lambda members: None)
    assert not here(rewritten(folder, **{version: "another"})).is_there
    assert capsys.readouterr().err == ""


def no_digest(members: dict[str, bytes]) -> None:
    members["contents.json"] += b" "


def other_code(members: dict[str, bytes]) -> None:
    (stamp,) = members.keys() - {"contents.json"}
    members[stamp] = members[stamp][:-1] + bytes([members[stamp][-1] ^ 1])


def missing_code(members: dict[str, bytes]) -> None:
    (stamp,) = members.keys() - {"contents.json"}
    del members[stamp]


@pytest.mark.parametrize("harm", [no_digest, other_code, missing_code])
def test_what_is_not_what_was_written_is_refused_in_a_sentence(
    compiled: Path,
    tmp_path: Path,
    here: Here,
    harm: Callable[[dict[str, bytes]], None],
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = changed(compiled, tmp_path, harm)
    assert not here(folder).is_there
    said = capsys.readouterr().err + caplog.text
    assert f"the compiled kernels in {str(folder / file_name())!r} must be those that were written" in said
    assert "write the file again with `make kernels`, or remove it" in said


def test_a_torn_file_is_refused_too(compiled: Path, tmp_path: Path, here: Here) -> None:
    whole = (compiled / file_name()).read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        (tmp_path / file_name()).write_bytes(whole[:length])
        assert not here(tmp_path).is_there


def test_without_a_file_or_a_wish_for_one_nothing_is_taken(here: Here, tmp_path: Path) -> None:
    assert not here(tmp_path / "nowhere").is_there
    assert not here(Path()).is_there
