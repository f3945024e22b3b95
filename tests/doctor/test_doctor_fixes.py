# SPDX-License-Identifier: MIT
"""What the doctor says ends a cause is one command: of a record, and of a finding with the machine's own values in it."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest

from kernelwright.doctor._told import as_data
from kernelwright.doctor.causes import all_causes
from kernelwright.doctor.checks import examine
from kernelwright.doctor.remedies import shell
from tests.doctor.test_doctor_checks import SICK

# Programs that change something. One that only looks is none of them, and a sentence begins with none.
PROGRAMS = frozenset(
    [
        "sudo",
        "kwt",
        "sed",
        "apt-get",
        "dnf",
        "zypper",
        "pacman",
        "apk",
        "ubuntu-drivers",
        "nano",
        "modprobe",
        "nvidia-modprobe",
        "nvidia-ctk",
        "reboot",
        "usermod",
        "mokutil",
        "nvpmodel",
        "ldconfig",
        "systemctl",
        "docker",
        "podman",
        "nerdctl",
        "apptainer",
        "singularity",
        "kubectl",
        "lxc",
        "wget",
        "python",
        "python3",
        "conda",
        "uv",
        "./kw",
        "export",
        "unset",
        "mkdir",
        "printf",
        "rm",
        "cd",
        "git",
        "cmake",
        "trtexec",
        "nix",
        "nixos-rebuild",
        "winget",
        "explorer.exe",
    ]
)
SHARED = re.compile(r"/tmp/\w")  # noqa: S108 - it is looked for
SETS = re.compile(r"[A-Z_]+=")


def first_program(command):
    words = (
        shlex.split(command.replace("$(", "").replace(")", ""), posix=True) if "'" not in command else command.split()
    )
    while words and (words[0] == "sudo" or SETS.match(words[0])):
        words.pop(0)
    return words[0] if words else ""


def is_a_command(text):
    """What a shell reads, beginning with a program that does something."""
    if SETS.match(text) or text.startswith(("sudo nvidia-smi -c ", "sudo nvidia-smi -r")):
        known = True
    else:
        known = first_program(text) in PROGRAMS or first_program(text).startswith("/")
    said = re.sub(r"<([^<>]*)>", "X", text)
    read = subprocess.run(["bash", "-n", "-c", said], capture_output=True, text=True, check=False)
    return known and read.returncode == 0 and read.stderr == "" and "\n" not in text and "…" not in text


@pytest.mark.parametrize("code", all_causes())
def test_a_record_has_one_command(code):
    cause = all_causes()[code]
    assert is_a_command(cause.fix), cause.fix
    assert not cause.then or (cause.then.endswith((".", ")")) and len(cause.then) < 330), cause.then


def test_nothing_goes_to_a_place_that_others_can_take_first():
    """A fixed name under /tmp may be somebody else's directory by the time it is used."""
    for cause in all_causes().values():
        assert not SHARED.search(cause.fix + cause.then), cause.code
    assert "mktemp -d" in all_causes()["KW-108"].fix
    assert all_causes()["KW-108"].fix == shell.OWN_CACHES


@pytest.mark.parametrize(
    "text",
    [
        "nvidia-smi shows it: update the driver.",
        "ls /dev/nvidia*",
        "cat /etc/os-release",
        "Reboot.",
        "Look above for the first error",
        "sudo dmesg",
        "docker run --gpus all …",
        "export A='b",
    ],
)
def test_what_is_no_command(text):
    assert not is_a_command(text)


@pytest.mark.parametrize(("code", "evidence", "machine"), SICK, ids=[f"{code}-{word}" for code, word, _ in SICK])
def test_a_finding_has_one_command(tmp_path, code, evidence, machine):
    found = [
        finding for finding in examine(machine.at(tmp_path)) if finding.code == code and evidence in finding.evidence
    ]
    for one in found:
        fix = as_data(one)["fix"]
        assert is_a_command(fix), fix
        assert not re.search(r"<[a-z]", fix), fix
        assert str(tmp_path) not in fix
        assert not SHARED.search(fix)
    assert found
