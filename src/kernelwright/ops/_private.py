# SPDX-License-Identifier: MIT
"""Each name of torch's that is not public and that calls of operators use, with what is done without it.

Every name is looked up here alone, by `take`, once, when operators are registered. Without one results are the same:
what it makes short takes the long way.
"""

from __future__ import annotations

import contextlib
import importlib
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_C = "torch._C"


def take(holder: str, name: str) -> Any:
    """`torch._C.<name>`, or of another module; None where this torch has none of that name."""
    return getattr(importlib.import_module(holder), name, None)


def below_autograd() -> Callable[[], contextlib.AbstractContextManager[Any]] | None:
    """Makes a context within which calls do not come to Autograd kernels. None: every call goes through them."""
    found: Any = take(_C, "_AutoDispatchBelowAutograd")
    return found


_ABOVE_KERNELS = ("AutogradFunctionality", "AutogradOther", "AutogradNestedTensor", "ADInplaceOrView")


def below_versions() -> Callable[[], contextlib.AbstractContextManager[Any]] | None:
    """The same of the kernel, too, that counts what is written to."""
    guard, keyset, known = (take(_C, name) for name in ("_ExcludeDispatchKeyGuard", "DispatchKeySet", "DispatchKey"))
    keys = [getattr(known, name, None) for name in _ABOVE_KERNELS]
    if guard is None or keyset is None or None in keys:
        return None
    excluded = keyset(keys[0])
    for key in keys[1:]:
        excluded = excluded | keyset(key)
    return lambda: guard(excluded)


def transforms_active() -> Callable[[], bool] | None:
    """Whether torch.func is at work in this thread. None: nothing tells."""
    found: Any = take(_C, "_are_functorch_transforms_active")
    return found


def forward_level() -> Callable[[], int]:
    """The level of forward-mode derivatives, -1 where there is none. Without the name: 0, so that each call looks."""
    if take("torch.autograd.forward_ad", "_current_level") is None:
        return lambda: 0
    from torch.autograd import forward_ad

    return lambda: forward_ad._current_level  # noqa: SLF001 - the public way to ask costs a microsecond


def redispatch(target: Any, below: str) -> Callable[..., Any]:
    """(keyset, args): goes on with a call below "autograd" or "ADInplaceOrView". Without the names: in a context."""
    after = take(_C, f"_after_{below}_keyset")
    if after is not None and hasattr(target, "redispatch"):
        return lambda keyset, args: target.redispatch(keyset & after, *args)
    guard = below_versions() if below == "ADInplaceOrView" else below_autograd() or below_versions()
    if guard is None:
        raise ImportError(f"kernelwright: this torch has none of the ways known here to go on below {below}")

    def run(_: Any, args: tuple[Any, ...]) -> Any:
        with guard():
            return target(*args)

    return run


def forget_dispatch(target: Any) -> None:
    """torch.compile keeps which kernel an overload had when it first met it. Without the name: programs that were
    compiled before keep that one."""
    getattr(target, "_dispatch_cache", {}).clear()


@cache
def raw_stream() -> Callable[[int], int]:
    """The CUDA stream that torch uses now on a device. torch.cuda.current_stream() makes an object at each call."""
    import torch

    found: Any = take(_C, "_cuda_getCurrentRawStream")
    return found or (lambda ordinal: int(torch.cuda.current_stream(ordinal).cuda_stream))
