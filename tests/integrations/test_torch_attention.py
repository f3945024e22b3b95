# SPDX-License-Identifier: MIT
"""kernelwright under torch's scaled_dot_product_attention: what reaches which, and that undoing it leaves nothing."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.integrations import torch as under

pytestmark = pytest.mark.torch


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))

    @property
    def ours(self):
        return self.names.count("kernelwright.attention.default")


@pytest.fixture
def enabled():
    under.enable()
    yield under
    under.disable()


@pytest.fixture
def tensors(device):
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    return tuple(torch.randn(2, 4, 17, 64, device=device, dtype=dtype) for _ in range(3))


def counted(call):
    with Seen() as seen:
        result = call()
    return seen.ours, result


def test_plain_calls_reach_ours(enabled, tensors):
    before = counted(lambda: functional.scaled_dot_product_attention(*tensors, is_causal=True))
    assert before[0] == 1
    enabled.disable()
    after = counted(lambda: functional.scaled_dot_product_attention(*tensors, is_causal=True))
    assert after[0] == 0
    assert not enabled.enabled()
    assert torch.allclose(before[1], after[1], atol=2e-2)


def test_inference_mode(enabled, tensors, monkeypatch):
    """Where torch's function comes to dispatch modes as a whole, so that what is in it has to be counted elsewhere."""
    import kernelwright.functional as ours

    calls, run = [], ours.run
    monkeypatch.setattr(ours, "run", lambda *args: calls.append(1) or run(*args))
    with torch.inference_mode():
        q, k, v = (t.clone() for t in tensors)
        functional.scaled_dot_product_attention(q, k, v)
        functional.scaled_dot_product_attention(q, k, v, dropout_p=0.1)
    assert len(calls) == 1


def test_gradients(enabled, tensors):
    q, k, v = (t.requires_grad_() for t in tensors)
    found = torch.autograd.grad(functional.scaled_dot_product_attention(q, k, v).sum(), (q, k, v))
    enabled.disable()
    theirs = torch.autograd.grad(functional.scaled_dot_product_attention(q, k, v).sum(), (q, k, v))
    for a, b in zip(found, theirs, strict=True):
        assert torch.allclose(a, b, atol=5e-2 if a.is_cuda else 1e-4)


def test_others_reach_torchs(enabled, tensors):
    q, k, v = tensors
    assert counted(lambda: functional.scaled_dot_product_attention(q, k, v, dropout_p=0.5))[0] == 0
    assert counted(lambda: functional.scaled_dot_product_attention(q.double(), k.double(), v.double()))[0] == 0
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        found, out = counted(lambda: functional.scaled_dot_product_attention(q, k, v))
    assert found == 0
    enabled.disable()
    assert torch.allclose(out, functional.scaled_dot_product_attention(q, k, v), atol=2e-2)


def test_layers_of_torch(enabled, device):
    layer = torch.nn.TransformerEncoderLayer(64, 4, batch_first=True, dropout=0.0, device=device)
    if device == "cuda":
        layer = layer.bfloat16()
    x = torch.randn(2, 5, 64, device=device, dtype=next(layer.parameters()).dtype, requires_grad=True)
    assert counted(lambda: layer(x))[0] == 1


def test_compiled(tensors):
    """Also in a process that compiled such a call before, and after that it is torch's again."""
    assert not ours_when_compiled(tensors)
    under.enable()
    try:
        assert ours_when_compiled(tensors)
    finally:
        under.disable()
    assert not ours_when_compiled(tensors)


def ours_when_compiled(tensors):
    def step(q, k, v):
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True) + 1

    seen = []

    def backend(graph, _):
        seen.extend(str(node.target) for node in graph.graph.nodes)
        return graph.forward

    from torch._dynamo.backends.common import aot_autograd

    torch.compiler.reset()
    with torch.no_grad():
        found = torch.compile(step, fullgraph=True, backend=aot_autograd(fw_compiler=backend))(*tensors)
    assert torch.allclose(found, step(*tensors), atol=1e-5)
    return "kernelwright.attention.default" in seen


def test_twice_is_once(enabled, tensors):
    enabled.enable()
    enabled.disable()
    assert counted(lambda: functional.scaled_dot_product_attention(*tensors))[0] == 0


def test_by_torchs_own_list(device, tensors):
    attention = torch.nn.attention
    if not hasattr(attention, "register_flash_attention_impl"):
        assert not under.register()
        pytest.skip("this torch has no list of flash attentions")
    assert under.register()
    attention.activate_flash_attention_impl(under.NAME)
    try:
        assert attention.current_flash_attention_impl() == under.NAME
        assert counted(lambda: functional.scaled_dot_product_attention(*tensors))[0] == 1
    finally:
        attention.restore_flash_attention_impl()
    assert counted(lambda: functional.scaled_dot_product_attention(*tensors))[0] == 0
