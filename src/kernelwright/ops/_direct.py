# SPDX-License-Identifier: MIT
"""The fast path: calls from Python to a kernel that bypass torch's dispatcher.

With all arguments by position, `calls.rms_norm.residual(...)` does what `torch.ops.kernelwright.rms_norm.residual(...)`
does, sooner: the way through the dispatcher and back into Python takes 2 to 5 microseconds, and 5 to 40 where the
tensors of a call have pushed torch's own code out of the caches, as they do in programs. So a call with plain tensors,
of which no gradient is wanted, goes straight to the kernel, unless something in this thread has to do with operators: a
mode, a transform, a tracer, a profiler, torch.compile. All other calls go to the operator, and so do those that a
kernel cannot take as they are: it copies, or says what is wrong. Those take 1 to 8 microseconds longer for having been
tried here.
"""

from __future__ import annotations

import ctypes
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Launch = Callable[..., Any]

calls = SimpleNamespace()
"""By operator and overload, as `torch.ops.kernelwright`; empty until the operators are registered."""

classes_like_tensor: set[int] = set()
"""`id` of classes, beside torch's own, whose tensors torch treats as its own; they must live as long as this does."""

_HAS_CALLBACKS = "_ZN2at12hasCallbacksEv"  # bool at::hasCallbacks()


def _observed(torch: Any) -> Callable[[], bool]:
    """Whether somebody wants to be told of operators: the profiler, or whoever else told torch so, in this thread or in
    all. Python can ask of the first alone; torch's libtorch_cpu.so can of all, by a function without arguments."""
    try:
        found = getattr(ctypes.PyDLL("libtorch_cpu.so", mode=os.RTLD_NOLOAD | os.RTLD_NOW), _HAS_CALLBACKS)
    except (OSError, AttributeError):
        asked: Callable[[], bool] = torch._C._autograd._profiler_enabled  # noqa: SLF001 - it has no public name
        return asked
    found.argtypes, found.restype = (), ctypes.c_bool
    return found


def _watchers(torch: Any) -> tuple[Callable[[], Any], ...]:
    """Functions of which one is true where something has to see operators; they take 40 to 90 nanoseconds each."""
    return (
        torch._C._len_torch_dispatch_stack,  # noqa: SLF001 - none of these has a public name
        torch._C._is_torch_function_mode_enabled,  # noqa: SLF001
        torch._C._are_functorch_transforms_active,  # noqa: SLF001
        torch._C._get_tracing_state,  # noqa: SLF001
        _observed(torch),
    )


def _hidden(torch: Any) -> Callable[[], bool]:
    """Whether, within a backward pass, make_fx(pre_dispatch=True) or is_grads_batched has to see operators. Nothing
    else tells of them there."""
    included, key_of = torch._C._dispatch_tls_is_dispatch_key_included, torch._C._dispatch_key_parse  # noqa: SLF001
    early, batched = key_of("PreDispatch"), key_of("VmapMode")
    return lambda: included(early) or included(batched)


def _plain(torch: Any, tensors: int) -> Callable[[tuple[Any, ...]], bool]:
    """Whether the first of a call's arguments are plain tensors, or None, and no gradient is wanted of them. Sparse
    ones and the like are left to the library, which refuses what does not lie in memory as one block (and torch up to
    2.9 at least then logs what its functions threw)."""
    enabled = torch.is_grad_enabled
    tensor, parameter, alike = torch.Tensor, torch.nn.Parameter, classes_like_tensor

    def plain(args: tuple[Any, ...]) -> bool:
        recording = enabled()
        for value in args[:tensors]:
            kind = type(value)
            if kind is not tensor and kind is not parameter and id(kind) not in alike:
                if value is None:
                    continue
                return False
            if value.is_neg() or (recording and value.requires_grad):
                return False
        return True

    return plain


def _chooser(torch: Any, target: Any, launches: Mapping[str, Launch]) -> Callable[[tuple[Any, ...]], Launch | None]:
    """A function of a call's arguments: what may serve it directly."""
    on_cpu, on_gpu = launches.get("CPU"), launches.get("CUDA")
    kinds = [str(argument.real_type) for argument in target._schema.arguments]  # noqa: SLF001
    count, tensors = len(kinds), sum("Tensor" in kind for kind in kinds)  # they come first in every schema here
    # torch takes more for these, and makes them so.
    exact = {
        "float": (float,), "int": (int,), "bool": (bool,), "str": (str,), "ScalarType": (torch.dtype,),
        "List[int]": (torch.Size, tuple, list),
    }  # fmt: skip
    others = [(place, exact[kinds[place]]) for place in range(tensors, count)]
    lists, whole = [place for place, kind in enumerate(kinds) if kind == "List[int]"], frozenset({int})
    plain = _plain(torch, tensors)

    def choose(args: tuple[Any, ...]) -> Launch | None:
        first = args[0] if len(args) == count else None
        if first is None or not plain(args):
            return None
        for place, kind in others:
            if type(args[place]) not in kind:
                return None
        for place in lists:
            if not whole.issuperset(map(type, args[place])):
                return None
        return on_gpu if first.is_cuda else on_cpu  # of other devices the library says no

    return choose


def direct(torch: Any, target: Any, launches: Mapping[str, Launch], explain: Callable[..., None]) -> Launch:
    """`target`, past the dispatcher where that makes no difference. `launches`, by dispatch key, return None for calls
    that they leave to it, before they have written anything that is seen. Where an argument is why one fails it is
    `explain` that says so: what has begun is not tried again."""
    choose, hidden = _chooser(torch, target, launches), _hidden(torch)
    compiling, levels, backward = (
        torch.compiler.is_dynamo_compiling,
        torch.autograd.forward_ad,
        torch._C._current_graph_task_id,  # noqa: SLF001 - that of the backward pass of this thread, or -1
    )
    modes, functions, transforms, traced, observed = _watchers(torch)

    def run(*args: Any) -> Any:
        if (  # compiling() first, as what follows is nothing for torch.compile to look at
            compiling() or modes() or functions() or transforms() or traced() or observed()
            or levels._current_level >= 0 or (backward() >= 0 and hidden())  # noqa: SLF001
        ):  # fmt: skip
            return target(*args)
        launch = choose(args)
        if launch is None:
            return target(*args)
        try:
            found = launch(*args)
        except (AttributeError, TypeError, RuntimeError) as error:
            explain(error, *args)
            raise
        return target(*args) if found is None else found

    return run
