# SPDX-License-Identifier: MIT
"""Programs that bring CUDA's libraries in ways of their own: ONNX Runtime, R's packages, what runs on Windows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kernelwright.doctor.explain.cures import _ways, tensorflow
from kernelwright.doctor.explain.cures._cure import Cure

if TYPE_CHECKING:
    from kernelwright.doctor.explain.said import Said

OF_CUPY = 'install --upgrade "cupy-cuda12x[ctk]"'
_ORT_12 = 19  # the first minor version of ONNX Runtime whose usual package is for CUDA 12
_NAMED_FROM = 12  # the first CUDA whose TensorFlow is none for Windows


def of_r(said: Said) -> Cure:
    """R's packages have installers of their own, which bring the libraries too."""
    if said.has(r"\btensorflow\b|\bkeras\b"):
        then = "For an R that has no GPU build of it: in the environment of reticulate, which it names at its start."
        return Cure("Rscript -e 'reticulate::py_install(\"tensorflow[and-cuda]\", pip = TRUE)'", then)
    then = (
        "It brings libtorch and CUDA's libraries; the variable names a CUDA release that the package has a build for."
    )
    return Cure(f"CUDA={_ways.at_least('12.3')} Rscript -e 'torch::install_torch(reinstall = TRUE)'", then)


def of_onnxruntime(said: Said, words: str) -> Cure:
    """It brings the packages, and looks into none of them by itself."""
    then = "In the program: onnxruntime.preload_dlls() before the first session, or import torch before it."
    if said.machine is None:
        return Cure(f"{_ways.pip(said, words)} && {_ways.FINDS}", then)
    return Cure(_ways.pip(said, words), then)


def on_windows(said: Said) -> Cure:
    if said.has(r"microsoft\.ml\.onnxruntime|sessionoptions"):
        asked = said.finds(r"onnxruntime\.gpu\D{0,40}1\.(\d+)\.\d")
        cure = _ways.toolkit(said, "11" + ".8" if asked and int(asked[1]) < _ORT_12 else _ways.newest())
        return Cure(
            cure.command, "And the DLLs of that release's cuDNN on PATH; 1.19 and later want CUDA 12 and cuDNN 9."
        )
    if said.has("onnxruntime|providers_cuda|cudaexecutionprovider"):
        return Cure(
            _ways.pip(said, 'install --upgrade "onnxruntime-gpu[cuda,cudnn]"'),
            "And onnxruntime.preload_dlls() before the first session.",
        )
    if said.shows("cudnn"):
        number = said.shows(r"cudnn\w*?64_(\d+)")
        wanted = f'"nvidia-cudnn-cu12=={number[1]}.*"' if number else "nvidia-cudnn-cu12"
        fix = (
            f'{_ways.pip(said, f"install {wanted} nvidia-cublas-cu12")} && python -c "import '
            'nvidia.cudnn; print(list(nvidia.cudnn.__path__)[0])"'
        )
        return Cure(fix, "Then the bin directory under what it prints belongs on PATH.")
    number = said.shows(r"(?:cudart|cublas|cublasLt|cusparse|nvrtc)(?:64|32)_(\d\d)(\d?)")
    if number and said.has(r"tensorflow") and int(number[1]) < _NAMED_FROM:
        return tensorflow.on_windows(int(number[1]), number[2])
    if said.has(r"\bcupy"):
        return Cure(_ways.pip(said, OF_CUPY), "That brings CUDA's libraries as packages.")
    release = {"10": "10.2", "11": "11.8"}.get(number[1]) or _ways.at_least(f"{number[1]}.5") if number else ""
    return _ways.toolkit(said, release)


def of_cudarc(said: Said) -> Cure:
    """Rust's bindings know the toolkits that were there when they were released."""
    if said.has(r"cudarc_cuda_version"):
        then = "It takes the bindings of that release, which newer drivers and toolkits serve too."
        return Cure("export CUDARC_CUDA_VERSION=12090", then)
    then = "A newer one knows newer toolkits and the names of their files. Or an older toolkit."
    return Cure("cargo update -p cudarc && cargo clean -p cudarc", then)


def without_visual_studio(said: Said) -> Cure:
    """CMake by Ninja: Visual Studio's own build wants a part of CUDA's installer, which is often missing."""
    named = said.finds(r"release (\d+\.\d+), V\d|CUDA[\\/]v(\d+\.\d+)")
    home = "C:/Program Files/NVIDIA GPU Computing Toolkit/CUDA"
    found = f"{home}/v{named[1] or named[2]}/bin/nvcc.exe" if named else "nvcc"
    words = f'cmake --fresh -G Ninja -S . -B build -DCMAKE_CUDA_COMPILER="{found}"'
    then = "In the x64 Native Tools prompt. Or CUDA's installer again, after Visual Studio, with its integration."
    return Cure(f"{_ways.pip(said, 'install ninja')} && {words}", then)


def in_a_clone(said: Said) -> Cure | None:
    """The sources whose part was not compiled are where the log says, or within the project."""
    if said.shows(r"name '(selective_scan_cuda_\w+)' is not defined"):
        words = "install --no-build-isolation --force-reinstall --no-deps"
        found = '"$(find . -type d -path "*kernels/selective_scan" | head -n 1)"'
        return Cure(_ways.pip(said, f"{words} {found}"), "In the project's directory, which has that kernel's sources.")
    clone = said.shows(r"\(((?:/[\w.+-]+)+)/[\w.+-]+/__init__\.py\)")
    if clone and ".." not in clone[1] and not re.search(r"(site|dist)-packages", clone[1]):
        own = _ways.pip(said, "install --no-deps --no-build-isolation --no-cache-dir -v -e .")
        return Cure(f"cd {clone[1]} && FORCE_CUDA=1 {own}", "It lies beside its sources; nvcc has to be on PATH.")
    return None
