# SPDX-License-Identifier: MIT
"""A part of the toolkit is missing: a header, a library, or a compiler that runs within a program."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kernelwright.doctor.explain.cures import _ways
from kernelwright.doctor.explain.cures._cure import Cure, of

if TYPE_CHECKING:
    from kernelwright.doctor.explain.said import Said

_HEADERS = (
    (r"cudnn", "libcudnn9-dev-cuda-12", "cudnn"),
    (r"nccl", "libnccl-dev", "nccl"),
    (r"nvinfer|tensorrt", "libnvinfer-dev", "tensorrt"),
    (r"cutensor", "libcutensor-dev", "cutensor"),
    (r"nvtoolsext|nvtx", "cuda-nvtx", "cuda-nvtx-dev"),
)


@of("KW-045")
def part_missing(said: Said) -> Cure | None:
    """A header or library of a package of its own, or of the toolkit, which has to be there and be named."""
    return _of_compiler(said) or _of_package(said) or _of_toolkit(said)


def _of_compiler(said: Said) -> Cure | None:
    """What compilers that run within a program want."""
    if said.shows(r"path to libdevice library not specified"):
        cure = _ways.toolkit(said)
        then = f"The nvcc in /usr/bin has lost a part of itself. The build directory goes first. {cure.then}"
        return Cure(f"[ -x /usr/local/cuda/bin/nvcc ] || {cure.command}; {_ways.use('/usr/local/cuda')}", then)
    of_xla = said.has(r"\bxla\b|xla_gpu|\bjax|tensorflow") and not said.has("numba")
    if said.has(r"\bnvvm\b|libnvvm") and not of_xla:
        unset = "unset NUMBAPRO_NVVM NUMBAPRO_LIBDEVICE"  # which name a place of their own, before any other
        by_conda = f'{unset} && conda install -y -c conda-forge cuda-nvcc cuda-nvrtc "cuda-version>=12"'
        by_pip = _ways.pip(said, 'install --upgrade "numba-cuda[cu12]"')
        then = "NVVM is the part of a toolkit that numba compiles with."
        old = said.finds(r"(?<![/\w-])(?:cuda|cudatoolkit)[ =-]{0,3}(9\.\d|1[01]\.\d)")
        # The numba of such a Python knows no CUDA 12.
        if old or (said.python and int(said.python[2:]) < 9):
            return Cure(f"{unset} && conda install -y -c conda-forge {_toolkit_of(old)}", then)
        return Cure(by_conda if said.conda else by_pip, then)
    if said.has(r"nvrtc|\bcupy|jitify") and said.shows(r"open source file|\.h\b|cuda_(path|home)"):
        return _headers_of_nvrtc(said)
    if said.has(r"libdevice|no supported gpu compute|ptxas was searched|(couldn'?t|cannot|can'?t) .{0,30}ptxas"):
        place = "export XLA_FLAGS=--xla_gpu_cuda_data_dir=/usr/local/cuda"
        fix = f"{_ways.pip(said, 'install nvidia-cuda-nvcc-cu12')} && {place}"
        return Cure(fix, "Where a toolkit is elsewhere, its directory.")
    return None


def _toolkit_of(named: re.Match[str] | None) -> str:
    """conda's package of a CUDA release before 12; of the last, where none is named."""
    return f"cudatoolkit={named[1] if named else '11.8'}"


def _named(said: Said) -> str:
    """A CUDA release that somebody names in passing."""
    found = said.finds(r"\bcuda(?: toolkit)?(?: version)?[ :=]{1,3}v?(\d{1,2}\.\d)\b")
    return found[1] if found else ""


def _of_package(said: Said) -> Cure | None:
    """What is no part of the toolkit's own package."""
    if (
        said.has(r"nvtoolsext")
        and said.has(r"cmake")
        and (said.windows or not (said.conda or said.shows("no rule to")))
    ):
        then = "Newer torch asks for nvtx3, which is in every toolkit; the old library is no longer."
        return Cure(_ways.pip(said, "install --upgrade torch"), then)
    if said.windows and not said.conda and said.shows(r"cudnn"):
        return _cudnn_of_windows(said)
    # torch's own files of CMake say it over two lines.
    told = "cudnn" if said.has(r"uses cudnn but i cannot") else said.lines
    own = next(((apt, conda) for pattern, apt, conda in _HEADERS if re.search(pattern, told, re.IGNORECASE)), None)
    if own and said.conda:
        return Cure(f"conda install -y -c conda-forge {own[1]}", f"By apt of NVIDIA's repository: {own[0]}.")
    if own:
        then = "Of NVIDIA's repository (KW-105 has how it is added)."
        dashed = (said.toolkit or said.torch_cuda or _ways.newest()).replace(".", "-")
        apt = f"{own[0]}-{dashed}" if own[0] == "cuda-nvtx" else own[0]
        old = said.toolkit or _named(said)
        if own[1] == "cudnn" and old and _ways.number(old)[0] < 12:
            apt = "libcudnn8-dev"
        return Cure(f"sudo apt-get update && sudo apt-get install -y {apt}", then)
    return None


def _cudnn_of_windows(said: Said) -> Cure:
    """NVIDIA's package has the header and the import library; CMake finds both by one variable."""
    old = said.toolkit or _named(said)
    package = f"nvidia-cudnn-cu{11 if old and _ways.number(old)[0] < 12 else 12}"
    place = "import nvidia.cudnn as own; print(list(own.__path__)[0])"
    found = f'for /f "delims=" %i in (\'python -c "{place}"\') do set CMAKE_PREFIX_PATH=%i'
    return Cure(f"{_ways.pip(said, f'install {package}')} && {found}", "In cmd; then the build in an empty directory.")


def _headers_of_nvrtc(said: Said) -> Cure:
    """What compiles while it runs looks for the headers where CUDA_PATH says."""
    cure = _ways.toolkit(said, said.toolkit or said.torch_cuda)
    if said.windows:
        return cure
    if "$CONDA_PREFIX" in cure.command:
        return Cure(f'{cure.command} CUDA_PATH="$CONDA_PREFIX/targets/$(uname -m)-linux"', cure.then)
    here = "export CUDA_PATH=/usr/local/cuda"
    then = f"Where a toolkit is elsewhere: that directory. {cure.then}"
    return Cure(f"[ -e /usr/local/cuda/include/cuda_fp16.h ] || {{ {cure.command}; }}; {here}", then)


def _of_toolkit(said: Said) -> Cure:
    cure, home = _ways.toolkit(said, said.toolkit or said.torch_cuda), "$CUDA_HOME"
    if said.windows:
        return cure
    if said.shows(r"undefined reference|référence|cannot find -l"):
        library = f"{home}/lib" if "$CONDA_PREFIX" in cure.command else f"{home}/lib64"
        places = f"LIBRARY_PATH={library}:{library}/stubs:$LIBRARY_PATH"
        then = "In CMake: CUDA::cudart and CUDA::cuda_driver among the target's libraries."
        return Cure(f'{cure.command} && export {places} LDFLAGS="-L{library} -lcudart -lcuda"', then)
    places = f"CPATH={home}/include:$CPATH LIBRARY_PATH={home}/lib64:$LIBRARY_PATH"
    return Cure(f"{cure.command} && export {places}", cure.then)
