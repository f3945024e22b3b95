# SPDX-License-Identifier: MIT
"""The first command for kinds of logs that fresh threads had and that got another one, or no name. The lines are made up."""

from __future__ import annotations

import pytest

from kernelwright.doctor._told import afterwards
from kernelwright.doctor.explain import explain
from kernelwright.doctor.explain.here import _waited

SITE = "/srv/env/lib/python3.11/site-packages"
NVCC = "torch 2.1.0+cu121\n/usr/local/cuda-{}/bin/nvcc -I/srv/lib/torch/include -c x.cu\n"

DRIVERS = [
    pytest.param(
        "user@pc:/mnt/c/Users/anna$ nvidia-smi\nFailed to initialize NVML: Driver Not Loaded\n"
        "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
        "KW-008",
        "apt-get purge -y 'nvidia-driver-*'",
        id="a Linux driver hides Windows' own",
    ),
    pytest.param(
        "$ podman run --rm --gpus all nvidia/cuda:12.4.1-base-ubuntu22.04 nvidia-smi\n"
        "Error: crun: executable file `nvidia-smi` not found in $PATH: No such file or directory",
        "KW-002",
        "--device nvidia.com/gpu=all",
        id="podman takes no --gpus",
    ),
    pytest.param(
        "nvidia-container-cli: initialization error: driver error: timed out: unknown",
        "KW-009",
        "nvidia",
        id="the container's tool waits for the driver",
    ),
    pytest.param(
        '  File "/usr/lib/python3.10/multiprocessing/process.py", line 108, in run\n'
        '    self._target(*self._args)\n  File "load.py", line 20, in work\n    x = x.cuda()\n'
        "RuntimeError: CUDA error: initialization error",
        "KW-013",
        "spawn",
        id="a forked worker",
    ),
    pytest.param(
        "W: GPG error: https://nvidia.github.io/libnvidia-container/stable/deb/amd64  InRelease: The following\n"
        "signatures couldn't be verified because the public key is not available: NO_PUBKEY DDCAE044F796ECB0",
        "KW-106",
        "libnvidia-container/gpgkey",
        id="the container toolkit's key is not CUDA's",
    ),
]
IMAGES = [
    pytest.param(
        "docker: Error response from daemon: manifest for nvidia/cuda:12.2-base-ubuntu22.04 not found: manifest unknown",
        "KW-107",
        "nvidia/cuda:12.2.2-base-ubuntu22.04",
        id="the last patch release",
    ),
    pytest.param(
        "Error response from daemon: manifest for nvidia/cuda:10.2-cudnn7-devel-ubuntu18.04 not found: manifest unknown",
        "KW-107",
        "nvidia/cuda:11.0.3-cudnn8-devel-ubuntu18.04",
        id="a release without images",
    ),
    pytest.param(
        "$ docker pull nvidia/cuda:latest\nError response from daemon: manifest for nvidia/cuda:latest not found: "
        "manifest unknown",
        "KW-107",
        "-devel-ubuntu22.04",
        id="it has no latest",
    ),
]
BUILDS = [
    pytest.param(
        "/usr/local/cuda-9.0/include/crt/host_config.h:119:2: error: #error -- unsupported GNU version! gcc 6.5 and up "
        "are not supported!",
        "KW-042",
        "g++-6",
        id="of one release of a GCC a part",
    ),
    pytest.param(
        "/usr/include/c++/11/bits/std_function.h:435:145: error: parameter packs not expanded with '...':\n"
        "/usr/local/cuda-11.5/bin/nvcc -c scan.cu",
        "KW-043",
        "g++-10",
        id="nvcc cannot read a GCC's headers",
    ),
    pytest.param(
        "$ export CXX=clang++-99\nCheck for working CXX compiler: /opt/bin/clang++-99 - broken",
        "KW-046",
        "unset CXX",
        id="the variable names no compiler",
    ),
    pytest.param(
        "numba.cuda.cudadrv.error.NvvmSupportError: libNVVM cannot be found. Do `conda install cudatoolkit`:\n"
        "library nvvm not found",
        "KW-045",
        "cuda-nvcc",
        id="numba's NVVM",
    ),
    pytest.param(
        "RuntimeError: ('\\nThe detected CUDA version (%s) mismatches the version that was used to compile\\n"
        "PyTorch (%s). Please make sure to use the same CUDA versions.', '12.4', '11.8')",
        "KW-041",
        "11-8",
        id="an exception that was not filled in",
    ),
    pytest.param(
        "Jetson AGX Orin, L4T 35.4\nnvcc fatal   : Unsupported gpu architecture 'compute_101'",
        "KW-044",
        'TORCH_CUDA_ARCH_LIST="8.7"',
        id="a board's build for others",
    ),
    pytest.param(
        "/usr/local/cuda/bin/nvcc -I/srv/lib/torch/include -c x.cu\nnvcc fatal   : Unsupported gpu architecture 'compute_89'",
        "KW-044",
        '"8.0+PTX"',
        id="PTX, where nvcc's release is not told",
    ),
    pytest.param(
        "ValueError: Unknown CUDA arch (12.0) or GPU not supported",
        "KW-044",
        '"9.0+PTX"',
        id="torch does not know the GPU",
    ),
]
PACKAGES = [
    pytest.param(
        'File "/srv/det/models/ops/functions/attn.py", line 12, in <module>\n    import MultiScale as MS\n'
        "ImportError: libcudart.so.10.2: cannot open shared object file: No such file or directory",
        "KW-050",
        "cd /srv/det/models/ops/functions && until ls setup.py make.sh",
        id="sources of one's own are built again",
    ),
    pytest.param(
        "error while loading shared libraries: libpython3.10.so.1.0: cannot open shared object file",
        "KW-054",
        "libpython3.10",
        id="Python's own library",
    ),
    pytest.param(
        "INTERNAL: Mismatched PJRT plugin PJRT API version (0.54) and framework PJRT API version 0.67).",
        "KW-096",
        'jax[cuda12]"',
        id="jax and its plugin",
    ),
    pytest.param(
        "$ nix-shell -p python3Packages.torch\nAssertionError: Torch not compiled with CUDA enabled\n"
        "/nix/store/abc-python3-3.12/lib/python3.12/site-packages/torch/cuda/__init__.py",
        "KW-021",
        "torch-bin",
        id="Nix's torch",
    ),
    pytest.param(
        "Python 3.12.3\nERROR: Could not find a version that satisfies the requirement torch==1.12.1+cu113 (from versions: "
        "2.2.0, 2.3.0)\nERROR: No matching distribution found for torch==1.12.1+cu113",
        "KW-024",
        "python=3.10",
        id="a torch that is older than the Python",
    ),
    pytest.param(
        "Jetson Orin NX, JetPack 5.1.2\nAssertionError: Torch not compiled with CUDA enabled",
        "KW-033",
        "/v512/pytorch/ torch",
        id="torch of the JetPack that is named",
    ),
    pytest.param(
        "Jetson Orin Nano, JetPack 6.1\nImportError: libcudnn.so.8: cannot open shared object file: No such file or directory",
        "KW-035",
        "/v61/pytorch/ torch",
        id="a JetPack has one cuDNN",
    ),
    pytest.param(
        "Jetson Orin\nRuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at CUDACachingAllocator.cpp:838",
        "KW-126",
        "sync && echo 3 | sudo tee /proc/sys/vm/drop_caches",
        id="nobody's desktop is ended",
    ),
    pytest.param(
        "ERROR: Could not find a version that satisfies the requirement torch==1.13.1 (from versions: 2.2.0, 2.2.1, 2.3.0)",
        "KW-024",
        'create -y -n py python=3.11 && conda run -n py python -m pip install "torch==1.13.1"',
        id="pip lists what there is for this Python",
    ),
    pytest.param(
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "KW-010",
        "install --force-reinstall torch ",
        id="one line of torch's",
    ),
    pytest.param(
        "Loaded runtime CuDNN library: 9.1.0 but source was compiled with: 9.8.0.  CuDNN library needs to have matching\n"
        "major version\n(base) anna@pc:~$ conda list | grep jax",
        "KW-051",
        "cudnn>=9.8",
        id="conda's cuDNN",
    ),
    pytest.param(
        f'(Worker pid=12) ERROR 11-02 10:11:12   File "{SITE}/scanner/ops.py", line 3, in scan\n'
        "(Worker pid=12) ERROR 11-02 10:11:12 RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "KW-010",
        "--no-binary scanner scanner",
        id="frames behind a prefix",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("log", "code", "wanted"), [*DRIVERS, *IMAGES, *BUILDS, *PACKAGES])
def test_the_first_command(log, code, wanted):
    answer = explain(log).answers[0]
    assert (answer.cause.code, wanted in answer.fix) == (code, True), (answer.cause.code, answer.fix)
    assert "isolate" not in answer.fix


@pytest.mark.parametrize(
    ("then", "told"), [("Then reboot.", "Reboot."), ("Or a newer one.", "Or a newer one."), ("Thenard.", "Thenard.")]
)
def test_no_word_stands_there_twice(then, told):
    assert afterwards(then) == told


def test_a_busy_machine_is_no_failure():
    """What a short wait has no answer to was not run; a failure stays one."""
    late, wrong = ({"operators_on_gpus": {"error": error}} for error in ("no answer within 5 s", "Segmentation fault"))
    assert _waited(late) == {"operators_on_gpus": {"untried": "no answer within 5 s"}}
    assert _waited(wrong) == wrong
    assert _waited({}) == {}
