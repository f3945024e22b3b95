# SPDX-License-Identifier: MIT
"""What comes next where the log shows that somebody did already what a cause is mostly cured by, and in vain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelwright.doctor.explain.cures import _ways
from kernelwright.doctor.explain.cures._cure import Cure

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernelwright.doctor.explain.said import Said

_CASE = tuple[tuple[str, ...], str, "Callable[[Said], Cure]"]


def _named_to_loader(_: Said) -> Cure:
    then = "The packages are there, and no loader looks into them by itself: the variable names their directories."
    return Cure(_ways.FINDS, then)


def _flash(said: Said) -> Cure:
    words = "install --force-reinstall --no-deps --no-build-isolation --no-cache-dir flash-attn"
    then = "Its wheels do not fit this torch: the variable has it compiled here, by nvcc of torch's CUDA release."
    return Cure(f"FLASH_ATTENTION_FORCE_BUILD=TRUE MAX_JOBS=4 {_ways.pip(said, words)}", then)


def _numba(said: Said) -> Cure:
    then = "NVVM and the linker are of one release then, and no toolkit of the system is asked."
    return Cure(f"unset CUDA_HOME CUDA_PATH && {_ways.pip(said, _NUMBA)}", then)


_NUMBA = 'install --upgrade "numba-cuda[cu12]"'


def _runtime(said: Said) -> Cure:
    installed = f"{_ways.root_install(said)} nvidia-container-toolkit"
    written = "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"
    return Cure(f"{installed} && {written}", "On the host; then the same docker run again.")


def _bitsandbytes(said: Said) -> Cure:
    words = "install --upgrade --force-reinstall bitsandbytes nvidia-cuda-runtime-cu12 nvidia-cublas-cu12"
    return Cure(f"unset BNB_CUDA_VERSION && {_ways.pip(said, words)} nvidia-cusparse-cu12 && {_ways.FINDS}",
                "Its newest library, with the ones of CUDA 12 beside it, which the variable names.")  # fmt: skip


# (codes, what was done, what comes next), the first that fits.
_CASES: tuple[_CASE, ...] = (
    (("KW-050", "KW-051"), r"tensorflow\[and-cuda\]", _named_to_loader),
    (("KW-050",), r"pip3? install[^\n]* nvidia-[a-z-]+-cu1[123]\b", _named_to_loader),
    (("KW-020",), r"pip3? install[^\n]*flash[-_]attn|(re)?install(ed|ing)? (the )?flash[-_ ]?att\w*", _flash),
    (("KW-005",), r"pynvjitlink", _numba),
    (("KW-001", "KW-002", "KW-015"), r"docker run[^\n]*--gpus", _runtime),
    (("KW-028",), r"pip3? install[^\n]*(-U|--upgrade)[^\n]*bitsandbytes", _bitsandbytes),
)


def after(code: str, said: Said) -> Cure | None:
    """The next command; None where nobody tried the first."""
    if said.machine is not None or said.windows or said.jetson:
        return None
    return next((make(said) for codes, done, make in _CASES if code in codes and said.tried(done)), None)
