# SPDX-License-Identifier: MIT
"""Whether a call ended well: with the right numbers, or with an exception that says what was expected."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from kernelwright import errors
from kernelwright.ops.int8 import _rows as quantization
from kernelwright.ops.ternary import _codes as codes
from tests.python.hostile.calls import Call, schema_of
from tests.python.tensors import allowed, allowed_in_place, assert_near, outputs, same_bits, written

# torch's own words where a result would not fit into memory, or its size not into 64 bits; and for two arguments that
# are written to and are conjugates.
_OF_TORCH = (
    "conjugate fallback does not support operators with more than one mutable tensors",
    "can't allocate memory",
    "Storage size calculation overflowed",
    "not enough memory",
    "numel: integer multiplication overflow",
)


def _plain(value: Any) -> bool:
    """A tensor whose bits can be read."""
    return (
        isinstance(value, torch.Tensor)
        and not value.is_nested
        and value.layout == torch.strided
        and not value.is_quantized
        and value.device.type == "cpu"
    )


def _small(value: Any) -> bool:
    return _plain(value) and value.numel() < 1 << 24


def _copy(value: Any) -> Any:
    return value.detach().clone() if _small(value) else value


def _wide(value: Any) -> Any:
    return value.detach().double() if _small(value) else value


def _settled(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def refused(call: Call, error: Exception) -> None:
    """The exception is one of ours that names the operator, or torch's about a schema, naming an argument."""
    words, op = str(error), call.entry.op.name
    said = f"it raised {type(error).__name__}: {words}"
    if isinstance(error, errors.KernelwrightError):
        assert words.startswith((f"{op}: ", f"{op}.", f"kw_{op}: ", f"kw_{op}_", f"kernelwright::{op}")), (
            f"does not say what failed; {said}"
        )
        return
    if isinstance(error, (RuntimeError, MemoryError)) and any(text in words for text in _OF_TORCH):
        return
    if isinstance(error, NotImplementedError) and words.startswith(f"kernelwright.{op}."):
        return  # what jagged tensors say of each operator that torch did not write for them
    if "'NestedTensorMeta' backend" in words:
        return  # torch's dispatcher, of a nested tensor beside one on meta; no kernel is asked
    assert isinstance(error, (RuntimeError, TypeError, ValueError)), f"no exception for this; {said}"
    # Of any overload: a public function picks one, which may call its arguments something else.
    names = {argument.name for overload in call.entry.op.overloads for argument in schema_of(call.entry.op, overload)}
    assert any(f"'{name}'" in words or f" {name} " in words for name in names), f"names no argument; {said}"


def untouched(before: dict[str, Any], arguments: dict[str, Any], but: set[str]) -> None:
    for name, value in arguments.items():
        if name not in but and _small(value):
            assert same_bits(_settled(before[name]), _settled(value)), f"{name} was changed"


def _no_digits(call: Call, arguments: list[Any]) -> bool:
    """Whether attention's scores are so large that their rounding in float32 alone decides what a softmax gives."""
    if call.entry.op.name != "attention":
        return False
    given = dict(zip([argument.name for argument in call.entry.schema], arguments, strict=True))
    most = {
        name: float(t.double().abs().max()) for name, t in given.items() if isinstance(t, torch.Tensor) and t.numel()
    }
    products = abs(given["scale"]) * most.get("q", 0) * most.get("k", 0) * given["q"].shape[-1]
    return not products + most.get("bias", 0) < 2**10


def _too_large_for_half(call: Call, overload: str, arguments: list[Any]) -> bool:
    """Whether weights are infinite that the gradient of experts' products has as dequantize_4bit gives them."""
    if (call.entry.op.name, overload) != ("matmul_4bit_grouped", "transposed"):
        return False
    x, _, absmax, *_ = arguments
    return x.dtype == torch.float16 and bool((absmax.abs() > torch.finfo(x.dtype).max).any())


def _either_code(call: Call, arguments: list[Any]) -> Any:
    """By how much outputs may differ where they are sums of codes that the operator makes itself: of what lies so near
    to a half that rounding decides, a code may be one more or one less."""
    if call.entry.op.name != "linear_ternary":
        return 0.0
    x, packed, scale, _, weight, eps, clamp, _, n = arguments
    ties, _ = quantization.terms_of_quantize(x, weight, eps, clamp)
    count = torch.matmul(ties, codes.unpack(packed, n, x.shape[-1]).abs().double().t())
    _, absmax = quantization.quantize(x, weight, eps, clamp)
    worth = absmax.double().unsqueeze(-1) / 127 * (1.0 if scale is None else scale.abs().double().reshape(-1))
    return torch.where(count > 0, count * worth, 0.0)


def _without_gaps(tensor: torch.Tensor) -> bool:
    return bool(torch.ops.aten.is_non_overlapping_and_dense(tensor))


def right(call: Call, overload: str, arguments: list[Any], copies: list[Any], found: Any) -> None:
    """Every output, and what was written, against float64."""
    op = call.entry.op
    results = [out for out in outputs(found) if all(out is not a for a in arguments)]  # some return what they wrote to
    if any(isinstance(a, torch.Tensor) and a.device.type == "meta" for a in arguments):
        assert all(out.device.type == "meta" for out in results)
        return
    if _no_digits(call, copies) or _too_large_for_half(call, overload, copies):
        return
    exact = [_wide(a) for a in copies]
    exact = [a.clone() if isinstance(a, torch.Tensor) else a for a in exact]
    terms = [a.clone() if isinstance(a, torch.Tensor) else a for a in exact]
    expected = [value.double() for value in outputs(op.overload(overload).reference(*exact))]
    either = _either_code(call, copies)
    bounds = [bound + either for bound in allowed(op, overload, terms, expected, results)]
    for number, (a, b, bound) in enumerate(zip(results, expected, bounds, strict=True)):
        # What attention gives lies as its users want it next: the heads of a row side by side; what rope gives lies as
        # what it was given.
        others = {"attention": lambda a: a.transpose(1, 2).is_contiguous(), "rope": _without_gaps}
        assert a.is_contiguous() or others.get(op.name, torch.Tensor.is_contiguous)(a)
        # Where float32 may err by more than the result is, such as a deviation of 1 beside a mean of 1e15, no digit is
        # left of it, and without an eps it may be no number.
        lost = bound > b.abs() + 1
        assert_near(torch.where(lost, b, a.detach().double()).to(a.dtype), b, bound, f"output {number}", strict=False)
    places = written(op, overload)
    held, wanted = [arguments[place].detach() for place in places], [exact[place] for place in places]
    for place, a, b, bound in zip(
        places, held, wanted, allowed_in_place(op, overload, terms, wanted, held), strict=True
    ):
        assert_near(a, b, bound, f"written argument {place}", strict=False)


def differentiable(call: Call, overload: str, arguments: list[Any], found: Any) -> None:
    """Where gradients were asked for, there are some, of the right shape."""
    wanted = [a for a in arguments if isinstance(a, torch.Tensor) and a.requires_grad]
    results = [out for out in outputs(found) if out.requires_grad]
    if not wanted or not torch.is_grad_enabled():
        return
    assert results, "no gradients were recorded"
    gradients = torch.autograd.grad(results, wanted, [torch.ones_like(out) for out in results], allow_unused=True)
    for a, gradient in zip(wanted, gradients, strict=True):
        assert gradient is None or (gradient.shape, gradient.dtype) == (a.shape, a.dtype)


def _converted(value: Any, argument: Any) -> Any:
    """As torch hands it on: True for a whole number is 1, and 2 or 0.5 for a flag is True."""
    kind = None if argument is None else str(argument.type)
    if isinstance(value, bool) and kind in ("int", "SymInt"):
        return int(value)
    return bool(value) if isinstance(value, (int, float)) and kind == "bool" else value


def _fake_agrees(call: Call, error: Exception | None, found: Any) -> None:
    """What a compiler is told: the same refusal, or outputs of the same kind."""
    values = [_converted(v, a) for v, a in zip(call.arguments.values(), call.entry.schema, strict=False)]
    earlier = error is not None and not isinstance(error, errors.InvalidArgument)  # by the schema, by autograd
    missing = any(v is None and str(a.type) == "Tensor" for v, a in zip(values, call.entry.schema, strict=True))
    if call.entry.public or earlier or missing or not all(_plain(v) for v in values if isinstance(v, torch.Tensor)):
        return
    try:
        fakes = outputs(call.entry.overload.fake(*values))
    except errors.KernelwrightError as refusal:
        if isinstance(error, errors.InvalidArgument) and any(_plain(v) and v.is_neg() for v in values):
            return  # refused too: whether a view that negates can be written is asked first, before it is copied
        assert type(error) is type(refusal), f"the fake refuses ({refusal}), the kernel does not"
        assert str(error) == str(refusal), f"the fake says {refusal}"
        return
    if error is None:
        for fake, real in zip(fakes, outputs(found), strict=True):
            assert (fake.shape, fake.dtype, fake.device, fake.stride()) == (
                real.shape, real.dtype, real.device, real.stride(),
            ), "the fake's output is of another kind"  # fmt: skip
    elif isinstance(error, errors.InvalidArgument):
        elsewhere = str(error).startswith("kw_") or "inference mode" in str(error)
        assert elsewhere, f"the kernel refuses ({error}), the fake does not"


def _chosen(call: Call, overload: str, values: list[Any]) -> bool:
    """Whether a public function took None for a value that it chooses then: the definition must be given one."""
    schema = schema_of(call.entry.op, call.entry.op.overload(overload))
    asked = (a for a, value in zip(schema, values, strict=True) if value is None)
    return call.entry.public and any(not str(a.type).startswith("Optional") for a in asked)


def judge(call: Call) -> bool:
    """Makes the call; True if it was right, False if it was refused; AssertionError if it was neither."""
    arguments = call.arguments
    before = {name: _copy(value) for name, value in arguments.items()}
    error, found = None, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = call.entry.call(arguments)
        except Exception as caught:  # noqa: BLE001 - what it may be is judged
            error = caught
    if error is not None:
        refused(call, error)
        untouched(before, arguments, set())
        _fake_agrees(call, error, None)
        return False
    overload, names = call.entry.picked(arguments)
    schema = {argument.name: argument for argument in schema_of(call.entry.op, call.entry.op.overload(overload))}
    values, copies = ([_converted(home[n], schema.get(n)) for n in names] for home in (arguments, before))
    storages = {values[i].untyped_storage().data_ptr() for i in written(call.entry.op, overload)}
    aliases = {n for n, v in arguments.items() if _plain(v) and v.untyped_storage().data_ptr() in storages}
    untouched(before, arguments, aliases)
    if not _chosen(call, overload, values):
        right(call, overload, values, copies, found)
    differentiable(call, overload, values, found)
    _fake_agrees(call, None, found)
    return True
