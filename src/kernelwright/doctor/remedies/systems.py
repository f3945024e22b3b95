# SPDX-License-Identifier: MIT
"""What installs packages of the system here, and how each distribution installs NVIDIA's driver."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kernelwright.doctor.machine import jetson, system
from kernelwright.doctor.remedies.shell import sudo

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine

_REPOSITORIES = "https://developer.download.nvidia.com/compute/cuda/repos"
_FUSION = "https://mirrors.rpmfusion.org/{kind}/fedora/rpmfusion-{kind}-release-$(rpm -E %fedora).noarch.rpm"
_EPEL = "https://dl.fedoraproject.org/pub/epel/epel-release-latest-$(rpm -E %rhel).noarch.rpm"

# What a host's kernel is called tells whose it is, where a container's own files are another distribution's.
_KERNELS = ((r"-generic|-aws|-azure|-gcp|-oracle", "ubuntu"), (r"-amd64|-cloud-amd64", "debian"), (r"\.fc\d", "fedora"),
            (r"\.el\d", "rhel"), (r"\.amzn\d", "amzn"), (r"-arch|-zen", "arch"), (r"-default$", "suse"))  # fmt: skip
_FAMILIES = ("ubuntu", "debian", "fedora", "rhel", "amzn", "arch", "suse", "alpine", "nixos")


def family(machine: Machine) -> str:
    """One of those names; "" of a distribution that is like none of them."""
    words = " ".join(re.findall(r"^(?:ID|ID_LIKE)=(.*)", machine.text("/etc/os-release") or "", re.MULTILINE)).lower()
    said = [one for one in re.findall(r"[a-z]+", words) if one in _FAMILIES]
    # Oracle's calls itself like Fedora and is like RHEL.
    if "fedora" in said and re.search(r"\b(rhel|centos|ol)\b", words):
        return "rhel"
    return said[0] if said else ""


def _of_the_host(machine: Machine) -> str:
    if not system.container(machine):
        return family(machine) or "ubuntu"
    return next((name for pattern, name in _KERNELS if re.search(pattern, machine.kernel)), "ubuntu")


def install(machine: Machine, *, apt: str, dnf: str = "", pacman: str = "", zypper: str = "", apk: str = "") -> str:
    """The command for packages by each manager's own names; where one has none, by apt's."""
    root = sudo(machine)
    ways = {
        "fedora": dnf and f"{root}dnf install -y {dnf}",
        "rhel": dnf and f"{root}dnf install -y {dnf}",
        "amzn": dnf and f"{root}dnf install -y {dnf}",
        "arch": pacman and f"{root}pacman -S --needed {pacman}",
        "suse": zypper and f"{root}zypper install -y {zypper}",
        "alpine": apk and f"{root}apk add {apk}",
    }
    return ways.get(family(machine)) or f"{root}apt-get update && {root}apt-get install -y {apt}"


def _machine_type(machine: Machine) -> str:
    return "sbsa" if machine.processor == "aarch64" else machine.processor


def _installs_driver(machine: Machine, name: str) -> str:
    root, kind = "sudo " if system.container(machine) else sudo(machine), _machine_type(machine)
    el = "$(rpm -E %rhel)"
    ways = {
        "debian": f"{root}apt-get update && {root}apt-get install -y linux-headers-$(uname -r) nvidia-driver",
        "fedora": f"{root}dnf install -y {_FUSION.format(kind='free')} {_FUSION.format(kind='nonfree')} && "
        f"{root}dnf install -y akmod-nvidia xorg-x11-drv-nvidia-cuda",
        "rhel": f"{root}dnf install -y dnf-plugins-core {_EPEL} && "
        f"{root}dnf config-manager --add-repo {_REPOSITORIES}/rhel{el}/{kind}/cuda-rhel{el}.repo && "
        f"{root}dnf install -y kernel-devel-$(uname -r) && "
        f"({root}dnf module install -y nvidia-driver:open-dkms || {root}dnf install -y nvidia-open)",
        "amzn": f"{root}dnf install -y dnf-plugins-core kernel-devel-$(uname -r) && "
        f"{root}dnf config-manager --add-repo {_REPOSITORIES}/amzn2023/{kind}/cuda-amzn2023.repo && "
        f"{root}dnf module install -y nvidia-driver:open-dkms",
        "arch": f"{root}pacman -Syu --needed nvidia-open nvidia-utils",
        "suse": f"{root}zypper addrepo {_REPOSITORIES}/opensuse15/{kind}/cuda-opensuse15.repo && "
        f"{root}zypper --gpg-auto-import-keys refresh && {root}zypper install -y nvidia-open",
        "nixos": f"{root}nano /etc/nixos/configuration.nix && {root}nixos-rebuild switch",
    }
    of_ubuntu = (
        f"{root}apt-get update && {root}apt-get install -y ubuntu-drivers-common && {root}ubuntu-drivers install"
    )
    return ways.get(name, of_ubuntu)


_MORE = {
    "debian": " The package is in non-free; contrib and non-free-firmware have to be in /etc/apt/sources.list too.",
    "nixos": ' It has to have hardware.graphics.enable = true and services.xserver.videoDrivers = [ "nvidia" ].',
    "rhel": " For GPUs older than Turing cuda-drivers in place of nvidia-open.",
    "arch": " For GPUs older than Turing the driver of their branch, from the AUR.",
}


def driver(machine: Machine, needed: str = "") -> tuple[str, str]:
    """Installs or updates NVIDIA's driver; `needed` says what it has to be, such as a release "or newer"."""
    wanted = f" It has to be {needed}." if needed else ""
    if system.is_wsl(machine):
        then = f"That is NVIDIA's page: install the driver in Windows, then wsl.exe --shutdown.{wanted}"
        return "explorer.exe https://www.nvidia.com/drivers", then
    if jetson.model(machine) is not None and jetson.userland(machine) != "sbsa":
        root = sudo(machine)
        then = f"A Jetson's driver is its L4T's: what its release does not have, a newer JetPack has.{wanted}"
        return f"{root}apt-get update && {root}apt-get dist-upgrade", then
    name = _of_the_host(machine)
    where = (
        "On the host, whose driver this container uses; then reboot it."
        if system.container(machine)
        else "Then reboot."
    )
    return _installs_driver(machine, name), f"{where}{wanted}{_MORE.get(name, '')}"
