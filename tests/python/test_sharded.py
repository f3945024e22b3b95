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
dist.destroy_process_group()
"""


@pytest.mark.skipif(
    tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2]) < (2, 6),
    reason="this torch cannot be told how operators are sharded",
)
@pytest.mark.parametrize("norm", ["RMSNorm", "LayerNorm"])
def test_styles_of_parallelize_module(norm, tmp_path, seed):
    processes = [start(PROGRAM, str(rank), str(tmp_path / "meet"), str(seed), norm) for rank in range(2)]
    for done in [process.wait_text(300) for process in processes]:
        assert done.returncode == 0, done.stdout + done.stderr
