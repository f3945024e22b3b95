# SPDX-License-Identifier: MIT
"""Calls as careless or hostile programs make them: a right call of a record's case with some arguments made odd.

What may be odd about an argument follows from its type in the schema, so a new operator is called like this by itself.
"""

from __future__ import annotations

import inspect
import math
import random
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from kernelwright import ops
from tests.python.hostile import tensors


@dataclass(frozen=True)
class Entry:
    """A way in: an overload of torch.ops, or (`public`) the Python function, which then picks the overload."""

    op: Any
    overload: Any
    public: bool

    @property
    def schema(self) -> list[Any]:
        return schema_of(self.op, self.overload)

    def __str__(self) -> str:
        return (
            f"kernelwright.{self.op.name}"
            if self.public
            else f"torch.ops.kernelwright.{self.op.name}.{self.overload.name}"
        )

    def call(self, arguments: dict[str, Any]) -> Any:
        if not self.public:
            return getattr(getattr(torch.ops.kernelwright, self.op.name), self.overload.name)(*arguments.values())
        if self.overload.name.endswith("_"):
            arguments = {**arguments, "inplace": True}
        return self.op.function(**arguments)

    def picked(self, arguments: dict[str, Any]) -> tuple[str, list[str]]:
        """The overload that these arguments are for, and their names in its order: of those whose tensors are there,
        the one that asks for most."""
        if not self.public:
            return self.overload.name, list(arguments)
        found = []
        for overload in self.op.overloads:
            schema = schema_of(self.op, overload)
            needed = [a.name for a in schema if str(a.type) == "Tensor"]
            fits = {a.name for a in schema} <= set(arguments)
            there = all(isinstance(arguments.get(name), torch.Tensor) for name in needed)
            if fits and there and overload.name.endswith("_") == self.overload.name.endswith("_"):
                found.append((len(needed), overload.name, [a.name for a in schema]))
        if found:
            return max(found)[1:]
        # An overload may call them something else: by their number, then.
        given = [name for name, value in arguments.items() if isinstance(value, torch.Tensor)]
        return next(o.name for o in self.op.overloads if len(schema_of(self.op, o)) == len(given)), given

    def cases(self) -> list[Any]:
        """Small ones: what is odd here has nothing to do with size."""
        return [c for c in self.op.cases if c.overload == self.overload.name and math.prod(c.shape) <= 600]


def schema_of(op: Any, overload: Any) -> list[Any]:
    return getattr(getattr(torch.ops.kernelwright, op.name), overload.name)._schema.arguments


# Their bounds hold for arguments that belong together. Of odd calls of these two one in some thousands is judged wrong that
# is not: rope by sines of 1e15, a log-sum-exp of other scores, NaN in rows that no query sees. What such calls found has
# tests in tests/ops/attention.
JUDGED_ELSEWHERE = ("attention_varlen", "attention_decode")


def entries() -> list[Entry]:
    found = []
    for op in (ops.record(name) for name in ops.names() if name not in JUDGED_ELSEWHERE):
        signature = inspect.signature(op.function)
        # Where the number of results depends on values, these pick the overload, which `picked` does not know about.
        by_tensors = signature.return_annotation != "tuple[Tensor, ...]"
        for overload in op.overloads:
            found.append(Entry(op, overload, public=False))
            if by_tensors and all(argument.name in signature.parameters for argument in found[-1].schema):
                found.append(Entry(op, overload, public=True))
    return found


NUMBERS: dict[str, Any] = {
    "0": 0.0, "-0": -0.0, "1": 1, "True": True, "1e-30": 1e-30, "0.5": 0.5, "-1e-6": -1e-6, "1e39": 1e39,
    "nan": math.nan, "inf": math.inf, "None": None, "text": "small", "complex": 1j, "10**400": 10**400,
    "a list": [1e-6], "an object": object(),
}  # fmt: skip
FLAGS: dict[str, Any] = {"True": True, "False": False, "None": None, "text": "yes", "2": 2, "0.5": 0.5, "a list": []}
# Not numbers: torch takes any for the type of that number.
TYPES: dict[str, Any] = {
    **{str(t): t for t in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.complex64)},
    "None": None, "text": "float32", "a list": [torch.float32], "an object": object(),
}  # fmt: skip
OBJECTS: dict[str, Any] = {
    "None": None, "a list": [1.0, 2.0], "a number": 1.5, "text": "x", "an object": object(), "a type": torch.float32,
    "a tuple of tensors": (torch.ones(2), torch.ones(2)), "a module": torch.nn.Identity(), "a size": torch.Size([2, 3]),
}  # fmt: skip


@dataclass
class Call:
    """Which entry, which case, with which arguments made odd. Equal numbers make equal calls."""

    entry: Entry
    case: int
    oddities: list[tuple[int, int]]
    seed: int
    notes: list[str] = field(default_factory=list, init=False)

    @cached_property
    def arguments(self) -> dict[str, Any]:
        draw = random.Random(self.seed)
        cases = self.entry.cases()
        case = cases[self.case % len(cases)]
        generator = torch.Generator().manual_seed(self.seed)
        values = list(self.entry.op.make(case, "cpu", generator))
        names = [argument.name for argument in self.entry.schema]
        self.notes.append(str(case))
        for place, choice in self.oddities:
            at = place % len(values)
            values[at] = self._odd(str(self.entry.schema[at].type), names[at], values, at, choice, draw)
        return dict(zip(names, values, strict=True))

    def _odd(self, kind: str, name: str, values: list[Any], place: int, choice: int, draw: random.Random) -> Any:
        if "Tensor" not in kind:
            odd = TYPES if name == "dtype" else FLAGS if kind == "bool" else NUMBERS
            word = list(odd)[choice % len(odd)]
            self.notes.append(f"{name}={word}")
            return odd[word]
        made = [*tensors.ODDITIES, *OBJECTS, "another argument", "a view of another argument"]
        word = made[choice % len(made)]
        if word in OBJECTS:
            self.notes.append(f"{name}={word}")
            return OBJECTS[word]
        others = [v for i, v in enumerate(values) if i != place and isinstance(v, torch.Tensor)]
        value = values[place]
        if not isinstance(value, torch.Tensor):
            value = others[0] if others else torch.ones(3, 4)
        if not tensors.ordinary(value):
            return value
        self.notes.append(f"{name}: {word}")
        if word in ("another argument", "a view of another argument"):
            other = draw.choice(others) if others else value
            return other if word == "another argument" else tensors.view_of(other, value, draw)
        try:
            return tensors.ODDITIES[word](value, draw)
        except (RuntimeError, TypeError, ValueError, AttributeError):
            self.notes[-1] += " (cannot be made of it)"
            return value

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={tensors.shown(value)}" for name, value in self.arguments.items())
        return f"{self.entry}({shown})  [{'; '.join(self.notes)}; seed {self.seed}]"
