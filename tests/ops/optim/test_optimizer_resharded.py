# SPDX-License-Identifier: MIT
"""A checkpoint of sharded 8-bit states goes from two processes to one and back: the bits of one process all along."""

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
import sys
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from kernelwright import optim

rank, seed, name, folder = int(sys.argv[1]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(seed)
gradients = torch.Generator().manual_seed(seed + 1)

def made(values=None):
    # No block of 256 elements lies in two processes: rows of 256 of which they have 16 and 15, 256 rows of 31, half of 512.
    model = torch.nn.Sequential(torch.nn.Linear(256, 31), torch.nn.Linear(31, 512))
    if values:
        model.load_state_dict(values)
    return model

def optimizer_of(model):
    return getattr(optim, name)(model.parameters(), lr=0.01, min_8bit_size=256)

def sharded_of(model):
    return fully_shard(model, mesh=mesh)

def whole_tensor(value):
    return value.full_tensor() if hasattr(value, "full_tensor") else value

def step(*pairs):
    grads = [torch.randn(p.shape, generator=gradients) for p in pairs[0][0].parameters()]
    for model, optimizer in pairs:
        for p, grad in zip(model.parameters(), grads):
            p.grad = distribute_tensor(grad.clone(), mesh, p.placements) if hasattr(p, "placements") else grad.clone()
        optimizer.step()

def same(pair):
    for (key, p), expected in zip(pair[0].named_parameters(), whole.parameters()):
        assert torch.equal(whole_tensor(p), expected), key
        theirs = reference.state[expected]
        for part, value in theirs.items():
            mine = pair[1].state[p][part]
            if isinstance(value, torch.Tensor):
                assert mine.shape == value.shape, (key, part, mine.shape, value.shape)
                assert torch.equal(whole_tensor(mine), value), (key, part)
            else:
                assert int(mine) == value, (key, part)

def save(pair, to, **alone):
    model, optimizer = pair
    optimizer.zero_grad()
    state = {"model": model.state_dict(), "optimizer": get_optimizer_state_dict(model, optimizer)}
    dcp.save(state, checkpoint_id=to, **alone)

def load(model, source, **alone):
    optimizer = optimizer_of(model)
    state = {"model": model.state_dict(), "optimizer": get_optimizer_state_dict(model, optimizer)}
    dcp.load(state, checkpoint_id=source, **alone)
    model.load_state_dict(state["model"])
    set_optimizer_state_dict(model, optimizer, state["optimizer"])
    return model, optimizer

whole = made()
reference = optimizer_of(whole)
first = sharded_of(made(whole.state_dict()))
two = first, optimizer_of(first)
for _ in range(3):
    step((whole, reference), two)
same(two)
save(two, folder + "/two")

one = load(made(), folder + "/two", no_dist=True)  # each for itself
same(one)
step((whole, reference), one)
same(one)
if rank == 0:
    save(one, folder + "/one", no_dist=True)
dist.barrier()

again = load(sharded_of(made()), folder + "/one")
same(again)
step((whole, reference), again)
same(again)

# Where blocks are cut, or parts are no rows, each process counts blocks from the start of its part.
for shape, placement in (((40, 31), Shard(0)), ((5, 512), Shard(0)), ((8, 512), Shard(1)), ((512,), Replicate())):
    values = torch.randn(shape)
    p = torch.nn.Parameter(distribute_tensor(values, mesh, [placement]))
    part = torch.nn.Parameter(p.to_local().detach().clone())
    optimizers = [getattr(optim, name)([each], lr=0.01, min_8bit_size=256) for each in (p, part)]
    for _ in range(3):
        grad = torch.randn(shape)
        p.grad = distribute_tensor(grad, mesh, [placement])
        part.grad = p.grad.to_local().clone()
        for optimizer in optimizers:
            optimizer.step()
    assert torch.equal(p.to_local(), part), shape
    own, theirs = optimizers[0].state[p]["absmax1"].to_local(), optimizers[1].state[part]["absmax1"]
    assert torch.equal(own.flatten()[: theirs.numel()], theirs.flatten()) or theirs.dim() > 1, shape
dist.destroy_process_group()
print("done")
"""


@pytest.mark.parametrize("name", ["AdamW8bit", "AdEMAMix8bit"])
def test_from_two_processes_to_one_and_back(name, tmp_path, seed):
    import torch.distributed.fsdp as home

    if not hasattr(home, "fully_shard"):
        pytest.skip(f"torch {torch.__version__} has fully_shard elsewhere, as a prototype")
    meet, folder = str(tmp_path / "meeting"), str(tmp_path)
    both = [start(PROGRAM, str(rank), meet, str(seed), name, folder) for rank in range(2)]
    for done in [child.wait_text() for child in both]:
        assert done.stdout.endswith("done\n"), f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
