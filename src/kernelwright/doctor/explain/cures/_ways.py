# SPDX-License-Identifier: MIT
"""How this log's system installs things: its Python packages, a CUDA toolkit, a driver, a GCC."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kernelwright import _files
from kernelwright.doctor.explain.cures import _families as families
from kernelwright.doctor.explain.cures._cure import Cure
from kernelwright.doctor.remedies import containers, packages, systems, toolkits

if TYPE_CHECKING:
    from kernelwright.doctor.explain.said import Said

OF_TORCH = packages.OF_TORCH
# The directories of NVIDIA's Python packages, for the loader.
FINDS = (
    "export LD_LIBRARY_PATH=\"$(python -c 'import glob, nvidia; "
    'print(":".join(sorted(glob.glob(list(nvidia.__path__)[0] + '
    '"/*/lib"))))\'):$LD_LIBRARY_PATH"'
)
# The same where each line is a shell of its own, and root's.
FINDS_OF_NOTEBOOK = (
    "python -c 'import glob, nvidia; "
    'print(*glob.glob(list(nvidia.__path__)[0] + "/*/lib"), sep="\\n")\' '
    "> /etc/ld.so.conf.d/nvidia.conf && ldconfig"
)
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
    if said.machine is None and said.embedded:
        place = f"{said.embedded}\\python.exe"
        return (f'"{place}"' if " " in place else place) + f" -m pip {words}"
    return f"python{'3' if said.jetson else ''} -m pip {words}"


def built(package: str, said: Said | None = None) -> str:
    """What pip is told to compile a package here, for the torch that is here; from where it came, if that is told."""
    place = said.source if said is not None else ""
    if place and re.sub(r"[-_.]+", "-", package).lower().split("-")[-1] in place.lower():
        return f"install --force-reinstall --no-deps --no-build-isolation --no-cache-dir {place}"
    return families.whole(package)


def torch(said: Said, release: str, *, alone: bool = False) -> str:
    """torch and what is made for the same release of it, for a CUDA release."""
    names = "torch" if alone else _BESIDE
    if said.board:
        return of_board(said).command if alone or _old_board(said) else pip(said, f"{_AGAIN} {names} {_for_boards()}")
    return pip(said, f"install --force-reinstall {names} --index-url {OF_TORCH}/{label(release)}")


_AGAIN = "install --force-reinstall"
_OF_NVIDIA = "https://developer.download.nvidia.com/compute/redist/jp"


def _old_board(said: Said) -> bool:
    return bool(said.l4t and said.l4t[0] < 36)


def _for_boards() -> str:
    """The index that has what is made for JetPack 6."""
    return f"--index-url https://pypi.jetson-ai-lab.io/jp6/{label(at_least('12.5'))}"


def of_board(said: Said) -> Cure:
    """NVIDIA's wheels by the board's release of Linux for Tegra."""
    number, revision = said.l4t or (36, "4")
    release = "v461" if number < 35 else "v512" if number < 36 else "v60" if revision[0] in "23" else "v61"
    places = f"--no-index --find-links {_OF_NVIDIA}/{release}/pytorch/"
    return Cure(
        f"python3 -m pip install --force-reinstall --no-deps {places} torch",
        "It is for the Python of that JetPack. A constraint file keeps it (KW-037); "
        "install what brought the other by --no-deps.",
    )


def vision_of_board(said: Said) -> Cure:
    """torchvision for the torch of a board: of the index for boards, or compiled there."""
    if not _old_board(said):
        return Cure(torch(said, ""), "Of the index for JetPack 6, where each of them is made for the other.")
    number = 'int(v[1]) + (15 if v[0] == "2" else 1)'
    tag = f'$(python3 -c \'import torch; v = torch.__version__.split("."); print("v0.%d.0" % ({number}))\')'
    cloned = f"git clone --depth 1 --branch {tag} https://github.com/pytorch/vision && cd vision"
    then = "That is torchvision for the torch that is here; for this JetPack there are no wheels of it."
    return Cure(f"{cloned} && python3 -m pip install --no-deps --no-build-isolation .", then)


def newer_ptxas(said: Said) -> Cure:
    """The ptxas of NVIDIA's newest package of the compiler, where XLA and others look first."""
    place = "$(python -c 'import nvidia.cuda_nvcc as nvcc; print(list(nvcc.__path__)[0])')"
    found = f'export NVCC="{place}" && export PATH="$NVCC/bin:$PATH" XLA_FLAGS="--xla_gpu_cuda_data_dir=$NVCC"'
    then = "It takes the ptxas of that package before any toolkit's on PATH or in CUDA_HOME."
    return Cure(f"{pip(said, 'install --upgrade nvidia-cuda-nvcc-cu12')} && {found}", then)


def of_ptx_exactly(version: str) -> str:
    """The CUDA release of a PTX version before 8, where no newer one is of use."""
    major, minor = number(version)[:2]
    return f"11.{minor}" if major == _OF_SEVERAL + 1 else of_ptx(version)


_OF_SEVERAL = 6  # PTX of CUDA 9 and 10; from the next on each belongs to one major version


def of_ptx(version: str) -> str:
    """The CUDA release whose ptxas reads a version of PTX, "8.4"."""
    major, minor = number(version)[:2]
    if major == _OF_SEVERAL:
        return {0: "9.0", 1: "9.1", 2: "9.2", 3: "10.0", 4: "10.1"}.get(minor, "10.2")
    first = {7: "11", 8: "12", 9: "13"}.get(major, "")
    # From 8.5 on the numbers run apart by one.
    return at_least(f"{first}.{minor + (major == _OF_SEVERAL + 2 and minor > 5)}") if first else ""


def _apart(said: Said) -> str:
    """The manager of the log's system, where it shows."""
    ways = (
        ("pacman", r"\bpacman\b|arch ?linux|\.arch\d|manjaro|endeavour ?os|garuda|cachyos|artix"),
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


def _of_conda(release: str) -> str:
    """conda-forge begins with CUDA 12; before, NVIDIA's own channel has each release under a label."""
    if not release or release.startswith("$"):
        return f"-c nvidia/label/cuda-{release}.0 cuda-toolkit" if release else "-c conda-forge cuda-toolkit"
    if number(release) < (11, 3):
        return f"-c conda-forge cudatoolkit-dev={release}"
    return f"-c {'conda-forge' if number(release)[0] > 11 else f'nvidia/label/cuda-{release}.0'} cuda-toolkit={release}"


def toolkit_of_torch(said: Said) -> Cure:
    """The toolkit of the torch that is here, whose release the log does not say: another one builds nothing for it."""
    asked = "V=\"$(python -c 'import torch; print(torch.version.cuda)')\""
    if said.windows:
        return toolkit(said, newest())
    if said.conda and not said.has(r"\bsudo\b|\bapt(-get)?\b"):
        return Cure(
            f"{asked} && conda install -y {_of_conda('$V')} && export CUDA_HOME=$CONDA_PREFIX",
            "It is the toolkit of torch's own CUDA release. Then delete the build directory.",
        )
    if _apart(said) == "pacman" or said.nix:
        return toolkit(said)
    then = "It is the toolkit of torch's own CUDA release. The package is in NVIDIA's repository (KW-105)."
    install = f"{{ [ -x /usr/local/cuda-$V/bin/nvcc ] || {root_install(said)} cuda-toolkit-${{V/./-}}; }}"
    return Cure(f"{asked} && {install} && {use('/usr/local/cuda-$V')}", then)


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
    return _toolkit_of_unix(said, release)


def _toolkit_of_unix(said: Said, release: str) -> Cure:
    if said.nix:
        return Cure("NIXPKGS_ALLOW_UNFREE=1 nix-shell -p cudaPackages.cudatoolkit", "In a flake: among buildInputs.")
    if said.conda and not said.has(r"\bsudo\b|\bapt(-get)?\b"):
        then = "Without conda: cuda-toolkit of NVIDIA's repository. Then delete the build directory."
        return Cure(f"conda install -y {_of_conda(release)} && export CUDA_HOME=$CONDA_PREFIX", then)
    dashed, home = f"-{release.replace('.', '-')}" if release else "", f"/usr/local/cuda{'-' * bool(release)}{release}"
    way = _apart(said)
    if way == "pacman":
        return Cure(f"sudo pacman -S --needed cuda && {use('/opt/cuda')}", "It is the newest release alone.")
    then = "The package is in NVIDIA's repository (KW-105); conda install -c conda-forge cuda-toolkit needs no root."
    return Cure(f"{root_install(said)} cuda-toolkit{dashed} && {use(home)}", then)


_OF_DEBIAN = (12, 2)  # what the driver of Debian 12 serves: no newer one comes to it
_REPOSITORY = (
    "curl -fsSLO https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/cuda-keyring_1.1-1_all.deb "
    "&& sudo dpkg -i cuda-keyring_1.1-1_all.deb && sudo apt-get update && sudo apt-get install -y cuda-drivers"
)


def driver(said: Said, needed: str = "", serves: str = "") -> Cure:
    """NVIDIA's driver, as the log's system installs it; `serves`: the CUDA release it has to be for."""
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
    if _apart(said) == "apt" and said.has(r"\bdebian\b") and not said.has(r"ubuntu"):
        of_ubuntu = (
            "sudo apt-get update && sudo apt-get install -y linux-headers-$(dpkg --print-architecture) nvidia-driver"
        )
        if serves and number(serves) > _OF_DEBIAN and said.has(r"debian\W{0,3}(gnu/linux )?12\b|bookworm"):
            of_ubuntu = _REPOSITORY
    where = "On the host, whose driver the container uses; then reboot it." if said.container else "Then reboot."
    return Cure(ways.get(_apart(said), of_ubuntu), f"{where}{wanted}")


_WITH_WSL = 19044  # the first build of Windows whose WSL has a GPU


def old_windows(said: Said) -> Cure | None:
    """A Windows whose WSL has no GPU yet."""
    found = said.finds(r"\b(?:build|10\.0\.)\W{0,2}(1\d{4})\b") if said.wsl else None
    if not found or int(found[1]) >= _WITH_WSL:
        return None
    then = "Its GPUs are shown to WSL 2 from Windows 10 21H2 on, and from Windows 11; then wsl.exe --update."
    return Cure("explorer.exe ms-settings:windowsupdate", then)


def module(said: Said) -> Cure:
    """The module of a driver that is there, for the kernel that runs; where that does not help, the driver again."""
    again, then = driver(said), "Where modprobe says 'Key was rejected', Secure Boot refuses it (KW-102)."
    way = _apart(said)
    if way == "dnf":
        fix = "sudo dnf install -y kernel-devel-$(uname -r) && sudo akmods --force; sudo modprobe nvidia"
        return Cure(f"{fix} || {again.command}", then)
    if way != "apt":
        return again
    built = "sudo apt-get install -y linux-headers-$(uname -r); sudo dkms autoinstall; sudo modprobe nvidia"
    return Cure(f"{built} || {{ {again.command}; }}", then)


def restart_with_gpu(said: Said) -> Cure:
    """The container again, with the GPU."""
    if said.machine is not None:
        return Cure(*containers.with_gpu(said.machine))
    if said.has(r"compose"):
        given = "docker compose run --rm --gpus all"
        name = said.finds(r"^services:\s*\n\s+([\w-]+):") or said.finds(
            r"container_name: ([\w-]+)|docker logs ([\w-]+)"
        )
        service = next((part for part in name.groups() if part), "") if name else "<service>"
        return Cure(
            f"{given} {service}", "In compose.yaml: deploy.resources.reservations.devices with capabilities: [gpu]."
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
    if said.nix:
        return of_nix()
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


def of_nix() -> Cure:
    """The compiler that nixpkgs pairs with its nvcc."""
    built = "NIXPKGS_ALLOW_UNFREE=1 nix build --impure --no-link --print-out-paths"
    place = f'"$({built} nixpkgs#cudaPackages.backendStdenv.cc)/bin/g++"'
    then = "In a derivation or shell: cudaPackages.backendStdenv.mkDerivation in place of stdenv's."
    return Cure(f"export NVCC_CCBIN={place} && export CUDAHOSTCXX=$NVCC_CCBIN", then)


_MOST = (
    'V="$(grep -oE \'gcc versions later than [0-9]+\' "$(dirname "$(readlink -f '
    '"$(command -v nvcc)")")/../include/crt/host_config.h" '
    "| grep -oE '[0-9]+$')\""
)


def gcc_by_header(said: Said) -> Cure:
    """The newest that nvcc's own header allows, where the log does not say which."""
    if said.nix:
        return of_nix()
    ways = {"pacman": "sudo pacman -S --needed gcc$V", "dnf": "sudo dnf install -y gcc$V-c++"}
    install = ways.get(_apart(said), "sudo apt-get install -y g++-$V")
    then = "The newest that this nvcc's own header allows; and take -allow-unsupported-compiler away."
    return Cure(f"{_MOST} && {install} && export CUDAHOSTCXX=g++-$V NVCC_CCBIN=g++-$V", then)


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
