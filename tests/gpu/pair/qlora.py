# SPDX-License-Identifier: MIT
"""QLoRA steps of two processes beside one: DistributedDataParallel, FSDP2, and checkpoints that two, one and two
processes take turns with.

    python -m tests.gpu.pair.qlora FILE [--device cpu --quick] [--processes N]

Layers of 4-bit codes with adapters, all in bfloat16, and AdamW8bit. The one process computes each process's part of a
batch by itself and halves the sum of gradients, which is exact: with two processes, parameters, 8-bit states and scales
should have its bits. Where they have not (more than two add up in an order of their own; cuBLAS may choose another kernel
for a weight that lies elsewhere), they take the one process's gradients, after these were compared.
"""

from __future__ import annotations

import copy
import tempfile
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh

import kernelwright
from kernelwright import nn, optim
from tests.gpu.pair import ranks

if TYPE_CHECKING:
    from torch import Tensor

STEPS, MORE = 20, 5
SIZES = {False: (2048, 5632, 4, 256), True: (256, 512, 2, 8)}  # hidden, inner, blocks, rows a process


class Adapted(torch.nn.Module):
    """A frozen layer of codes and what is trained beside it."""

    def __init__(self, k: int, n: int) -> None:
        super().__init__()
        more: Any = {"compute_dtype": torch.bfloat16, "quant_storage": torch.bfloat16}
        self.base = nn.LinearNF4(k, n, bias=False, **more)
        self.down, self.up = torch.nn.Linear(k, 16, bias=False), torch.nn.Linear(16, n, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.base(x) + self.up(self.down(x))
        return found


class Block(torch.nn.Module):
    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(hidden)
        self.gate, self.up, self.down = Adapted(hidden, inner), Adapted(hidden, inner), Adapted(inner, hidden)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        found: Tensor = x + self.down(kernelwright.swiglu(self.gate(y), self.up(y)))
        return found


class Training:
    """A model, its optimizer, and the steps that it has taken."""

    def __init__(self, sizes: tuple[int, ...], parts: int, device: str) -> None:
        torch.manual_seed(11)
        self.sizes, self.parts, self.device, self.taken = sizes, parts, device, 0
        hidden, inner, blocks, _ = sizes
        self.model: Any = torch.nn.Sequential(*(Block(hidden, inner) for _ in range(blocks))).bfloat16().to(device)
        self.optimize(self.model)

    def optimize(self, model: Any) -> None:
        self.model = model
        self.optimizer = optim.AdamW8bit([p for p in model.parameters() if p.requires_grad], lr=1e-3)

    def batch(self) -> list[Tensor]:
        """The next one, a part for each process; drawn on the CPU, so that every device has the same."""
        generator = torch.Generator().manual_seed(100 + self.taken)
        shape = (self.parts, self.sizes[3], self.sizes[0])
        return list(torch.randn(shape, generator=generator).bfloat16().to(self.device))

    def gradients(self, part: Tensor) -> dict[str, Tensor]:
        self.optimizer.zero_grad()
        (self.model(part) - part.roll(1, -1)).float().square().mean().backward()
        return {name: p.grad for name, p in self.model.named_parameters() if p.requires_grad}

    def step_whole(self) -> None:
        """As one process takes it."""
        parts = [self.gradients(part) for part in self.batch()]
        mean = {name: sum(each[name] / self.parts for each in parts) for name in parts[0]}
        for name, p in self.model.named_parameters():
            p.grad = mean.get(name)
        self.optimizer.step()
        self.taken += 1

    def step_of(self, rank: int, whole: Training | None = None) -> float:
        """As one of several takes it. With `whole`, which has taken the step, its gradients are taken instead, and how
        far these were off is returned."""
        found, worst = self.gradients(self.batch()[rank]), 0.0
        expected = {} if whole is None else dict(whole.model.named_parameters())
        for name, grad in found.items():
            theirs = expected.get(name.removeprefix("module."))
            if theirs is not None:
                worst = max(worst, ranks.apart(_whole(grad), theirs.grad))
                _fill(grad, theirs.grad)
        self.optimizer.step()
        self.taken += 1
        return worst


def _whole(value: Any) -> Any:
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def _fill(grad: Any, value: Tensor) -> None:
    if hasattr(grad, "to_local"):
        from torch.distributed.tensor import distribute_tensor

        value = distribute_tensor(value.clone(), grad.device_mesh, grad.placements).to_local()
        grad = grad.to_local()
    grad.copy_(value)


def compared(found: Training, whole: Training) -> dict[str, Any]:
    """Parameters and states, tensor by tensor; `differ` names those with other bits."""
    count, differ, narrow, worst = 0, [], 0, 0.0
    theirs = dict(whole.model.named_parameters())
    for name, p in found.model.named_parameters():
        if not p.requires_grad:
            continue
        expected = theirs[name.removeprefix("module.")]
        pairs = {"": (p, expected)}
        own, other = found.optimizer.state[p], whole.optimizer.state[expected]
        pairs |= {key: (own[key], value) for key, value in other.items() if isinstance(value, torch.Tensor)}
        narrow += own["state1"].dtype is torch.uint8
        for key, (mine, value) in pairs.items():
            count += 1
            if not ranks.same_bits(_whole(mine), value):
                far = ranks.apart(_whole(mine).float(), value.float())
                differ.append(f"{name} {key}: {far:.2g} apart")
                worst = max(worst, far)
        if int(own["step"]) != int(other["step"]):
            differ.append(f"{name}: step {own['step']}, not {other['step']}")
    return {
        "tensors": count, "parameters with 8-bit states": narrow, "other bits": len(differ), "worst apart": worst,
        "differ": differ[:8], "same bits": not differ,
    }  # fmt: skip


# --- what processes do ---------------------------------------------------------------------------------------------


def _sharded(training: Training, world: int, device: str) -> None:
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device, (world,))
    model = training.model
    for block in model:
        fully_shard(block, mesh=mesh)
    training.optimize(fully_shard(model, mesh=mesh))


def trained(
    rank: int, world: int, device: str, way: str, sizes: tuple[int, ...], take: bool, folder: str
) -> dict[str, Any]:
    """20 steps as `way` takes them and as one process does; FSDP's are saved to the folder."""
    whole = Training(sizes, world, device)
    several = copy.deepcopy(whole)
    if way == "ddp":
        several.optimize(torch.nn.parallel.DistributedDataParallel(several.model))
    else:
        several.optimize(several.model)
        _sharded(several, world, device)
    worst = 0.0
    for _ in range(STEPS):
        whole.step_whole()
        worst = max(worst, several.step_of(rank, whole if take else None))
    found = compared(several, whole) | {"steps": STEPS}
    if take:
        found["gradients apart"] = worst
    if way == "fsdp":
        saved(several, folder)
    return found


def _state(training: Training) -> dict[str, Any]:
    """Made to be loaded into, too: torch makes an optimizer's states only where there are no gradients."""
    training.optimizer.zero_grad()
    return {
        "model": get_model_state_dict(training.model),
        "optimizer": get_optimizer_state_dict(training.model, training.optimizer),
    }


def saved(training: Training, folder: str) -> None:
    dcp.save(_state(training), checkpoint_id=folder, no_dist=not dist.is_initialized())


def loaded(training: Training, folder: str, steps: int) -> None:
    state = _state(training)
    dcp.load(state, checkpoint_id=folder, no_dist=not dist.is_initialized())
    set_model_state_dict(training.model, state["model"])
    set_optimizer_state_dict(training.model, training.optimizer, state["optimizer"])
    training.taken = steps


def alone(sizes: tuple[int, ...], parts: int, device: str, folders: list[str]) -> dict[str, Any]:
    """One process goes on with what several have saved, beside one that was never interrupted."""
    whole, resumed = (Training(sizes, parts, device) for _ in range(2))
    for p in resumed.model.parameters():
        p.data.zero_()  # what is not in the checkpoint will be missed
    loaded(resumed, folders[0], STEPS)
    for _ in range(STEPS):
        whole.step_whole()
    found = {"loaded": compared(resumed, whole)}
    for _ in range(MORE):
        whole.step_whole()
        resumed.step_whole()
    saved(resumed, folders[1])
    return found | {"after 5 steps": compared(resumed, whole)}


def resumed(rank: int, world: int, device: str, sizes: tuple[int, ...], take: bool, folder: str) -> dict[str, Any]:
    """Several go on with what one has saved."""
    whole, several = (Training(sizes, world, device) for _ in range(2))
    _sharded(several, world, device)
    for p in several.model.parameters():
        p.to_local().data.zero_()
    loaded(several, folder, STEPS + MORE)
    for _ in range(STEPS + MORE):
        whole.step_whole()
    found = {"loaded": compared(several, whole)}
    for _ in range(MORE):
        whole.step_whole()
        several.step_of(rank, whole if take else None)
    return found | {"after 5 steps": compared(several, whole)}


def main() -> None:
    asked = ranks.options(__doc__)
    sizes, world, found = SIZES[asked.quick], asked.processes, {}
    good, take = True, world > 2
    with tempfile.TemporaryDirectory() as folder:
        for way, name in (("ddp", "ddp"), ("fsdp", "fsdp2")):
            for takes in dict.fromkeys((take, True)):
                to = f"{folder}/{name}-{takes}"
                shown = ranks.together(trained, world, asked.device, way, sizes, takes, to)
                found[f"{name}, gradients of one process" if takes else name] = shown
                ranks.write(asked.out, found)
                if well := all(each["same bits"] for each in shown):
                    break
            good &= well
        folders = [to, f"{folder}/one"]  # FSDP2's last
        found["one"] = [alone(sizes, world, asked.device, folders)]
        ranks.write(asked.out, found)
        found["several again"] = ranks.together(resumed, world, asked.device, sizes, takes, folders[1])
    parts = [each for part in ("one", "several again") for shown in found[part] for each in shown.values()]
    ranks.write(asked.out, found | {"ok": good and all(each["same bits"] for each in parts)})


if __name__ == "__main__":
    main()
