# SPDX-License-Identifier: MIT
"""Records of operators that compute each element by itself, made of their formulas.

Their kernels are those of csrc/device/elementwise.cuh, their CPU path that of csrc/cpu/elementwise.h. The C function of
an overload, `kw_<op>` or `kw_<op>_<overload>`, takes device, stream, each result and then each input with its stride,
rows, cols, dtype, and the numbers as doubles.
"""

from __future__ import annotations

import functools
import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops import _schema
from kernelwright.ops import _sizes as sizes
from kernelwright.ops._record import SIZES, Case, Op, Overload, Tolerance
from kernelwright.ops._selfcheck import compare, pack, rounded, unpack
from kernelwright.ops._tensors import dtype_codes, placement, refuse_freed, require_dtype, require_like, rows, settled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor

    from kernelwright._library import Library
    from kernelwright.ops._record import Backward
    from kernelwright.ops._selfcheck import Place

# Half a unit in the last place of the result, and a little for the arithmetic in float32.
TOLERANCES = {
    "float64": Tolerance(1e-12, 1e-14, 1e-14),
    "float32": Tolerance(1e-6, 1e-7, 1e-6),
    "float16": Tolerance(2.0**-11 * 1.02, 1e-7, 1e-6),
    "bfloat16": Tolerance(2.0**-8 * 1.01, 1e-7, 1e-6),
}
_SHAPES = (
    *sizes.rows_of(*sizes.EDGES, *sizes.LONGER),
    *sizes.DIMENSIONS, sizes.NO_COLUMNS, sizes.LONG_ROW, sizes.MANY_ROWS,
)  # fmt: skip
_BENCHMARKED = ((1, 6912), (128, 6912), (4096, 6912), (16384, 8192))


@dataclass(frozen=True)
class Formula:
    """One overload: tensors of one shape and type, then numbers, to results of the same shape and type."""

    schema: str
    in_torch: Callable[..., Any]
    """Of tensors and numbers, with the schema's defaults: a tensor, or a tuple of them."""
    in_python: Callable[..., Any]
    """The same of one number in place of each tensor."""
    operations: int
    """For each element."""
    name: str = "default"
    numbers: Sequence[Mapping[str, float]] = ({},)
    """What the schema's numbers are in the cases, which take them in turn."""
    backward: Backward | None = None
    like: str = ""
    """The tensor whose shape and type the others must have; the first, if it is not said."""


@dataclass(frozen=True)
class _Bound:
    """An overload of an operator."""

    op: str
    formula: Formula

    @functools.cached_property
    def schema(self) -> _schema.Schema:
        return _schema.parse(self.formula.schema)

    @functools.cached_property
    def inputs(self) -> tuple[str, ...]:
        return tuple(argument.name for argument in self.schema.arguments if argument.type == "Tensor")

    @functools.cached_property
    def like(self) -> int:
        return self.inputs.index(self.formula.like) if self.formula.like else 0

    @property
    def c_function(self) -> str:
        return f"kw_{self.op}" if self.formula.name == "default" else f"kw_{self.op}_{self.formula.name}"

    def numbers(self, given: Mapping[str, float]) -> tuple[float, ...]:
        return tuple(given.get(a.name, a.default) for a in self.schema.arguments[len(self.inputs) :])

    def overload(self) -> Overload:
        return Overload(
            name=self.formula.name,
            schema=self.formula.schema,
            rows=self.inputs,
            elementwise=True,
            bind=self.bind,
            fake=self._as_declared(self.fake),
            reference=self._as_declared(self.reference),
            backward=self.formula.backward,
        )

    def _as_declared(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """With the formula's arguments and defaults: the dispatcher leaves out what equals the schema's."""
        defaults = [argument.default for argument in self.schema.arguments]

        @functools.wraps(self.formula.in_torch)
        def run(*args: Any) -> Any:
            return function(*args, *defaults[len(args) :])

        return run

    def fake(self, *args: Any) -> Any:
        import torch

        x, name = args[self.like], self.inputs[self.like]
        if not x.shape:
            raise InvalidArgument(f"{self.op}: {name} has shape (), but must have at least one dimension")
        require_dtype(self.op, name, x, tuple(getattr(torch, each) for each in (*sizes.FLOATS, "float64")))
        for other, tensor in zip(self.inputs, args, strict=False):
            if other != name:
                require_dtype(self.op, other, tensor, (x.dtype,))
                require_like(self.op, other, tensor, name, x, x.shape)
        made = tuple(torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(self.schema.results))
        return made if len(made) > 1 else made[0]

    def reference(self, *args: Any) -> Any:
        import torch

        dtype, count = args[0].dtype, len(self.inputs)
        wide = (each if dtype is torch.float64 else each.float() for each in args[:count])
        found = self.formula.in_torch(*wide, *args[count:])
        return tuple(settled(y, dtype) for y in found) if isinstance(found, tuple) else settled(found, dtype)

    def bind(self, library: Library, key: str) -> Callable[..., Any]:
        import torch

        function, count = self.c_function, len(self.inputs)
        codes, place = dtype_codes(library, sizes.FLOATS), placement(library, key)
        call, (pack_call, address) = library.functions["kw_call"], library.packer(function)
        defaults = [argument.default for argument in self.schema.arguments]

        def run(*args: Any) -> Any:
            args = (*args, *defaults[len(args) :])
            found = self.fake(*args)
            refuse_freed(self.op, **dict(zip(self.inputs, args, strict=False)))
            x: Tensor = args[self.like]
            if x.dtype == torch.float64:
                return self.reference(*args)
            if not x.numel():
                return found
            held = [rows(each) for each in args[:count]]
            device, stream = place(held[0][0])
            cols = x.shape[-1]
            results = found if isinstance(found, tuple) else (found,)
            given = [part for y in results for part in (y.data_ptr(), cols)]
            given += [part for each, stride in held for part in (each.data_ptr(), stride)]
            numbers = map(float, args[count:])
            status = call(pack_call(address, device, stream, *given, x.numel() // cols, cols, codes[x.dtype], *numbers))
            if status:
                library.fail(function, status)
            return found

        return run

    def make(self, case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
        import torch

        drawn = (torch.randn(case.shape, generator=generator, device=device) for _ in self.inputs)
        return (*(each.to(getattr(torch, case.dtype)) for each in drawn), *self.numbers(case.options))

    def cases(self, shapes: Sequence[tuple[int, ...]]) -> tuple[Case, ...]:
        given = self.formula.numbers
        return tuple(
            Case(self.formula.name, shape, dtype, given[place % len(given)])
            for place, shape in enumerate(shapes)
            for dtype in sizes.FLOATS
        )

    def check(self, place: Place, dtype: str, draw: random.Random) -> float:
        """The C function's results beside the formula's; the largest error as a share of what is allowed."""
        count, worst = 37, 0.0
        for given in self.formula.numbers:
            inputs = [rounded(dtype, [draw.gauss(0, 1) for _ in range(count)]) for _ in self.inputs]
            numbers = self.numbers(given)
            results = [pack(dtype, [7.0] * count) for _ in range(self.schema.results)]
            memory = [*results, *(pack(dtype, each) for each in inputs)]
            rest = (1, count, place.constants[f"KW_{dtype.upper()}"], *numbers)
            place.call(self.c_function, place.device, None, *(p for each in memory for p in (each, count)), *rest)
            wanted = [self.formula.in_python(*each, *numbers) for each in zip(*inputs, strict=True)]
            columns = zip(*wanted, strict=True) if len(results) > 1 else (wanted,)
            for number, (found, expected) in enumerate(zip(results, columns, strict=True)):
                what = f"{self.op}, {dtype}, result {number} of {self.c_function}"
                bound = TOLERANCES[dtype].relative
                worst = max(worst, compare(what, unpack(dtype, found), list(expected), bound, 1e-6))
        return worst


def _eager(formula: Formula) -> Callable[..., Callable[[], Any]]:
    return lambda *args: lambda: formula.in_torch(*args)


def _eager_backward(forward: Formula) -> Callable[..., Callable[[], Any]]:
    """torch's derivatives of the forward formula, from the first argument on."""

    def eager(grad: Any, *inputs: Any) -> Callable[[], Any]:
        import torch

        leaves = [tensor.detach().requires_grad_() for tensor in inputs]
        with torch.enable_grad():
            y = forward.in_torch(*leaves)
        return lambda: torch.autograd.grad(y, leaves, grad, retain_graph=True)

    return eager


def elementwise(
    name: str, *, doc: str, function: Callable[..., Any], formulas: Sequence[Formula], no_cpu: str = ""
) -> Op:
    """The record of an operator; `formulas` has "default", and may have "backward": gradients, then inputs."""
    bound = {formula.name: _Bound(name, formula) for formula in formulas}

    def of_all(function: Callable[[_Bound], Callable[..., Any]]) -> Callable[..., Any]:
        return lambda case, *args: function(bound[case.overload])(case, *args)

    def traffic(case: Case) -> int:
        each = bound[case.overload]
        return math.prod(case.shape) * SIZES[case.dtype] * (len(each.inputs) + each.schema.results)

    def selfcheck(place: Place) -> str:
        draw = random.Random()  # noqa: S311 - numbers to compute with, not secrets
        worst = {dtype: max(each.check(place, dtype, draw) for each in bound.values()) for dtype in sizes.FLOATS}
        return ", ".join(f"{dtype} {100 * share:.0f} %" for dtype, share in worst.items()) + " of the error allowed"

    eager = {key: _eager(each.formula) for key, each in bound.items()}
    if "backward" in bound:
        eager["backward"] = _eager_backward(bound["default"].formula)
    return Op(
        name=name,
        doc=doc,
        function=function,
        overloads=tuple(each.overload() for each in bound.values()),
        cases=tuple(case for each in bound.values() for case in each.cases(_SHAPES)),
        benchmarks=tuple(case for each in bound.values() for case in each.cases(_BENCHMARKED)),
        make=of_all(lambda each: each.make),
        bytes=traffic,
        flops=lambda case: math.prod(case.shape) * bound[case.overload].formula.operations,
        tolerances=TOLERANCES,
        selfcheck=selfcheck,
        eager=eager,
        no_cpu=no_cpu,
    )
