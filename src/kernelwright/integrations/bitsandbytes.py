# SPDX-License-Identifier: MIT
"""kernelwright's kernels under the 4-bit operators of an installed bitsandbytes.

bitsandbytes sends each operation through an operator of `torch.ops.bitsandbytes`, which has a kernel for each kind of
device. `enable()` registers kernels of its own for the CPU and for CUDA over those; torch then calls the newer ones,
from bitsandbytes' functions and modules, from transformers and peft, and from compiled graphs alike. `disable()` takes
them away again. Its function `matmul_4bit`, which its layers call, is replaced by one that goes to the same kernels
sooner. Nothing else of bitsandbytes is touched: its 8-bit operators and optimizers stay what they are.

>>> import kernelwright.integrations.bitsandbytes as under
>>> under.enable()

With the environment variable KERNELWRIGHT_BITSANDBYTES=1 importing bitsandbytes does this by itself.
"""

from __future__ import annotations

import inspect
import sys
import threading
import warnings
from typing import TYPE_CHECKING, Any

from kernelwright import _environment, errors
from kernelwright._fork import section

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["disable", "enable", "enabled"]

_lock = threading.Lock()
_active: list[Callable[[], None]] = []  # what takes the kernels away again, last first


def on_import() -> None:
    """The entry point that bitsandbytes calls at the end of its import."""
    try:
        if _environment.under_bitsandbytes():
            enable()
    except Exception as error:  # noqa: BLE001 - whatever it is, bitsandbytes must go on
        _say(f"bitsandbytes runs on its own kernels, although {_environment.BITSANDBYTES} is set: {error}")


def _say(message: str) -> None:
    try:
        warnings.warn(message, RuntimeWarning, stacklevel=3)
    except RuntimeWarning:  # warnings are errors here; this one must not end bitsandbytes' import
        print(message, file=sys.stderr)


def enabled() -> bool:
    """Whether bitsandbytes' 4-bit operators run on kernelwright now."""
    return bool(_active)


def enable() -> None:
    """Puts kernelwright's kernels under bitsandbytes' 4-bit operators, until `disable()`.

    Call it before a model has run on the CPU: where the CPU has AVX512-BF16, bitsandbytes repacks the weight of a layer
    in its first forward, into an order that no other kernel reads; such layers stay with its own kernel. Where that
    is the faster one, which is measured before the first layer is repacked, enable() lets it go on.
    With KERNELWRIGHT_DISABLE it does nothing, so that one variable tells whose result a suspicious one is.
    """
    if _environment.read().disable:
        return
    with section, _lock:
        if _active:
            return
        modules = _bitsandbytes()
        from kernelwright import ops

        ops.register()
        try:
            _override()
            _keep_packing(modules)
            _shorten()
        except BaseException:
            _undo()
            raise


def disable() -> None:
    """Gives the operators back to bitsandbytes' own kernels."""
    with section, _lock:
        _undo()


def _undo() -> None:
    while _active:
        _active.pop()()


def _bitsandbytes() -> Any:
    try:
        import bitsandbytes.nn.modules
    except ImportError as error:
        raise errors.Unsupported(
            f"bitsandbytes cannot be imported ({error}): install it, or use what needs none of it: "
            "kernelwright.nn.quantize_, kernelwright.integrations.transformers, kernelwright.compat.bitsandbytes"
        ) from error
    return bitsandbytes.nn.modules


def _override() -> None:
    import torch

    from kernelwright.integrations._bitsandbytes_kernels import KERNELS

    other = [name for name, kernel in KERNELS.items() if not _takes(name, kernel)]
    if other:
        raise errors.Unsupported(
            f"the installed bitsandbytes {_version()} has no operator {', '.join(other)}, or with other arguments; "
            "kernelwright knows those of 0.50: install that one (pip install -U 'bitsandbytes>=0.50,<0.51')"
        )
    reorders = _reorders()
    library = torch.library.Library("bitsandbytes", "IMPL")
    _active.append(library._destroy)  # noqa: SLF001 - the only way to give back what it registered
    may = {"allow_override": True} if "allow_override" in inspect.signature(library.impl).parameters else {}
    with warnings.catch_warnings():
        # torch says once in a process that a kernel was overridden, which is what was asked for.
        warnings.filterwarnings("ignore", message="Warning only once for all operators", category=UserWarning)
        for name, kernel in KERNELS.items():
            for key in ("CPU", "CUDA") if torch.backends.cuda.is_built() else ("CPU",):
                # Where it reorders codes, its own kernel for the CPU is the only one that reads them.
                if not (key == "CPU" and reorders and name.startswith("gemv_4bit")):
                    library.impl(name, kernel, key, **may)


def _takes(name: str, kernel: Callable[..., Any]) -> bool:
    """Whether bitsandbytes has this operator, with as many arguments as our kernel for it takes."""
    import torch

    op, _, overload = name.partition(".")
    found = getattr(getattr(torch.ops.bitsandbytes, op, None), overload or "default", None)
    if found is None:
        return False
    given, taken = found._schema.arguments, inspect.signature(kernel).parameters.values()  # noqa: SLF001
    return len(given) == len(taken) and [argument.has_default_value() for argument in given] == [
        parameter.default is not inspect.Parameter.empty for parameter in taken
    ]


def _version() -> str:
    import bitsandbytes

    return str(getattr(bitsandbytes, "__version__", "of an unknown version"))


def _reorders() -> bool:
    """Whether bitsandbytes' layers reorder their codes on this CPU."""
    import bitsandbytes.functional

    asked = getattr(bitsandbytes.functional, "has_avx512bf16", None)
    return bool(asked and asked())


def _keep_packing(modules: Any) -> None:
    """Layers on a CPU with AVX512-BF16 would reorder their codes in the first forward; they do so only where that is
    the faster way."""
    name = "_convert_weight_packed_for_cpu"
    convert = getattr(modules, name, None)
    if convert is None:
        return

    def as_is_faster(weight: Any, state: Any, *args: Any, **kwargs: Any) -> Any:
        import torch

        from kernelwright.integrations import _bitsandbytes_order as order

        wanted = state.dtype is torch.bfloat16  # in which its kernel computes, whatever is asked
        if torch.compiler.is_dynamo_compiling() or not wanted or not order.reordered_is_faster(convert):
            return weight, state
        return convert(weight, state, *args, **kwargs)

    setattr(modules, name, as_is_faster)
    _active.append(lambda: setattr(modules, name, convert))


def _shorten() -> None:
    """bitsandbytes' layers look their function up in the package at each call, others where it is written."""
    import bitsandbytes
    from bitsandbytes.autograd import _functions

    from kernelwright.integrations._bitsandbytes_layers import matmul_4bit

    theirs = _functions.matmul_4bit
    ours = matmul_4bit(theirs)
    for place in (bitsandbytes, bitsandbytes.autograd, _functions):
        if getattr(place, "matmul_4bit", None) is theirs:
            place.matmul_4bit = ours
            _active.append(lambda place=place: setattr(place, "matmul_4bit", theirs))  # type: ignore[misc]
