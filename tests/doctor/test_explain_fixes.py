# SPDX-License-Identifier: MIT
"""The command of an answer has in it what the log names, and nothing that a log could smuggle into a shell."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kernelwright.doctor._check import Finding, Grade
from kernelwright.doctor._told import as_data
from kernelwright.doctor.explain._fill import filled

COMMANDS = [
    ("pip install <package>", "ERROR: Failed building wheel for flash-attn\n", "pip install flash-attn"),
    ("pip install <package>", "  Building wheel for apex (setup.py) ... error\nFailed to build apex\n", "pip install apex"),
    ("pip install <package>", "ERROR: Could not build wheels for detectron2, which is required\n", "pip install detectron2"),
    ("pip install <package>", "ERROR: No matching distribution found for xformers==0.0.20\n", "pip install xformers"),
    ("pip install <package>", "ERROR: Failed to build installable wheels for some pyproject.toml based projects (causal-conv1d)\n",
     "pip install causal-conv1d"),
    ("pip install <package>", "ERROR: Could not build wheels for apex, cupy, which are required\n", "pip install <package>"),
    ("pip install <package>", "Failed building wheel for apex\nFailed building wheel for cupy\n", "pip install <package>"),
    ("pip install <package>", "Failed building wheel for x;reboot\n", "pip install <package>"),
    ("pip install <package>", "Failed building wheel for $(reboot)\n", "pip install <package>"),
    ("pip install <package>", "Failed building wheel for -e\n", "pip install <package>"),
    ("g++-<version> g++-<version>", "#error -- unsupported GNU version! gcc versions later than 12 are not supported!", "g++-12 g++-12"),
    ("g++-<version>", "make sure to use an adequate version of g++ (>=6.0.0, <12.0).", "g++-11"),
    ("g++-<version>", "make sure to use an adequate version of g++ (>=6.0.0, <=11.5.0).", "g++-11"),
    ("search <library>", "libGL.so.1: cannot open shared object file: No such file or directory", "search libGL.so.1"),
    ("unset A", "Failed building wheel for a", "unset A"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "log", "expected"), COMMANDS, ids=[str(number) for number in range(len(COMMANDS))])
def test_a_command_has_what_the_log_names(command, log, expected):
    assert filled(command, log) == expected


def test_the_whole_way():
    log = (
        "  ModuleNotFoundError: No module named 'torch'\n  ERROR: Failed building wheel for flash-attn\n"
        "  Getting requirements to build wheel did not run successfully.\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "kernelwright", "explain"], input=log, capture_output=True, text=True, check=False
    )
    assert "KW-022" in done.stdout
    assert "pip install --no-build-isolation flash-attn\n" in done.stdout


def test_what_xray_says_names_the_wheel():
    found = Finding("KW-036", Grade.FAILS, "for another processor")
    assert as_data(found, "fused")["fix"].endswith(" fused")
    assert as_data(found, "a;b")["fix"].endswith(" <package>")
    assert as_data(found)["fix"].endswith(" <package>")
