# SPDX-License-Identifier: MIT
"""TensorFlow and the CUDA libraries it wants: each release those of one CUDA, by ways that changed with the years."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelwright.doctor.explain.cures import _ways
from kernelwright.doctor.explain.cures._cure import Cure

if TYPE_CHECKING:
    from kernelwright.doctor.explain.said import Said

_WITH_LIBRARIES = 'install --upgrade "tensorflow[and-cuda]"'
_OLDEST, _NEWEST = 11, 12  # CUDA whose libraries NVIDIA has as Python packages with its number in their names
_OF_11 = (
    "install nvidia-cuda-runtime-cu11 nvidia-cublas-cu11 nvidia-cufft-cu11 nvidia-curand-cu11 nvidia-cusolver-cu11 "
    'nvidia-cusparse-cu11 "nvidia-cudnn-cu11==8.*"'
)
# The last release of TensorFlow 1 or 2 for each CUDA of old, and the cuDNN of a major version.
_OF_TOOLKITS = {"8.0": "1.4.1", "9.0": "1.12.0", "10.0": "1.15.0", "10.1": "2.3.0"}
_CUDNN = {8: "6", 9: "7", 10: "7", 11: "8"}
# Libraries whose number is CUDA's own.
_AS_CUDA = frozenset({"libcudart", "libcublas", "libcublasLt", "libcusparse"})


def libraries_of(said: Said, name: str, behind: str) -> Cure:
    """Releases before 2.14, and all for Python before 3.9, have no extra that brings CUDA's libraries."""
    wanted = said.finds(r"libcudart\.so\.(\d+\.\d+)")
    release = wanted[1] if wanted else f"{behind}.0" if name in _AS_CUDA and behind.isdecimal() else behind
    major = _ways.number(release)[0] if name != "libcudnn" and _ways.number(release) else 0
    if name == "libcudnn" and not wanted:
        release, major = ("11.8", 11) if behind.startswith("8") else ("10.1", 10)
    without = said.old_tensorflow or said.has("tfjs|node_modules") or (major < _OLDEST and not said.python)
    without = without or said.has(r"tensorflow/(compiler/xla/)?stream_executor/")
    old = 0 < major < _NEWEST and without
    if not old:
        then = "That brings CUDA's libraries as packages, of the release it was built with."
        return Cure(_ways.pip(said, _WITH_LIBRARIES), then)
    if major == _OLDEST and not said.conda and not said.has("tfjs|node_modules"):
        then = "These serve each TensorFlow of CUDA 11; newer ones want Python 3.9 and bring their own libraries."
        return Cure(f"{_ways.pip(said, _OF_11)} && {_ways.FINDS}", then)
    for_here = _for_toolkit(said, release)
    if for_here:
        return for_here
    sets = f'"cudatoolkit={"11.8" if major == _OLDEST else release}" "cudnn={_CUDNN.get(major, "7")}"'
    then = "Any of these that serves this TensorFlow; newer ones want Python 3.9 and bring their own libraries."
    found = 'export LD_LIBRARY_PATH="$CONDA_PREFIX/lib:$LD_LIBRARY_PATH"'
    return Cure(f"conda install -y -c conda-forge {sets} && {found}", then)


def _for_toolkit(said: Said, wanted: str) -> Cure | None:
    """The release for the CUDA that is here, where conda, which has the others, is not."""
    found = said.finds(
        r"/usr/local/cuda-(\d+\.\d)|\bcuda(?:/cudnn)?(?: version)?\W{1,3}(?:cuda\W{1,2})?(\d{1,2}\.\d)\b"
    )
    here = (found[1] or found[2]) if found else ""
    if said.conda or here == wanted or here not in _OF_TOOLKITS:
        return None
    then = "That is a release for the CUDA that is here; each TensorFlow wants exactly one."
    return Cure(_ways.pip(said, f"install tensorflow-gpu=={_OF_TOOLKITS[here]}"), then)


# How it says which cuDNN it was compiled with: 7.5.0, 5105, or that alone which would serve.
_ASKED = (
    r"compiled with:? (\d)\.(\d+)",
    r"compiled with:? (\d)(\d)\d\d\b",
    r"compatibility version:? (\d)(\d)\d\d",
)
_WITH_PACKAGES = 8  # the first cuDNN that NVIDIA has as Python packages


def other_cudnn(said: Said) -> Cure:
    """The cuDNN that it was compiled with, or a newer one of the same major version; by that its CUDA is known."""
    asked = next((found for found in map(said.finds, _ASKED) if found), None)
    then = "At least the release that it was compiled with."
    if asked is None:
        fix = f"unset LD_LIBRARY_PATH && {_ways.pip(said, 'install --upgrade nvidia-cudnn-cu12')}"
        if said.shows("dnn library is not found"):
            fix = f"unset LD_LIBRARY_PATH && {_ways.pip(said, _WITH_LIBRARIES)}"
        return Cure(fix, then)
    major, minor = int(asked[1]), int(asked[2])
    if major < _WITH_PACKAGES:
        fix = f'conda install -y -c conda-forge "cudnn>={major}.{minor},<{major + 1}"'
        return Cure(f'{fix} && export LD_LIBRARY_PATH="$CONDA_PREFIX/lib:$LD_LIBRARY_PATH"', then)
    label = 11 if (major, minor) < (8, 7) else 12
    words = f'install --upgrade "nvidia-cudnn-cu{label}>={major}.{minor},<{major + 1}"'
    if label == _OLDEST:  # its TensorFlow does not look into other packages
        return Cure(f"{_ways.pip(said, words)} && {_ways.FINDS}", then)
    words = "install --upgrade nvidia-cudnn-cu12" if major > _WITH_PACKAGES else words
    return Cure(f"unset LD_LIBRARY_PATH && {_ways.pip(said, words)}", then)


def on_windows(major: int, minor: str) -> Cure:
    """What its own guide for Windows says; newer releases see a GPU in WSL alone."""
    sets = "cudatoolkit=11.2 cudnn=8.1" if major == _OLDEST else f"cudatoolkit={major}.{minor or '1'} cudnn=7.6"
    then = "In the environment of that TensorFlow, a release before 2.11: from then on only in WSL it sees a GPU."
    return Cure(f"conda install -y -c conda-forge {sets}", then)
