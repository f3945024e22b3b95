# SPDX-License-Identifier: MIT
"""What torch is told of operators: how their work is counted, and what autocast does to them."""

from __future__ import annotations

import pytest

import kernelwright
from tests.python.tensors import torch

pytestmark = pytest.mark.torch

X = (3, 64)


def counted(call):
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as mode:
        call()
    return mode.get_total_flops()


def test_products_are_counted_as_torch_counts_its_own(device):
    x, weight = torch.randn(X, device=device), torch.randn(5, 64, device=device)
    packed = kernelwright.quantize_4bit(weight)
    codes, scale = kernelwright.quantize_rows_int8(weight)
    mine, by = kernelwright.quantize_rows_int8(x)
    expected = counted(lambda: torch.nn.functional.linear(x, weight))
    assert expected == 2 * 3 * 64 * 5
    assert counted(lambda: kernelwright.matmul_4bit(x, *packed, 5)) == expected
    assert counted(lambda: torch.ops.kernelwright.matmul_4bit(x, *packed, None, 5, 64, "nf4")) == expected
    assert counted(lambda: kernelwright.matmul_int8(mine, codes, by, scale)) == expected
    (left, of_x), (right, of_weight) = kernelwright.quantize_rows_fp8(x), kernelwright.quantize_rows_fp8(weight)
    assert counted(lambda: kernelwright.matmul_fp8(left, right, of_x, of_weight)) == expected
    assert counted(lambda: kernelwright.linear(x, weight, None, "gelu")) == expected
    both = torch.cat((weight, weight))
    assert counted(lambda: kernelwright.gated_linear(x, both, None, "silu")) == 2 * expected
    ternary, factor = kernelwright.quantize_ternary(weight)
    assert counted(lambda: kernelwright.matmul_ternary(mine, ternary, by, factor, n=5)) == expected


def test_a_layer_and_its_gradient_are_counted(device):
    layer = kernelwright.nn.LinearNF4(64, 8).to(device)
    x = torch.randn(X, device=device, requires_grad=True)
    assert counted(lambda: layer(x).sum().backward()) == 2 * 2 * 3 * 64 * 8


def test_attention_is_counted_as_torch_counts_its_own():
    """Backward passes as torch's of kernels that compute the scores again; its tables take no fewer heads of keys."""
    from torch.utils import flop_counter

    q, k, v = (torch.randn(2, 4, rows, d, requires_grad=True) for rows, d in ((5, 16), (7, 16), (7, 8)))
    out = kernelwright.attention(q, k, v)
    expected = counted(lambda: torch.nn.functional.scaled_dot_product_attention(q.detach(), k.detach(), v.detach()))
    assert expected == flop_counter.sdpa_flop_count(q.shape, k.shape, v.shape) == 2 * 2 * 4 * 5 * 7 * (16 + 8)
    assert counted(lambda: kernelwright.attention(q, k, v, causal=True)) == expected
    assert counted(lambda: kernelwright.attention(q.detach(), k[:, :2].detach(), v[:, :2].detach())) == expected
    gradients = flop_counter.sdpa_backward_flop_count(out.shape, q.shape, k.shape, v.shape)
    assert counted(lambda: out.sum().backward()) == gradients


def test_attention_of_sequences_is_counted_by_their_lengths():
    q, k, v = (torch.randn(9, 4, d, requires_grad=True) for d in (16, 16, 8))
    starts = torch.tensor([0, 3, 9], dtype=torch.int32)

    def attended(*given):
        return kernelwright.attention_varlen(*given, starts.to(given[0].device), starts.to(given[0].device), 6, 6)

    out, scores = attended(q, k, v), 4 * (3 * 3 + 6 * 6)
    assert counted(lambda: attended(q, k, v)) == 2 * scores * (16 + 8)
    assert counted(lambda: out.sum().backward()) == 2 * scores * (3 * 16 + 2 * 8)
    bare = [t.detach().to("meta") for t in (q, k, v)]
    assert counted(lambda: attended(*bare)) == 2 * 4 * (2 * 6 * 6) * (16 + 8)


def test_attention_with_a_cache_is_counted_by_what_is_filled():
    q, new = torch.randn(2, 4, 1, 16), torch.randn(2, 2, 3, 16)
    k, v, lengths = torch.zeros(2, 2, 32, 16), torch.zeros(2, 2, 32, 16), torch.tensor([5, 8], dtype=torch.int32)
    kernelwright.attention_decode(q, k, v, lengths)
    of_key = 2 * 4 * (16 + 16)
    assert counted(lambda: kernelwright.attention_decode(q, k, v)) == of_key * 2 * 32
    assert counted(lambda: kernelwright.attention_decode(q, k, v, lengths)) == of_key * (5 + 8)
    appended = counted(lambda: kernelwright.attention_decode(q, k, v, lengths, k_new=new, v_new=new, causal=True))
    assert appended == of_key * (5 + 8 + 2 * 3)


@pytest.mark.parametrize(
    "call", [kernelwright.linear, torch.ops.kernelwright.linear], ids=["kernelwright", "torch.ops"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_linear_layer_within_autocast_is_torchs(call, dtype, device):
    x, weight = torch.randn(X, device=device, dtype=dtype), torch.randn(5, 64, device=device, requires_grad=True)
    with torch.autocast(device, dtype=torch.bfloat16):
        if dtype is torch.float64:  # autocast leaves it alone; torch refuses the mixture, too
            with pytest.raises((kernelwright.errors.InvalidArgument, RuntimeError)):
                call(x, weight, None, "relu")
            return
        expected = torch.relu(torch.nn.functional.linear(x, weight))
        found = call(x, weight, None, "relu")
    assert found.dtype is expected.dtype is torch.bfloat16
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)
    (grad,) = torch.autograd.grad(found.float().sum(), weight)
    assert grad.dtype is torch.float32
    torch.testing.assert_close(grad, torch.autograd.grad(expected.float().sum(), weight)[0], rtol=2e-2, atol=1e-1)


def test_norms_within_autocast_have_the_type_that_torchs_have_on_a_cpu():
    x, weight = torch.randn(X), torch.randn(64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for dtype in (torch.float32, torch.bfloat16):
            mine = kernelwright.rms_norm(x.to(dtype), weight.to(dtype)), kernelwright.layer_norm(x.to(dtype))
            theirs = (
                torch.nn.functional.rms_norm(x.to(dtype), (64,), weight.to(dtype)),
                torch.nn.functional.layer_norm(x.to(dtype), (64,)),
            )
            assert [y.dtype for y in mine] == [y.dtype for y in theirs]
