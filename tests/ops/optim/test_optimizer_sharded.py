# SPDX-License-Identifier: MIT
"""Optimizers of parameters that FSDP2 shards over two processes, beside one process; torch.distributed.checkpoint."""

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
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from kernelwright import optim

rank, seed, name, folder = int(sys.argv[1]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
torch.manual_seed(seed)
# Rows of 256 elements: a block of 8-bit states never lies in two processes, so that numbers are those of one process.
# 31 rows: the parts of the two differ in length. Half of the second layer's 512 rows of 31 is 31 whole blocks.
whole = torch.nn.Sequential(torch.nn.Linear(256, 31), torch.nn.ReLU(), torch.nn.Linear(31, 512))
sharded = copy.deepcopy(whole)
mesh = init_device_mesh("cpu", (2,))
for layer in (sharded[0], sharded[2], sharded):
    fully_shard(layer, mesh=mesh)

def made(model):
    return getattr(optim, name)(model.parameters(), lr=0.01, min_8bit_size=256)

here, there = made(sharded), made(whole)

def step(one, other, model):
    batches = torch.randn(2, 4, 256)
    for optimizer in (one, other):
        optimizer.zero_grad()
    model(batches[rank]).square().sum().backward()
    for batch in batches:
        (whole(batch).square().sum() / 2).backward()
    for p, expected in zip(model.parameters(), whole.parameters()):
        # The same gradients to the bit: a sum in another order may tip a code.
        full = expected.grad.clone()
        part = torch.distributed.tensor.distribute_tensor(full, p.device_mesh, p.placements)
        p.grad = part
    one.step()
    other.step()

def same(model):
    for (key, p), expected in zip(model.named_parameters(), whole.parameters()):
        found = p.full_tensor()
        assert torch.equal(found, expected), (key, (found - expected).abs().max())

for _ in range(3):
    step(here, there, sharded)
same(sharded)
first = next(iter(sharded.parameters()))
assert here.state[first]["state1"].shape[-2:] == first.shape
assert here.state[first]["state1"].to_local().shape[-2:] == first.to_local().shape

# Saved by each process, loaded into a new optimizer: what follows is the same.
dcp.save({"optimizer": get_optimizer_state_dict(sharded, here)}, checkpoint_id=folder)
here.zero_grad()  # torch makes an optimizer's states only where there are no gradients
fresh = made(sharded)
state = {"optimizer": get_optimizer_state_dict(sharded, fresh)}
dcp.load(state, checkpoint_id=folder)
set_optimizer_state_dict(sharded, fresh, state["optimizer"])
for p in sharded.parameters():
    assert int(fresh.state[p]["step"]) == 3, fresh.state[p]["step"]
    for key, value in here.state[p].items():
        if isinstance(value, torch.Tensor):
            parts = [v.to_local() if hasattr(v, "to_local") else v for v in (value, fresh.state[p][key])]
            assert torch.equal(*parts), key
step(fresh, there, sharded)
same(sharded)
dist.destroy_process_group()
print("done")
"""


@pytest.mark.parametrize("name", ["AdamW32bit", "AdamW8bit", "AdEMAMix8bit", "Lion8bit"])
def test_two_processes_are_as_one(name, tmp_path, seed):
    import torch.distributed.fsdp as home

    if not hasattr(home, "fully_shard"):
        pytest.skip(f"torch {torch.__version__} has fully_shard elsewhere, as a prototype")
    meet, folder = str(tmp_path / "meeting"), str(tmp_path / "checkpoint")
    both = [start(PROGRAM, str(rank), meet, str(seed), name, folder) for rank in range(2)]
    for done in [child.wait_text() for child in both]:
        assert done.stdout.endswith("done\n"), f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
