# SPDX-License-Identifier: MIT
"""Same call, same bits: again, under other numbers of CPU threads, in a captured graph. And what torch.func makes of it."""

from __future__ import annotations

import pytest

from kernelwright import errors
from kernelwright.ops._record import Case
from tests.python import tensors
from tests.python.tensors import OVERLOADS, case_id, torch

pytestmark = pytest.mark.torch

# On a CPU these take torch's product, whose sums depend on how many rows there are; how, on its libraries.
PRODUCTS_OF_TORCH = ("linear", "gated_linear")
# Not any shape goes: experts' weights share no block.
OWN_SHAPES = ("matmul_4bit_grouped",)
SHAPES = ((1031, 40), (513, 1024), (2, 16384), (64, 4099))


def cases(op, overload):
    """Shapes that are split among threads and blocks in different ways, with the options of the record's cases."""
    own = [c for c in op.cases if c.overload == overload.name and 0 not in c.shape]
    some = [c for c in own if len(c.shape) == 2]
    if not some or op.name in OWN_SHAPES:  # what has no rows and columns alone has its own largest cases
        yield from sorted(own, key=lambda c: op.bytes(c) + op.flops(c))[-len(SHAPES) :]
        return
    for number, shape in enumerate(SHAPES):
        like = some[7 * number % len(some)]
        yield Case(overload.name, shape, like.dtype, like.options)


def results(op, overload, case, device):
    """What the call gives and what it wrote, on the same numbers each time."""
    args = op.make(case, device, tensors.generator(5, device))
    found = tensors.outputs(tensors.target(op, overload.name)(*args))
    return [*found, *(args[i] for i in tensors.written(op, overload.name))]


def assert_same(a, b, what):
    for number, (one, other) in enumerate(zip(a, b, strict=True)):
        assert tensors.same_bits(one, other), f"{what}, result {number}"


@pytest.mark.parametrize(("op", "overload"), OVERLOADS, ids=case_id)
def test_same_bits_again(op, overload, device):
    for case in cases(op, overload):
        first = results(op, overload, case, device)
        for _ in range(3):
            assert_same(results(op, overload, case, device), first, str(case))


def of_torch(op, overload):
    """Whether a CPU takes torch's products for it: their sums are split as torch's threads are."""
    return op.name in PRODUCTS_OF_TORCH or (op.name, overload.name) == ("matmul_4bit_grouped", "transposed")


@pytest.mark.parametrize(("op", "overload"), [(o, v) for o, v in OVERLOADS if not of_torch(o, v)], ids=case_id)
def test_same_bits_with_any_number_of_threads(op, overload):
    before = torch.get_num_threads()
    try:
        for case in cases(op, overload):
            torch.set_num_threads(1)
            first = results(op, overload, case, "cpu")
            for threads in (2, 3):
                torch.set_num_threads(threads)
                assert_same(results(op, overload, case, "cpu"), first, f"{case}, {threads} threads")
    finally:
        torch.set_num_threads(before)


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@pytest.mark.parametrize(("op", "overload"), OVERLOADS, ids=case_id)
def test_vmap(op, overload):
    """Over a new first dimension of the first argument: right as a loop is, or refused; never a wrong number."""
    case = op.cases_for("small", overload.name)[0]
    args = op.make(case, "cpu", tensors.generator(6, "cpu"))
    call = tensors.target(op, overload.name)
    batch = torch.stack([args[0], *(tensors.times(args[0], by) for by in (2, -1))])
    if tensors.written(op, overload.name):
        with pytest.raises((errors.KernelwrightError, RuntimeError)):
            torch.vmap(lambda x: call(x, *args[1:]))(batch)
        return
    found = tensors.outputs(torch.vmap(lambda x: call(x, *args[1:]))(batch))
    expected = [tensors.outputs(call(x, *args[1:])) for x in batch]
    for number, out in enumerate(found):
        for at, one in enumerate(expected):
            if op.name in PRODUCTS_OF_TORCH:
                torch.testing.assert_close(out[at], one[number])
            else:
                assert torch.equal(out[at], one[number])


@pytest.mark.parametrize(("op", "overload"), OVERLOADS, ids=case_id)
def test_dispatch_modes_see_calls(op, overload, device):
    """A plain call goes from autograd to the kernel directly; one that a mode watches must not."""
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(function)
            return function(*args, **(kwargs or {}))

    case = op.cases_for("small", overload.name)[0]
    call = tensors.target(op, overload.name)
    expected = results(op, overload, case, device)
    with Watch():
        args = op.make(case, device, tensors.generator(5, device))
        found = tensors.outputs(call(*args))
    assert call in seen
    assert_same([*found, *(args[i] for i in tensors.written(op, overload.name))], expected, str(case))


@pytest.mark.parametrize(("op", "overload"), [(o, v) for o, v in OVERLOADS if v.backward], ids=case_id)
def test_functional_gradients_are_refused(op, overload):
    """torch has no way for an operator written in Python to give them; its own words about it help nobody."""
    case = op.cases_for("small", overload.name, "float32")[0]
    args = op.make(case, "cpu", tensors.generator(7, "cpu"))

    def loss(x):
        return tensors.outputs(tensors.target(op, overload.name)(x, *args[1:]))[0].sum()

    with pytest.raises(errors.Unsupported, match=r"records no gradients within torch.func.grad"):
        torch.func.grad(loss)(args[0])
