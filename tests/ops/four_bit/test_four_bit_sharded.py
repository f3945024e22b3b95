# SPDX-License-Identifier: MIT
"""4-bit layers whose packed codes FSDP shards over two processes, beside the same model in one."""

from __future__ import annotations

import pytest

from tests.python.support import start
from tests.python.tensors import torch

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch was built without torch.distributed"),
]

PROGRAM = """
import copy, sys, warnings
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from kernelwright import nn

rank, seed = int(sys.argv[1]), int(sys.argv[3])

def copied_as_on_a_gpu(to, source):
    for a, b in zip(to, source):  # a type of 16 bits by way of float32: every NaN gets the same bits
        a.copy_((b.float() + 0).to(b.dtype) if b.dtype.is_floating_point else b)

torch._foreach_copy_ = copied_as_on_a_gpu
seen = torch.tensor([0x81, 0x7F, 0x9F, 0xFF], dtype=torch.uint8).view(torch.bfloat16)  # bytes of codes
to = torch.empty_like(seen)
torch._foreach_copy_([to], [seen])
assert not torch.equal(to.view(torch.uint8), seen.view(torch.uint8))
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
torch.manual_seed(seed)

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.LinearNF4(64, 64, bias=False, quant_storage=torch.bfloat16)
        self.down, self.up = torch.nn.Linear(64, 4, bias=False), torch.nn.Linear(4, 64, bias=False)

    def forward(self, x):
        return x + self.base(x) + self.up(self.down(x))

whole = torch.nn.Sequential(Block(), Block()).bfloat16().to("cpu")
sharded = copy.deepcopy(whole)
mesh = init_device_mesh("cpu", (2,))
for block in sharded:
    fully_shard(block, mesh=mesh)  # all of a block's tensors are bfloat16: the codes go with the adapter's
fully_shard(sharded, mesh=mesh)
assert sharded[0].base.weight.to_local().numel() * 2 == whole[0].base.weight.numel()

batches = torch.randn(2, 4, 64).bfloat16()
assert torch.equal(sharded(batches[rank]), whole(batches[rank]))
sharded(batches[rank]).float().square().sum().backward()
for batch in batches:
    (whole(batch).float().square().sum() / 2).backward()  # FSDP averages over processes
for (name, here), expected in zip(sharded.named_parameters(), whole.parameters()):
    if expected.requires_grad:
        found = here.grad.full_tensor().float()
        assert (found - expected.grad).norm() <= 2e-2 * expected.grad.float().norm(), name
    else:
        assert here.grad is None, name

full = StateDictOptions(full_state_dict=True)
state = get_model_state_dict(sharded, options=full)
for name, value in whole.state_dict().items():
    assert torch.equal(state[name].view(-1).view(torch.uint8), value.view(-1).view(torch.uint8)), name
other = torch.nn.Sequential(Block(), Block()).bfloat16().to("cpu").state_dict()
whole.load_state_dict(other)
set_model_state_dict(sharded, other, options=full)  # makes shards of what is in `other`
assert torch.equal(sharded(batches[rank]), whole(batches[rank]))
try:
    whole.load_state_dict(other)
except RuntimeError as refused:
    assert "0.base.weight: is sharded over processes" in str(refused), refused
else:
    raise AssertionError("a shard was taken for a whole weight")
dist.destroy_process_group()
print("whole")
"""


def test_two_processes_are_as_one(seed, tmp_path):
    """quant_storage is the type of the other parameters: FSDP shards parameters of one type together."""
    import torch.distributed.fsdp as home

    if not hasattr(home, "fully_shard"):
        pytest.skip(f"torch {torch.__version__} has fully_shard elsewhere, as a prototype")
    both = [start(PROGRAM, str(rank), str(tmp_path / "meeting"), str(seed)) for rank in (0, 1)]
    for done in [child.wait_text() for child in both]:
        assert done.stdout == "whole\n", f"exit code {done.returncode}\n{done.stderr}"
