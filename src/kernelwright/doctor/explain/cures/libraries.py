# SPDX-License-Identifier: MIT
"""Shared libraries: which package brings the one that is missing, on this kind of machine, for this CUDA release."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kernelwright.doctor.explain.cures import _ways
from kernelwright.doctor.explain.cures._cure import Cure, of
from kernelwright.doctor.explain.cures._families import BRING_TORCH
from kernelwright.doctor.explain.cures._programs import OF_CUPY, of_cudarc, of_onnxruntime, of_r, on_windows
from kernelwright.doctor.explain.cures.gpus import of_paddle
from kernelwright.doctor.explain.cures.tensorflow import libraries_of, other_cudnn
from kernelwright.doctor.remedies import wheels

if TYPE_CHECKING:
    from kernelwright.doctor.explain.said import Said

# The number behind .so, by the major version of CUDA where it is not the same one.
_NUMBERS = {
    "libcufft": {"10": 11, "11": 12, "12": 13},
    "libcusolver": {"10": 10, "11": 12, "12": 13},
    "libcurand": {"10": 12},
    "libnvToolsExt": {"1": 12},
    "libnccl": {"2": 12},
    "libcudnn": {"8": 12, "9": 12},
    "libcusparseLt": {"0": 12},
}
# Libraries whose number is CUDA's own.
_AS_CUDA = frozenset({"libcudart", "libcublas", "libcublasLt", "libcusparse", "libnvrtc", "libnvJitLink", "libcupti"})
# And up to CUDA 9 that of these too.
_AS_CUDA_ONCE, _ONCE = frozenset({"libcufft", "libcusolver", "libcurand"}), frozenset("6789")
_OLD_CUDNN = frozenset("567")
# What a Jetson has them from: NVIDIA's own repository, whose packages are not those for servers.
_OF_JETPACK = {
    "libcusparseLt": "libcusparselt0",
    "libcudss": "cudss",
    "libnvinfer": "tensorrt",
    "libnvonnxparser": "tensorrt",
    "libnccl": "libnccl2",
    "libcupti": "cuda-cupti",
    "libnvToolsExt": "cuda-nvtx",
}
_OF_PROGRAMS = {
    "onnxruntime|cudaexecutionprovider": 'install --upgrade "onnxruntime-gpu[cuda,cudnn]"',
    "jaxlib|\\bjax\\b": 'install --upgrade "jax[cuda12]"',
    "\\bcupy": OF_CUPY,
    "\\bpaddle": of_paddle(_ways.at_least("12.5")),
}
_OLDEST = 11  # CUDA whose libraries NVIDIA has as Python packages
_WITH_LABEL = (11, 12)  # and in whose names it stands
_NOT_PYTHON = r"ortexception|\.java:|panicked at|\.rs:\d|cargo|\bdotnet\b|\.exe\b"
_OF_GCC = frozenset({"libstdc++", "libgcc_s", "libgomp"})
_OF_THE_SYSTEM = {
    "libsox.so": "libsox-dev",
    "libpython": "libpython3-dev",
    "libavutil": "ffmpeg",
    "libavcodec": "ffmpeg",
    "libglib-2": "libglib2.0-0",
    "libcrypt.so.1": "libcrypt1",
    "libssl.so.1.1": "libssl1.1",
    "libtinfo.so.5": "libtinfo5",
    "libXrender": "libxrender1",
    "libSM": "libsm6",
    "libXext": "libxext6",
    "libatomic": "libatomic1",
    "libespeak": "espeak-ng",
    "libportaudio": "libportaudio2",
    "libzmq": "libzmq5",
}


def _major(name: str, behind: str, said: Said) -> int:
    """The CUDA release a library is of, by the number behind its name."""
    known = _NUMBERS.get(name, {})
    first = behind.partition(".")[0]
    if first in known:
        own = said.torch_cuda.partition(".")[0]
        return (
            int(own)
            if own and name in {"libnccl", "libcudnn", "libcurand", "libcusparseLt", "libnvToolsExt"}
            else known[first]
        )
    as_cuda = name in _AS_CUDA or (name in _AS_CUDA_ONCE and first in _ONCE)
    return int(first) if first.isdecimal() and as_cuda else 12


def _jetson(said: Said, name: str, behind: str) -> Cure:
    root = "sudo apt-get update && sudo apt-get install -y"
    if said.has(r"^step \d+/\d+ ?:|^#\d+ (\d|\[)|docker build|jetson-containers build"):
        runtime = "sudo nvidia-ctk runtime configure --runtime=docker --set-as-default && sudo systemctl restart docker"
        return Cure(runtime, "While an image is built the board's libraries are mounted by the default runtime alone.")
    if said.has(r"docker|container|dustynv|l4t-"):
        return _ways.restart_with_gpu(said)
    if name in _OF_JETPACK:
        return Cure(
            f"{root} {_OF_JETPACK[name]}",
            "Of NVIDIA's repository (cuda-keyring); not the Python package, which is for servers.",
        )
    if name.startswith("libcudnn"):
        if behind.startswith("8") and said.l4t and (said.l4t[0], said.l4t[1][:1]) >= (36, "4"):
            return _ways.of_board(said)  # which has cuDNN 9 alone: a torch that wants 8 is of an older JetPack
        then = (
            f"A torch that wants cuDNN {behind or '9'} is of the JetPack that has it: another one "
            "needs the torch of its own release (KW-033)."
        )
        return Cure(f"{root} {'libcudnn8' if behind.startswith('8') else 'libcudnn9-cuda-12'}", then)
    return Cure(
        f"{root} nvidia-jetpack",
        "It brings the board's CUDA libraries. In a container: an image of its L4T release, with --runtime nvidia.",
    )


_LAST_OF = {10: "10.2", 11: "11.8"}


@of("KW-050")
def of_cuda(said: Said) -> Cure | None:
    """By whose library it is: the board's, a program's with a build of its own, or NVIDIA's package."""
    if said.r and not said.shows(r"\.so\.([5-9]|10)\b"):
        return of_r(said)
    if said.shows(r"unable to find \w+ lib(rary)? under the names"):
        return of_cudarc(said)
    if said.windows:
        return on_windows(said)
    name, _, behind = said.library.partition(".so")
    name, behind = re.sub(r"^libcudnn\w*", "libcudnn", name), behind.strip(".")
    if said.place_of_library:
        then = "It lies there, and the loader does not look there by itself."
        return Cure(f"export LD_LIBRARY_PATH={said.place_of_library}:$LD_LIBRARY_PATH", then)
    if said.jetson:
        return _jetson(said, name, behind)
    return _of_program(said, name, behind) or _of_release(said, name, behind)


def _of_program(said: Said, name: str, behind: str) -> Cure | None:
    """Programs whose own package, or an extra of it, brings what they want."""
    if said.has(r"auto-patchelf|/nix/store"):
        then = "In the derivation: cudaPackages.* among buildInputs, or autoPatchelfIgnoreMissingDeps = true."
        return Cure("nix develop --impure", then)
    if name.startswith(("libnvinfer", "libnvonnxparser")):
        version = f"=={behind.partition('.')[0]}.*" if behind else ""
        then = "Its directory of libraries then belongs in LD_LIBRARY_PATH."
        return Cure(_ways.pip(said, f'install "tensorrt{version}"'), then)
    linker = said.shows(r"dlerror: libnvJitLink\.so\.(\d+)")
    if linker:  # what another of CUDA's libraries wants, whoever loads that one
        then = "cuSPARSE and cuSOLVER are linked to it: it has to be at least as new as they are."
        return Cure(f"{_ways.pip(said, f'install --upgrade nvidia-nvjitlink-cu{linker[1]}')} && {_ways.FINDS}", then)
    return _of_python_program(said, name, behind)


def _of_python_program(said: Said, name: str, behind: str) -> Cure | None:
    words = next((words for pattern, words in _OF_PROGRAMS.items() if said.has(pattern)), "")
    node, python = said.has(r"tfjs|node_modules"), not said.has(_NOT_PYTHON)
    if node or (python and not words and said.has(r"tensorflow|\bdso_loader")):
        return libraries_of(said, name, behind)
    if not words or not python:
        return None
    if "onnxruntime" in words:
        return of_onnxruntime(said, words)
    return Cure(_ways.pip(said, words), "That brings CUDA's libraries as packages, of the release it was built with.")


def _of_package(said: Said, package: str, major: int) -> Cure | None:
    """A package that was built for another CUDA release than torch; some bring the torch that they were built for."""
    if package in BRING_TORCH:
        words = f"install --upgrade --force-reinstall {package}"
        return Cure(_ways.pip(said, words), f"It was built for CUDA {major}; the torch of its release comes with it.")
    if said.torch_cuda and major != int(said.torch_cuda.partition(".")[0]):
        then = f"It was built for CUDA {major}, torch is for {said.torch_cuda}: that builds it for torch's."
        return Cure(_ways.pip(said, _ways.built(package, said)), then)
    return None


def _of_release(said: Said, name: str, behind: str) -> Cure | None:
    """The library of one CUDA release: a package that was built for another is built again, or the library is added."""
    major, package = _major(name, behind, said), said.package
    of_package = _of_package(said, package, major) if package else None
    if of_package:
        return of_package
    if major < _OLDEST or (name == "libcudnn" and behind.partition(".")[0] in _OLD_CUDNN):
        return _of_old_release(said, name, behind, major)
    part = wheels.PACKAGES.get(name)
    if part is None:
        return None
    if not behind and not said.windows and said.shows(rf"{name}\.so['\")]?:? ?(cannot|not|=> not|\()"):
        return _without_number(said, name, major)
    if _is_there(said, major) and said.library.count("."):
        return _found_or(said, major)
    dotted = f"=={behind.partition('.')[0]}.*" if part == "cudnn" and behind else ""
    own = f"nvidia-{part}-cu{major}" if major in _WITH_LABEL else f"nvidia-{part}"
    words = f'install "{own}{dotted}"' if dotted else f"install {own}"
    then = "That brings the library and names its directory to the loader. Never link one name to another."
    return Cure(f"{_ways.pip(said, words)} && {_ways.FINDS}", then)


def _is_there(said: Said, major: int) -> bool:
    """Whether it is a matter of the search path: a toolkit of that release is here, or no Python is at work."""
    if said.machine is not None or said.has("libcudnn|libnccl|cusparselt"):
        return False
    here = _ways.number(said.toolkit)[:1] == (major,)
    return bool(here) or bool(said.shows(r"error while loading shared libraries"))


def _found_or(said: Said, major: int) -> Cure:
    """The directory in which the library lies, and where it lies nowhere the toolkit that has it."""
    found = f'FOUND="$(find / -name {said.library} -not -path "/proc/*" 2> /dev/null | head -n 1)"'
    named = 'export LD_LIBRARY_PATH="${FOUND%/*}:$LD_LIBRARY_PATH"'
    own = _ways.toolkit(said, _LAST_OF.get(major, "") or _ways.newest())
    install = own.command.partition(" && export")[0]
    then = f"Where it lies nowhere: {install}."
    return Cure(f"{found} && {named}", then)


def _without_number(said: Said, name: str, major: int) -> Cure:
    """The name without a number is a link that comes with the headers, and not with the libraries alone."""
    apt = (
        f"libcudnn9-dev-cuda-{major}" if name == "libcudnn" else "libnccl-dev" if name == "libnccl" else "cuda-toolkit"
    )
    part = {"libcudnn": "cudnn", "libnccl": "nccl"}.get(name, "cuda-toolkit")
    if said.conda:
        fix = f'conda install -y -c conda-forge {part} && export LD_LIBRARY_PATH="$CONDA_PREFIX/lib:$LD_LIBRARY_PATH"'
        return Cure(fix, f"By apt of NVIDIA's repository: {apt}.")
    place = "" if apt != "cuda-toolkit" else " && export LD_LIBRARY_PATH=/usr/local/cuda/lib64:$LD_LIBRARY_PATH"
    return Cure(f"sudo apt-get update && sudo apt-get install -y {apt}{place}", "Of NVIDIA's repository (KW-105).")


def _of_old_release(said: Said, name: str, behind: str, major: int) -> Cure:
    """What NVIDIA has no Python packages of."""
    if said.package:
        words = f"install --upgrade --force-reinstall --no-cache-dir {said.package}"
        return Cure(_ways.pip(said, words), f"What is there was built for CUDA {major}.")
    if said.has(r"from torch\._c import"):
        words = "install --upgrade --force-reinstall torch torchvision torchaudio"
        return Cure(_ways.pip(said, words), "It brings its libraries; what is there is a build that did not.")
    place = said.own_directory
    if place:
        return _ways.beside_sources(place, f"It was built for CUDA {major}: its sources there are built again.")
    wanted = f"cudnn={behind.partition('.')[0]}" if name == "libcudnn" else f"cudatoolkit={behind}"
    return Cure(f'conda install -y -c conda-forge "{wanted}"', "Or a newer build of the program.")


@of("KW-035")
def of_jetpack(said: Said) -> Cure | None:
    name, _, behind = said.library.partition(".so")
    if said.has("file too short"):
        return Cure(
            "docker run --runtime nvidia -it \"$(docker ps --latest --format '{{.Image}}')\"",
            "Empty files are those over which NVIDIA's runtime lays the host's.",
        )
    return _jetson(said, name, behind.strip("."))


def _of_python(said: Said, name: str) -> Cure | None:
    """What numbers and Python itself need."""
    if said.shows(r"undefined symbol: (cblas_|[sdcz][a-z]{4,6}_?$)"):
        return Cure(f"{_ways.root_install(said)} libopenblas-dev", "It has LAPACK, which the file was not linked to.")
    if name.startswith("libpython3."):
        by_conda = 'export LD_LIBRARY_PATH="$CONDA_PREFIX/lib:$LD_LIBRARY_PATH"'
        by_apt = f"sudo apt-get update && sudo apt-get install -y {name}"
        then = "uv's and pyenv's Python: its own lib directory in LD_LIBRARY_PATH."
        return Cure(by_conda if said.conda else by_apt, then)
    return None


@of("KW-054")
def of_others(said: Said) -> Cure | None:
    library = said.library
    name = library.partition(".so")[0]
    of_python = _of_python(said, name)
    if of_python:
        return of_python
    if said.has(r"/nix/store|nix-shell|\bnixos\b|flake\.nix") and name in _OF_GCC:
        found = "$(nix build --no-link --print-out-paths nixpkgs#stdenv.cc.cc.lib)"
        then = "In a shell.nix or flake.nix: stdenv.cc.cc.lib in LD_LIBRARY_PATH, by lib.makeLibraryPath."
        return Cure(f'export LD_LIBRARY_PATH="{found}/lib:$LD_LIBRARY_PATH"', then)
    if said.windows:
        return Cure(
            "winget install --id Microsoft.VCRedist.2015+.x64", "The runtime of Visual C++, which most of these want."
        )
    if library in wheels.SYSTEMS:
        apt, dnf = wheels.SYSTEMS[library]
    else:
        apt = next((package for begin, package in _OF_THE_SYSTEM.items() if library.startswith(begin)), "")
        dnf = f"'*/{library}'"
    if said.has(r"\bdnf\b|\byum\b|fedora|\.el\d|centos|rocky"):
        return Cure(f"sudo dnf install -y {dnf}")
    if said.conda and name in {
        "libmkl_rt",
        "libmkl_intel_lp64",
        "libiomp5",
        "libffi",
        "libtiff",
        "libjpeg",
        "libpng16",
    }:
        return Cure(
            "conda install -y -c conda-forge "
            f"{'mkl' if 'mkl' in name else 'intel-openmp' if 'iomp' in name else name.strip('0123456789')}"
        )
    return Cure(f"sudo apt-get update && sudo apt-get install -y {apt}") if apt else None


def _of_jax(said: Said) -> Cure:
    wanted = said.finds(r"source was compiled with: (\d+\.\d+)")
    if said.conda and wanted:
        return Cure(f'conda install -y -c conda-forge "cudnn>={wanted[1]}"', "conda's jax takes conda's cuDNN.")
    if wanted and said.has(r"jaxlib\S*\+cuda11|jax\[cuda11"):
        return other_cudnn(said)
    newest = _ways.pip(said, 'install --upgrade "jax[cuda12]"')
    return Cure(f"unset LD_LIBRARY_PATH && {newest}", "What it brings comes first then.")


@of("KW-051")
def mixed(said: Said) -> Cure | None:
    return _cudnn_of_torch(said) or _mixed(said)


def _cudnn_of_torch(said: Said) -> Cure | None:
    """An old torch says it in one number, and takes that release alone."""
    old = said.shows(r"compiled against (\d)(\d)(\d\d) but linked")
    if old:
        then = "That is the release which this old torch was compiled with. Or LD_LIBRARY_PATH without another cuDNN."
        return Cure(f'conda install -y "cudnn={old[1]}.{old[2]}.{int(old[3])}"', then)
    return None


def _mixed(said: Said) -> Cure | None:
    if said.has(r"multiple cupy packages"):
        return Cure(
            _ways.pip(said, "uninstall -y cupy cupy-cuda11x cupy-cuda12x cupy-cuda13x")
            + " && "
            + _ways.pip(said, "install cupy-cuda12x")
        )
    if said.has(r"\bjaxlib\b|\bjax\b"):
        return _of_jax(said)
    if said.has(r"nvjitlink|nvvmaddnvvm"):
        return Cure(
            "unset LD_LIBRARY_PATH && " + _ways.pip(said, "install --upgrade nvidia-nvjitlink-cu12"),
            "Or the newest torch, which requires a set that fits.",
        )
    if said.has(r"cudnn|dnn library") and said.has(r"tensorflow|xla|cuda_dnn\.cc"):
        return other_cudnn(said)
    if said.has(r"cask_cudnn|libcudnn_\w+_infer"):
        return Cure(
            "unset LD_LIBRARY_PATH && " + _ways.pip(said, 'install --force-reinstall "nvidia-cudnn-cu12==8.*"'),
            "Two releases of cuDNN 8 were mixed.",
        )
    return None


@of("KW-052")
def too_old_system(said: Said) -> Cure | None:
    if said.has(r"\blantern\b|liblantern"):
        then = "R's torch has a build for older systems too: that variable takes it."
        return Cure("PRECXX11ABI=1 Rscript -e 'torch::install_torch(reinstall = TRUE)'", then)
    named = (
        r"(GLIBCXX|CXXABI)_" if said.package and not said.conda else r"(GLIBCXX|CXXABI)_|undefined symbol:? ?_ZN?K?St\d"
    )
    if said.shows(named) and not said.shows(r"`?'?GLIBC_"):
        fix = "conda install -y -c conda-forge libstdcxx-ng"
        then = (
            'And export LD_LIBRARY_PATH="$CONDA_PREFIX/lib:$LD_LIBRARY_PATH". Without conda: a '
            "newer libstdc++6 of the distribution."
        )
        return Cure(
            fix if not said.conda else f'{fix} && export LD_LIBRARY_PATH="$CONDA_PREFIX/lib:$LD_LIBRARY_PATH"',
            then if not said.conda else "",
        )
    if said.package:
        built = _ways.built(said.package, said)
        forced = "FLASH_ATTENTION_FORCE_BUILD=TRUE " if said.package == "flash-attn" else ""
        return Cure(
            forced + _ways.pip(said, built),
            "That builds it for this system. Otherwise a release with a wheel for an older one.",
        )
    needed = max((int(one) for one in re.findall(r"GLIBC_2\.(\d+)", said.lines, re.IGNORECASE)), default=0)
    image = "ubuntu:24.04" if needed > 35 else "ubuntu:22.04"
    return Cure(
        f'docker run --gpus all -it -v "$PWD:$PWD" -w "$PWD" {image}',
        f"It has glibc {'2.39' if needed > 35 else '2.3' + '5'}; a system's own cannot be replaced.",
    )
