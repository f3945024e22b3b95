# SPDX-License-Identifier: MIT
"""torch's styles of tensor parallelism with our norms and SwiGLU, on two processes, beside one process."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from tests.python.support import start
from tests.python.tensors import torch

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch was built without torch.distributed"),
]

PROGRAM = """
import copy, sys
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module
import kernelwright

rank, seed, norm = int(sys.argv[1]), int(sys.argv[3]), sys.argv[4]
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(seed)

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = getattr(kernelwright.nn, norm)(16)
        self.gate, self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x):
        y = self.norm(x)
        return self.down(kernelwright.swiglu(self.gate(y), self.up(y)))

whole = Layer()
torch.nn.init.normal_(whole.norm.weight)
sharded = parallelize_module(copy.deepcopy(whole), mesh, {
    "norm": SequenceParallel(sequence_dim=1),
    "gate": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
    "up": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
    "down": RowwiseParallel(),
})
x = torch.randn(2, 6, 16)
expected = whole(x)
found = sharded(x[:, 3 * rank : 3 * rank + 3])  # each has its part of the sequence
torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
expected.square().sum().backward()
found.square().sum().backward()
for (name, mine), theirs in zip(sharded.named_parameters(), whole.parameters()):
    torch.testing.assert_close(mine.grad.full_tensor(), theirs.grad, rtol=1e-4, atol=1e-4, msg=name)

# What is already sharded stays so; what must not be split is put together first.
rows = distribute_tensor(torch.randn(4, 6, 16), mesh, [Shard(0)])
with torch.no_grad():
    y, total = kernelwright.rms_norm(rows, residual=rows)
    assert y.placements == total.placements == (Shard(0),), (y.placements, total.placements)
    columns = rows.redistribute(mesh, [Shard(2)])
    torch.testing.assert_close(kernelwright.rms_norm(columns).full_tensor(), kernelwright.rms_norm(rows.full_tensor()))
    assert kernelwright.swiglu(columns, columns).placements == (Shard(2),)
    half = rows.full_tensor()[0]
    torch.testing.assert_close(kernelwright.swiglu(distribute_tensor(half, mesh, [Shard(1)])).full_tensor(), kernelwright.swiglu(half))
    weight = kernelwright.quantize_4bit(torch.randn(5, 16), 32)
    y = kernelwright.matmul_4bit(rows, *(distribute_tensor(part, mesh, [Replicate()]) for part in weight), 5, 32)
    assert y.placements == (Shard(0),), y.placements
    torch.testing.assert_close(y.full_tensor(), kernelwright.matmul_4bit(rows.full_tensor(), *weight, 5, 32))
    codes, scales = kernelwright.quantize_rows_int8(rows)
    assert codes.placements == scales.placements == (Shard(0),)
    assert torch.equal(codes.full_tensor(), kernelwright.quantize_rows_int8(rows.full_tensor())[0])

    # What is written to stays where it is, or the call is refused: it would be written to a copy.
    total, sum = rows.clone(), 2 * rows.full_tensor()
    kernelwright.rms_norm(rows, residual=total, inplace=True)
    torch.testing.assert_close(total.full_tensor(), sum)
    try:
        kernelwright.rms_norm(columns, residual=columns.clone(), inplace=True)
    except kernelwright.errors.Unsupported as error:
        assert "residual, which cannot stay as sharded" in str(error), error
    else:
        raise AssertionError("not refused")
dist.destroy_process_group()
"""

ATTENTION = """
import sys
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
import kernelwright

rank, seed = int(sys.argv[1]), int(sys.argv[3])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(seed)
near = torch.testing.assert_close

def put(tensor, dim):
    return distribute_tensor(tensor, mesh, [Replicate() if dim is None else Shard(dim)])

def sharded(call, *given, out):
    "A call of shards, [tensor, dimension], gives what one of whole tensors gives, sharded so; gradients too."
    whole = [t.clone().requires_grad_(t.is_floating_point()) for t, _ in given]
    parts = [put(t.detach(), dim).requires_grad_(t.is_floating_point()) for t, (_, dim) in zip(whole, given)]
    expected, found = call(*whole), call(*parts)
    assert found.placements == (Replicate() if out is None else Shard(out),), (found.placements, out)
    near(found.full_tensor(), expected)
    expected.square().sum().backward()
    found.square().sum().backward()
    for mine, theirs in zip(parts, whole):
        if theirs.grad is not None:
            near(mine.grad.full_tensor(), theirs.grad, rtol=1e-4, atol=1e-5)

q, k, v = torch.randn(2, 4, 5, 16), torch.randn(2, 2, 7, 16), torch.randn(2, 2, 7, 8)
sinks, slopes, mask = torch.randn(4), torch.rand(2, 4), torch.randn(2, 1, 5, 7) > 0

def attended(q, k, v, sinks=None, slopes=None, mask=None):
    return kernelwright.attention(q, k, v, sinks=sinks, alibi_slopes=slopes, mask=mask)

for dim in (0, 1):
    sharded(attended, (q, dim), (k, dim), (v, dim), out=dim)
sharded(attended, (q, 2), (k, None), (v, None), out=None)  # rows see all keys
wide, three = torch.randn(2, 6, 5, 16), (torch.randn(2, 3, 7, 16), torch.randn(2, 3, 7, 8))
sharded(attended, (wide, 1), (three[0], None), (three[1], None), out=None)  # no half of three groups of heads
sharded(lambda q, k, v, s: attended(q, k, v, s), (q, 1), (k, 1), (v, 1), (sinks, 0), out=1)
sharded(lambda q, k, v, s: attended(q, k, v, s), (q, 0), (k, 0), (v, 0), (sinks, None), out=0)
sharded(lambda q, k, v, m: attended(q, k, v, mask=m), (q, 0), (k, 0), (v, 0), (mask, 0), out=0)
sharded(lambda q, k, v, m: attended(q, k, v, mask=m), (q, 1), (k, 1), (v, 1), (mask, None), out=1)
with torch.no_grad():
    y = attended(put(q, 0), put(k, 0), put(v, 0), slopes=put(slopes, 0))
    near(y.full_tensor(), attended(q, k, v, slopes=slopes))
    starts = torch.tensor([0, 3, 7], dtype=torch.int32)
    rows = [t[0].transpose(0, 1).contiguous() for t in (k.repeat(1, 2, 1, 1), k, v)]
    expected = kernelwright.attention_varlen(*rows, starts, starts, 4, 4)
    y = kernelwright.attention_varlen(*(put(t, 1) for t in rows), put(starts, None), put(starts, None), 4, 4)
    assert y.placements == (Shard(1),)
    near(y.full_tensor(), expected)
    lengths = torch.tensor([2, 4], dtype=torch.int32)
    caches = [torch.randn(2, 2, 9, 16), torch.randn(2, 2, 9, 8)]
    held = [put(t.clone(), 1) for t in caches]
    new = {"k_new": k[:, :, :2], "v_new": v[:, :, :2]}
    y = kernelwright.attention_decode(put(q, 1), *held, put(lengths, None), **{n: put(t, 1) for n, t in new.items()})
    near(y.full_tensor(), kernelwright.attention_decode(q, *caches, lengths, **new))
    for mine, theirs in zip(held, caches):
        near(mine.full_tensor(), theirs)

angles = torch.randn(2, 5, 8)
table, places = angles[0], torch.randint(0, 5, (2, 5))

def turned(x, cos, sin, positions=None):
    return kernelwright.rope(x, cos, sin, positions=positions)

cos, sin = table.cos(), table.sin()
for dim, out in ((0, 0), (1, 1), (2, None)):  # a row's number is not its shard's
    sharded(lambda x, c, s: turned(x, c.detach(), s.detach()), (q, dim), (cos, None), (sin, None), out=out)
with torch.no_grad():
    for dim, of_table in ((0, 0), (2, 1)):
        y = turned(put(q, dim), put(angles.cos(), of_table), put(angles.sin(), of_table))
        assert y.placements == (Shard(dim),), y.placements
        near(y.full_tensor(), turned(q, angles.cos(), angles.sin()))
        y = turned(put(q, dim), put(cos, None), put(sin, None), put(places, of_table))
        assert y.placements == (Shard(dim),), y.placements
        near(y.full_tensor(), turned(q, cos, sin, places))
    x, y = put(q.clone(), 1), put(q[:, :2].clone(), 1)
    kernelwright.rope(x, put(cos, None), put(sin, None), k=y, inplace=True)
    near(x.full_tensor(), turned(q, cos, sin))
    near(y.full_tensor(), turned(q[:, :2], cos, sin))
    kernelwright.rope(x, put(cos, None), put(sin, None), inverse=True, inplace=True)
    near(x.full_tensor(), q)
    try:
        kernelwright.rope(put(q.clone(), 2), put(cos, None), put(sin, None), inplace=True)
    except kernelwright.errors.Unsupported as error:
        assert "x, which cannot stay as sharded" in str(error), error
    else:
        raise AssertionError("not refused")
dist.destroy_process_group()
"""


needs_rules = pytest.mark.skipif(
    tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2]) < (2, 6),
    reason="this torch cannot be told how operators are sharded",
)


def _on_two(program, tmp_path, seed, *args):
    processes = [start(program, str(rank), str(tmp_path / "meet"), str(seed), *args) for rank in range(2)]
    for done in [process.wait_text(300) for process in processes]:
        assert done.returncode == 0, done.stdout + done.stderr


@needs_rules
@pytest.mark.parametrize("norm", ["RMSNorm", "LayerNorm"])
def test_styles_of_parallelize_module(norm, tmp_path, seed):
    _on_two(PROGRAM, tmp_path, seed, norm)


@needs_rules
def test_attention_and_rope(tmp_path, seed):
    _on_two(ATTENTION, tmp_path, seed)
