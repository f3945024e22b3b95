# SPDX-License-Identifier: MIT
"""How a container is started anew with the GPU: a command for the host, with the name that this one has there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kernelwright.doctor.machine import jetson, system
from kernelwright.doctor.remedies.shell import quote

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine

_TOOLKIT = "needs the nvidia-container-toolkit there"


def _of_docker(machine: Machine, program: str) -> str:
    name, options = system.hostname(machine), "--runtime nvidia" if jetson.model(machine) else "--gpus all"
    if program == "podman":
        options = "--device nvidia.com/gpu=all"
    if re.fullmatch(r"[0-9a-f]{12}", name):
        image = f"\"$({program} inspect --format '{{{{.Config.Image}}}}' {name})\""
    else:
        image = f"\"$({program} ps --latest --format '{{{{.Image}}}}')\""
    return f"{program} run {options} -it {image}"


def _of_kubernetes(name: str) -> tuple[str, str]:
    owner = re.fullmatch(r"(.+)-[a-z0-9]{6,10}-[a-z0-9]{5}", name)
    if owner:
        return (
            f"kubectl set resources deployment {quote(owner[1])} --limits=nvidia.com/gpu=1",
            "The nodes need NVIDIA's device plugin.",
        )
    given = "kubectl set resources --local -f - --limits=nvidia.com/gpu=1 -o yaml"
    return (
        f"kubectl get pod {quote(name or 'pod')} -o yaml | {given} > with-gpu.yaml",
        "kubectl replace --force -f with-gpu.yaml then starts the pod anew. The nodes need NVIDIA's device plugin.",
    )


def with_gpu(machine: Machine) -> tuple[str, str]:
    """The same container with the GPU."""
    kind, name = system.container(machine), system.hostname(machine)
    if kind == "apptainer":
        image = machine.variables.get("APPTAINER_CONTAINER") or machine.variables.get("SINGULARITY_CONTAINER")
        program = "apptainer" if "APPTAINER_NAME" in machine.variables else "singularity"
        return f"{program} shell --nv {quote(image or '*.sif')}", "On the host; exec and run take --nv too."
    if kind == "kubepods":
        return _of_kubernetes(name)
    if kind == "lxc":
        own = quote(name or "container")
        return (
            f"lxc config set {own} nvidia.runtime true && lxc config device add {own} gpu gpu && lxc restart {own}",
            f"On the host; it {_TOOLKIT}.",
        )
    program = {"podman": "podman", "containerd": "nerdctl"}.get(kind or "", "docker")
    return _of_docker(machine, program), f"On the host, with the options it was started with; it {_TOOLKIT}."
