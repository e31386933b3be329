"""A numba target for our kernels only, with a CPU, contexts and a sort of its own.

A program that imports us may compile kernels of its own: for its CPU, with its settings. So ours are compiled
for a *target* of ours by numba's target extension API (https://github.com/numba/numba/issues/6908 tracks what
that API lacks). It has all that numba's CPU target has and shares no state with it. What a target cannot have
of its own is replaced while one of our kernels is compiled, under numba's lock, and put back afterwards: see
:func:`compiling`. Used by :mod:`models.numerics.jit`.
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
from numba.extending import overload
from numba.misc import mergesort
from numba.np import arrayobj

from models.exceptions import MachineError
from models.numerics.compiling import announced_compiling
from models.numerics.linked import Library, entry_of

CPU = "x86-64-v3"  # AVX2 and FMA, no AVX-512: every server of the last ten years
_CPU_FEATURES = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_NAME = "tallyguard"
_IS_SUPPORTED = platform.machine() == "x86_64"  # elsewhere kernels are compiled for the machine's own CPU
_compiling = 0  # how many of ours are being compiled, nested; changed under numba's lock only

OWN_TYPES = Registry()
"""The types of functions that only our kernels have."""
OWN_CODE = imputils.Registry(_NAME)
"""The code of functions that only our kernels have."""


class OwnCpu(ANY_CPU):
    """Our target, where numba asks for which one something is compiled."""


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
        """The key of cached code; numba's lacks the options for optimisation and checks."""
        more = config.OPT, config.BOUNDSCHECK, config.DEBUGINFO_DEFAULT  # type: ignore[attr-defined]
        return (*super().magic_tuple(), *map(str, more))


class _TypingContext(Context):
    """Type inference for our kernels."""

    def load_additional_registries(self) -> None:
        super().load_additional_registries()
        self.install_registry(OWN_TYPES)


class _Context(CPUContext):
    """Code generation for our kernels."""

    def init(self) -> None:
        if _IS_SUPPORTED:
            check_cpu(llvm.get_host_cpu_features())
        super().init()
        self._internal_codegen = _Codegen("numba.exec")

    def load_additional_registries(self) -> None:
        # all kernels of a process share the code that manages memory: it is compiled for numba's own target
        rtsys.initialize(registry.cpu_target.target_context)
        super().load_additional_registries()
        self.install_registry(OWN_CODE)

    def insert_user_function(self, func: Any, fndesc: Any, libs: Any = ()) -> None:
        """A caller contains code that has no machine code of its own, and calls what has some where it is."""
        super().insert_user_function(func, fndesc, [each for each in libs if isinstance(each, Library)])

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
        if flags is None:
            flags = compiler.Flags()
            above = ConfigStack.top_or_none()
            if above is not None and above.is_set("nrt") and above.nrt:
                flags.nrt = True
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        library = Library(self.codegen(), impl.__name__)
        types, returned = sig.args, sig.return_type
        made = compiler.compile_internal(
            self.typing_context, self, library, impl, types, returned, flags, locals=locals or {}
        )
        self.active_code_library.add_linking_library(made.library)
        return made


class _Compiler(compiler.Compiler):
    """Compiles code that Python does not call, numba's too, to a :class:`~models.numerics.linked.Library`."""

    def define_pipelines(self) -> Any:
        state = self.state
        if state.flags.no_cpython_wrapper:
            state.library = Library(state.targetctx.codegen(), state.func_id.func_qualname)
        return super().define_pipelines()


class _Target(registry.CPUTarget):
    """Makes our contexts when the first kernel is compiled."""

    @threadsafe_cached_property
    def _toplevel_target_context(self) -> Any:
        return _Context(self.typing_context, self._target_name)

    @threadsafe_cached_property
    def _toplevel_typing_context(self) -> Any:
        return _TypingContext()


class Dispatcher(registry.CPUDispatcher):
    """A kernel of ours, or a function of numba that one uses."""

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
        """As numba does, for our target."""
        with compiling():
            return super().compile(sig)

    def add_overload(self, cres: Any) -> None:
        """Keep compiled or loaded code, and register the Python objects that it refers to."""
        if not isinstance(cres.library, Library):
            for each in cres._find_referenced_environments():
                cres.library.codegen.set_env(each.env_name, each)
        super().add_overload(cres)


def own_jit(**options: Any) -> Callable[[Any], Dispatcher]:
    """``numba.njit`` for :class:`OwnCpu`; ``NUMBA_DISABLE_JIT`` does not apply."""
    return lambda function: Dispatcher(function, targetoptions=options)


target_registry[_NAME] = OwnCpu
dispatcher_registry[OwnCpu] = Dispatcher
jit_registry[OwnCpu] = own_jit


@overload(arrayobj.raise_with_shape_context, target=_NAME)
def _raise_without_shapes(src_shapes: Any, index_shape: Any) -> Any:
    """The error of ``target[:] = source`` with two shapes, in constant words.

    numba's CPU target formats both shapes (https://github.com/numba/numba/pull/9972): the code for texts in
    each kernel that copies an array was an eighth of all that was compiled.
    """

    def implementation(src_shapes: Any, index_shape: Any) -> None:
        raise ValueError("cannot assign an array to a slice of another shape")

    return implementation


def _own_mergesort(*args: Any, **options: Any) -> Any:
    """numba's own compiles for the CPU target whatever the caller's target is."""
    return mergesort.make_mergesort_impl(own_jit, *args, **options)


_own_sorts: dict[Any, Any] = {}  # numba caches the sorts of its CPU target; these are those of ours


@contextmanager
def replaced(owner: Any, parts: Mapping[str, Any]) -> Iterator[None]:
    """Replace attributes of a module or class of numba, under its lock, and put them back at the end."""
    before = {name: vars(owner)[name] for name in parts}
    for name, part in parts.items():
        setattr(owner, name, part)
    try:
        yield
    finally:
        for name, part in before.items():
            setattr(owner, name, part)


@contextmanager
def compiling() -> Iterator[None]:
    """While one of our kernels is compiled or loaded.

    numba's lock is held, so nobody else's kernel is compiled meanwhile; the target is set for this thread
    only.
    """
    global _compiling  # noqa: PLW0603 - one in a process, like numba's lock
    with global_compiler_lock, ExitStack() as until_done:
        until_done.enter_context(target_override(_NAME))
        if _compiling == 0:
            until_done.enter_context(replaced(mergesort, {"make_jit_mergesort": _own_mergesort}))
            until_done.enter_context(replaced(arrayobj, {"_sorts": _own_sorts}))
            until_done.enter_context(announced_compiling())
        _compiling += 1
        try:
            yield
        finally:
            _compiling -= 1
