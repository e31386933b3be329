"""numba for our kernels only: contexts, a CPU and short cuts of their own, by numba's extension of targets.

Whoever imports us may compile kernels, too: for their CPU, with their settings and numba's own words. So ours
are compiled for a *target* of ours, which has all that numba's CPU has and shares no state with it. What a
target cannot have of its own is changed while one of our kernels is compiled, under numba's lock, and put
back: see :func:`compiling`. Used by :mod:`models.numerics.jit`.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import llvmlite.binding as llvm  # type: ignore[import-untyped]
from numba.core import compiler, config, imputils, registry
from numba.core.codegen import JITCPUCodegen
from numba.core.compiler_lock import global_compiler_lock
from numba.core.cpu import CPUContext
from numba.core.runtime.nrt import rtsys
from numba.core.target_extension import CPU as ANY_CPU
from numba.core.target_extension import dispatcher_registry, jit_registry, target_override, target_registry
from numba.core.targetconfig import ConfigStack
from numba.core.typing.context import Context
from numba.core.typing.templates import Registry
from numba.core.utils import threadsafe_cached_property
from numba.misc import mergesort
from numba.np import arrayobj

from models.exceptions import MachineError
from models.numerics.compiling import announced_compiling
from models.numerics.front_end import replaced, shortened_front_end
from models.numerics.linked import Library, entry_of

CPU = "x86-64-v3"  # every server of the last ten years: AVX2 and FMA, no AVX-512
_CPU_FEATURES = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_NAME = "tallyguard"
_IS_SUPPORTED = platform.machine() == "x86_64"  # elsewhere kernels are compiled for what there is
_compiling = 0  # how many of ours are, each inside the one before; changed under numba's lock only

OWN_TYPES = Registry()
"""How numba finds the types of what only our kernels have."""
OWN_CODE = imputils.Registry(_NAME)
"""And the code of it."""


class OwnCpu(ANY_CPU):
    """Stands for our kernels where numba asks for whom something is compiled."""


def check_cpu(features: Mapping[str, bool]) -> None:
    """:class:`~models.exceptions.MachineError` unless a CPU with these features runs the kernels."""
    missing = [name for name in _CPU_FEATURES if not features.get(name)]
    if missing:
        raise MachineError(
            f"the CPU must be {CPU} (Intel since Haswell, AMD since Excavator)",
            f"one without {', '.join(missing)}",
            "run on a newer machine, or let the virtual machine show its host's CPU",
        )


class _Codegen(JITCPUCodegen):
    """Machine code for :data:`CPU`, whatever the environment asks numba for."""

    def _get_host_cpu_name(self) -> Any:
        return CPU if _IS_SUPPORTED else super()._get_host_cpu_name()

    def _get_host_cpu_features(self) -> Any:
        return "" if _IS_SUPPORTED else super()._get_host_cpu_features()

    def magic_tuple(self) -> Any:
        """What kept code is found by; numba leaves out what it was told about optimising and checking."""
        more = config.OPT, config.BOUNDSCHECK, config.DEBUGINFO_DEFAULT  # type: ignore[attr-defined]
        return (*super().magic_tuple(), *map(str, more))


class _TypingContext(Context):
    """What types functions give, for our kernels."""

    def load_additional_registries(self) -> None:
        super().load_additional_registries()
        self.install_registry(OWN_TYPES)


class _Context(CPUContext):
    """What functions are compiled to, for our kernels."""

    def init(self) -> None:
        if _IS_SUPPORTED:
            check_cpu(llvm.get_host_cpu_features())
        super().init()
        self._internal_codegen = _Codegen("numba.exec")

    def load_additional_registries(self) -> None:
        # memory is managed for all kernels of a process by code that is compiled as numba itself would
        rtsys.initialize(registry.cpu_target.target_context)
        super().load_additional_registries()
        self.install_registry(OWN_CODE)

    def get_executable(self, library: Any, fndesc: Any, env: Any) -> Any:
        return entry_of(library, fndesc, env) or super().get_executable(library, fndesc, env)

    def _compile_subroutine_no_cache(
        self,
        builder: Any,
        impl: Any,
        sig: Any,
        locals: Any = None,  # noqa: A002 - numba's word
        flags: Any = None,
    ) -> Any:
        """As numba's own, into a :class:`~models.numerics.linked.Library`."""
        flags = flags or self._flags_of_subroutine()
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        library = Library(self.codegen(), impl.__name__)
        types, returned = sig.args, sig.return_type
        made = compiler.compile_internal(
            self.typing_context, self, library, impl, types, returned, flags, locals=locals or {}
        )
        self.active_code_library.add_linking_library(made.library)
        return made

    @staticmethod
    def _flags_of_subroutine() -> Any:
        flags: Any = compiler.Flags()
        above = ConfigStack.top_or_none()
        if above is not None and above.is_set("nrt") and above.nrt:
            flags.nrt = True
        return flags


class _Compiler(compiler.Compiler):
    """What has no entry for Python goes into a :class:`~models.numerics.linked.Library`, also of numba."""

    def define_pipelines(self) -> Any:
        state = self.state
        if state.flags.no_cpython_wrapper:
            state.library = Library(state.targetctx.codegen(), state.func_id.func_qualname)
        return super().define_pipelines()


class _Target(registry.CPUTarget):
    """Our contexts, made when the first kernel is."""

    @threadsafe_cached_property
    def _toplevel_target_context(self) -> Any:
        return _Context(self.typing_context, self._target_name)

    @threadsafe_cached_property
    def _toplevel_typing_context(self) -> Any:
        return _TypingContext()


class Dispatcher(registry.CPUDispatcher):
    """A kernel of ours, or a function of numba's that one uses."""

    targetdescr = _Target(_NAME)

    def __init__(
        self,
        py_func: Any,
        locals: Any = None,  # noqa: A002 - numba's word
        targetoptions: Any = None,
        **_: Any,
    ) -> None:
        options = {"nopython": True, "boundscheck": None} | (targetoptions or {})
        super().__init__(py_func, locals, options, pipeline_class=_Compiler)

    def compile(self, sig: Any) -> Any:
        """As numba does, as one of ours."""
        with compiling():
            return super().compile(sig)

    def add_overload(self, cres: Any) -> None:
        """Keep what was compiled or loaded, which finds its Python objects when it runs."""
        if not isinstance(cres.library, Library):
            for each in cres._find_referenced_environments():
                cres.library.codegen.set_env(each.env_name, each)
        super().add_overload(cres)


def own_jit(**options: Any) -> Callable[[Any], Dispatcher]:
    """``numba.njit`` for :class:`OwnCpu`; ``NUMBA_DISABLE_JIT`` is for other people's kernels."""
    return lambda function: Dispatcher(function, targetoptions=options)


target_registry[_NAME] = OwnCpu
dispatcher_registry[OwnCpu] = Dispatcher
jit_registry[OwnCpu] = own_jit


def _own_mergesort(*args: Any, **options: Any) -> Any:
    """numba makes this one for its own CPU, whoever asks."""
    return mergesort.make_mergesort_impl(own_jit, *args, **options)


_own_sorts: dict[Any, Any] = {}  # numba keeps those it made, for its own CPU, too


@contextmanager
def compiling() -> Iterator[None]:
    """One of our kernels is compiled or loaded: nobody else's is meanwhile, and what is changed comes back.

    numba's lock is held. A target is chosen for this thread only.
    """
    global _compiling  # noqa: PLW0603 - as numba's lock, there is one in a process
    with global_compiler_lock, ExitStack() as until_done:
        until_done.enter_context(target_override(_NAME))
        if _compiling == 0:
            until_done.enter_context(shortened_front_end())
            until_done.enter_context(replaced(mergesort, {"make_jit_mergesort": _own_mergesort}))
            until_done.enter_context(replaced(arrayobj, {"_sorts": _own_sorts}))
            until_done.enter_context(announced_compiling())
        _compiling += 1
        try:
            yield
        finally:
            _compiling -= 1
