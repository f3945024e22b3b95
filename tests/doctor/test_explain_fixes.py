# SPDX-License-Identifier: MIT
"""The command of an answer: it would have ended what the log shows, has in it what the log names, and nothing that a
log could smuggle into a shell.

tests/corpus/cures.txt says of each text what would have ended it. The texts of `held` are a third of them; their lines
were written before any command for them was looked at, and only how many are right is told.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from kernelwright.doctor._check import Finding, Grade
from kernelwright.doctor._told import as_data
from kernelwright.doctor.causes import all_causes
from kernelwright.doctor.explain import Confidence, explain
from kernelwright.doctor.explain.cures import cure, has_blanks, makers
from kernelwright.doctor.explain.said import Said
from tests.doctor import made_up
from tests.doctor.made_up import ORIN, WORKSTATION, nvcc
from tests.doctor.test_explain import CORPUS, label

SHARE_OF_HELD = 0.9


def expected():
    """{part of the corpus: {name: patterns of commands}}."""
    found, part = {}, {}
    for line in (CORPUS / "cures.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            part = found.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            name, _, patterns = line.partition(": ")
            part[name] = patterns.split("  ")
    return found


EXPECTED = expected()


def first(part, name):
    return explain((CORPUS / part / f"{name}.log").read_text(encoding="utf-8")).answers[0]


def ends(part, name):
    return any(re.search(pattern, first(part, name).fix) for pattern in EXPECTED[part][name])


@pytest.mark.parametrize("name", EXPECTED["shown"])
def test_the_command_would_have_ended_it(name):
    assert ends("shown", name), first("shown", name).fix


def test_the_commands_of_the_texts_that_are_set_aside():
    right = sum(ends("held", name) for name in EXPECTED["held"])
    assert right >= SHARE_OF_HELD * len(EXPECTED["held"]), f"{right} of {len(EXPECTED['held'])}"


def test_every_text_that_has_a_cause_says_what_ends_it():
    for part, known in EXPECTED.items():
        names = {path.stem for path in (CORPUS / part).glob("*.log") if label(path) != "none"}
        assert names == set(known)


@pytest.mark.parametrize("part", ["shown", "held"])
def test_nobody_is_sure_of_a_command_with_blanks(part):
    for path in (CORPUS / part).glob("*.log"):
        text = path.read_text(encoding="utf-8")
        for answer in explain(text).answers:
            assert not (answer.confidence is Confidence.HIGH and has_blanks(answer.fix)), answer.fix
            read = subprocess.run(
                ["bash", "-n", "-c", re.sub(r"<[^<>]*>", "X", answer.fix)], capture_output=True, check=False
            )
            assert (read.returncode, read.stderr) == (0, b""), answer.fix


COMMANDS = [
    ("ERROR: Failed building wheel for flash-attn\n", "flash-attn"),
    ("  Building wheel for apex (setup.py) ... error\nFailed to build apex\n", "apex"),
    ("ERROR: Could not build wheels for detectron2, which is required\n", "detectron2"),
    ("ERROR: No matching distribution found for xformers==0.0.20\n", "xformers"),
    ("ERROR: Failed to build installable wheels for some pyproject.toml based projects (causal-conv1d)\n", "causal-conv1d"),
    ("  \u00d7 Failed to build `mamba-ssm==2.2.4`\n", "mamba-ssm"),
    ("ERROR: Could not build wheels for apex, cupy, which are required\n", ""),
    ("Failed building wheel for apex\nFailed building wheel for cupy\n", ""),
    ("Failed building wheel for x;reboot\n", ""),
    ("Failed building wheel for $(reboot)\n", ""),
    ("Failed building wheel for `$(reboot)`\n", ""),
    ("Failed building wheel for -e\n", ""),
    ("pip install $(reboot)\n", ""),
    ("$ pip install kernel-helpers\n", "kernel-helpers"),
]  # fmt: skip


@pytest.mark.parametrize(("log", "package"), COMMANDS, ids=[str(number) for number in range(len(COMMANDS))])
def test_the_package_is_the_one_that_the_log_names(log, package):
    assert Said(log).package == package
    fix = cure(all_causes()["KW-094"], Said(log)).command
    assert fix.endswith(f" {package or '<package>'}")


SITE = "/opt/env/lib/python3.11/site-packages"
PLACES = [
    (f"ImportError: {SITE}/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so: undefined symbol: x", "flash-attn"),
    (f"ImportError: {SITE}/torch_scatter/_scatter_cuda.so: undefined symbol: x", "torch-scatter"),
    (f"OSError: {SITE}/torch/lib/libc10.so: undefined symbol: x", ""),
    (f"ImportError: {SITE}/$(reboot)/x.so: undefined symbol: x", ""),
    (
        "CUDA error (/w/xformers/third_party/flash-attention/hopper/flash_fwd_launch_template.h:1): no kernel image",
        "xformers",
    ),
    ("Error named symbol not found at line 74 in file /src/csrc/ops.cu", "bitsandbytes"),
]


@pytest.mark.parametrize(("line", "package"), PLACES)
def test_the_package_whose_file_the_error_names(line, package):
    assert Said(line, (line,)).package == package


HOSTILE = ("x;reboot", "$(reboot)", "`reboot`", "x|sh", "x&&reboot", 'x"; reboot; "', "x'$(reboot)'", "../../x", "-x")


@pytest.mark.parametrize("evil", HOSTILE)
def test_a_log_does_not_write_the_command(evil):
    """Whatever words of the corpus are replaced by what a shell would run, no command has it."""
    for path in sorted(CORPUS.glob("*/*.log")):
        text = path.read_text(encoding="utf-8")
        for word in set(
            re.findall(
                r"(?:site-packages|envs|for|install|torch_extensions|File \"|manifest for|have torch) ?[/\"]?([\w.-]{3,})",
                text,
            )
        ):
            for answer in explain(text.replace(word, evil)).answers:
                assert not re.search(r"[;`(&] ?reboot|\|sh", answer.fix), (path.name, answer.fix)
                assert "/.." not in answer.fix.replace('")")/../include', ""), (path.name, answer.fix)


def test_every_maker_is_of_a_cause():
    assert set(makers()) <= set(all_causes())
    assert len(makers()) > 40


GCC = "/opt/cuda/include/crt/host_config.h:143:2: error: #error -- unsupported GNU version! gcc versions later than {} are not supported!"
GPU = "nvcc fatal   : Unsupported gpu architecture 'compute_{}'\n"


@pytest.mark.parametrize(
    ("log", "wanted"),
    [
        (GCC.format(11), "g++-11"),
        ("RuntimeError: make sure to use an adequate version of g++ (>=6.0.0, <12.0). unsupported GNU version", "g++-11"),
        ("RuntimeError: make sure to use an adequate version of g++ (>=6.0.0, <=11.5.0). unsupported GNU version", "g++-11"),
        (f"sudo pacman -Syu\n{GCC.format(13)}", "pacman -S --needed gcc13"),
        (f"# dnf install cuda\n{GCC.format(13)}", "dnf install -y gcc13-c++"),
        (GPU.format("120"), "cuda-toolkit-12-8"),
        (f"torch 2.9.0+cu130\n{GPU.format('120')}", "cuda-toolkit-13-0"),
        (f"torch/utils/cpp_extension.py\n{GPU.format('35')}", 'TORCH_CUDA_ARCH_LIST="7.5;8.0;8.6;8.9;9.0"'),
        (f"[3/9] Building CUDA object a.dir/b.cu.o\n/usr/local/cuda-13.0/bin/nvcc\n{GPU.format('61')}", "-DCMAKE_CUDA_ARCHITECTURES="),
        (f"make: nvcc -gencode arch=compute_30,code=sm_30\n{GPU.format('30')}", "grep -rlE 'compute_30|sm_30'"),
        (f"error: command '/usr/bin/nvcc' failed\n{GPU.format('75')}", "cuda-toolkit-12-2"),
        ("ImportError: libGL.so.1: cannot open shared object file: No such file or directory", "install -y libgl1"),
        ("ImportError: libcudart.so.12: cannot open shared object file", "install nvidia-cuda-runtime-cu12 && export LD_LIBRARY_PATH"),
        ("jetson@orin\nImportError: libcudss.so.0: cannot open shared object file", "install -y cudss"),
        ("root@0123456789ab:/# nvidia-smi\nFailed to initialize NVML: Unknown Error", "docker restart 0123456789ab"),
        ("Driver Version: 545.23.06\nCUDA error 802: system not yet initialized", "nvidia-fabricmanager-545"),
        ("RuntimeError: DataLoader worker (pid 1) is killed by signal: Bus error.", "--shm-size"),
        ("ptxas x.ptx, line 2; error : Instruction 'setmaxnreg.inc' not supported on .target 'sm_90'", 'ARCH_LIST="9.0a"'),
        ("error: access to absolute path '/usr/lib' is forbidden in pure evaluation mode", "nix develop --impure"),
        ("jaxlib 0.4\nUnable to load cuDNN. Is it installed?", 'unset LD_LIBRARY_PATH && python -m pip install --upgrade "jax[cuda12]"'),
    ],
)  # fmt: skip
def test_the_values_of_a_log_are_in_its_command(log, wanted):
    assert wanted in explain(log).answers[0].fix, explain(log)


def test_npm_is_nobodys_compiler():
    assert not explain("npm ERR! code ELIFECYCLE\nnpm ERR! errno 137\nnpm ERR! web@0.1.0 build: `next build`\n").answers


def test_on_the_machine_that_the_log_is_of(tmp_path):
    """Its own compilers, its own Python, and what its checks find."""
    board, here = ORIN.at(tmp_path / "a"), WORKSTATION.but(**nvcc("12.8"))
    machine = here.but(files=made_up.package("flash_attn", "2.8.3")).at(tmp_path / "b")
    missing = "ModuleNotFoundError: No module named 'torch'\nGetting requirements to build wheel\n"
    fix = explain(f"{missing}ERROR: Failed building wheel for flash-attn", machine).answers[0].fix
    assert fix == (
        "python3 -m pip install torch setuptools wheel ninja packaging psutil && "
        "python3 -m pip install --no-build-isolation flash-attn"
    )
    kernel = f'  File "{SITE}/scans/ops.py", line 3, in run\nCUDA error: no kernel image is available for execution'
    assert 'TORCH_CUDA_ARCH_LIST="8.7"' in explain(kernel, board).answers[0].fix
    mismatch = "Failed to initialize NVML: Driver/library version mismatch"
    sick = here.but(files=made_up.module("550.54.15")).at(tmp_path / "c")
    assert explain(mismatch, sick).answers[0].fix.endswith("reboot")


def test_the_whole_way():
    log = (
        "  ModuleNotFoundError: No module named 'torch'\n  ERROR: Failed building wheel for flash-attn\n"
        "  Getting requirements to build wheel did not run successfully.\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "kernelwright", "explain"], input=log, capture_output=True, text=True, check=False
    )
    assert "KW-022" in done.stdout
    assert "pip install --no-build-isolation flash-attn\n" in done.stdout


def test_what_xray_says_names_the_wheel():
    found = Finding("KW-036", Grade.FAILS, "for another processor")
    assert as_data(found, "fused")["fix"].endswith(" fused")
    assert as_data(found, "a;b")["fix"].endswith(" <package>")
    assert as_data(found)["fix"].endswith(" <package>")
