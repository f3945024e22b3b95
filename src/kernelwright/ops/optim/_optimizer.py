# SPDX-License-Identifier: MIT
"""What the optimizers' operators share: rules, what is refused, the definition in plain torch, one C call."""

from __future__ import annotations

import ctypes
import inspect
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from kernelwright.errors import InvalidArgument
from kernelwright.ops._record import Overload
from kernelwright.ops._tensors import (
    dtype_codes,
    placement,
    reaches,
    refuse_freed,
    refuse_inference,
    refuse_overlap,
    require_dtype,
    require_like,
    span,
)
from kernelwright.ops.optim import _blockwise as blockwise

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor

    from kernelwright._library import Library

BLOCK = 256  # elements of a block of 8-bit states
RULES = {"adam": 2, "ademamix": 3, "momentum": 1, "rmsprop": 1, "adagrad": 1, "lion": 1}
"""By name, how many states a rule has; the C library's numbers are in this order. The third lies behind the first."""
_LARGEST = 3.4028234663852886e38  # of float32
OF_GRADIENT = ("momentum", "rmsprop", "adagrad")  # whose weight decay is the gradient's


class Step(NamedTuple):
    """The numbers of a step, in the order of the schemas."""

    step: int
    lr: float
    beta1: float
    beta2: float
    beta3: float
    alpha: float
    eps: float
    weight_decay: float
    grad_scale: float


# --- what is refused ------------------------------------------------------------


def check_rule(op: str, rule: str, states: int, numbers: Step) -> None:
    fitting = [name for name, count in RULES.items() if (count == 1) == (states == 1)]
    if rule not in fitting:
        raise InvalidArgument(f"{op}: rule is {rule!r}, but must be {' or '.join(map(repr, fitting))}")
    if numbers.step < 1:
        raise InvalidArgument(f"{op}: step is {numbers.step}, but the first is 1")
    for name, value in zip(Step._fields[1:], numbers[1:], strict=True):
        if not abs(value) <= _LARGEST:
            raise InvalidArgument(f"{op}: {name} is {value}, but must be a number that float32 holds")


def check_param(op: str, param: Tensor, grad: Tensor) -> None:
    require_dtype(op, "param", param, blockwise.dtypes(blockwise.FLOATS))
    require_dtype(op, "grad", grad, (param.dtype,))
    require_like(op, "grad", grad, "param", param, param.shape)


def check_states(op: str, rule: str, param: Tensor, states: Sequence[Tensor], dtype: str) -> None:
    for name, tensor in zip(("state1", "state2"), states, strict=False):
        twice = 2 if rule == "ademamix" and name == "state1" else 1
        blockwise.check_held(
            op, name, tensor, dtype, twice * param.numel(), lambda: f"param has {param.numel()}, rule {rule!r}", param
        )


def check_scales(op: str, rule: str, param: Tensor, scales: Sequence[Tensor], maps: Sequence[Tensor]) -> None:
    for name, tensor in zip(("absmax1", "absmax2"), scales, strict=False):
        count = (2 if rule == "ademamix" and name == "absmax1" else 1) * blockwise.blocks(param.numel(), BLOCK)
        blockwise.check_held(op, name, tensor, "float32", count, lambda: f"one for each {BLOCK} elements", param)
    for name, tensor in zip(("map1", "map2"), maps, strict=False):
        blockwise.check_held(op, name, tensor, "float32", blockwise.MAP, lambda: "a value for each code", param)


# --- in plain torch -------------------------------------------------------------


def _power(base: float, exponent: int) -> float:
    try:
        return float(base**exponent)
    except OverflowError:
        return math.inf


def _inverse(value: float) -> float:
    return math.copysign(math.inf, value) if value == 0 else 1 / value


def _root(value: float) -> float:
    return math.sqrt(value) if value >= 0 else math.nan


def update(rule: str, param: Tensor, grad: Tensor, states: Sequence[Tensor], n: Step) -> Tensor:
    """The new parameter; `states`, of the type to compute in, are changed in place."""
    g, w = grad.to(states[0].dtype) * n.grad_scale, param.to(states[0].dtype)
    if n.weight_decay > 0:
        if rule in OF_GRADIENT:
            g = g + n.weight_decay * w
        else:
            w = w * (1 - n.lr * n.weight_decay)
    first = states[0]
    if rule == "momentum":
        first.copy_(g if n.step == 1 else n.beta1 * first + g)
        return w - n.lr * first
    if rule == "lion":
        toward = n.beta1 * first + (1 - n.beta1) * g
        first.copy_(n.beta2 * first + (1 - n.beta2) * g)
        return w - n.lr * toward.sign().where(~toward.isnan(), toward)  # a NaN stays
    if rule in ("rmsprop", "adagrad"):
        first.copy_(first + g * g if rule == "adagrad" else n.beta1 * first + (1 - n.beta1) * g * g)
        return w - n.lr * (g / (first.sqrt() + n.eps))
    second = states[1]
    first.copy_(n.beta1 * first + (1 - n.beta1) * g)
    second.copy_(n.beta2 * second + (1 - n.beta2) * g * g)
    mixed = first * _inverse(1 - _power(n.beta1, n.step))
    if rule == "ademamix":
        states[2].copy_(n.beta3 * states[2] + (1 - n.beta3) * g)
        mixed = mixed + n.alpha * states[2]
    under = second.sqrt() * _inverse(_root(1 - _power(n.beta2, n.step))) + n.eps
    return w - n.lr * (mixed / under)


def wide(param: Tensor) -> Any:
    import torch

    return torch.float64 if param.dtype == torch.float64 else torch.float32


def apart(rule: str, param: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
    """m, v and what of AdEMAMix lies behind m, each of param's shape, where it may be written to."""
    if rule != "ademamix":
        return [state.view(param.shape) for state in states]
    both = states[0].view(2, *param.shape)
    return [both[0], states[1].view(param.shape), both[1]]


def scales_apart(rule: str, scales: Sequence[Tensor]) -> list[Tensor]:
    """The scales of what `apart` gives."""
    if rule != "ademamix":
        return [scale.view(-1) for scale in scales]
    both = scales[0].view(2, -1)
    return [both[0], scales[1].view(-1), both[1]]


# --- the kernels ----------------------------------------------------------------


def _number_of(library: Library) -> Mapping[str, int]:
    return {name: library.constants[f"KW_{name.upper()}"] for name in RULES}


def numbers_maker(library: Library) -> Callable[[str, Step], Any]:
    """A function of a rule and a step's numbers: the C library's struct of them."""
    struct, number_of = library.structs["kw_optimizer"], _number_of(library)

    def make(rule: str, n: Step) -> Any:
        return struct(*map(float, n[1:]), n.step, number_of[rule], 0)

    return make


def _refuse_shared(op: str, written: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> None:
    for name, tensor in written.items():
        for other, held in given.items():
            if other != name and tensor.numel() and held.numel() and reaches(held, *span(tensor)):
                raise InvalidArgument(f"kw_{op}: {name} overlaps {other}; give it memory of its own (.clone())")


def _with_names(names: tuple[str, ...], function: Callable[..., None]) -> Callable[..., None]:
    """`function`, of the tensors, the rule and the numbers, with the schema's arguments by position."""

    def run(*args: Any) -> None:
        function(args[: len(names)], args[len(names)], Step(*args[len(names) + 1 :]))

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, kind) for name in (*names, "rule", *Step._fields)]
    )
    return run


def overload(
    op: str, name: str, names: tuple[str, ...], check: Callable[..., None], by_torch: Callable[..., None]
) -> Overload:
    """The overload with tensors of these names; `grad` and maps are read only."""
    letters = iter("abcdefgh")
    written = [tensor for tensor in names if tensor != "grad" and not tensor.startswith("map")]
    shown = [f"Tensor({next(letters)}!) {tensor}" if tensor in written else f"Tensor {tensor}" for tensor in names]

    def fake(tensors: tuple[Tensor, ...], rule: str, n: Step) -> None:
        check(tensors, rule, n)
        _writable(op, dict(zip(names, tensors, strict=True)), written)

    numbers = [f"{'int' if number == 'step' else 'float'} {number}" for number in Step._fields]
    return Overload(
        name=name,
        schema=f"({', '.join([*shown, 'str rule', *numbers])}) -> ()",
        bind=lambda library, key: _bind(op, names, written, check, by_torch, library, key),
        fake=_with_names(names, fake),
        reference=_with_names(names, by_torch),
        fixed=tuple(tensor for tensor in names if tensor not in ("param", "grad")),
    )


def _writable(op: str, given: Mapping[str, Tensor], written: Sequence[str]) -> None:
    """What can be said without memory, so that a compiler is told too."""
    for name in written:
        refuse_inference(op, name, given[name])
        refuse_overlap(op, name, given[name])


def _ready(op: str, given: Mapping[str, Tensor], written: Sequence[str]) -> None:
    refuse_freed(op, **given)
    _writable(op, given, written)
    _refuse_shared(op, {name: given[name] for name in written}, given)


def _bind(
    op: str,
    names: tuple[str, ...],
    written: Sequence[str],
    check: Callable[..., None],
    by_torch: Callable[..., None],
    library: Library,
    key: str,
) -> Callable[..., None]:
    order = ("param", "grad", "state1", "state2", *(("absmax1", "absmax2", "map1", "map2") if "8bit" in op else ()))
    import torch

    types, place = dtype_codes(library, blockwise.FLOATS[:3]), placement(library, key)
    call, make = library.functions["kw_call"], numbers_maker(library)
    pack, function = library.packer(f"kw_{op}")
    changed = torch.autograd.graph.increment_version

    def launch(param: Tensor, plain: Mapping[str, Tensor], held: Any) -> None:
        device, stream = place(param)
        at = [plain[name].data_ptr() if name in plain else 0 for name in order]
        status = call(pack(function, device, stream, *at, ctypes.addressof(held), param.numel(), types[param.dtype]))
        if status:
            library.fail(f"kw_{op}", status)

    def run(*args: Any) -> None:
        tensors, rule, numbers = args[: len(names)], args[len(names)], Step(*args[len(names) + 1 :])
        check(tensors, rule, numbers)
        given = dict(zip(names, tensors, strict=True))
        _ready(op, given, written)
        param = given["param"]
        if param.dtype not in types:
            by_torch(tensors, rule, numbers)
        elif param.numel():
            plain = {name: tensor.contiguous() for name, tensor in given.items()}
            launch(param, plain, make(rule, numbers))
            for name in written:
                if plain[name] is given[name]:
                    changed(given[name])  # a backward pass that saved it must notice
                else:
                    given[name].copy_(plain[name])

    return run
