# SPDX-License-Identifier: MIT
"""An operator of each family with its two ways to be called, for tables of (feature x way x family)."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

import kernelwright
from kernelwright import ops
from tests.python import tensors
from tests.python.tensors import torch


def _options(scale, causal, left, right, softcap, deterministic):
    return {
        "scale": scale, "causal": causal, "window": (left, right), "softcap": softcap, "deterministic": deterministic,
        "return_lse": True,
    }  # fmt: skip


# What `kernelwright.<op>` is given for the schema's arguments, by family: the operator, and a function of those.
_PUBLIC = {
    "norm": ("rms_norm", lambda f, x, weight, eps: f(x, weight, eps=eps)),
    "gated": ("swiglu", lambda f, gate, up: f(gate, up)),
    "linear": ("linear", lambda f, x, weight, bias, name: f(x, weight, bias, None if name == "none" else name)),
    "four_bit": ("matmul_4bit", lambda f, x, packed, absmax, bias, n, size, kind: f(x, packed, absmax, n, size, kind, bias)),
    "int8": ("matmul_int8", lambda f, *given: f(*given[:5], factor=given[5], dtype=given[6])),
    "fp8": ("matmul_fp8", lambda f, *given: f(*given[:5], None if given[5] == "none" else given[5], dtype=given[6])),
    "ternary": ("matmul_ternary", lambda f, *given: f(*given[:5], n=given[5], dtype=given[6])),
    "attention": (
        "attention",
        lambda f, q, k, v, mask, bias, sinks, slopes, *options: f(
            q, k, v, mask=bias if mask is None else mask, sinks=sinks, alibi_slopes=slopes, **_options(*options)
        ),
    ),
    "rope": (
        "rope",
        lambda f, x, cos, sin, positions, dim, pairs, back: f(
            x, cos, sin, positions=positions, rotary_dim=dim, interleaved=pairs, inverse=back
        ),
    ),
    "optim": (
        "optimizer_update_32bit",
        lambda f, *given: f(
            *given[:5],
            **dict(
                zip(
                    ("step", "lr", "beta1", "beta2", "beta3", "alpha", "eps", "weight_decay", "grad_scale"),
                    given[5:],
                    strict=True,
                )
            ),
        ),
    ),
}  # fmt: skip
FAMILIES = tuple(_PUBLIC)
WAYS = ("kernelwright", "torch.ops")
DIFFERENTIABLE = ("norm", "gated", "linear", "four_bit", "attention", "rope")
"""Of those, the operators that record gradients, by their first argument among others."""


class Operator(NamedTuple):
    """The default overload of an operator."""

    name: str
    record: Any
    call: Any
    """Of the schema's arguments, this way; what it writes to is its first argument, and returned."""
    arguments: tuple[Any, ...]
    """Of a small case in float32, or what the operator has for it."""

    @property
    def overload(self) -> Any:
        return self.record.overload("default")

    @property
    def tensors(self) -> tuple[int, ...]:
        return tuple(place for place, value in enumerate(self.arguments) if isinstance(value, torch.Tensor))

    def closed(self) -> tuple[Any, tuple[Any, ...]]:
        """A function of tensors alone, and those."""

        def run(*given: Any) -> Any:
            args = list(self.arguments)
            for place, value in zip(self.tensors, given, strict=True):
                args[place] = value
            return self.call(*args)

        return run, tuple(self.arguments[place].clone() for place in self.tensors)


def operator(family: str, way: str) -> Operator:
    name, public = _PUBLIC[family]
    ops.register()
    record = ops.record(name)
    case = record.cases_for("small", "default", "float32")[0]
    target = tensors.target(record, "default")
    function = getattr(kernelwright, name)

    def call(*args: Any) -> Any:
        found = public(function, *args) if way == "kernelwright" else target(*args)
        return args[0] if found is None else found

    return Operator(name, record, call, record.make(case, "cpu", tensors.generator(5, "cpu")))


def _cases(number: int, families: tuple[str, ...]) -> list[Any]:
    """(family, way): rms_norm both ways; the others one of the two, and the other with --long."""
    found = []
    for place, family in enumerate(families):
        for turn, way in enumerate(WAYS):
            marks = () if family == "norm" or (number + place + turn) % 2 == 0 else (pytest.mark.long,)
            found.append(pytest.param(family, way, marks=marks, id=f"{family}-{way}"))
    return found


def each_family(number: int, families: tuple[str, ...] = FAMILIES) -> Any:
    """A mark, by the number of a feature: tests of two with numbers that follow each other have other ways."""
    return pytest.mark.parametrize(("family", "way"), _cases(number, families))


def paired(features: Any, families: tuple[str, ...] = FAMILIES) -> list[Any]:
    """(feature, family, way), so that every two meet; with --long all three."""
    return [
        pytest.param(feature, *case.values, marks=case.marks, id=f"{_name(feature)}-{case.id}")
        for number, feature in enumerate(features)
        for case in _cases(number, families)
    ]


def _name(feature: Any) -> str:
    return getattr(feature, "__name__", str(feature))
