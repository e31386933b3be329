"""Kernels as kernels that call them see them: code to link in, and nothing else.

numba compiles each kernel as if Python called it: with a wrapper that takes its arguments out of Python's
objects, and to machine code. Most of ours are called by other kernels only, which link their code in,
optimise the whole and make machine code of that. So what a kernel's callers link is compiled apart, without
wrapper, optimisation and machine code of its own, and so is what they use of numba: everything is compiled
in less than two thirds of the time.
What Python calls is compiled as ever, when Python calls it. See :mod:`models.numerics.jit`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import llvmlite.binding as llvm  # type: ignore[import-untyped]
from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]
from numba.core.typing.templates import make_concrete_template

from models.numerics.kernel_cache import KeptResult, KernelCache


class Library(JITCodeLibrary):
    """Code that is linked into other libraries and never run by itself."""

    def _optimize_final_module(self) -> None:
        """Callers optimise it with what is theirs."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._verify_declare_only_symbols()  # type: ignore[no-untyped-call]
        self._finalized = True

    def serialize_using_object_code(self) -> tuple[str, bytes]:
        """There is none: it is kept as it is linked."""
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return self.name, self._final_module.as_bitcode()

    @classmethod
    def kept(cls, codegen: Any, state: tuple[str, bytes]) -> Any:
        """The library that :meth:`serialize_using_object_code` gave."""
        library: Any = cls(codegen, state[0])
        library._final_module = llvm.parse_bitcode(state[1])
        library._finalize_final_module()
        return library


def entry_of(library: Any, described: Any, environment: Any) -> Any:
    """What stands for the function that Python calls, where there is only a :class:`Library`."""
    if not isinstance(library, Library):
        return None
    nowhere = 0
    make: Any = _dynfunc.make_function
    return make(described.lookup_module(), described.qualname, "", nowhere, environment, (library,))


class _Compilation(_FunctionCompiler):  # type: ignore[misc]
    """Without an entry for Python or C."""

    def _customize_flags(self, flags: Any) -> Any:
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
        return flags


class _Linkable:
    """The library of one signature, what describes its function, and what must live as long."""

    def __init__(self, library: Any, described: Any, signature: Any, environments: Any) -> None:
        self.library, self.described, self.signature = library, described, signature
        self._environments = environments


class _Kept(KeptResult):
    """What is kept on disk of a :class:`_Linkable`."""

    def rebuild(self, target_context: Any, payload: Any) -> _Linkable:
        state, described, environment, signature, *_, referenced = payload
        library = Library.kept(target_context.codegen(), state)
        return _Linkable(library, described, signature, (environment, referenced))


class _LinkableCache(KernelCache):
    """Where they are kept."""

    _impl_class = _Kept  # type: ignore[assignment]


class _KeptOfCalled(KeptResult):
    """What is kept on disk of a kernel that Python calls: machine code.

    numba adds what others would link, which took a fifth of a worker's start to read, and looks there which
    functions there are: the one that Python enters is named, without what it does.
    """

    def reduce(self, data: Any) -> Any:
        entry = data.fndesc.llvm_cpython_wrapper_name
        data.library._shared_module = llvm.parse_assembly(f'define void @"{entry}"() {{ ret void }}')
        return super().reduce(data)  # type: ignore[no-untyped-call]


class CalledCache(KernelCache):
    """Where kernels are kept that Python calls."""

    _impl_class = _KeptOfCalled  # type: ignore[assignment]


class LinkedKernel:
    """Stands for a numba dispatcher where a kernel is called by another."""

    def __init__(self, dispatcher: Any) -> None:
        """Nothing is compiled yet. The code is kept on disk under a name of its own."""
        function = dispatcher.py_func
        self.py_func = FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__
        )
        self.py_func.__qualname__ = f"{function.__qualname__}.linked"
        self.py_func.__module__ = function.__module__
        self._target = dispatcher.targetctx
        self._compiler = _Compilation(
            self.py_func,
            dispatcher.targetdescr,
            dispatcher.targetoptions,
            dispatcher.locals,
            dispatcher._compiler.pipeline_class,
        )
        self._cache: Any = None
        self._known: dict[tuple[Any, ...], _Linkable] = {}

    def get_call_template(self, args: Any, kws: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
        """What numba asks a dispatcher for while it infers the types of a caller."""
        pysig, args = self._compiler.fold_argument_types(args, kws)
        self.compile(tuple(args))
        name = self.py_func.__name__
        signatures = [each.signature for each in self._known.values()]
        template = make_concrete_template(name, key=name, signatures=signatures)  # type: ignore[no-untyped-call]
        return template, pysig, args, {}

    def get_overload(self, args: Any) -> Any:
        """Under what the code for these arguments is known to numba."""
        return self._known[tuple(args)]

    def compile(self, args: tuple[Any, ...]) -> None:
        """Make the code for these arguments known to numba: compile it, or load what was kept."""
        with global_compiler_lock:
            if args in self._known:
                return
            found = self._cache.load_overload(args, self._target)
            if found is None:
                with event.trigger_event("numba:compile", data={"dispatcher": self, "args": args}):
                    made = self._compiler.compile(args, None)
                self._cache.save_overload(args, made)
                environments = (made.environment, made._find_referenced_environments())
                found = _Linkable(made.library, made.fndesc, made.signature, environments)
            self._target.insert_user_function(found, found.described, [found.library])
            self._known[args] = found


def call_linked(dispatcher: Any, shared: Callable[[Any, type[KernelCache]], Any]) -> None:
    """Let kernels that call this one link it; ``shared`` as for the dispatcher itself."""
    linked = None

    def of_callers() -> Any:
        nonlocal linked
        linked = linked or shared(LinkedKernel(dispatcher), _LinkableCache)
        return linked

    dispatcher.get_call_template = lambda args, kws: of_callers().get_call_template(args, kws)
    dispatcher.get_overload = lambda args: of_callers().get_overload(args)
