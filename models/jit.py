"""How kernels are compiled: cached on disk, without the interpreter lock, never with reordered arithmetic.

``fastmath`` stays off: a replay must give the same bits, whatever the number of threads. Every process
compiles for the same kind of CPU, so that machines that share people or a cache run the same instructions.

numba notices when a kernel's own file has changed, not when a kernel it calls has: a caller would go on with
the old one compiled into it. So the cache is a folder of its own for each state of the sources.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import llvmlite.binding as llvm  # type: ignore[import-untyped]
import numba
from numba.core.config import reload_config

from models.exceptions import MachineError

F = TypeVar("F", bound=Callable[..., Any])

_PACKAGES = ("models", "accounting")
CPU = "x86-64-v3"  # every server of the last ten years: AVX2 and FMA, no AVX-512
_CPU_FEATURES = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_UNUSED_SECONDS = 14 * 86_400  # older folders belong to sources nobody runs any more


def source_stamp(root: Path) -> str:
    """A name for the contents of all files that hold kernels, which are those that import this module."""
    digest = hashlib.sha256(numba.__version__.encode())
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            source = path.read_bytes()
            if b"models.jit" in source:
                digest.update(
                    b"%s\0%d\0" % (path.relative_to(root).as_posix().encode(), len(source)) + source
                )
    return digest.hexdigest()[:16]


def use_one_cpu() -> None:
    """Compile for :data:`CPU` in this process and its children, whatever the environment asks for.

    :class:`~models.exceptions.MachineError` where the machine cannot run that.
    """
    if platform.machine() != "x86_64":
        return  # not supported: kernels are compiled for what there is
    check_cpu(llvm.get_host_cpu_features())
    os.environ |= {"NUMBA_CPU_NAME": CPU, "NUMBA_CPU_FEATURES": ""}
    reload_config()  # type: ignore[no-untyped-call]


def check_cpu(features: Mapping[str, bool]) -> None:
    """:class:`~models.exceptions.MachineError` unless a CPU with these features runs the kernels."""
    missing = [name for name in _CPU_FEATURES if not features.get(name)]
    if missing:
        raise MachineError(
            f"the CPU must be {CPU} (Intel since Haswell, AMD since Excavator)",
            f"one without {', '.join(missing)}",
            "run on a newer machine, or let the virtual machine show its host's CPU",
        )


def use_own_cache() -> Path:
    """Point numba to the folder of these sources, below ``NUMBA_CACHE_DIR`` or the user's cache folder."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    caches = Path(os.environ.get("NUMBA_CACHE_DIR") or home / "tallyguard" / "kernels")
    folder = caches / source_stamp(Path(__file__).parent.parent)
    try:
        if not folder.exists():
            forget_unused(caches)
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
    except OSError:
        return folder  # nowhere to write: numba then says so itself, kernel by kernel
    numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]
    return folder


def forget_unused(caches: Path) -> None:
    """Remove the folders of sources that have not been run for two weeks."""
    if caches.is_dir():
        for old in caches.iterdir():
            is_ours = len(old.name) == 16 and old.is_dir()
            if is_ours and time.time() - old.stat().st_mtime > _UNUSED_SECONDS:
                shutil.rmtree(old, ignore_errors=True)


use_one_cpu()
use_own_cache()


def jit(function: F) -> F:
    """Compile a kernel for one thread."""
    return cast(F, numba.njit(cache=True, nogil=True)(function))


def pjit(function: F) -> F:
    """Compile a kernel whose ``prange`` loops run over independent people.

    The loop's body must be one call of a :func:`jit` kernel: numba 0.68 drops a write through a named tuple's
    field that stands in the body itself.
    """
    return cast(F, numba.njit(cache=True, nogil=True, parallel=True)(function))


def inline(function: F) -> F:
    """Compile a kernel into its callers: a call would copy the descriptors of dozens of arrays."""
    return cast(F, numba.njit(inline="always", nogil=True)(function))


def intrinsic(function: Callable[..., Any]) -> Any:
    """Make code written for the compiler, instruction by instruction, callable from kernels."""
    return numba.extending.intrinsic(function)


prange = numba.prange
