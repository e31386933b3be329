"""Kernels that other kernels call: LLVM code to link, or machine code that is called where it is.

numba compiles each kernel as if Python called it: with a wrapper that unpacks Python objects, and to machine
code. Most of ours are called by other kernels only, which link their code, optimise the whole and compile
that to machine code. So the code that callers link is compiled apart, without a wrapper, optimisation and
machine code, and so is the code that it uses of numba. Compiling everything takes less than two thirds of the
time. A kernel that Python calls is compiled as usual when Python calls it. See :mod:`models.numerics.jit`.

A large kernel that several others call would be optimised once for each of them. It is *shared* instead: it
has machine code, as if Python called it, and its callers have its name.

numba would do so by https://github.com/numba/numba/pull/9566, which was never merged;
https://github.com/numba/numba/issues/3328 asks for the same.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import llvmlite.binding as llvm  # type: ignore[import-untyped]
from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core import event, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]
from numba.core.typing.templates import make_concrete_template

from models.numerics.kernel_cache import KeptResult, KernelCache


class Library(JITCodeLibrary):
    """Code that is linked into other libraries and never run by itself."""

    def _optimize_final_module(self) -> None:
        """Nothing: callers optimise it together with their own code."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._verify_declare_only_symbols()  # type: ignore[no-untyped-call]
        self._finalized = True

    def serialize_using_object_code(self) -> tuple[str, bytes]:
        """There is no object code: the bitcode that callers link is cached."""
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return self.name, self._final_module.as_bitcode()

    @classmethod
    def kept(cls, codegen: Any, state: tuple[str, bytes]) -> Any:
        """The library of a :meth:`serialize_using_object_code`."""
        library: Any = cls(codegen, state[0])
        library._final_module = llvm.parse_bitcode(state[1])
        library._finalize_final_module()
        return library


def entry_of(library: Any, described: Any, environment: Any) -> Any:
    """A placeholder for the function that Python calls, where there is only a :class:`Library`; else None."""
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
    """The library of one signature, the descriptor of its function, and objects that must live as long.

    numba uses it as the key of the function, by its identity.
    """

    def __init__(self, library: Any, described: Any, signature: Any, environments: Any) -> None:
        self.library, self.described, self.signature = library, described, signature
        self._environments = environments


_shared_kernels: dict[str, SharedKernel] = {}
_machine_code: dict[str, tuple[str, tuple[Any, ...]]] = {}  # by its symbol: whose it is, for which arguments


class _KeptCaller(KeptResult):
    """How code is cached that may call shared kernels: they are loaded before it.

    A kernel that was compiled again since has another symbol; then so is its caller.
    """

    def reduce(self, data: Any) -> Any:
        functions = data.library._final_module.functions
        called = {each.name for each in functions if each.is_declaration} & _machine_code.keys()
        return {symbol: _machine_code[symbol] for symbol in called}, super().reduce(data)  # type: ignore[no-untyped-call]

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        called, code = payload
        for symbol, (name, args) in called.items():
            _shared_kernels[name].compile(args)
            if symbol not in _machine_code:
                raise LookupError(f"{name} was compiled again")
        return self.rebuild_code(target_context, code)

    def rebuild_code(self, target_context: Any, code: Any) -> Any:
        """The code as numba keeps it, once what it calls is there."""
        return super().rebuild(target_context, code)  # type: ignore[no-untyped-call]


class _Kept(_KeptCaller):
    """How a :class:`_Linkable` is cached."""

    def rebuild_code(self, target_context: Any, code: Any) -> _Linkable:
        state, described, environment, signature, *_, referenced = code
        library = Library.kept(target_context.codegen(), state)
        return _Linkable(library, described, signature, (environment, referenced))


class _LinkableCache(KernelCache):
    _impl_class = _Kept  # type: ignore[assignment]


class _KeptOfCalled(_KeptCaller):
    """How a kernel that Python calls is cached: its machine code only.

    numba also writes the code that others would link, which took a fifth of a worker's start to read, and
    finds the names of the functions there. So an empty function of the entry's name is written in its place.
    """

    def reduce(self, data: Any) -> Any:
        entry = data.fndesc.llvm_cpython_wrapper_name
        data.library._shared_module = llvm.parse_assembly(f'define void @"{entry}"() {{ ret void }}')
        return super().reduce(data)


class CalledCache(KernelCache):
    """The cache of kernels that Python calls."""

    _impl_class = _KeptOfCalled  # type: ignore[assignment]


def _call_template(
    kernel: LinkedKernel | SharedKernel, args: Any, kws: Any
) -> tuple[Any, Any, Any, dict[str, Any]]:
    """A kernel's answer in place of its dispatcher, while numba infers the types of a caller.

    Numbers written in a call are taken as any number: each would be compiled for itself.
    """
    pysig, args = kernel._compiler.fold_argument_types(args, kws)
    args = tuple(map(types.unliteral, args))
    name, signature = kernel.py_func.__name__, kernel.compile(args)
    template = make_concrete_template(name, key=name, signatures=[signature])  # type: ignore[no-untyped-call]
    return template, pysig, args, {}


class SharedKernel:
    """Takes the place of a numba dispatcher where another kernel calls the kernel's machine code."""

    get_call_template = _call_template

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher, self._compiler = dispatcher, dispatcher._compiler
        self.py_func = dispatcher.py_func
        self._name = f"{self.py_func.__module__}.{self.py_func.__qualname__}"
        _shared_kernels[self._name] = self

    def get_overload(self, args: Any) -> Any:
        """The key under which the target knows the code for these arguments."""
        return self._dispatcher.overloads[tuple(args)].entry_point

    def compile(self, args: tuple[Any, ...]) -> Any:
        """Compile or load the code for these arguments, as where Python calls it."""
        self._dispatcher.compile(args)
        code = self._dispatcher.overloads[args]
        _machine_code[code.fndesc.mangled_name] = (self._name, args)
        return code.signature


class LinkedKernel:
    """Takes the place of a numba dispatcher where another kernel contains the kernel's code."""

    get_call_template = _call_template

    def __init__(self, dispatcher: Any) -> None:
        """Compiles nothing yet. The code is cached under a name of its own, ending in ``.linked``."""
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

    def get_overload(self, args: Any) -> Any:
        """The key under which the target knows the code for these arguments."""
        return self._known[tuple(args)]

    def compile(self, args: tuple[Any, ...]) -> Any:
        """Compile or load the code for these arguments, and register it with the target."""
        with global_compiler_lock:
            if args in self._known:
                return self._known[args].signature
            found = self._cache.load_overload(args, self._target)
            if found is None:
                with event.trigger_event("numba:compile", data={"dispatcher": self, "args": args}):
                    made = self._compiler.compile(args, None)
                self._cache.save_overload(args, made)
                environments = (made.environment, made._find_referenced_environments())
                found = _Linkable(made.library, made.fndesc, made.signature, environments)
            self._target.insert_user_function(found, found.described, [found.library])
            self._known[args] = found
            return found.signature


def call_linked(dispatcher: Any, compile_once: Callable[[Any, type[KernelCache]], None]) -> None:
    """Let kernels that call this one link it; ``compile_once`` arranges that one process compiles it."""
    linked = None

    def of_callers() -> Any:
        nonlocal linked
        if linked is None:
            linked = LinkedKernel(dispatcher)
            compile_once(linked, _LinkableCache)
        return linked

    dispatcher.get_call_template = lambda args, kws: of_callers().get_call_template(args, kws)
    dispatcher.get_overload = lambda args: of_callers().get_overload(args)


def call_shared(dispatcher: Any) -> None:
    """Let kernels that call this one call its machine code."""
    shared = SharedKernel(dispatcher)
    dispatcher.get_call_template, dispatcher.get_overload = shared.get_call_template, shared.get_overload
