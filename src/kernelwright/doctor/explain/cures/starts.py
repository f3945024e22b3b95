# SPDX-License-Identifier: MIT
"""The driver is there, and CUDA does not start: hidden by Nix, not loaded, of another release than its module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelwright.doctor.explain.cures._cure import Cure, of

if TYPE_CHECKING:
    from kernelwright.doctor.explain.said import Said

_AGAIN = "sudo modprobe -r nvidia_uvm && sudo modprobe nvidia_uvm"
_SHARES = r"blackwell|rtx (pro|50\d0)|open kernel|\b5[5-9]\d\.\d\d|nvdec"


def _of_nix(said: Said) -> Cure | None:
    """NixOS has the driver in one place, and nothing has to be made for it."""
    if not said.has(r"\bnixos\b|/run/current-system") or said.has(r"ubuntu|debian|fedora|not nixos"):
        return None
    then = "The driver that runs is there; a nvidia_x11 of a shell's own nixpkgs is of another release."
    return Cure("export LD_LIBRARY_PATH=/run/opengl-driver/lib:$LD_LIBRARY_PATH", then)


@of("KW-007")
def hidden_by_nix(said: Said) -> Cure | None:
    return _of_nix(said)


@of("KW-009")
def does_not_start(said: Said) -> Cure | None:
    if said.shows(r"not_initialized|init failure: 3") and said.has(_SHARES):
        line = "options nvidia_uvm uvm_disable_hmm=1"
        then = "It takes away a way to share memory that newer kernels break; a newer driver does without that line."
        return Cure(f"echo '{line}' | sudo tee /etc/modprobe.d/nvidia-uvm.conf && {_AGAIN}", then)
    return _of_nix(said) or _of_windows(said) or _of_module(said)


def _of_windows(said: Said) -> Cure | None:
    if said.machine is None and said.wsl:
        then = "In Windows; it ends this session. If it stays: a newer or older driver in Windows itself."
        return Cure("wsl.exe --shutdown", then)
    if said.windows:
        then = (
            "It restarts Windows in a minute; `shutdown /a` calls that off. If it stays: NVIDIA's driver again, with a "
            "clean installation, and no second one beside it."
        )
        return Cure("shutdown /r /t 60", then)
    return None


def _of_module(said: Said) -> Cure | None:
    if said.has(r"modprobe|not loaded|lsmod"):
        then = "If it stays, reboot; dmesg, lines of NVRM, has the reason."
        return Cure("sudo modprobe nvidia && sudo modprobe nvidia_uvm", then)
    if said.shows(r"nvidia-container-cli.*cuda error|\bnccl\b"):
        return Cure("sudo reboot", "Driver and module are of one release then, and are loaded whole.")
    return None
