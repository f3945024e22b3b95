# SPDX-License-Identifier: MIT
"""What a log can show that is no cause of ours: said in one sentence, so that silence has a reason."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kernelwright.doctor._cause import Sign

if TYPE_CHECKING:
    from kernelwright.doctor.explain._lines import Line
    from kernelwright.doctor.explain._text import Text

# Runtimes of other makers say much of what CUDA's says, word for word.
_OTHER_MAKERS = Sign(
    r"\bhip(fft|blas\w*|sparse)? error|\bhiperror|/opt/rocm|\+rocm\d|\brocm (devices|version|error)|rocm module"
    r"|\brocm-smi|amdgcn|\bgfx\d{3,4}\w?\b|\bamdgpu\b|miopen|\bhipcc\b"
    r"|hip_(fatbin|platform)|\.hip\b"
    r"|amd (instinct|radeon)|\bhsa_\w|\bmps backend|\bmps device|'mps[:']|mtl(library|compiler|device)\w*|\bos: macos"
    r"|\bmacos-\d|\bapple m\d|\.dylib\b|\bclbuildprogram|pyopencl|\bcl_(invalid|build|out_of)_\w+|\bsycl\b"
    r"|level[- _]zero|\boneapi\b|torch_npu|\bascend\b"
)
_NVIDIA = Sign(
    r"nvidia[- ](smi|geforce|rtx|tesla|[abhltv]\d+\b)|geforce|\brtx \d{4}|libcuda\.|\bnvcc\b|cuda(_| )(runtime )?error"
    r"|cuda_error|\bnvrm\b|tegra|jetson|cuda-capable|cuda driver|found no nvidia|libnvidia|cudaerror"
)

_OTHERS = (
    (
        r"cuda (error: )?out of memory|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY|CUBLAS_STATUS_ALLOC_FAILED",
        "the GPU's memory is full: that is the program's size, not its installation",
    ),
    (
        r"device-side assert|illegal memory access|misaligned address|CUDA_ERROR_LAUNCH_FAILED|launch failure",
        "a kernel went wrong while it ran: a bug of the program or its data (CUDA_LAUNCH_BLOCKING=1 finds the call)",
    ),
    (
        r"nccl.{0,40}(timeout|unhandled|error)|watchdog caught collective|ProcessGroupNCCL",
        "processes on several GPUs lost each other: look at the first rank that failed",
    ),
    (
        r"segmentation fault|sigsegv|core dumped",
        "the program crashed without saying why: a core dump or python -X faulthandler says where",
    ),
    (
        r"shapes? .{0,60}(cannot be multiplied|mismatch)|size mismatch for|expected scalar type|must match the size",
        "tensors do not fit each other: that is the program's own error",
    ),
    (
        r"(401|403) client error|gatedrepoerror|repository not found|is not a local folder and is not a valid model",
        "a model or file could not be fetched: look at its name and the access rights",
    ),
    (
        r"^traceback \(most recent call last\)|^\w*(error|exception): ",
        "an error is there, but none that is known to come from the driver, the toolkit or the packages",
    ),
)


def of_other_maker(log: Text) -> bool:
    """Whether a log is of a GPU that is not NVIDIA's."""
    return log.has((_OTHER_MAKERS,)) and not log.has((_NVIDIA,))


def reason_for_silence(lines: list[Line], *, letter: bool = False, other_maker: bool = False) -> str:
    """Why no cause is named."""
    if not lines:
        return "the log is empty"
    if other_maker:
        return "the GPU is not one of NVIDIA's: its own maker's tools know what is wrong with it"
    if letter:
        return "a person wrote this, and it quotes no program's message: what was printed is needed"
    text = "\n".join(line.bare for line in lines)
    for pattern, reason in _OTHERS:
        if re.search(pattern.lower(), text, re.MULTILINE):
            return reason
    return "no line shows an error that is known to come from the driver, the toolkit or the packages"
