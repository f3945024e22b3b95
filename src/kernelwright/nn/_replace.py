# SPDX-License-Identifier: MIT
"""Puts forward passes of kernelwright into a model's modules, and takes them out again."""

from __future__ import annotations

import math
from collections import Counter
from types import MethodType
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument
from kernelwright.nn._patterns import PATTERNS
from kernelwright.nn.bit_linear import BitLinear

if TYPE_CHECKING:
    from collections.abc import Callable

    Forward = Callable[..., Any]
    Found = tuple[str, Forward | None, str | None]

_ROWS = 3
_ROWS_IN_8_BITS = 3e-2  # an element that lies between two codes may become either
_ROUNDING = {torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 4e-3}  # of an output, as a share of all


class Replaced:
    """What was changed in a model: `replaced` by kind, `kept` with the reason, both by the modules' names; `merged` are
    those of which weights lie together now, `apart` those of which they cannot, with the reason."""

    def __init__(self) -> None:
        self.replaced: dict[str, list[str]] = {}
        self.kept: dict[str, str] = {}
        self.merged: list[str] = []
        self.apart: dict[str, str] = {}
        self._merges: Counter[str] = Counter()
        self._modules: list[Any] = []

    def undo(self) -> None:
        """Gives the modules their own forward passes back."""
        while self._modules:
            restore(self._modules.pop())
        self.replaced.clear()
        self.merged.clear()
        self.apart.clear()
        self._merges.clear()

    def __str__(self) -> str:
        counts = [f"{len(names)} x {kind} ({_some(names)})" for kind, names in self.replaced.items()]
        counts += [f"{count} with {words} as one weight" for words, count in self._merges.items()]
        counts += [f"{count} with {words}" for words, count in Counter(self.apart.values()).items()]
        reasons = Counter(self.kept.values())
        kept = [f"{count} left: {reason}" for reason, count in reasons.items()]
        return "; ".join([*(counts or ["nothing replaced"]), *kept])

    __repr__ = __str__

    def _put(self, kind: str, name: str, module: Any, forward: Forward) -> None:
        module.forward = MethodType(forward, module)
        self._modules.append(module)
        self.replaced.setdefault(kind, []).append(name)

    def _merge(self, name: str, module: Any, forward: Forward, dense: bool) -> None:
        pattern = _pattern_of(forward)
        if pattern is None or pattern.merge is None or not pattern.matches(module):
            return
        reason = pattern.merge(module, dense)
        if reason == "":
            return
        if reason is None:
            self.merged.append(name)
            self._merges[pattern.merges] += 1
        elif pattern.width is not None or pattern.forward is not forward:
            self.apart[name] = f"{pattern.merges} apart: {reason}"
        else:
            self._take_out(pattern.kind, name)
            self.kept[name] = f"{pattern.kind}: {reason}"

    def _take_out(self, kind: str, name: str) -> None:
        """What was put in last."""
        restore(self._modules.pop())
        self.replaced[kind].remove(name)
        if not self.replaced[kind]:
            del self.replaced[kind]


def _pattern_of(forward: Forward) -> Any:
    """A forward pass from elsewhere may stand for that of a pattern, and bring the same weights together."""
    forward = getattr(forward, "stands_for", forward)
    return next((pattern for pattern in PATTERNS if pattern.forward is forward), None)


def restore(module: Any) -> None:
    """A module with a forward pass of ours as it was."""
    own = module.__dict__.pop("forward", None)
    module.__dict__.pop("_kernelwright_factor", None)
    pattern = _pattern_of(getattr(own, "__func__", own))
    if pattern is not None and pattern.part is not None:
        pattern.part(module)


def forget_copied(module: Any) -> None:
    """A copied or unpickled module has found its class's forward pass for the one that was put into it."""
    own = vars(module).get("forward")
    if isinstance(own, MethodType) and own.__func__ is type(module).forward:
        del module.__dict__["forward"]


def _some(names: list[str]) -> str:
    return ", ".join(names[:2]) + (", ..." if len(names) > 2 else "")


def is_ours(module: Any, *forwards: Forward) -> bool:
    """Whether its forward pass is of a pattern, or one of these."""
    own = vars(module).get("forward")
    return isinstance(own, MethodType) and own.__func__ in {*forwards, *(p.forward for p in PATTERNS)}


def replace(
    function: str,
    model: Any,
    others: Callable[[Any], Found | None] = lambda _: None,
    forwards: tuple[Forward, ...] = (),
    *,
    merge: bool = False,
    dense: bool = True,
) -> Replaced:
    """The modules of a model that compute what kernelwright has operators for. `others` knows modules that no pattern
    does, `forwards` are what it puts into them. `merge` brings weights together, without `dense` quantized ones."""
    if not isinstance(model, torch.nn.Module):
        raise InvalidArgument(f"{function}: the model is a {type(model).__name__}, but must be a torch.nn.Module")
    done = Replaced()
    for name, module in model.named_modules():
        forget_copied(module)
        if is_ours(module, *forwards):
            if merge:
                _merge_again(module, dense)
            continue
        found = others(module) or _found(module, merge)
        if found is None:
            continue
        kind, forward, reason = found
        if "forward" in vars(module):
            forward, reason = None, "another library has put a forward pass of its own there"
        if forward is None:
            done.kept[name] = f"{kind}: {reason}"
            continue
        done._put(kind, name, module, forward)  # noqa: SLF001
        if merge:
            done._merge(name, module, forward, dense)  # noqa: SLF001
    return done


def _merge_again(module: Any, dense: bool) -> None:
    """Of a module that has a forward pass of ours: weights that were loaded or moved since lie apart."""
    pattern = _pattern_of(module.forward.__func__)
    if pattern is not None and pattern.merge is not None and pattern.matches(module):
        pattern.merge(module, dense)


def _found(module: Any, merge: bool) -> Found | None:
    """Of a module that is of one of the kinds: its kind, and the forward pass for it, or why there is none."""
    patterns = [pattern for pattern in PATTERNS if (merge or pattern.width is not None) and pattern.matches(module)]
    if patterns and patterns[0].width is None:
        return patterns[0].kind, patterns[0].forward, None
    return (patterns[0].kind, *_equal(module, patterns)) if patterns else None


def _equal(module: Any, patterns: list[Any]) -> tuple[Forward | None, str | None]:
    """The forward pass that gives what the module's own gives for rows of random numbers; else why there is none."""
    tensors = [*module.parameters(), *module.buffers()]
    device = tensors[0].device
    if device.type not in ("cpu", "cuda") or any(tensor.device != device for tensor in tensors):
        return None, f"it lies on {device}, without values or in several places"
    dtype = _computes_in(module)
    if dtype not in _ROUNDING:
        return None, f"it computes in {dtype}"
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, _ROWS, patterns[0].width(module), generator=generator, device="cpu").to(device, dtype)
    with _evaluated(module), torch.no_grad():
        expected = type(module).forward(module, x)
        for pattern in patterns:
            y = pattern.forward(module, x)
            if y.dtype is expected.dtype and _near(y, expected, _rounding(module, dtype)):
                forward: Forward = pattern.forward
                return forward, None
    module.__dict__.pop("_kernelwright_factor", None)
    return None, "it computes something else than its name says"


class _evaluated:  # noqa: N801 - a context manager
    """Without dropout for a while."""

    def __init__(self, module: Any) -> None:
        self.trained = [part for part in module.modules() if part.training]

    def __enter__(self) -> None:
        for part in self.trained:
            part.training = False

    def __exit__(self, *_: object) -> None:
        for part in self.trained:
            part.training = True


def _rounding(module: Any, dtype: torch.dtype) -> float:
    ternary = any(isinstance(part, BitLinear) for part in module.modules())
    return max(_ROUNDING[dtype], _ROWS_IN_8_BITS if ternary else 0.0)


def _near(y: torch.Tensor, expected: torch.Tensor, share: float) -> bool:
    apart, size = (float(values.double().norm()) for values in (y - expected, expected))
    return apart <= share * size and 0 < size < math.inf


def _computes_in(module: Any) -> Any:
    """The type of its layers' inputs: that of its parameters, but codes say nothing of it."""
    for part in module.modules():
        compute = getattr(part, "compute_dtype", None)
        weight = vars(part)["_parameters"].get("weight")
        if compute is not None:
            return compute
        if weight is not None and weight.dtype in _ROUNDING and not hasattr(weight, "quant_state"):
            return weight.dtype
    return torch.float32
