# SPDX-License-Identifier: MIT
"""Commands and names for logs of kinds that were once answered wrongly: whose sources a file lies in, whose driver is
missing, which list a build takes its GPUs from. The lines are made up.
"""

from __future__ import annotations

import pytest

from kernelwright.doctor.explain import explain
from kernelwright.doctor.explain.said import Said

SYMBOL = "undefined symbol: _ZN2at4_ops4ones4callEN3c108ArrayRefIlEE"
SITE = "/srv/env/lib/python3.11/site-packages"
OLD_CACHE = "/tmp/torch_extensions"  # noqa: S108 - where torch had it once
GPU = "nvcc fatal   : Unsupported gpu architecture 'compute_{}'"


@pytest.mark.parametrize(
    ("log", "package"),
    [
        (f"ImportError: {SITE}/warp_cpp/_C.cpython-311-x86_64-linux-gnu.so: {SYMBOL}", "warp-cpp"),
        (f"ImportError: {SITE}/scan_ext-0.3.1-py3.11-linux-x86_64.egg/scan.so: {SYMBOL}", "scan-ext"),
        (f"ImportError: {SITE}/scanner/_C.abi3.so:\n {SYMBOL}", "scanner"),
        ("error: Failed to download and build `scanner==0.4.2`\n", "scanner"),
    ],
)
def test_whose_package_it_is(log, package):
    (answer,) = explain(log).answers if "symbol" in log else (None,)
    assert Said(log, tuple(line.text for line in answer.lines) if answer else ()).package == package


@pytest.mark.parametrize(
    ("place", "wanted"),
    [
        ("/srv/scans/scans/_C.cpython-311-x86_64-linux-gnu.so", "cd /srv/scans/scans && until [ -e setup.py ]"),
        (f"{SITE}/scan_ext-0.3.1-py3.11-linux-x86_64.egg/scan.so", "rm -rf build && python -m pip install"),
        (
            "/srv/.cache/torch_extensions/py311_cu128/scan/scan.so",
            "rm -rf /srv/.cache/torch_extensions/py311_cu128/scan",
        ),
        (f"{OLD_CACHE}/scan/scan.so", f"rm -rf {OLD_CACHE}/scan"),
    ],
)
def test_what_is_of_no_index_is_compiled_where_it_was(place, wanted):
    fix = explain(f"ImportError: {place}: {SYMBOL}").answers[0].fix
    assert fix.startswith(wanted)
    assert "<package>" not in fix


def test_no_directory_of_a_log_leads_elsewhere():
    for place in ("/srv/../etc/x.so", "/srv/$(reboot)/x.so", "/srv/a b;reboot/x.so"):
        assert "cd " not in explain(f"ImportError: {place}: {SYMBOL}").answers[0].fix


@pytest.mark.parametrize(
    ("log", "code", "wanted"),
    [
        ("Failed to initialize NVML: GPU access blocked by the operating system", "KW-008", "wsl.exe --update"),
        ("nvidia-container-cli: initialization error: nvml error: driver not loaded", "KW-009", "modprobe nvidia "),
        (
            ("docker: Error response from daemon: error running hook: nvidia-container-cli: initialization error: "
            "load library failed: libnvidia-ml.so.1: cannot open shared object file"),
            "KW-001",
            "ubuntu-drivers install",
        ),
        (
            ('OS: Rocky Linux 9\nError response from daemon: could not select device driver "nvidia" with '
            "capabilities: [[gpu]]"),
            "KW-002",
            "sudo dnf install -y nvidia-container-toolkit",
        ),
        (
            "/usr/local/cuda-9.2/bin/nvcc -I/srv/lib/torch/include -c x.cu\n" + GPU.format(75),
            "KW-044",
            'TORCH_CUDA_ARCH_LIST="7.0"',
        ),
        (
            "/usr/local/cuda-11.0/bin/nvcc -I/srv/lib/torch/include -c x.cu\n" + GPU.format(89),
            "KW-044",
            'TORCH_CUDA_ARCH_LIST="8.0"',
        ),
        (
            "torch 2.9.0+cu128\n/usr/local/cuda-11.8/bin/nvcc -I/srv/lib/torch/include -c x.cu\n" + GPU.format(120),
            "KW-044",
            "cuda-toolkit-12-8",
        ),
        (
            "ninja: /opt/kit/bin/nvcc -isystem /usr/include/torch/csrc/api/include x.dir/y.cu.o\n" + GPU.format(50),
            "KW-044",
            "export TORCH_CUDA_ARCH_LIST=",
        ),
        ("make: *** No rule to make target '/opt/kit/lib64/libcufft.so', needed by 'wave'.  Stop.", "KW-045", "toolkit"),
        (
            ("CMake Error at torch/share/cmake/Caffe2/public/cuda.cmake:69 (message):\n  Failed to find nvToolsExt\n"
            "Call Stack (most recent call first):\n  torch/share/cmake/Torch/TorchConfig.cmake:68 (include)\n"
            "  CMakeLists.txt:2 (find_package)"),
            "KW-045",
            "install --upgrade torch",
        ),
        (
            "make[2]: *** No rule to make target '/usr/local/cuda-12.4/lib64/libnvToolsExt.so', needed by 'wave'.",
            "KW-045",
            "cuda-nvtx-12-4",
        ),
        (
            ("FindCUDA says CUDA version is (usually determined by nvcc), but the CUDA\nheaders say the version is 12.1.\n"
            "Perhaps, try re-running this\ncommand again with PATH=/opt/kit/bin:$PATH. See above"),
            "KW-041",
            "export PATH=/opt/kit/bin:$PATH",
        ),
        (
            ("CUDA SETUP: Loading binary /srv/lib/bitsandbytes/libbitsandbytes_cuda118.so...\n"
            "libcusparse.so.11: cannot open shared object file: No such file or directory"),
            "KW-050",
            "nvidia-cusparse-cu11",
        ),
    ],
)  # fmt: skip
def test_the_cause_and_its_command(log, code, wanted):
    answer = explain(log).answers[0]
    assert (answer.cause.code, wanted in answer.fix) == (code, True), answer


@pytest.mark.parametrize(
    ("log", "code", "wanted"),
    [
        (
            "RuntimeError: CUDA error: device kernel image is invalid\nCUDA_LAUNCH_BLOCKING=1",
            "KW-053",
            "ubuntu-drivers",
        ),
        (
            "python setup.py install\nimport torch\nRuntimeError: CUDA error: invalid device function",
            "KW-010",
            "--no-cache-dir .",
        ),
        (
            "/bin/sh: 1: :/opt/kit-11.0:/opt/kit-12.4/bin/nvcc: not found",
            "KW-081",
            "export CUDA_HOME=/opt/kit-12.4",
        ),
        ("OSError: The nvcc binary could not be located in your $PATH", "KW-040", "cuda-toolkit"),
        ("Command '['/opt/nvcc', '--version']' returned non-zero exit status 127.", "KW-040", "cuda-toolkit"),
        (
            (
                "NCCL INFO NET/Plugin : load (libnccl-net.so) : libnccl-net.so: cannot open shared object file\n"
                "x.cc:2 NCCL WARN Cuda failure 'CUDA driver version is insufficient for CUDA runtime version'"
            ),
            "KW-003",
            "ubuntu-drivers",
        ),
        (
            "[nix-shell:~]$ python\nImportError: libstdc++.so.6: cannot open shared object file",
            "KW-054",
            "nixpkgs#stdenv.cc.cc.lib",
        ),
        (
            (
                "ValueError: numpy.dtype size changed, may indicate binary incompatibility. "
                "Expected 96 from C header, got 88 from PyObject"
            ),
            "KW-023",
            "numpy<2",
        ),
        (
            (
                "ValueError: numpy.dtype size changed, may indicate binary incompatibility. "
                "Expected 88 from C header, got 96 from PyObject"
            ),
            "KW-023",
            "--upgrade numpy",
        ),
        (
            "RuntimeError: module compiled against API version 0x10 but this version of numpy is 0xf",
            "KW-023",
            "--upgrade numpy",
        ),
    ],
)
def test_more_causes_and_commands(log, code, wanted):
    answer = explain(log).answers[0]
    assert (answer.cause.code, wanted in answer.fix) == (code, True), answer


OLD_TORCH = (
    "  File '/srv/x/torch/__init__.py'\n    from torch._C import *\nImportError: {}: cannot open shared object file"
)


@pytest.mark.parametrize(
    ("log", "wanted"),
    [
        ("ImportError: libc10_cuda.so: cannot open shared object file", "install --force-reinstall torch "),
        ("ImportError: libtorch_cuda_cu.so: cannot open shared object file", 'install "torch<2"'),
        (OLD_TORCH.format("libcudnn.so.6"), "--force-reinstall torch "),
        (OLD_TORCH.format("libcurand.so.8.0"), "--force-reinstall torch "),
        ("x: libcurand.so.9.2: cannot open shared object file", '"cudatoolkit=9.2"'),
        ("x: libcudnn.so.7: cannot open shared object file", '"cudnn=7"'),
        ("x: libcurand.so.10: cannot open shared object file", "nvidia-curand-cu12"),
        (
            'torch 2.11.0 requires triton==3.6.0; platform_system == "Linux", but you have triton 3.5.1 which is incompatible.',
            'install "triton==3.6.0" torch',
        ),
        ("ValueError: Could not find the operator torchvision::nms. Please", "torch torchvision torchaudio"),
        ("/usr/include/python3.8/Python.h:44:10: fatal error: crypt.h: No such file or directory", "libcrypt-dev"),
        ("/srv/conda/envs/x/compiler_compat/ld: cannot find -lpthread: No such file", "cxx-compiler"),
    ],
)
def test_commands_for_libraries_and_headers(log, wanted):
    assert wanted in explain(log).answers[0].fix, explain(log)


def test_a_frame_of_cmake_is_no_missing_torch():
    found = explain(
        "CMake Error at CMakeLists.txt:3 (message):\n  no such colour\n  torch/TorchConfig.cmake:68 (include)"
    )
    assert [answer.cause.code for answer in found.answers] == []


def test_a_windows_path_may_have_slashes():
    assert Said("-- Found Python: C:/tools/env/python.exe").windows
    assert not Said("see https://example.org/d:1 and ftp://x/y").windows
