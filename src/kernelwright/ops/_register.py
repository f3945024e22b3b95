# SPDX-License-Identifier: MIT
"""Makes torch operators of Op records."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kernelwright import _environment, _library, errors
from kernelwright._fork import section
from kernelwright.ops._autograd import record_gradients, refuse_gradients, shortcut
from kernelwright.ops._direct import calls, direct
from kernelwright.ops._tensors import refuse_inference, unusual

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kernelwright.ops._record import Op, Overload

NAMESPACE = "kernelwright"
_OLDEST_TORCH = (2, 4)
_OLDEST = ".".join(map(str, _OLDEST_TORCH)) + " or newer"

_lock = threading.Lock()
_registered: dict[str, Any] = {}  # by name, the torch.library.Library: an operator lives as long as that object


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise errors.TorchMissing(
            f"kernelwright's operators need torch {_OLDEST}, and it cannot be imported ({error}): "
            "install the torch of this machine (pip install torch; on a Jetson NVIDIA's own build)",
            name="torch",
        ) from error
    found = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if found < _OLDEST_TORCH:
        raise errors.TorchMissing(
            f"kernelwright's operators need torch {_OLDEST}, but {torch.__file__} is {torch.__version__}: upgrade it",
            name="torch",
        )
    return torch


def _checked_reference(overload: Overload) -> Callable[..., Any]:
    """The disabled path refuses what the kernels refuse: a program must not depend on which of the two runs."""

    def run(*args: Any) -> Any:
        overload.fake(*args)
        return overload.reference(*args)

    return run


def _demander(torch: Any, target: Any, shown: str) -> Callable[..., None]:
    """A function of a call's arguments that raises where a tensor is None, which torch takes for any tensor, whatever
    the schema says."""
    arguments = target._schema.arguments  # noqa: SLF001
    required = [place for place, a in enumerate(arguments) if isinstance(a.type, torch.TensorType)]

    def demand(*args: Any) -> None:
        for place in required:
            if args[place] is None:
                raise errors.InvalidArgument(f"{shown}: {arguments[place].name} is None, but must be a tensor")

    return demand


def _after(demand: Callable[..., None], function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        demand(*args)
        return function(*args)

    return run


def _explainer(
    demand: Callable[..., None], refuse_unusual: Callable[..., None], fake: Callable[..., Any]
) -> Callable[..., None]:
    """A function of an error that a kernel raised and of its arguments, which raises where one of those is wrong: a
    kernel makes its results before it looks at them, and there may be no memory for what a wrong one asks for."""

    def explain(error: Exception, *args: Any) -> None:
        demand(*args)
        refuse_unusual(*args)
        if isinstance(error, RuntimeError):
            fake(*args)

    return explain


def _guarded(
    demand: Callable[..., None], kernel: Callable[..., Any], explain: Callable[..., None]
) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        demand(*args)
        try:
            return kernel(*args)
        except RuntimeError as error:
            explain(error, *args)
            raise

    return run


def _refuse_unusual(torch: Any, target: Any, shown: str) -> Callable[..., None]:
    """A function of a call's arguments that raises where one is sparse, nested, quantized or of another device."""
    names = [argument.name for argument in target._schema.arguments]  # noqa: SLF001

    def refuse(*args: Any) -> None:
        for name, value in zip(names, args, strict=False):
            kind = unusual(value) if isinstance(value, torch.Tensor) else None
            if kind:
                raise errors.Unsupported(
                    f"{shown}: {name} is {kind}, but must be a plain (strided) tensor on the CPU or a CUDA device"
                )

    return refuse


def _refuse_others(torch: Any, shown: str, refuse: Callable[..., None]) -> Callable[..., Any]:
    """A kernel for every kind of tensor without one of its own."""

    def run(*args: Any) -> Any:
        refuse(*args)
        devices = ", ".join(sorted({str(a.device) for a in args if isinstance(a, torch.Tensor)})) or "no tensor at all"
        raise errors.Unsupported(
            f"{shown}: there is no kernel for {devices}, only for tensors on the CPU or a CUDA device"
        )

    return run


def _materialise(torch: Any, target: Any) -> Callable[..., Any]:
    """A kernel for views that negate on access; torch's own cannot serve a schema that writes and does not return."""
    name = target.name().partition("::")[2]
    arguments = target._schema.arguments  # noqa: SLF001
    written = [a.alias_info is not None and a.alias_info.is_write for a in arguments]

    def run(*args: Any, **kwargs: Any) -> Any:
        plain = [a.resolve_neg() if isinstance(a, torch.Tensor) else a for a in args]
        copied = [i for i, write in enumerate(written[: len(args)]) if write and args[i] is not plain[i]]
        for i in copied:
            refuse_inference(name, arguments[i].name, args[i])
        result = target(*plain, **kwargs)
        for i in copied:
            args[i].copy_(plain[i])
        return result

    return run


def _register_overload(
    torch: Any, library: Any, op: Op, overload: Overload, native: _library.Library | None
) -> Callable[..., Any]:
    """Returns the function that Python code calls."""
    name = op.qualified(overload)
    library.define(f"{name}{overload.schema}")
    target = getattr(getattr(getattr(torch.ops, NAMESPACE), op.name), overload.name)
    # A CPU build of torch has no CUDA tensors, and lacks the functions a CUDA implementation is made of.
    demand, bare = _demander(torch, target, name), {}
    for key in ("CPU", "CUDA") if torch.backends.cuda.is_built() else ("CPU",):
        bare[key] = overload.bind(native, key) if native else _checked_reference(overload)
    refuse_unusual = _refuse_unusual(torch, target, name)
    explain = _explainer(demand, refuse_unusual, overload.fake)
    kernels = {key: _guarded(demand, kernel, explain) for key, kernel in bare.items()}
    for key, kernel in kernels.items():
        library.impl(name, kernel, key)
    qualified = f"{NAMESPACE}::{name}"
    torch.library.register_fake(qualified, _after(demand, overload.fake), lib=library)
    others = _after(demand, _refuse_others(torch, name, refuse_unusual))
    for key in ("CompositeExplicitAutograd", "NestedTensorCPU", "NestedTensorCUDA"):  # the first has not all of them
        library.impl(name, others, key)
    if overload.backward:
        autograd = record_gradients(torch, target, overload.backward, refuse_unusual, kernels)
    else:
        autograd = refuse_gradients(torch, target, qualified, refuse_unusual, kernels)
    library.impl(name, shortcut(torch, target, bare, autograd, explain), "Autograd", with_keyset=True)
    if target._schema.is_mutable:  # noqa: SLF001
        library.impl(name, _materialise(torch, target), "Negative")
    if native is None or overload.launch is None:
        return target
    return direct(torch, target, {key: overload.launch(native, key) for key in bare}, explain)


def register(records: Iterable[Op]) -> None:
    """Registers all records, once in a process; after a failure nothing is registered and the next call tries again."""
    if _registered:
        return
    with section:
        torch = _torch()  # whoever imports torch meanwhile may wait for the lock
        with _lock:
            if not _registered:
                _register(torch, records)


def _register(torch: Any, records: Iterable[Op]) -> None:
    native = None if _environment.read().disable else _library.load()
    if native:
        native.share_openmp()
    library = torch.library.Library(NAMESPACE, "DEF")
    done, ready = {}, {}
    for op in records:
        if native is None or op.name in native.ops:
            overloads = {o.name: _register_overload(torch, library, op, o, native) for o in op.overloads}
            done[op.name], ready[op.name] = library, SimpleNamespace(**overloads)
    vars(calls).update(ready)
    _registered.update(done)


def require(name: str) -> None:
    """Raises for an operator that this build was told to leave out (build with --ops)."""
    if name not in _registered:
        raise errors.Unsupported(
            f"this build of kernelwright leaves {name} out; it has {', '.join(_registered) or 'no operators'}. "
            "Install a full build."
        )
