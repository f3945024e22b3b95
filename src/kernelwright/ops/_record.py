# SPDX-License-Identifier: MIT
"""What an operator is: one record, read by the registration, the tests, the benchmarks and docs/use.md."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kernelwright.ops import _sizes as sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kernelwright._library import Library
    from kernelwright.ops._selfcheck import Place

SIZES = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8}
"""Bytes of an element of each type that a case may have."""


@dataclass(frozen=True)
class Backward:
    """As the two functions of `torch.library.register_autograd`: (ctx, inputs, output) and (ctx, *gradients)."""

    setup_context: Callable[..., None]
    backward: Callable[..., Any]


SUM = "sum"


@dataclass(frozen=True)
class Split:
    """A way to make several calls of one, of parts of its tensors."""

    arguments: Mapping[str, int]
    """The dimension that each tensor is split along; others are the same in all calls."""
    results: tuple[int | str | None, ...]
    """The same of each result: None is the same of all calls, SUM the sum of theirs."""
    units: int = 0
    """Not 0: so many things that may not be cut, as heads that share keys; parts are equal and have whole ones."""


@dataclass(frozen=True)
class Overload:
    """One schema of an operator.

    Functions take the schema's arguments by position, and repeat its defaults: the dispatcher leaves out
    arguments that equal them.
    """

    name: str
    """As in `torch.ops.kernelwright.<op>.<name>`; "default" for the one without a name."""
    schema: str
    """torch's schema from the parenthesis on."""
    bind: Callable[[Library, str], Callable[..., Any]]
    """Makes the implementation for a dispatch key, "CPU" or "CUDA", on the open library."""
    fake: Callable[..., Any]
    """Checks the arguments as the implementation does, and returns outputs without values."""
    reference: Callable[..., Any]
    """The definition in plain torch, without checks, for any device and float64 too; what KERNELWRIGHT_DISABLE runs."""
    backward: Backward | None = None
    """None: gradients cannot be asked for, and asking is refused."""
    terms: Callable[..., tuple[Any, ...]] | None = None
    """For each output (of an overload without, for each tensor that it writes to) how large the terms are that it is a
    sum of, element by element: float32 errs in proportion to those, and a difference of two large ones may be small.
    None: errors are in proportion to the outputs themselves."""
    fixed: tuple[str, ...] = ()
    """Tensors whose element type is the operator's own, whatever that of the others: codes, scales. No gradients are
    taken by them, and the reference takes them in float64 too, which has their values exactly."""
    rows: tuple[str, ...] = ()
    """Tensors of whose rows (last dimension) each is computed by itself, with that of the others; then torch may make
    one call of a batch, and shard rows over processes. Other tensors are the same for all rows."""
    sums: tuple[int, ...] = ()
    """Results that are sums over those rows, by place."""
    elementwise: bool = False
    """Columns are computed each by itself, too."""
    splits: Callable[..., tuple[Split, ...]] | None = None
    """Where not rows but other dimensions are computed each by itself: the ways to split a call, of the schema's
    arguments with shapes instead of tensors. What torch may do is as with `rows`."""
    autocast: bool = False
    """Within autocast: computes in its type, as torch's linear layers do. Tensors of `fixed` stay as they are."""
    overflows_on_gpu: bool = False
    """Between two products a GPU rounds to the arguments' type, of which float16 cannot hold numbers beyond 65504."""
    reads_on_host: bool = False
    """The reference reads lengths of sequences on the host, so that no CUDA graph can be made of it."""
    in_python: str = ""
    """Why there is no kernel in csrc/ops/<family>/torch, so that `bind`'s is called wherever torch runs one; a test
    wants the kernel or the reason."""


@dataclass(frozen=True)
class Case:
    """One call worth testing or timing: an overload with sizes and options. `str(case)` names it."""

    overload: str
    shape: tuple[int, ...]
    dtype: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        options = "".join(f"-{key}={value}" for key, value in self.options.items())
        return f"{self.overload}-{'x'.join(map(str, self.shape))}-{self.dtype}{options}"


@dataclass(frozen=True)
class Tolerance:
    """How far a result may be from the float64 reference: `absolute + relative * |reference| + terms * |its terms|`."""

    relative: float
    absolute: float
    terms: float = 0.0
    """Counts for overloads that say how large their terms are."""


@dataclass(frozen=True)
class Op:
    """One operator. Its name is the stem of its files in every layer."""

    name: str
    doc: str
    """One line for the table of docs/use.md."""
    function: Callable[..., Any]
    """What `kernelwright.<name>` is."""
    overloads: tuple[Overload, ...]
    cases: tuple[Case, ...]
    """For the tests: small, and every edge of sizes and options."""
    benchmarks: tuple[Case, ...]
    """For the benchmarks: sizes as models have them."""
    make: Callable[[Case, Any, Any], tuple[Any, ...]]
    """make(case, device, generator): fresh random arguments of the case's overload, by position."""
    bytes: Callable[[Case], int]
    """Memory traffic that no implementation can avoid."""
    flops: Callable[[Case], int]
    tolerances: Mapping[str, Tolerance]
    """Per element type of an output."""
    selfcheck: Callable[[Place], str]
    """Runs the C functions there without torch, compares with plain Python; returns a line to print, or raises."""
    eager: Mapping[str, Callable[..., Callable[[], Any]]] = field(default_factory=dict)
    """By overload: what one writes in torch today to the same end, for benchmarks and the demo to compare with.

    Takes the overload's arguments and returns the call to time, which returns the outputs (with what the overload
    writes in place after them). Where an overload is missing its reference stands in.
    """

    no_cpu: str = ""
    """Why there is no CPU implementation (csrc/ops/<family>/cpu): a call on the CPU then runs the reference, and says
    so once. The C function refuses KW_CPU; a rule about the tree wants the file or the reason."""

    torch_on_gpu: tuple[str, ...] = ()
    """Element types that a GPU has no kernels for: plain torch computes them there."""

    flop_formula: Callable[..., int] | None = None
    """What torch's FlopCounterMode counts of a call, from the shapes of its arguments and `out_shape`: products alone,
    as of torch's own operators."""
    flops_by_values: bool = False
    """`flop_formula` is given tensors instead of shapes, and results as `out_val`: it reads lengths of sequences."""

    roles: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: dict(sizes.ROLES))
    """Shapes of cases that tests of all operators ask for, of which each overload has at least one: "small", a call of
    little work with sizes that are no multiples of a vector, in float32 among others; "aligned", one that is whole
    vectors, in each type that the operator takes."""

    def cases_for(self, role: str, overload: str, dtype: str | None = None) -> tuple[Case, ...]:
        """The cases of an overload that have a role; LookupError names what the record lacks."""
        shape = self.roles[role]
        found = tuple(
            case
            for case in self.cases
            if (case.overload, case.shape) == (overload, shape) and dtype in (None, case.dtype)
        )
        if not found:
            of = f" of {dtype}" if dtype else ""
            raise LookupError(
                f"{self.name}.{overload} has no case{of} with the shape {shape}, which is its role {role!r}: add one "
                "to `cases` of its record, or give `roles` the shape of one that is there"
            )
        return found

    def overload(self, name: str) -> Overload:
        return next(o for o in self.overloads if o.name == name)

    def qualified(self, overload: Overload) -> str:
        """`rms_norm.residual`, or `rms_norm` for the default overload."""
        return self.name if overload.name == "default" else f"{self.name}.{overload.name}"

    def allowed(self, overload: str, arguments: Sequence[Any], expected: Sequence[Any], dtypes: Sequence[Any]) -> Any:
        """How far each output may be from `expected`, the reference's for these arguments; all in float64."""
        return self._bounds(self.overload(overload).terms, arguments, expected, dtypes)

    def allowed_in_place(
        self, overload: str, arguments: Sequence[Any], expected: Sequence[Any], dtypes: Sequence[Any]
    ) -> Any:
        """The same of each tensor that is written to; `arguments` are as they were before."""
        chosen = self.overload(overload)
        terms = chosen.terms if chosen.schema.endswith("-> ()") else None
        return self._bounds(terms, arguments, expected, dtypes)

    def _bounds(
        self, terms: Callable[..., Any] | None, arguments: Sequence[Any], expected: Sequence[Any], dtypes: Sequence[Any]
    ) -> Any:
        sizes = terms(*arguments) if terms else [0.0] * len(expected)
        for tensor, dtype, size in zip(expected, dtypes, sizes, strict=True):
            tolerance = self.tolerances[str(dtype).partition(".")[2]]
            yield tolerance.absolute + tolerance.relative * tensor.double().abs() + tolerance.terms * size
