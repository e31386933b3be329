"""Kernels that another machine has compiled, in a file beside the sources: loaded instead of compiled again.

Compiling all kernels takes more than a minute of processor time, loading them a few seconds. They are kept by
the contents of their sources and compiled for one kind of CPU (:mod:`models.numerics.kernel_cache`,
:mod:`models.numerics.own_target`), so what one machine has compiled is what another would compile, bit for
bit. ``make kernels`` writes what this machine has compiled of these sources to a file, and ``make wheel`` one
for each interpreter into a wheel; a machine that lacks a kernel looks for it there before it compiles.

Nothing is taken that does not fit. The file names the versions of numba, llvmlite and Python and the kind of
CPU. A kernel is found only under the hash of its own source file and of all those it calls: in a file made
before a change the kernels that the change cannot touch still serve. And the bytes of a source file's kernels
must have the digest that the file's contents name. What is refused is compiled, as if there were no file. It
is machine code that lies beside our own sources, and is trusted as they are.

The file is a zip archive: ``contents.json``, and for each source file a member that is named by its hash and
holds the files of its kernels in the cache, one after the other.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import sysconfig
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import llvmlite.binding  # type: ignore[import-untyped]
import numba

from models.numerics.compiling import announce_damaged
from models.numerics.kernel_cache import KernelCache, kernel_sources, source_stamp
from models.numerics.own_target import CPU

VARIABLE = "KERNELS_OF_TALLYGUARD"
"""The environment variable that names another folder of such files; an empty one means none."""
FOLDER = Path(__file__).parent / "compiled"
"""Where such files are."""
_CONTENTS = "contents.json"
_KEPT = 4  # source files whose kernels a process keeps in memory
_ENDINGS = (".nbi", ".nbc")
_LINKED = ".linked-"  # code that only compiling other kernels needs (models.numerics.linked): twice the rest
_INDEX_LAST = {".nbc": 0, ".nbi": 1}  # an index names files that must be there
_THEN = (1980, 1, 1, 0, 0, 0)  # the same kernels give the same file


def needs() -> dict[str, str]:
    """What must be equal on both machines."""
    return {
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "python": f"{sys.implementation.cache_tag}{sys.abiflags}",
        "system": sysconfig.get_platform(),
        "cpu": CPU if platform.machine() == "x86_64" else llvmlite.binding.get_host_cpu_name(),
        "svml": str(numba.config.USING_SVML),  # type: ignore[attr-defined]
    }


def file_name() -> str:
    """The name of the file that this machine reads."""
    found = needs()
    return "-".join(found[each] for each in ("python", "system", "numba")) + ".kernels"


class _Member(NamedTuple):
    """The kernels of one source file: the sizes of their files, in order, and the digest of all bytes."""

    files: Mapping[str, int]
    sha256: str


class Shipped:
    """A file of compiled kernels; it has none if it was made for other versions or another kind of CPU."""

    def __init__(self, path: Path) -> None:
        """Read its contents; :class:`ValueError` if they are damaged."""
        self._path = path
        try:
            with zipfile.ZipFile(path) as archive:
                contents = archive.read(_CONTENTS)
                if archive.comment != _digest(contents).encode():
                    raise ValueError("its contents are not those it was made with")
            found = json.loads(contents)
            members = found["members"] if found["needs"] == needs() else {}
            self._members = {stamp: _Member(**each) for stamp, each in members.items()}
        except (zipfile.BadZipFile, KeyError, TypeError, EOFError, NotImplementedError) as error:
            raise ValueError(str(error)) from error

    def __contains__(self, stamp: str) -> bool:
        """Whether it has kernels of this source file."""
        return stamp in self._members

    @lru_cache(_KEPT)  # noqa: B019 - one object a process
    def files(self, stamp: str) -> Mapping[str, bytes]:
        """The cached files of one source file's kernels; ValueError where their bytes are others."""
        member = self._members[stamp]
        try:
            with zipfile.ZipFile(self._path) as archive:
                data = archive.read(stamp)
        except (zipfile.BadZipFile, KeyError, EOFError, NotImplementedError) as error:
            raise ValueError(str(error)) from error
        if _digest(data) != member.sha256 or sum(member.files.values()) != len(data):
            raise ValueError("its kernels are not those it was made with")
        ends = accumulate(member.files.values())
        return {
            name: data[end - size : end] for (name, size), end in zip(member.files.items(), ends, strict=True)
        }


def take_shipped(kept: KernelCache) -> None:
    """Put the code of one kernel from the file into the cache, if it is there and fits; its lock is held."""
    shipped = _shipped()
    if shipped is None or kept.stamp not in shipped:
        return
    try:
        kept.put(shipped.files(kept.stamp))
    except (OSError, ValueError) as error:
        announce_damaged(_found(), str(error))


@cache
def _shipped() -> Shipped | None:
    path = _found()
    if not path.is_file():
        return None
    try:
        return Shipped(path)
    except (OSError, ValueError) as error:
        announce_damaged(path, str(error))
        return None


def _found() -> Path:
    """The file of this machine; no file of that name where none is wanted."""
    folder = os.environ.get(VARIABLE)
    return (FOLDER if folder is None else Path(folder or os.devnull)) / file_name()


def write_compiled(caches: Path, path: Path) -> int:
    """Write all kernels of these sources that are kept in ``caches`` to a file; returns their number."""
    members: dict[str, _Member] = {}
    data: dict[str, bytes] = {}
    kernels = 0
    for stamp in sorted({source_stamp(each) for each in kernel_sources()}):
        files = {each.name: each.read_bytes() for each in _in_order(caches / stamp)}
        kernels += sum(name.endswith(".nbi") for name in files)
        if files:
            data[stamp] = b"".join(files.values())
            sizes = {name: len(each) for name, each in files.items()}
            members[stamp] = _Member(sizes, _digest(data[stamp]))
    found = {stamp: each._asdict() for stamp, each in members.items()}
    contents = json.dumps({"needs": needs(), "members": found}).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".new")
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_LZMA) as archive:
        archive.comment = _digest(contents).encode()
        for name, each in {_CONTENTS: contents, **data}.items():
            archive.writestr(zipfile.ZipInfo(name, _THEN), each, zipfile.ZIP_LZMA)
    draft.replace(path)
    return kernels


def _in_order(folder: Path) -> Iterator[Path]:
    """The cached files of this Python, sorted by name; each index after the code it names."""
    tag = f".py{sys.version_info.major}{sys.version_info.minor}{sys.abiflags}."
    with suppress(FileNotFoundError):
        found = [
            each
            for each in folder.iterdir()
            if each.suffix in _ENDINGS and tag in each.name and _LINKED not in each.name
        ]
        yield from sorted(found, key=lambda each: (_INDEX_LAST[each.suffix], each.name))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
