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
from tests.python.tensors import torch

pytestmark = pytest.mark.torch


SEEN = "kernelwright::rms_norm"
ops.register()
WAYS = (kernelwright.rms_norm, torch.ops.kernelwright.rms_norm.default)
each_way = pytest.mark.parametrize("call", WAYS, ids=["kernelwright", "torch.ops"])


def by_dispatch_mode(call):
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func.name())
            return func(*args, **(kwargs or {}))

    with Mode():
        call()
    return seen


def by_function_mode(call):
    from torch.overrides import TorchFunctionMode

    seen = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.name() if isinstance(func, torch._ops.OpOverload) else "")
            return func(*args, **(kwargs or {}))

    with Mode():
        call()
    return seen


def by_profiler(call):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    return [event.key for event in profile.key_averages()]


def by_jit_trace(call):
    graph = torch.jit.trace(call, (torch.ones(3, 8),), check_trace=False).graph
    return [node.kind() for node in graph.nodes()]


def by_make_fx(call):
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(call)(torch.ones(3, 8)).graph
    return [node.target.name() for node in graph.nodes if isinstance(node.target, torch._ops.OpOverload)]


def by_compile(call):
    seen = []

    def backend(module, inputs):
        seen.extend(node.target.name() for node in module.graph.nodes if isinstance(node.target, torch._ops.OpOverload))
        return module

    torch._dynamo.reset()
    torch.compile(call, fullgraph=True, backend=backend)(torch.ones(3, 8))
    return seen


def by_export(call):
    class Program(torch.nn.Module):
        def forward(self, x):
            return call(x)

    graph = torch.export.export(Program(), (torch.ones(3, 8),)).graph
    return [node.target.name() for node in graph.nodes if isinstance(node.target, torch._ops.OpOverload)]


def by_a_subclass(call):
    seen = []

    class Watched(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(func.name())
            return torch.ones(3, 8)

        __torch_function__ = torch._C._disabled_torch_function_impl

    call(torch.Tensor._make_subclass(Watched, torch.ones(3, 8)))
    return seen


def by_a_parameter_with_functions(call):
    seen = []

    class Watched(torch.nn.Parameter):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func.name() if isinstance(func, torch._ops.OpOverload) else "")
            return super().__torch_function__(func, types, args, kwargs or {})

    call(Watched(torch.ones(3, 8), requires_grad=False))
    return seen


def by_all_threads_profiler(call):
    from torch._C._profiler import _ExperimentalConfig

    if "profile_all_threads" not in (_ExperimentalConfig.__init__.__doc__ or ""):
        pytest.skip("this torch's profiler looks at threads of its own alone")
    config = _ExperimentalConfig(profile_all_threads=True)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], experimental_config=config
    ) as profile:
        call()
    return [event.key for event in profile.key_averages()]


def by_execution_trace(call):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        observer = torch.profiler.ExecutionTraceObserver().register_callback(str(path))
        observer.start()
        call()
        observer.stop()
        observer.unregister_callback()
        return [node["name"] for node in json.loads(path.read_text())["nodes"]]


WATCHERS = (
    by_all_threads_profiler, by_execution_trace, by_dispatch_mode, by_function_mode, by_profiler, by_jit_trace, by_make_fx, by_compile, by_export, by_a_subclass,
    by_a_parameter_with_functions,
)  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:At pre-dispatch tracing:UserWarning")  # torch 2.4 says it of every operator
@pytest.mark.parametrize("watch", WATCHERS, ids=lambda watch: watch.__name__)
@each_way
def test_watchers_see_the_operator(call, watch):
    kernelwright.rms_norm(torch.ones(3, 8))  # what the first call does is not theirs
    seen = watch(lambda x=None: call(torch.ones(3, 8) if x is None else x))
    assert any(name.partition(".")[0] == SEEN for name in seen), seen


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


@pytest.mark.filterwarnings("ignore:Warning only once:UserWarning")
@each_way
@pytest.mark.parametrize("recording", [False, True])
def test_an_override_is_called(call, recording):
    call(torch.ones(3, 8))
    with torch.library._scoped_library("kernelwright", "IMPL") as library:
        library.impl("rms_norm", lambda x, *_: torch.full_like(x, 7.0), "CPU")
        x = torch.ones(3, 8, requires_grad=recording)
        assert torch.equal(call(x), torch.full((3, 8), 7.0))
    assert torch.allclose(call(torch.ones(3, 8)), torch.ones(3, 8), atol=1e-5)


@each_way
def test_an_autocast_rule_is_obeyed(call):
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
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert call(torch.ones(3, 8)).dtype is torch.float32


@each_way
def test_fake_tensors_are_fake(call):
    from torch._subclasses import FakeTensor, FakeTensorMode

    with FakeTensorMode() as mode:
        x = torch.empty(3, 8)
        assert isinstance(call(x), FakeTensor)
    assert isinstance(call(x), FakeTensor)
    with mode:
        assert isinstance(call(mode.from_tensor(torch.ones(2, 8))), FakeTensor)
    assert call(torch.empty(3, 8, device="meta")).is_meta


COMPILED = """
import sys
import torch
import kernelwright

kernelwright.rms_norm(torch.ones(3, 8))
call = kernelwright.rms_norm if sys.argv[1] == "kernelwright" else torch.ops.kernelwright.rms_norm

packed, absmax = kernelwright.quantize_4bit(torch.randn(6, 64))
weight = torch.randn(10, 6)

def norm(x):
    call(x).pow(2).sum().backward()

def products(x):
    if sys.argv[1] == "kernelwright":
        y = kernelwright.gated_linear(kernelwright.matmul_4bit(x, packed, absmax, 6), weight, None, "silu")
    else:
        y = torch.ops.kernelwright.matmul_4bit(x, packed, absmax, None, 6, 64, "nf4")
        y = torch.ops.kernelwright.gated_linear(y, weight, None, "silu")
    y.pow(2).sum().backward()

for step in (norm, products):
    x = torch.randn(3, 64, requires_grad=True)
    step(x)
    again = x.detach().clone().requires_grad_()
    with torch._dynamo.config.patch(compiled_autograd=True):
        torch.compile(step, backend="eager")(again)
    torch.testing.assert_close(again.grad, x.grad)
"""


@pytest.mark.skipif(
    "compiled_autograd" not in vars(torch._dynamo.config), reason="this torch compiles no backward pass"
)
@pytest.mark.parametrize("way", ["kernelwright", "torch.ops"])
def test_compiled_autograd(way):
    """In a process of its own: what torch warns of on the way is no error there."""
    done = subprocess.run(
        [sys.executable, "-c", COMPILED, way], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


@each_way
def test_batches_of_gradients(call):
    """torch.autograd.functional and is_grads_batched map backward passes in an older way than torch.func."""
    x, batch = torch.randn(3, 8, requires_grad=True), torch.randn(4, 3, 8)
    (found,) = torch.autograd.grad(call(x), x, batch, is_grads_batched=True)
    for one, grad in zip(found, batch, strict=True):
        torch.testing.assert_close(one, torch.autograd.grad(call(x), x, grad)[0])
