# SPDX-License-Identifier: MIT
"""Facts of machines, as the report and the checks read them from files."""

from __future__ import annotations

import re

import pytest

from kernelwright.doctor.machine import driver, jetson, libraries, python, system
from tests.doctor import made_up
from tests.doctor.made_up import ORIN, WORKSTATION


def test_facts_of_the_orin(tmp_path):
    machine = ORIN.at(tmp_path)
    assert jetson.l4t(machine) == (36, "4.3")
    assert jetson.jetpack(machine) == "6.2"
    assert jetson.model(machine) == "NVIDIA Jetson AGX Orin Developer Kit"
    assert jetson.userland(machine) == "tegra"
    assert python.torch(machine).origin == "NVIDIA"


def test_facts_of_the_workstation(tmp_path):
    machine = WORKSTATION.at(tmp_path)
    assert jetson.model(machine) is None
    assert jetson.userland(machine) is None
    assert driver.kernel_module(machine) == "580.65.06"
    assert system.distribution(machine) == "Ubuntu 24.04 LTS"
    assert system.processors(machine) == 8
    assert system.memory(machine) == (65536000 * 1024, 60000000 * 1024)
    assert python.torch(machine).cuda == "12.8"
    assert re.fullmatch(r"\d+\.\d+\.\d+", driver.of_library(machine, driver.libraries(machine)[0]))


@pytest.mark.parametrize(
    ("text", "cpu"),
    [
        ("processor : 0\nmodel name\t: AMD EPYC 9654 96-Core Processor\n", "AMD EPYC 9654 96-Core Processor"),
        ("processor : 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd42\n", "CPU implementer 0x41 CPU part 0xd42"),
        ("", None),
    ],
)
def test_what_a_processor_is_called(tmp_path, text, cpu):
    assert system.cpu(WORKSTATION.but(files={"/proc/cpuinfo": text}).at(tmp_path)) == cpu


def test_releases_of_libraries(tmp_path):
    """A package of Python comes before the system's file."""
    made = WORKSTATION.but(
        files={"/usr/lib/x86_64-linux-gnu/libnccl.so.2.27.3": "", **made_up.package("nvidia_cudnn_cu12", "9.10.2.21")},
        links={"/usr/lib/x86_64-linux-gnu/libnccl.so.2": "libnccl.so.2.27.3"},
    )
    machine = made.at(tmp_path)
    assert libraries.release(machine, "cudnn") == "9.10.2.21 (nvidia-cudnn-cu12)"
    assert libraries.release(machine, "nccl") == "2.27.3 (/usr/lib/x86_64-linux-gnu/libnccl.so.2)"
    assert libraries.release(WORKSTATION.at(tmp_path / "other"), "nccl") is None
