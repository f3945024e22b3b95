# SPDX-License-Identifier: MIT
"""Tensors laid out in hostile ways, outputs in guarded and poisoned memory, and the comparison with float64."""

from __future__ import annotations

import contextlib
import ctypes
import math
from dataclasses import dataclass, field
from typing import Any

import pytest

from kernelwright import _library, ops
from kernelwright.ops import _calls
from kernelwright.ops._record import Tolerance

# Here, and not in each test file: what imports this is skipped as a whole where torch is absent.
torch = pytest.importorskip("torch", reason="torch is not installed")

MARGIN = 67  # odd, so that what stands between two margins is aligned to its element alone
SENTINEL = -96.0  # exact in every float type

# A build of some operators (--ops) is tested as far as it goes; test_records.py sees that no other lacks one.
RECORDS = [ops.record(name) for name in ops.names() if name in _library.load().ops]
CASES = [(op, case) for op in RECORDS for case in op.cases]
OVERLOADS = [(op, overload) for op in RECORDS for overload in op.overloads]


def case_id(value: Any) -> str | None:
    """For parametrize: a readable id of a record, an overload or a case."""
    return getattr(value, "name", None) or str(value)


def target(op: Any, overload: str) -> Any:
    """The torch operator, by the overload's name."""
    ops.register()
    return getattr(getattr(torch.ops.kernelwright, op.name), overload)


def in_python(op: Any, overload: str) -> Any:
    """The operator of the overload's kernels in Python, where those in C are the ones that calls come to; else None."""
    found = getattr(getattr(torch.ops._kernelwright, op.name, None), overload, None)
    texts = [i for i, a in enumerate(target(op, overload)._schema.arguments) if str(a.type) == "str"]
    return found and _with_addresses(found, texts)


def _with_addresses(call: Any, texts: list[int]) -> Any:
    """A call that the library makes with the addresses of these texts."""

    def run(*args: Any) -> Any:
        held = {i: ctypes.create_string_buffer(args[i].encode()) for i in texts if i < len(args)}
        return call(*(ctypes.addressof(held[i]) if i in held else a for i, a in enumerate(args)))

    return run if texts else call


def generator(seed: int, device: str) -> torch.Generator:
    return torch.Generator(device).manual_seed(seed)


def _inside(
    shape: tuple[int, ...], strides: list[int], dtype: Any, device: Any, margin: int = MARGIN
) -> tuple[torch.Tensor, torch.Tensor]:
    """A view of this geometry in a new buffer full of sentinels, with a margin at both ends."""
    extent = (
        1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) if math.prod(shape) else 0
    )
    buffer = torch.full((extent + 2 * margin,), SENTINEL, device=device).to(dtype)
    return buffer.as_strided(shape, strides, margin), buffer


def _strides(shape: tuple[int, ...], last: int = 1, pad: int = 0) -> list[int]:
    """Of a tensor whose elements in a row are `last` apart, and whose rows end `pad` elements late."""
    strides, step = [], last
    for index, size in enumerate(reversed(shape)):
        strides.insert(0, step)
        step = step * max(size, 1) + (pad if index == 0 else 0)
    return strides


LAYOUTS = {
    "shifted": _strides,
    "rows apart": lambda shape: _strides(shape, pad=3),
    "elements apart": lambda shape: _strides(shape, last=2),
    "transposed": lambda shape: _strides(shape[::-1])[::-1],
    "planes apart": lambda shape: [s + 5 if i == 0 and len(shape) > 2 else s for i, s in enumerate(_strides(shape))],
}


def some_layouts(number: int, count: int, *, whole: bool) -> list[str]:
    """`count` layouts for the case of this number, such that those that follow it have the others; all for `whole`.

    A record's cases have the types of a shape beside each other: each goes to other layouts, and with the next shape to
    others again, so that of shape, type and layout every two meet.
    """
    names = ["plain", *LAYOUTS]
    if whole:
        return names
    first = (number + number // 3) * count
    return [names[(first + place) % len(names)] for place in range(count)]


def laid_out(value: Any, layout: str) -> Any:
    """The same tensor in another layout; anything else as it is."""
    if not isinstance(value, torch.Tensor) or layout == "plain":
        return value.clone() if isinstance(value, torch.Tensor) else value
    view, _ = _inside(tuple(value.shape), LAYOUTS[layout](tuple(value.shape)), value.dtype, value.device)
    return view.copy_(value)


@dataclass
class Guards:
    """Buffers that outputs were allocated in; the memory around an output must stay as it was."""

    buffers: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)

    def empty_like(self, like: torch.Tensor, *, dtype: Any = None, device: Any = None, **_: Any) -> torch.Tensor:
        return self.empty(like.shape, dtype=dtype or like.dtype, device=device or like.device)

    def new_empty(self, like: torch.Tensor, *size: Any, dtype: Any = None, device: Any = None) -> torch.Tensor:
        return self.empty(*size, dtype=dtype or like.dtype, device=device or like.device)

    def empty(self, *size: Any, dtype: Any, device: Any) -> torch.Tensor:
        shape = tuple(size[0] if len(size) == 1 and not isinstance(size[0], int) else size)
        raw = dtype == torch.uint8  # scratch memory: aligned, as the C functions ask for it
        view, buffer = _inside(shape, _strides(shape), dtype, device, 80 if raw else MARGIN)
        # 255 in every byte is NaN in every float type; of other whole numbers, one that no test expects.
        view.fill_(255 if raw else math.nan if dtype.is_floating_point else -77)
        self.buffers.append((view, buffer))
        return view

    def check(self) -> None:
        for view, buffer in self.buffers:
            start = view.storage_offset()
            around = torch.cat([buffer[:start], buffer[start + view.numel() :]])
            assert (around == torch.tensor(SENTINEL).to(around.dtype)).all(), (
                f"something was written outside an output of shape {tuple(view.shape)}"
            )


@contextlib.contextmanager
def guarded(monkeypatch: Any) -> Any:
    """Within: torch.empty, torch.empty_like and a tensor's new_empty give memory full of NaN, misaligned, between
    sentinels that are checked at the end."""
    guards = Guards()

    def new_empty(like: torch.Tensor, *size: Any, **kind: Any) -> torch.Tensor:  # a function becomes a method
        return guards.new_empty(like, *size, **kind)

    with monkeypatch.context() as patch:
        patch.setattr(torch, "empty", guards.empty)
        patch.setattr(torch, "empty_like", guards.empty_like)
        patch.setattr(torch.Tensor, "new_empty", new_empty)
        for op, overload in OVERLOADS:  # those that others are made of
            if kernel := in_python(op, overload.name):
                patch.setattr(getattr(_calls.calls, op.name), overload.name, kernel)
        yield guards
    guards.check()


def wide(value: Any) -> Any:
    """In float64; anything that is not a tensor as it is."""
    return value.double() if isinstance(value, torch.Tensor) else value


def outputs(result: Any) -> list[torch.Tensor]:
    return [] if result is None else list(result) if isinstance(result, tuple) else [result]


def written(op: Any, overload: str) -> list[int]:
    """Positions of the arguments that the overload writes to."""
    arguments = target(op, overload)._schema.arguments
    return [i for i, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write]


def free(op: Any, overload: str) -> list[bool]:
    """Of each argument whether its element type may be any: that of codes and scales is the operator's own."""
    fixed = op.overload(overload).fixed
    return [argument.name not in fixed for argument in target(op, overload)._schema.arguments]


def changed(op: Any, overload: str, args: Any, change: Any) -> list[Any]:
    """The arguments with `change` made to the tensors whose element type may be any."""
    pairs = zip(args, free(op, overload), strict=True)
    return [change(a) if of_any and isinstance(a, torch.Tensor) else a for a, of_any in pairs]


def freed(
    *shape: int, dtype: Any = torch.float32, apart: int = 1, offset: int = 0, device: str = "cpu"
) -> torch.Tensor:
    """A tensor whose memory is gone, as sharding leaves them; its elements were so far apart, and so far in."""
    flat = torch.ones(offset + apart * math.prod(shape), dtype=dtype, device=device)
    view = flat[offset:].view(*shape, apart)[..., 0]
    flat.untyped_storage().resize_(0)
    return view


def small_float(value: Any) -> bool:
    """Of 8 bits: torch computes nothing with such."""
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.itemsize == 1


def times(a: torch.Tensor, factor: float) -> torch.Tensor:
    return (a.float() * factor).to(a.dtype) if small_float(a) else a * factor


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Also where NaN is equal to nothing."""
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    return torch.equal(a.view(bits), b.view(bits))


def allowed(op: Any, overload: str, args: Any, expected: list[torch.Tensor], found: list[torch.Tensor]) -> Any:
    """For each output how far it may be from what is expected, on float64 copies of the arguments."""
    if not found:  # nor does the record say anything of them
        return []
    exact = [a.double() if isinstance(a, torch.Tensor) else a for a in args]
    return list(op.allowed(overload, exact, expected, [a.dtype for a in found]))


def allowed_in_place(op: Any, overload: str, args: Any, expected: list[torch.Tensor], found: list[torch.Tensor]) -> Any:
    """The same for each argument that is written to; `args` are copies from before."""
    exact = [a.double() if isinstance(a, torch.Tensor) else a for a in args]
    return list(op.allowed_in_place(overload, exact, expected, [a.dtype for a in found]))


def assert_near(found: torch.Tensor, expected: torch.Tensor, bound: Any, what: str, *, strict: bool = True) -> None:
    """Element by element against float64; NaN and infinities must be in the same places.

    `bound` is a tensor or a Tolerance. Not `strict`: an infinity may be NaN, because which of the two a sum of
    infinite terms gives depends on their order.
    """
    assert found.shape == expected.shape, f"{what}: shape {tuple(found.shape)}, expected {tuple(expected.shape)}"
    rounded = expected.double().to(found.dtype).double().cpu()  # infinite where a half cannot hold it
    found, expected = found.double().cpu(), expected.double().cpu()
    if isinstance(bound, Tolerance):
        bound = bound.absolute + bound.relative * expected.abs()
    same = (found == expected) | (found.isinf() & (found == rounded)) | (found.isnan() & expected.isnan())
    if not strict:
        same |= ~found.isfinite() & ~expected.isfinite()
    excess = torch.where(same, 0.0, (found - expected).abs() / bound.cpu())
    excess = excess.nan_to_num(nan=math.inf).reshape(-1)
    if excess.numel() and excess.max() > 1:
        at = int(excess.argmax())
        index = tuple(int(i) for i in torch.unravel_index(torch.tensor(at), expected.shape))
        a, b = found.reshape(-1)[at].item(), expected.reshape(-1)[at].item()
        raise AssertionError(f"{what}: element {index} is {a!r}, expected {b!r}: {excess[at]:.3g} times the tolerance")
