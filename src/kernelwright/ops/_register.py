# SPDX-License-Identifier: MIT
"""Makes torch operators of Op records."""

from __future__ import annotations

import ctypes
import threading
import warnings
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kernelwright import _environment, _library, errors
from kernelwright._fork import section
from kernelwright.ops import _calls, _schema
from kernelwright.ops._autograd import count_writes, function, record_gradients, refuse_gradients
from kernelwright.ops._calls import calls, entry
from kernelwright.ops._rowwise import batch, remember
from kernelwright.ops._rules import count_flops, obey_autocast
from kernelwright.ops._tensors import refuse_inference, refuse_overlap, unusual

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kernelwright.ops._record import Op, Overload
    from kernelwright.ops._schema import Schema

NAMESPACE = "kernelwright"
ELSEWHERE = "_kernelwright"  # calls that the kernels in C leave to those in Python
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


_told: set[str] = set()  # operators without a CPU implementation that were called on the CPU


def _without_cpu(op: Op, overload: Overload) -> Callable[..., Any]:
    """The reference as the CPU's kernel; that it is no kernel is said once in a process."""
    reference = _checked_reference(overload)

    def run(*args: Any) -> Any:
        found = reference(*args)
        if op.name not in _told:
            _told.add(op.name)
            warnings.warn(f"{op.name} has no CPU implementation ({op.no_cpu}): plain torch computes it", stacklevel=2)
        return found

    return run


def _demander(schema: Schema, shown: str) -> Callable[..., None]:
    """A function of a call's arguments that raises where a tensor is None, which torch takes for any tensor, whatever
    the schema says."""
    required = [(place, schema.arguments[place]) for place in schema.tensors]
    required = [(place, argument) for place, argument in required if not argument.optional]

    def demand(*args: Any) -> None:
        for place, argument in required:
            if args[place] is None:
                raise errors.InvalidArgument(f"{shown}: {argument.name} is None, but must be a tensor")

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


def _aligned(torch: Any, schema: Schema, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """For the CPU: what lies at an odd address, as a part of a buffer of bytes may, is read from a copy."""
    places = [place for place in schema.tensors if place not in schema.written]

    def odd(value: Any) -> bool:
        if not isinstance(value, torch.Tensor) or value.device.type != "cpu" or not value.untyped_storage().nbytes():
            return False
        return bool(value.data_ptr() % value.element_size())

    def run(*args: Any) -> Any:
        if any(odd(args[place]) for place in places if place < len(args)):
            args = tuple(a.clone() if place in places and odd(a) else a for place, a in enumerate(args))
        return kernel(*args)

    return run


def _refuse_unusual(torch: Any, schema: Schema, shown: str) -> Callable[..., None]:
    """A function of a call's arguments that raises where one is sparse, nested, quantized or of another device."""
    names = [argument.name for argument in schema.arguments]

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


def _materialise(torch: Any, target: Any, name: str, schema: Schema) -> Callable[..., Any]:
    """A kernel for views that negate on access; torch's own cannot serve a schema that writes and does not return."""
    op = name.partition(".")[0]

    def run(*args: Any, **kwargs: Any) -> Any:
        plain = [a.resolve_neg() if isinstance(a, torch.Tensor) else a for a in args]
        copied = [place for place in schema.written if args[place] is not plain[place]]
        for place in copied:
            refuse_inference(op, schema.arguments[place].name, args[place])
            refuse_overlap(op, schema.arguments[place].name, args[place])
        result = target(*plain, **kwargs)
        for place in copied:
            args[place].copy_(plain[place])
        return result

    return run


def _with_addresses(schema: str) -> str:
    """Of an operator that the library calls: strings are handed over as addresses of their characters."""
    return schema.replace("str ", "int ")


def _handed(
    torch: Any, native: _library.Library, name: str, schema: Schema, kernel: Callable[..., Any], *, judged: bool
) -> Any:
    """A kernel for what the one in C leaves: the library tells torch what it refuses; the class is kept here."""
    failed, refuse, shown = (
        native.functions["kw_torch_failed"],
        native.functions["kw_torch_refuse"],
        f"kw_{name.partition('.')[0]}",
    )
    results, texts = schema.results, [place for place, a in enumerate(schema.arguments) if a.type == "str"]

    def nothing() -> Any:
        made = [torch.empty(0) for _ in range(results)]
        return None if not made else made[0] if results == 1 else tuple(made)

    def run(*args: Any) -> Any:
        try:
            status = failed() if judged else 0
            if status:
                native.fail(shown, status)
            given = list(args)
            for place in texts:
                given[place] = ctypes.string_at(args[place]).decode()
            return kernel(*given)
        except BaseException as error:  # noqa: BLE001 - it goes on as what torch makes of it, and is raised again there
            _calls.keep(error)
            refuse(str(error).encode())
            return nothing()

    return run


def _defined(torch: Any, op: str, overload: str) -> bool:
    """Whether torch has it already, from kw_torch_register()."""
    return hasattr(getattr(getattr(torch.ops, NAMESPACE), op, None), overload)


class _Made:
    """An overload on its way into torch: its schema is defined, its kernels are still missing."""

    def __init__(self, torch: Any, library: Any, op: Op, overload: Overload) -> None:
        self.torch, self.library, self.op, self.overload = torch, library, op, overload
        self.name, self.schema = op.qualified(overload), _schema.parse(overload.schema)
        if not _defined(torch, op.name, overload.name):
            library.define(f"{self.name}{overload.schema}")
        self.target = getattr(getattr(getattr(torch.ops, NAMESPACE), op.name), overload.name)
        self.demand = _demander(self.schema, self.name)
        self.refuse_unusual = _refuse_unusual(torch, self.schema, self.name)

    def refuse(self, *args: Any) -> None:
        """Raises what is wrong with a call, as a compiler is told."""
        self.demand(*args)
        self.refuse_unusual(*args)
        self.overload.fake(*args)

    def kernels(self, native: _library.Library | None) -> dict[str, Callable[..., Any]]:
        """Those in Python, by dispatch key."""
        explain = _explainer(self.demand, self.refuse_unusual, self.overload.fake)
        # A CPU build of torch has no CUDA tensors, and lacks the functions a CUDA implementation is made of.
        keys = ("CPU", "CUDA") if self.torch.backends.cuda.is_built() else ("CPU",)
        made = {key: self._kernel(native, key) for key in keys}
        if native:
            made["CPU"] = _aligned(self.torch, self.schema, made["CPU"])
        return {key: _guarded(self.demand, kernel, explain) for key, kernel in made.items()}

    def _kernel(self, native: _library.Library | None, key: str) -> Callable[..., Any]:
        if native is None:
            return _checked_reference(self.overload)
        if key == "CPU" and self.op.no_cpu:
            return _without_cpu(self.op, self.overload)
        return self.overload.bind(native, key)

    def without_values(self) -> None:
        """What serves tensors that have none, or that have no kernel."""
        fake = _after(self.demand, self.overload.fake)
        self.torch.library.register_fake(f"{NAMESPACE}::{self.name}", fake, lib=self.library)
        others = _after(self.demand, _refuse_others(self.torch, self.name, self.refuse_unusual))
        for key in ("CompositeExplicitAutograd", "NestedTensorCPU", "NestedTensorCUDA"):  # the first has not all
            self.library.impl(self.name, others, key)

    def above(self) -> Callable[..., Any] | None:
        """What comes before a kernel; the function for torch.func, if there is a derivative."""
        backward, given = self.overload.backward, (self.torch, self.target, self.name)
        if backward:
            autograd = record_gradients(*given, self.schema, backward, self.refuse_unusual)
        else:
            autograd = refuse_gradients(*given, self.schema, self.refuse_unusual)
        self.library.impl(self.name, autograd, "Autograd", with_keyset=True)
        if self.schema.written:
            self.library.impl(self.name, _materialise(*given, self.schema), "Negative")
        batch(self.torch, self.library, self.target, self.name, self.overload, self.schema)
        remember(self.target, self.overload, self.schema)
        obey_autocast(self.torch, self.library, self.target, self.name, self.overload, self.schema)
        return function(*given, backward) if backward else None

    def in_c(self, native: _library.Library, elsewhere: Any, kernels: dict[str, Callable[..., Any]]) -> bool:
        """Whether torch took the library's kernels; `kernels` then serve what those leave."""
        if native.functions["kw_torch_implement"](self.name.encode(), self.overload.schema.encode()):
            return False
        elsewhere.define(f"{self.name}{_with_addresses(self.overload.schema)}")
        for key, kernel in kernels.items():
            judged = not (key == "CPU" and self.op.no_cpu)  # else that the library refused is what was expected
            handed = _handed(self.torch, native, self.name, self.schema, kernel, judged=judged)
            elsewhere.impl(self.name, handed, key)
        elsewhere.impl(self.name, self.torch.library.fallthrough_kernel, "Autograd")
        if self.schema.written:
            counted = count_writes(self.torch, self.target, self.name, self.schema, self.refuse)
            self.library.impl(self.name, counted, "ADInplaceOrView", with_keyset=True)
        return True


def _register_overload(
    torch: Any, library: Any, elsewhere: Any, op: Op, overload: Overload, native: _library.Library | None
) -> Callable[..., Any]:
    """Returns the function that Python code calls."""
    made = _Made(torch, library, op, overload)
    kernels = made.kernels(native)
    made.without_values()
    transformed = made.above()
    counts = native is not None and made.in_c(native, elsewhere, kernels)
    if not counts:
        for key, kernel in kernels.items():
            library.impl(made.name, kernel, key)
    return entry(torch, made.target, made.schema, transformed, made.name, counts=counts)


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
    library, elsewhere = torch.library.Library(NAMESPACE, "DEF"), torch.library.Library(ELSEWHERE, "DEF")
    done, ready = {}, {}
    for op in records:
        if native is None or op.name in native.ops:
            overloads = {o.name: _register_overload(torch, library, elsewhere, op, o, native) for o in op.overloads}
            done[op.name], ready[op.name] = (library, elsewhere), SimpleNamespace(**overloads)
            count_flops(op, getattr(getattr(torch.ops, NAMESPACE), op.name))
    vars(calls).update(ready)
    _registered.update(done)


def require(name: str) -> None:
    """Raises for an operator that this build was told to leave out (build with --ops)."""
    if name not in _registered:
        raise errors.Unsupported(
            f"this build of kernelwright leaves {name} out; it has {', '.join(_registered) or 'no operators'}. "
            "Install a full build."
        )
