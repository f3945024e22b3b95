# SPDX-License-Identifier: MIT
"""What torch asks of an operator: opcheck, torch.compile, torch.export, gradients. Every overload of every record."""

from __future__ import annotations

import pytest

import kernelwright
from kernelwright import errors
from tests.python import tensors
from tests.python.tensors import OVERLOADS, RECORDS, case_id, torch

pytestmark = pytest.mark.torch

DIFFERENTIABLE = [(op, overload) for op, overload in OVERLOADS if overload.backward]
OTHERS = [(op, overload) for op, overload in OVERLOADS if not overload.backward]


def _compiled():
    """Every overload by every backend; with inductor, which asks a C++ compiler, without --long one of each kind."""
    kinds = set()
    for op, overload in OVERLOADS:
        kind = op.name, bool(tensors.written(op, overload.name))
        marks = [pytest.mark.long] if kind in kinds else []
        kinds.add(kind)
        yield from (pytest.param(op, overload, backend) for backend in ("eager", "aot_eager"))
        yield pytest.param(op, overload, "inductor", marks=marks)


COMPILED = list(_compiled())


def small(op, overload, device, dtype="float32", *, number=0, grad=False, least=1, most=149):
    """Arguments of one of the overload's small cases, of so many columns."""
    cases = [
        c
        for c in op.cases
        if c.overload == overload.name
        and len(c.shape) > 1
        and 0 not in c.shape
        and max(c.shape) < 150
        and least <= c.shape[-1] <= most
    ]
    case = cases[number % len(cases)]
    args = op.make(case, device, tensors.generator(number, device))
    args = tensors.changed(op, overload.name, args, lambda a: a.to(getattr(torch, dtype)))
    return tensors.changed(op, overload.name, args, lambda a: a.requires_grad_(grad))


def copies(args):
    return [a.detach().clone().requires_grad_(a.requires_grad) if isinstance(a, torch.Tensor) else a for a in args]


_OPCHECKS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


@pytest.mark.parametrize("grad", [False, True], ids=["", "gradients"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize(("op", "overload"), OVERLOADS, ids=case_id)
def test_opcheck(op, overload, dtype, grad, device, whole):
    if grad and not overload.backward:
        pytest.skip("this overload has no gradients")
    turn = 3 * OVERLOADS.index((op, overload)) + ["float32", "bfloat16", "float64"].index(dtype) + grad
    for number, layout in enumerate(tensors.some_layouts(turn, 1, whole=whole)):
        args = [tensors.laid_out(a, layout) for a in small(op, overload, device, dtype, number=turn + 7 * number)]
        args = tensors.changed(op, overload.name, args, lambda a: a.detach().requires_grad_(grad))
        torch.library.opcheck(tensors.target(op, overload.name), args, test_utils=_checks(args))


def _checks(args):
    """All of torch's; but its check of schemas multiplies each argument, which it cannot do with 8-bit floats."""
    return _OPCHECKS[1:] if any(map(tensors.small_float, args)) else _OPCHECKS


@pytest.mark.parametrize("layout", ["plain", *tensors.LAYOUTS])
@pytest.mark.parametrize(("op", "overload"), OVERLOADS, ids=case_id)
def test_fake_outputs_look_like_real_ones(op, overload, layout):
    from torch._subclasses.fake_tensor import FakeTensorMode

    args = [tensors.laid_out(a, layout) for a in small(op, overload, "cpu", "float16", number=3)]
    call = tensors.target(op, overload.name)
    with FakeTensorMode() as mode:
        fakes = tensors.outputs(call(*[mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args]))
    for fake, real in zip(fakes, tensors.outputs(call(*args)), strict=True):
        assert (fake.shape, fake.stride(), fake.dtype, fake.device) == (
            real.shape,
            real.stride(),
            real.dtype,
            real.device,
        )


@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # torch's own, inside inductor
@pytest.mark.parametrize(("op", "overload", "backend"), COMPILED, ids=case_id)
def test_compile(op, overload, backend, device, request):
    if backend == "inductor":
        request.getfixturevalue("inductor")
    call, targets = tensors.target(op, overload.name), tensors.written(op, overload.name)
    of_any = tensors.free(op, overload.name)

    def program(*args):
        scaled = [a * 1.5 if isinstance(a, torch.Tensor) and any_type else a for a, any_type in zip(args, of_any)]  # noqa: B905 - dynamo knows no strict
        return [*tensors.outputs(call(*scaled)), *[scaled[i] + 1 for i in targets]]

    torch._dynamo.reset()
    compiled = torch.compile(program, fullgraph=True, backend=backend)
    for number in range(3):  # other sizes: the second compilation is one for any size
        args = small(op, overload, device, number=3 * number + 1)
        for found, expected in zip(compiled(*copies(args)), program(*copies(args)), strict=True):
            exact = {"rtol": 0.0, "atol": 0.0} if tensors.small_float(found) else {"rtol": 1e-5, "atol": 1e-6}
            torch.testing.assert_close(found, expected, **exact)


@pytest.fixture
def inductor(device):
    """Inductor compiles C++ for the CPU; a machine without a compiler cannot show anything."""
    import shutil

    if device == "cpu" and not any(map(shutil.which, ("g++", "clang++"))):
        pytest.skip("torch.compile's inductor needs g++ or clang++ on PATH")
    if device == "cuda":
        pytest.importorskip("triton", reason="torch.compile's inductor needs triton on a GPU")


@pytest.mark.parametrize(("op", "overload"), DIFFERENTIABLE, ids=case_id)
def test_compiled_gradients(op, overload, device):
    call = tensors.target(op, overload.name)

    def loss(*args):
        return sum((out * out.cos()).sum() for out in tensors.outputs(call(*args)))

    torch._dynamo.reset()
    args = small(op, overload, device, grad=True)
    again = copies(args)
    loss(*args).backward()
    torch.compile(loss, fullgraph=True, backend="aot_eager")(*again).backward()
    for a, b in zip(args, again, strict=True):
        if isinstance(a, torch.Tensor) and a.requires_grad:
            torch.testing.assert_close(b.grad, a.grad, rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore:At pre-dispatch tracing:UserWarning")  # torch 2.4 says it of every operator
@pytest.mark.parametrize(("op", "overload"), OVERLOADS, ids=case_id)
def test_export(op, overload, device):
    call = tensors.target(op, overload.name)

    whole = small(op, overload, device, number=1)
    types = {i: a for i, a in enumerate(whole) if isinstance(a, torch.dtype)}  # torch.export takes no such input

    class Program(torch.nn.Module):
        def forward(self, *args):
            given = list(args)
            for place, dtype in types.items():
                given.insert(place, dtype)
            return call(*[a.clone() if isinstance(a, torch.Tensor) else a for a in given])

    args = tuple(a for i, a in enumerate(whole) if i not in types)
    program = torch.export.export(Program(), args)
    assert f"kernelwright.{op.name}.{overload.name}" in str(program.graph)
    for a, b in zip(tensors.outputs(program.module()(*args)), tensors.outputs(Program()(*args)), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("number", [0, 1, *(pytest.param(more, marks=pytest.mark.long) for more in range(2, 6))])
@pytest.mark.parametrize(("op", "overload"), DIFFERENTIABLE, ids=case_id)
def test_gradients_and_their_gradients(op, overload, number, device):
    args = small(op, overload, device, "float64", number=3 * number, grad=True, most=8)
    call = tensors.target(op, overload.name)
    assert torch.autograd.gradcheck(call, args)
    assert torch.autograd.gradgradcheck(call, args)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("op", "overload"), DIFFERENTIABLE, ids=case_id)
def test_gradients_of_the_kernel(op, overload, dtype, device):
    """In the kernels' own types, against float64 autograd through the reference; each argument alone, then all."""
    relative = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
    # A norm of few columns hardly depends on them: its gradient is small beside the terms it is a difference of.
    plain = small(op, overload, device, dtype, number=4, least=16)
    of_any = tensors.free(op, overload.name)
    places = [i for i, a in enumerate(plain) if isinstance(a, torch.Tensor) and of_any[i]]
    for wanted in [*[{i} for i in places], set(places)]:
        args = [a.clone().requires_grad_(i in wanted) if i in places else a for i, a in enumerate(plain)]
        exact = [a.detach().double().requires_grad_(i in wanted) if i in places else a for i, a in enumerate(plain)]
        found = tensors.outputs(tensors.target(op, overload.name)(*args))
        expected = tensors.outputs(overload.reference(*exact))
        # An output that none of these arguments reaches: torch's reference says so, an operator does not.
        pairs = [(a, b) for a, b in zip(found, expected, strict=True) if b.requires_grad]
        found, expected = zip(*pairs, strict=True)
        gradients = [torch.randn_like(out) for out in found]
        torch.autograd.backward(found, gradients)
        torch.autograd.backward(expected, [g.double() for g in gradients])
        for i in places:
            if i not in wanted:
                assert args[i].grad is None
                continue
            scale = exact[i].grad.abs().max()
            error = (args[i].grad.double() - exact[i].grad).abs().max() / scale
            assert error <= relative, f"argument {i} of {overload.name}: off by {error:.2e} of the largest gradient"


@pytest.mark.parametrize(("op", "overload"), OTHERS, ids=case_id)
def test_gradients_that_do_not_exist_are_refused(op, overload, device):
    call = tensors.target(op, overload.name)
    arguments = call._schema.arguments
    plain = small(op, overload, device, number=4)
    for index, value in enumerate(plain):
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            args = [a.clone().requires_grad_() if i == index else a for i, a in enumerate(plain)]
            with pytest.raises(errors.Unsupported, match=f"{arguments[index].name!r} requires them"):
                call(*args)
            with torch.no_grad():
                call(*args)


@pytest.mark.parametrize(("op", "overload"), OVERLOADS, ids=case_id)
def test_writing_is_seen_by_autograd(op, overload, device):
    """A tensor that a backward pass has saved and the operator then overwrites must be noticed."""
    call = tensors.target(op, overload.name)
    for layout in ("plain", "elements apart"):
        args = [tensors.laid_out(a, layout) for a in small(op, overload, device, number=4)]
        versions = [a._version if isinstance(a, torch.Tensor) else None for a in args]
        call(*args)
        for index, (a, version) in enumerate(zip(args, versions, strict=True)):
            if version is not None:
                assert (a._version > version) == (index in tensors.written(op, overload.name)), f"argument {index}"


@pytest.mark.parametrize("op", RECORDS, ids=case_id)
def test_inference_mode(op, device):
    for overload in op.overloads:
        with torch.inference_mode():
            args = small(op, overload, device, number=2)
            found = tensors.outputs(tensors.target(op, overload.name)(*copies(args)))
        exact = [tensors.wide(a) for a in copies(args)]
        bounds_of = [tensors.wide(a) for a in copies(args)]
        expected = tensors.outputs(overload.reference(*exact))
        for a, b, bound in zip(
            found, expected, tensors.allowed(op, overload.name, bounds_of, expected, found), strict=True
        ):
            tensors.assert_near(a, b, bound, overload.name)


WRITERS = [(op, overload) for op, overload in OVERLOADS if tensors.written(op, overload.name)]


@pytest.mark.parametrize("layout", ["plain", "elements apart", "negated"])
@pytest.mark.parametrize(("op", "overload"), WRITERS, ids=case_id)
def test_writing_to_a_tensor_of_inference_mode_is_refused_outside_of_it(op, overload, layout, device):
    """As torch refuses it, but in words that name the argument; whatever the layout, before anything is written."""
    call = tensors.target(op, overload.name)
    for index in tensors.written(op, overload.name):
        args = small(op, overload, device, number=2)  # the others are made outside: the first that may not be is named
        with torch.inference_mode():
            value = args[index]
            args[index] = value.neg()._neg_view() if layout == "negated" else tensors.laid_out(value, layout)
        before = args[index].clone()
        name = call._schema.arguments[index].name
        with pytest.raises(errors.InvalidArgument, match=f"{op.name}.*: {name} was made in inference mode"):
            call(*args)
        assert torch.equal(args[index], before)
        with torch.inference_mode():
            call(*args)
        assert not torch.equal(args[index], before)


@pytest.mark.parametrize(("op", "overload"), OVERLOADS, ids=case_id)
def test_forward_mode_is_refused(op, overload, device):
    """torch has no rule for it and would answer with zeros."""
    call, plain = tensors.target(op, overload.name), small(op, overload, device, number=4)
    with torch.autograd.forward_ad.dual_level():
        for index, value in enumerate(plain):
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                dual = torch.autograd.forward_ad.make_dual(value, torch.ones_like(value))
                with pytest.raises(errors.Unsupported, match=f"^{op.name} has no forward-mode derivative"):
                    call(*plain[:index], dual, *plain[index + 1 :])
        call(*plain)


def test_forward_mode_is_refused_in_transforms_and_modules(device):
    x = torch.randn(2, 64, device=device)
    nn = kernelwright.nn
    for layer in (nn.RMSNorm(64), nn.LayerNorm(64), nn.SwiGLU(), nn.LinearNF4(64, 8)):
        for module in (layer.to(device), layer.requires_grad_(requires_grad=False)):
            with pytest.raises(errors.Unsupported, match="has no forward-mode derivative"):
                torch.func.jvp(module, (x,), (x,))
