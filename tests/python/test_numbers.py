# SPDX-License-Identifier: MIT
"""Every operator, every case of its record, in every layout, against its reference in float64."""

from __future__ import annotations

import pytest

from tests.python import tensors
from tests.python.tensors import CASES, LAYOUTS, OVERLOADS, case_id, some_layouts, torch

pytestmark = pytest.mark.torch


def expectation(op, overload, args):
    """What the outputs and the written arguments should be, in float64."""
    args = [tensors.wide(a) if not isinstance(a, torch.Tensor) else a.double().clone() for a in args]
    result = tensors.outputs(op.overload(overload).reference(*args))
    return result, [args[i] for i in tensors.written(op, overload)]


def check(op, overload, args, what, monkeypatch):
    """Calls the operator on `args`; compares outputs, written arguments, and everything that must not change."""
    expected, expected_written = expectation(op, overload, args)
    exact = [a.double().clone() if isinstance(a, torch.Tensor) else a for a in args]
    targets = tensors.written(op, overload)
    before = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
    like = [out.dtype for out in tensors.outputs(op.overload(overload).fake(*args))]
    bound_to = exact, expected, like, before, targets, expected_written
    in_python = tensors.in_python(op, overload)
    check_guarded(op, overload, args, what, in_python or tensors.target(op, overload), bound_to, monkeypatch)
    if in_python:  # what kernels in C make nobody can put between guards; the functions they call were seen there
        for index in targets:
            args[index].copy_(before[index])
        found = tensors.outputs(tensors.target(op, overload)(*args))
        compare(op, overload, args, f"{what}, in C", found, bound_to)


def check_guarded(op, overload, args, what, call, bound_to, monkeypatch):
    with tensors.guarded(monkeypatch) as guards:
        found = tensors.outputs(call(*args))
        if args[0].is_cuda:
            torch.cuda.synchronize()
    by_torch = args[0].is_cuda and str(args[0].dtype).partition(".")[2] in op.torch_on_gpu
    places = {view.data_ptr() for view, _ in guards.buffers if view.numel()}
    for number, a in enumerate(found):
        assert by_torch or not a.numel() or a.data_ptr() in places, (
            f"{what}: output {number} was not allocated where its surroundings are watched"
        )
    compare(op, overload, args, what, found, bound_to)


def compare(op, overload, args, what, found, bound_to):
    exact, expected, like, before, targets, expected_written = bound_to
    bounds = tensors.allowed(op, overload, exact, expected, found)
    for number, (a, b, bound) in enumerate(zip(found, expected, bounds, strict=True)):
        assert a.dtype == like[number], f"{what}: output {number} is of {a.dtype}"
        assert torch.ops.aten.is_non_overlapping_and_dense(a), f"{what}: output {number} has strides {a.stride()}"
        tensors.assert_near(a, b, bound, f"{what}, output {number}", strict=op.overload(overload).terms is None)
    held = [args[index] for index in targets]
    bounds = tensors.allowed_in_place(op, overload, exact, expected_written, held)
    for index, a, b, bound in zip(targets, held, expected_written, bounds, strict=True):
        tensors.assert_near(a, b, bound, f"{what}, written argument {index}")
    for index, (a, b) in enumerate(zip(args, before, strict=True)):
        if isinstance(a, torch.Tensor) and index not in targets:
            assert tensors.same_bits(a, b), f"{what}: argument {index} was changed"


NUMBERED = [(number, op, case) for number, (op, case) in enumerate(CASES)]


@pytest.mark.parametrize(("number", "op", "case"), NUMBERED, ids=case_id)
def test_case(number, op, case, device, seed, whole, monkeypatch):
    plain = op.make(case, device, tensors.generator(seed, device))
    for layout in some_layouts(number, 2, whole=whole):
        args = [tensors.laid_out(a, layout) for a in plain]
        margins = [(a, a._base.clone(), a._base) for a in args if isinstance(a, torch.Tensor) and a._base is not None]
        check(op, case.overload, args, f"{case}, {layout}", monkeypatch)
        for view, before, base in margins:  # what lies between a view's elements belongs to somebody else
            before.as_strided(view.shape, view.stride(), view.storage_offset()).copy_(view)
            assert tensors.same_bits(base, before), (
                f"{case}, {layout}: something was written between the elements of a view"
            )


@pytest.mark.parametrize(("op", "overload"), OVERLOADS, ids=case_id)
def test_each_argument_in_a_layout_of_its_own(op, overload, device, seed, whole, monkeypatch):
    """Mixed layouts: a stride that is taken from the wrong tensor shows here."""
    cases = [c for c in op.cases if c.overload == overload.name and len(c.shape) > 1]
    choose = torch.Generator().manual_seed(seed)
    names = ("plain", *LAYOUTS)
    for case in cases[:: max(1, len(cases) // (24 if whole else 8))]:
        picks = torch.randint(len(names), (24,), generator=choose).tolist()
        plain = op.make(case, device, tensors.generator(seed, device))
        args = [tensors.laid_out(a, names[pick]) for a, pick in zip(plain, picks, strict=False)]
        check(op, overload.name, args, f"{case}, layouts {[names[p] for p in picks[: len(args)]]}", monkeypatch)


@pytest.mark.parametrize(("op", "overload"), OVERLOADS, ids=case_id)
def test_values_at_the_edges(op, overload, device, whole, monkeypatch):
    """Zeros, infinities, NaN, the largest float16, and numbers whose square is below float16 and near float32's least."""
    cases = op.cases_for("aligned", overload.name)
    values = (0.0, torch.inf, -torch.inf, torch.nan, 65504.0, 2.0**-14, 1e-20)
    for number, (dtype, case) in enumerate({c.dtype: c for c in reversed(cases)}.items()):  # the first of each type
        for turn, value in enumerate(values):
            if value == 65504.0 and dtype == "float16" and device == "cuda" and overload.overflows_on_gpu:
                continue
            for everywhere in (True, False) if whole else ((number + turn) % 2 == 0,):
                args = list(op.make(case, device, tensors.generator(1, device)))
                first = next((a for a in args if isinstance(a, torch.Tensor) and a.is_floating_point()), None)
                if first is None:  # of whole numbers alone
                    continue
                place = first if everywhere else first.view(-1)[first.numel() // 2 :][:1]
                place.copy_(torch.tensor(value, dtype=torch.float64))  # NaN where a type has no such number
                check(
                    op, overload.name, args, f"{dtype}, {value} {'everywhere' if everywhere else 'once'}", monkeypatch
                )


@pytest.mark.parametrize(("op", "overload"), OVERLOADS, ids=case_id)
def test_double_is_the_reference(op, overload, device, monkeypatch):
    case = op.cases_for("small", overload.name)[0]
    args = tensors.changed(op, overload.name, op.make(case, device, tensors.generator(2, device)), tensors.wide)
    args = [torch.float64 if isinstance(a, torch.dtype) else a for a in args]
    expected, _ = expectation(op, overload.name, args)
    found = tensors.outputs(
        tensors.target(op, overload.name)(*[a.clone() if isinstance(a, torch.Tensor) else a for a in args])
    )
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        # torch's own sums round by how the GPU's memory lies, from call to call.
        nearly = {torch.float64: 1e-13, torch.float32: 2.0**-22}.get(a.dtype, 0.0) if device == "cuda" else 0.0
        torch.testing.assert_close(a, b, rtol=nearly, atol=0, equal_nan=True)
