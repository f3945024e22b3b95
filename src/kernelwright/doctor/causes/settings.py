# SPDX-License-Identifier: MIT
"""What environment variables and search paths make of a machine that is otherwise whole."""

from __future__ import annotations

from kernelwright.doctor._cause import Area, Cause, sign

CAUSES = (
    Cause(
        code="KW-080",
        title="there are several drivers' libraries",
        area=Area.SETTINGS,
        why="Which libcuda.so.1 a program gets then depends on its search path; the wrong one does not fit the kernel module.",
        fix="unset LD_LIBRARY_PATH",
        then="Then remove the package that brought the driver that is not the kernel module's.",
    ),
    Cause(
        code="KW-081",
        title="CUDA_HOME names no toolkit",
        area=Area.SETTINGS,
        why="It has to be one directory with bin/nvcc in it: not a list, not a file, not a directory that has gone.",
        fix="export CUDA_HOME=/usr/local/cuda",
        then="Or unset it: build tools then take the nvcc of PATH.",
        signs=(
            sign(r":/?\S*/bin/nvcc['\"]?:? .{0,20}(not found|no such file)"),
            sign(r"(not found|no such file or directory|cannot find):? ['\"]?/\S*:/?\S*/bin/nvcc"),
            sign(r"CUDA_(HOME|PATH)\b.{0,60}(does not exist|not a (valid )?directory|is invalid|no such)"),
        ),
    ),
    Cause(
        code="KW-082",
        title="PATH and CUDA_HOME name different CUDA releases",
        area=Area.SETTINGS,
        why="Some build tools take nvcc from PATH, others from CUDA_HOME; headers and compiler of two releases do not go together.",
        fix='export PATH="$CUDA_HOME/bin:$PATH"',
    ),
    Cause(
        code="KW-083",
        title="a library's search path points nowhere",
        area=Area.SETTINGS,
        why="Its RUNPATH was made on the machine that built it; here that directory is not, so what it needs is found elsewhere or not.",
        fix="python -m pip install --force-reinstall --no-cache-dir <package>",
        then="On this machine; readelf -d <file> shows the path.",
    ),
    Cause(
        code="KW-084",
        title="several versions of the CUDA runtime are in one process",
        area=Area.SETTINGS,
        why="Packages that bring their own libcudart work side by side only by luck; errors of one then look like errors of the other.",
        fix="python -m pip install --force-reinstall --no-cache-dir torch",
        then="It brings the runtime that it was built with; then uninstall the packages of the other CUDA major "
        "version.",
    ),
    Cause(
        code="KW-085",
        title="bitsandbytes is forced to a CUDA version",
        area=Area.SETTINGS,
        why="BNB_CUDA_VERSION overrides what it would choose for the torch that is installed.",
        fix="unset BNB_CUDA_VERSION",
    ),
    Cause(
        code="KW-086",
        title="torch's GPU list lacks this machine's GPU",
        area=Area.TORCH,
        why="The installed torch has no code for this GPU, so its own operators fail, whatever other packages have.",
        fix="python -m pip install --upgrade torch",
        then="For a GPU that newer releases dropped: the last that has it. python -c 'import torch; "
        "print(torch.cuda.get_arch_list())' shows the list.",
    ),
    Cause(
        code="KW-087",
        title="torch is for a newer CUDA than the driver",
        area=Area.TORCH,
        why="torch's CUDA major version is above the driver's level; the driver cannot serve it.",
        fix="sudo apt-get update && sudo apt-get install -y ubuntu-drivers-common && sudo ubuntu-drivers install",
        then="Then reboot; or install the torch of the driver's CUDA release from torch's own index.",
    ),
    Cause(
        code="KW-088",
        title="torch cannot be imported",
        area=Area.TORCH,
        why="Its files are not whole, or a library it needs is missing or of another version.",
        fix="python -m pip install --force-reinstall --no-cache-dir torch",
        then="Of the same version from the same index (on a Jetson NVIDIA's wheel; in conda, where iJIT_NotifyEvent "
        'is missing: conda install "mkl<2024.1").',
        signs=(
            sign(r"(libtorch|torch/lib/lib\w+)\w*\.so\S*: undefined symbol", 2),
            sign(r"undefined symbol:? ?iJIT_"),
            sign(r"error loading ['\"]?\S*torch/lib/\S+", 2),
            sign(r"failed to load pytorch c extensions|partially initialized module 'torch'"),
        ),
        yields_to=("KW-020", "KW-050", "KW-051", "KW-052"),
    ),
    Cause(
        code="KW-089",
        title="a cache holds code that was compiled for another torch",
        area=Area.SETTINGS,
        why="Caches of just-in-time builds are named by the releases of Python and CUDA, or not at all: after an upgrade of torch or of "
        "the toolkit the old code is loaded.",
        fix="rm -rf ~/.cache/torch_extensions ~/.triton/cache ~/.cache/flashinfer",
        then="They are made again on first use.",
        signs=(
            sign(
                r"(\.cache/(torch_extensions|flashinfer|torchinductor)|/tmp/torch_extensions)/\S*\.so: undefined symbol"
            ),
            sign(
                r"\.cache/(torch_extensions|flashinfer)\S*\.so.{0,60}(invalid|wrong|cannot open|not found|no such)", 2
            ),
            sign(r"(stale|outdated|corrupt\w*) .{0,30}(jit|kernel|compile|extension|triton|inductor) cache"),
            sign(r"(jit|kernel|compile|extension|triton|inductor) cache .{0,30}(is )?(stale|outdated|corrupt)"),
        ),
        unless=(sign(r"undefined symbol:? ?_*(cu|nv|nccl)[a-z]"),),
    ),
)
