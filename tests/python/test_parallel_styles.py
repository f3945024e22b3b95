# SPDX-License-Identifier: MIT
"""Layers in 4 bits and ternary ones under kernelwright.distributed's styles, on two processes, beside one process."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from tests.python.support import start
from tests.python.tensors import torch

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch was built without torch.distributed"),
    pytest.mark.skipif(
        tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2]) < (2, 6),
        reason="this torch cannot be told how operators are sharded",
    ),
]

HEAD = """
import copy, sys
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import SequenceParallel, parallelize_module
import kernelwright
from kernelwright import nn
from kernelwright.distributed import ColwiseParallel, RowwiseParallel
from kernelwright.errors import InvalidArgument, Unsupported

rank, seed = int(sys.argv[1]), int(sys.argv[3])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(seed)

def close(found, expected, name=""):
    with torch.no_grad():
        error = float((found - expected).norm() / expected.norm())
    assert error <= 1e-5, (name, error)

def refused(words, style, layer, kind=InvalidArgument):
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    try:
        parallelize_module(layer, mesh, style)
    except kind as error:
        assert words in str(error) and type(style).__name__ in str(error), error
    else:
        raise AssertionError(f"not refused: {words}")
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())
"""
TAIL = """
dist.destroy_process_group()
print("done")
"""

FOUR_BIT = """
class Layer(torch.nn.Module):
    def __init__(self, nested, storage):
        super().__init__()
        self.norm = nn.RMSNorm(256)
        more = {"compress_statistics": nested, "quant_storage": storage}
        self.gate, self.up = nn.LinearNF4(256, 512, bias=False, **more), nn.LinearFP4(256, 512, **more)
        self.down = nn.LinearNF4(512, 256, **more)

    def forward(self, x):
        y = self.norm(x)
        return self.down(kernelwright.swiglu(self.gate(y), self.up(y)))

def compared(nested, storage, plan, given, shown=lambda y: y):
    whole = Layer(nested, storage).to("cpu")
    torch.nn.init.normal_(whole.norm.weight)
    torch.nn.init.normal_(whole.up.bias), torch.nn.init.normal_(whole.down.bias)
    sharded = copy.deepcopy(whole)
    if rank:  # what the first process has counts, as with torch's styles
        sharded.gate.weight.data.zero_(), sharded.down.weight.absmax.zero_(), sharded.up.bias.data.zero_()
    parallelize_module(sharded, mesh, plan)
    for layer in (sharded.gate, sharded.up, sharded.down):
        assert layer.weight.nbytes == 256 * 512 // 4, layer.weight.nbytes  # half of it, two a byte
    assert sharded.gate.weight.quant_state.nested == nested  # 1024 blocks: whole groups of 256
    x = torch.randn(2, 6, 256, requires_grad=True)
    mine = given(x.detach()).clone().requires_grad_()
    expected, found = whole(x), sharded(mine)
    close(shown(found), expected)
    expected.square().sum().backward()
    shown(found).square().sum().backward()
    close(mine.grad, given(x.grad), "x")
    for (name, here), theirs in zip(sharded.named_parameters(), whole.parameters()):
        if theirs.requires_grad:
            grad = here.grad.full_tensor() if isinstance(here.grad, DTensor) else here.grad
            close(grad, theirs.grad, name)
    again = parallelize_module(Layer(nested, storage).to("cpu"), mesh, plan)
    again.load_state_dict(sharded.state_dict())  # each process's own
    with torch.no_grad():
        close(shown(sharded(mine)), expected)
        assert torch.equal(shown(again(mine)), shown(sharded(mine)))

plain = {"gate": ColwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()}
for nested in (False, True):
    compared(nested, torch.uint8, plain, lambda x: x)
sequence = {
    "norm": SequenceParallel(),
    "gate": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
    "up": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
    "down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
}
compared(True, torch.bfloat16, sequence, lambda x: x[:, 3 * rank : 3 * rank + 3], lambda y: y.full_tensor())

# Compiled, and results that are put together.
whole = nn.LinearNF4(128, 64, compress_statistics=False).to("cpu")
part = parallelize_module(copy.deepcopy(whole), mesh, ColwiseParallel(output_layouts=Replicate()))
x = torch.randn(3, 128)
close(part(x), whole(x))
close(torch.compile(part, backend="aot_eager")(x), whole(x))

# A torch.nn.Linear is torch's; what cannot be shared is named, and stays as it was.
linear = torch.nn.Linear(8, 4)
assert isinstance(parallelize_module(linear, mesh, ColwiseParallel()).weight, DTensor)
refused("no whole blocks of 64", RowwiseParallel(), nn.LinearNF4(96, 8).to("cpu"))
refused("no whole blocks of 64", ColwiseParallel(), nn.LinearNF4(32, 6).to("cpu"))
refused("cannot be shared equally by 2", ColwiseParallel(), nn.LinearNF4(64, 5).to("cpu"))
refused("Linear8bitLt", ColwiseParallel(), nn.Linear8bitLt(64, 64), Unsupported)
try:
    parallelize_module(nn.LinearNF4(64, 64), mesh, ColwiseParallel())
except InvalidArgument as error:
    assert "not quantized yet" in str(error)
else:
    raise AssertionError("a weight in floats was taken for codes")
"""


def _both(program, tmp_path, seed):
    processes = [start(HEAD + program + TAIL, str(rank), str(tmp_path / "meeting"), str(seed)) for rank in range(2)]
    for done in [process.wait_text(300) for process in processes]:
        assert done.stdout == "done\n", f"exit code {done.returncode}\n{done.stdout}{done.stderr}"


def test_four_bit_layers_of_two_processes_are_as_one(tmp_path, seed):
    _both(FOUR_BIT, tmp_path, seed)


TERNARY = """
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.BitLinear(64, 96, bias=True), nn.BitLinear(96, 64)
        torch.nn.init.normal_(self.up.bias)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))

whole = Layer()
refused("pack it first", ColwiseParallel(), copy.deepcopy(whole.up))
whole.up.pack_(), whole.down.pack_()
sharded = copy.deepcopy(whole)
if rank:
    sharded.up.packed.zero_(), sharded.up.bias.data.zero_()
plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
parallelize_module(sharded, mesh, plan)
assert sharded.up.packed.numel() * 2 == whole.up.packed.numel()
x = torch.randn(2, 6, 64)
with torch.no_grad():
    assert torch.equal(sharded(x), whole(x))  # codes and sums of integers are exact
last = nn.BitLinear(96, 64, bias=True).pack_()
y = torch.randn(3, 96)
with torch.no_grad():
    torch.nn.init.normal_(last.bias)
    expected = last(y)
    close(parallelize_module(last, mesh, RowwiseParallel(input_layouts=Replicate()))(y), expected)
first = parallelize_module(copy.deepcopy(whole.up), mesh, ColwiseParallel(output_layouts=Replicate()))
mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
first(mine).square().sum().backward()
whole.up(theirs).square().sum().backward()
close(mine.grad, theirs.grad)
try:
    sharded(mine)
except Unsupported as error:
    assert "no gradient" in str(error)
else:
    raise AssertionError("a gradient was promised")
refused("a norm of its own", RowwiseParallel(), nn.BitLinear(64, 8, rms_norm_eps=1e-6).pack_())
refused("cannot be shared equally", ColwiseParallel(), nn.BitLinear(64, 7).pack_())
"""


def test_ternary_layers_of_two_processes_are_as_one(tmp_path, seed):
    _both(TERNARY, tmp_path, seed)
