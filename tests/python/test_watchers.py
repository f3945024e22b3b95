# SPDX-License-Identifier: MIT
"""What torch has for operators sees ours, and does the same to both ways to call one: features by ways."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import kernelwright
from kernelwright import ops
from tests.python import tensors, ways
from tests.python.tensors import torch
from tests.tree import ROOT

pytestmark = pytest.mark.torch


SEEN = "kernelwright::rms_norm"
ops.register()
WAYS = (kernelwright.rms_norm, torch.ops.kernelwright.rms_norm.default)
each_way = pytest.mark.parametrize("call", WAYS, ids=["kernelwright", "torch.ops"])


def test_every_family_has_a_row():
    assert {ways.operator(family, "torch.ops").record.name for family in ways.FAMILIES} <= set(ops.names())
    families = {folder.name for folder in (ROOT / "csrc/ops").iterdir() if folder.is_dir()}
    assert families <= set(ways.FAMILIES)


# Each watches a call with these tensors, and returns the names of what it saw.


def by_dispatch_mode(call, *given):
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func.name())
            return func(*args, **(kwargs or {}))

    with Mode():
        call(*given)
    return seen


def by_function_mode(call, *given):
    from torch.overrides import TorchFunctionMode

    seen = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.name() if isinstance(func, torch._ops.OpOverload) else "")
            return func(*args, **(kwargs or {}))

    with Mode():
        call(*given)
    return seen


def by_profiler(call, *given):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call(*given)
    return [event.key for event in profile.key_averages()]


def by_jit_trace(call, *given):
    graph = torch.jit.trace(call, given, check_trace=False).graph
    return [node.kind() for node in graph.nodes()]


def by_make_fx(call, *given):
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(call)(*given).graph
    return [node.target.name() for node in graph.nodes if isinstance(node.target, torch._ops.OpOverload)]


def by_compile(call, *given):
    seen = []

    def backend(module, inputs):
        seen.extend(node.target.name() for node in module.graph.nodes if isinstance(node.target, torch._ops.OpOverload))
        return module

    torch._dynamo.reset()
    torch.compile(call, fullgraph=True, backend=backend)(*given)
    return seen


def by_export(call, *given):
    class Program(torch.nn.Module):
        def forward(self, *given):
            return call(*given)

    graph = torch.export.export(Program(), given).graph
    return [node.target.name() for node in graph.nodes if isinstance(node.target, torch._ops.OpOverload)]


def by_a_subclass(call, first, *others):
    seen = []

    class Watched(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(func.name())
            results = len(func._schema.returns)
            return None if not results else torch.ones(3, 8) if results == 1 else (torch.ones(3, 8),) * results

        __torch_function__ = torch._C._disabled_torch_function_impl

    call(torch.Tensor._make_subclass(Watched, first), *others)
    return seen


def by_a_parameter_with_functions(call, first, *others):
    seen = []

    class Watched(torch.nn.Parameter):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func.name() if isinstance(func, torch._ops.OpOverload) else "")
            return super().__torch_function__(func, types, args, kwargs or {})

    call(Watched(first, requires_grad=False), *others)
    return seen


def by_all_threads_profiler(call, *given):
    from torch._C._profiler import _ExperimentalConfig

    if "profile_all_threads" not in (_ExperimentalConfig.__init__.__doc__ or ""):
        pytest.skip("this torch's profiler looks at threads of its own alone")
    config = _ExperimentalConfig(profile_all_threads=True)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], experimental_config=config
    ) as profile:
        call(*given)
    return [event.key for event in profile.key_averages()]


def by_execution_trace(call, *given):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        observer = torch.profiler.ExecutionTraceObserver().register_callback(str(path))
        observer.start()
        call(*given)
        observer.stop()
        observer.unregister_callback()
        return [node["name"] for node in json.loads(path.read_text())["nodes"]]


WATCHERS = (
    by_all_threads_profiler, by_execution_trace, by_dispatch_mode, by_function_mode, by_profiler, by_jit_trace, by_make_fx, by_compile, by_export, by_a_subclass,
    by_a_parameter_with_functions,
)  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:At pre-dispatch tracing:UserWarning")  # torch 2.4 says it of every operator
@pytest.mark.parametrize(("watch", "family", "way"), ways.paired(WATCHERS))
def test_watchers_see_the_operator(watch, family, way):
    operator = ways.operator(family, way)
    call, given = operator.closed()
    call(*given)  # what the first call does is not theirs
    seen = watch(call, *given)
    assert any(name.partition(".")[0] == f"kernelwright::{operator.name}" for name in seen), seen


def test_backward_passes_are_seen_too():
    x = torch.randn(3, 8, requires_grad=True)
    y = kernelwright.rms_norm(x).sum()
    assert SEEN + ".backward" in by_dispatch_mode(y.backward)


def test_backward_passes_are_traced_before_dispatch():
    from torch.fx.experimental.proxy_tensor import make_fx

    def gradient(x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(kernelwright.rms_norm(x).pow(2).sum(), x)[0]

    graph = make_fx(gradient, pre_dispatch=True)(torch.randn(3, 8)).graph
    assert SEEN + ".backward" in {n.target.name() for n in graph.nodes if isinstance(n.target, torch._ops.OpOverload)}


def test_numbers_that_a_trace_does_not_know_are_not_looked_at():
    packed, absmax = kernelwright.quantize_4bit(torch.ones(8, 8), 32)
    x = torch.ones(2, 8)
    graph = torch.fx.symbolic_trace(lambda n: kernelwright.matmul_4bit(x, packed, absmax, n, 32)).graph
    assert len([node for node in graph.nodes if node.op == "call_function"]) == 1


# --- what changes an operator changes both ways ---------------------------------------------------


def watched(operator, seen):
    """A kernel that tells it was called, and computes what the operator does."""

    def run(*args):
        seen.append(operator.name)
        return operator.overload.reference(*args)

    return run


@pytest.mark.filterwarnings("ignore:Warning only once:UserWarning")
@pytest.mark.parametrize(
    ("recording", "family", "way"), [*ways.paired([False]), *ways.paired([True], ways.DIFFERENTIABLE)]
)
def test_an_override_is_called(recording, family, way):
    operator, seen = ways.operator(family, way), []
    call, given = operator.closed()
    expected = call(*[value.clone() for value in given])
    with torch.library._scoped_library("kernelwright", "IMPL") as library:
        library.impl(operator.name, watched(operator, seen), "CPU")
        found = call(given[0].clone().requires_grad_(recording), *given[1:])
    assert seen == [operator.name]
    call(*given)
    assert seen == [operator.name]
    for a, b in zip(tensors.outputs(found), tensors.outputs(expected), strict=True):
        torch.testing.assert_close(a.detach().float(), b.float(), rtol=1e-3, atol=1e-3)


@ways.each_family(0)
def test_a_registered_kernel_is_called(family, way):
    """torch.library.register_kernel, which keeps what it registers: in a library of its own, which goes with it."""
    operator, seen = ways.operator(family, way), []
    call, given = operator.closed()
    call(*given)
    with torch.library._scoped_library("kernelwright", "FRAGMENT") as library:
        torch.library.register_kernel(f"kernelwright::{operator.name}", "cpu", watched(operator, seen), lib=library)
        call(*given)
    assert seen == [operator.name]


@pytest.mark.filterwarnings("ignore:Warning only once:UserWarning")
@ways.each_family(1)
def test_an_autocast_rule_is_obeyed(family, way):
    operator, seen = ways.operator(family, way), []
    call, given = operator.closed()
    call(*given)
    target = tensors.target(operator.record, "default")
    below = torch._C._ExcludeDispatchKeyGuard
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

    def rule(*args):
        seen.append(operator.name)
        with below(keys):
            return target(*args)

    with torch.library._scoped_library("kernelwright", "IMPL") as library:
        library.impl(operator.name, rule, "AutocastCPU")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            call(*given)
        assert seen == [operator.name]
        call(*given)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        call(*given)
    assert seen == [operator.name]


@each_way
def test_what_an_autocast_rule_gives_is_what_a_call_gives(call):
    call(torch.ones(3, 8))
    below = torch._C._ExcludeDispatchKeyGuard
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

    def rule(x, *rest):
        with below(keys):
            return torch.ops.kernelwright.rms_norm(x.to(torch.bfloat16), *rest)

    with torch.library._scoped_library("kernelwright", "IMPL") as library:
        library.impl("rms_norm", rule, "AutocastCPU")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert call(torch.ones(3, 8)).dtype is torch.bfloat16


@ways.each_family(1)
def test_fake_tensors_are_fake(family, way):
    from torch._subclasses import FakeTensor, FakeTensorMode

    call, given = ways.operator(family, way).closed()

    def fake(found):
        return all(isinstance(value, FakeTensor) for value in tensors.outputs(found))

    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(value) for value in given]
        assert fake(call(*fakes))
    assert fake(call(*fakes))
    expected, found = call(*given), call(*(value.to("meta") for value in given))
    for a, b in zip(tensors.outputs(found), tensors.outputs(expected), strict=True):
        assert a.is_meta
        assert (a.shape, a.dtype) == (b.shape, b.dtype)


COMPILED = """
import sys
import torch
from tests.python import ways

for family in sys.argv[2:]:
    call, given = ways.operator(family, sys.argv[1]).closed()

    def step(x, *rest):
        found = call(x, *rest)
        (found[0] if isinstance(found, tuple) else found).pow(2).sum().backward()

    x, again = (given[0].clone().requires_grad_() for _ in range(2))
    step(x, *given[1:])
    with torch._dynamo.config.patch(compiled_autograd=True):
        torch.compile(step, backend="eager")(again, *given[1:])
    torch.testing.assert_close(again.grad, x.grad)
"""


@pytest.mark.skipif(
    not hasattr(torch._dynamo.config, "compiled_autograd"), reason="this torch compiles no backward pass"
)
@pytest.mark.parametrize("way", ways.WAYS)
def test_compiled_autograd(way, whole):
    """In a process of its own: what torch warns of on the way is no error there. Every second family, and rms_norm."""
    others = ways.DIFFERENTIABLE[1:]
    families = ways.DIFFERENTIABLE if whole else ("norm", *others[ways.WAYS.index(way) :: 2])
    command = [sys.executable, "-c", COMPILED, way, *families]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


@ways.each_family(0, ways.DIFFERENTIABLE)
def test_batches_of_gradients(family, way):
    """torch.autograd.functional and is_grads_batched map backward passes in an older way than torch.func."""
    call, (x, *rest) = ways.operator(family, way).closed()
    x.requires_grad_()

    def first():
        found = call(x, *rest)
        return found[0] if isinstance(found, tuple) else found

    batch = torch.randn(4, *first().shape, generator=torch.Generator().manual_seed(1))
    (found,) = torch.autograd.grad(first(), x, batch, is_grads_batched=True)
    for one, grad in zip(found, batch, strict=True):
        torch.testing.assert_close(one, torch.autograd.grad(first(), x, grad)[0], rtol=1e-4, atol=1e-5)
