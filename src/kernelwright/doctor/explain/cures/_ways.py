# SPDX-License-Identifier: MIT
"""How this log's system installs things: its Python packages, a CUDA toolkit, a driver, a GCC."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kernelwright import _files
from kernelwright.doctor.explain.cures._cure import Cure
from kernelwright.doctor.remedies import containers, packages, systems, toolkits

if TYPE_CHECKING:
    from kernelwright.doctor.explain.said import Said

OF_TORCH = packages.OF_TORCH
_BESIDE = "torch torchvision torchaudio"
# The first and last CUDA release of GPUs that are older than the table of this package, by capability.
_BEFORE = {
    20: ("3.0", "8.0"),
    21: ("3.0", "8.0"),
    30: ("4.2", "10.2"),
    32: ("6.0", "10.2"),
    35: ("5.0", "11.8"),
    37: ("6.5", "11.8"),
    50: ("6.0", "12.9"),
    52: ("6.5", "12.9"),
    53: ("7.0", "12.9"),
    60: ("8.0", "12.9"),
    61: ("8.0", "12.9"),
    62: ("8.0", "12.9"),
    121: ("12.9", ""),
}
_RENAMED = {101: 110}  # Thor's number before and after CUDA 13


def number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", release))


def releases_of(capability: int) -> tuple[str, str]:
    """The first and last CUDA release that compile for a GPU; "" where there is no last, or none is known."""
    if capability in _BEFORE:
        return _BEFORE[capability]
    found = _files.read(_files.TARGETS)["codes"].get(f"sm_{_RENAMED.get(capability, capability)}")
    kits = found["toolkits"] if found else {}
    return kits.get("first") or "", kits.get("last") or ""


def newest() -> str:
    """The newest release of the table's CUDA before the last major one: torch's and most packages' own."""
    rows = sorted((row["release"] for row in _files.read(_files.TARGETS)["toolkits"].values()), key=number)
    return str([release for release in rows if number(release)[0] < number(rows[-1])[0]][-1])


def at_least(release: str) -> str:
    """The first release of the table that is not older; the release itself where the table ends before."""
    rows = sorted((row["release"] for row in _files.read(_files.TARGETS)["toolkits"].values()), key=number)
    return next((row for row in rows if number(row) >= number(release)), release)


def label(release: str) -> str:
    """As torch's index writes a release."""
    return f"cu{release.replace('.', '')}"


def pip(said: Said, words: str) -> str:
    """pip of the Python that ran, or what stands in for it."""
    if said.machine is None and said.uv:
        return f"uv pip {words}".replace("uninstall -y", "uninstall")
    return f"python{'3' if said.jetson else ''} -m pip {words}"


def built(package: str) -> str:
    """What pip is told to compile a package here, for the torch that is here."""
    return f"install --force-reinstall --no-deps --no-build-isolation --no-cache-dir --no-binary {package} {package}"


def torch(said: Said, release: str, *, alone: bool = False) -> str:
    """torch and what is made for the same release of it, for a CUDA release."""
    names = "torch" if alone else _BESIDE
    return pip(said, f"install --force-reinstall {names} --index-url {OF_TORCH}/{label(release)}")


def _apart(said: Said) -> str:
    """The manager of the log's system, where it shows."""
    ways = (
        ("pacman", r"\bpacman\b|arch ?linux|\.arch\d|manjaro"),
        ("dnf", r"\bdnf\b|\byum\b|\.fc\d\d|\.el\d|fedora|rocky|red ?hat|centos"),
        ("zypper", r"zypper|opensuse"),
        ("apt", r"\bapt(-get)?\b|ubuntu|debian"),
        ("pacman", r"/opt/cuda/"),  # where no other distribution has it
    )
    return next((name for name, pattern in ways if said.has(pattern)), "apt")


def root_install(said: Said) -> str:
    """How the log's system installs a package that all of them call alike."""
    ways = {"pacman": "sudo pacman -S --needed", "dnf": "sudo dnf install -y", "zypper": "sudo zypper install -y"}
    return ways.get(_apart(said), "sudo apt-get install -y")


def use(home: str) -> str:
    return f"export CUDA_HOME={home} PATH={home}/bin:$PATH"


def toolkit(said: Said, release: str = "", *, newer: bool = False) -> Cure:
    """A CUDA toolkit with its compiler: of one release (`newer`: or one after it), or whatever the repository has."""
    if said.machine is not None and release and newer:
        return Cure(*toolkits.from_release(said.machine, release))
    if said.machine is not None:
        return Cure(*(toolkits.of_release(said.machine, release) if release else toolkits.install(said.machine, None)))
    if said.windows:
        version = f" --version {release}" if release else ""
        return Cure(f"winget install --id Nvidia.CUDA{version}", "Then a new prompt, which has its PATH.")
    if said.conda and not said.has(r"\bsudo\b|\bapt(-get)?\b"):
        version = f"={release}" if release else ""
        return Cure(
            f"conda install -y -c conda-forge cuda-toolkit{version} && export CUDA_HOME=$CONDA_PREFIX",
            "Without conda: cuda-toolkit of NVIDIA's repository. Then delete the build directory.",
        )
    dashed, home = f"-{release.replace('.', '-')}" if release else "", f"/usr/local/cuda{'-' * bool(release)}{release}"
    way = _apart(said)
    if way == "pacman":
        return Cure(f"sudo pacman -S --needed cuda && {use('/opt/cuda')}", "It is the newest release alone.")
    then = "The package is in NVIDIA's repository (KW-105); conda install -c conda-forge cuda-toolkit needs no root."
    return Cure(f"{root_install(said)} cuda-toolkit{dashed} && {use(home)}", then)


def driver(said: Said, needed: str = "") -> Cure:
    """NVIDIA's driver, as the log's system installs it."""
    if said.machine is not None:
        return Cure(*systems.driver(said.machine, needed))
    wanted = f" It has to be {needed}." if needed else ""
    if said.windows or said.wsl:
        then = (
            "That is NVIDIA's page: install the driver in "
            f"Windows{', then wsl.exe --shutdown' if said.wsl else ''}.{wanted}"
        )
        return Cure("explorer.exe https://www.nvidia.com/drivers", then)
    if said.jetson:
        return Cure("sudo apt-get update && sudo apt-get dist-upgrade", f"A Jetson's driver is its JetPack's.{wanted}")
    ways = {
        "pacman": "sudo pacman -Syu --needed nvidia-open nvidia-utils",
        "dnf": "sudo dnf install -y akmod-nvidia xorg-x11-drv-nvidia-cuda",
        "zypper": "sudo zypper install -y nvidia-open",
    }
    of_ubuntu = "sudo apt-get update && sudo apt-get install -y ubuntu-drivers-common && sudo ubuntu-drivers install"
    where = "On the host, whose driver the container uses; then reboot it." if said.container else "Then reboot."
    return Cure(ways.get(_apart(said), of_ubuntu), f"{where}{wanted}")


def restart_with_gpu(said: Said) -> Cure:
    """The container again, with the GPU."""
    if said.machine is not None:
        return Cure(*containers.with_gpu(said.machine))
    if said.has(r"compose"):
        given = "docker compose run --rm --gpus all"
        return Cure(
            f"{given} <service>", "In compose.yaml: deploy.resources.reservations.devices with capabilities: [gpu]."
        )
    options = "--runtime nvidia" if said.jetson else "--gpus all"
    return Cure(
        f"docker run {options} -it \"$(docker ps --latest --format '{{{{.Image}}}}')\"",
        "On the host, with its other options.",
    )


def gcc(said: Said, newest_gcc: str) -> Cure:
    """A GCC that nvcc takes, and the variables that name it."""
    if said.machine is not None:
        return Cure(*toolkits.older_gcc(said.machine, number(newest_gcc)[0]))
    name = f"g++-{newest_gcc}"
    say = f"export CUDAHOSTCXX={name} NVCC_CCBIN={name}"
    ways = {
        "pacman": f"sudo pacman -S --needed gcc{newest_gcc} && {say}",
        "dnf": f"sudo dnf install -y gcc{newest_gcc}-c++ && {say}",
    }
    if said.conda and _apart(said) == "apt":
        return Cure(
            f"conda install -y -c conda-forge gxx={newest_gcc}",
            f"It sets CXX. Without conda: apt-get install {name}, and {say}.",
        )
    fix = ways.get(_apart(said), f"sudo apt-get update && sudo apt-get install -y {name} && {say}")
    return Cure(
        fix, "Or a CUDA release that takes the GCC that is here. Delete the build directory, which knows the other."
    )


def beside_sources(place: str, then: str) -> Cure:
    """Builds again what lies in somebody's own directory, by what its project has for that."""
    up = f'cd {place} && until ls setup.py make.sh Makefile 2> /dev/null | grep -q . || [ "$PWD" = / ]; do cd ..; done'
    built = "if [ -e setup.py ]; then python setup.py clean --all build_ext --inplace"
    return Cure(f"{up}; {built}; elif [ -e make.sh ]; then sh make.sh; else make clean all; fi", then)


def newest_gcc_of(release: str) -> str:
    """The newest GCC that the nvcc of a release takes, of those in the table."""
    rows = _files.read(_files.TARGETS)["toolkits"].values()
    own = [row for row in rows if row["release"] == release] or [
        row for row in rows if number(row["release"]) <= number(release or "0")
    ]
    return str(max(own, key=lambda row: number(row["release"]))["gcc"]["max"]) if own else ""
