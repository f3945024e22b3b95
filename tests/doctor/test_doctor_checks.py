# SPDX-License-Identifier: MIT
"""Each check of the doctor, seen finding its cause on a made-up machine and silent on one where all is well."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kernelwright import _files
from kernelwright.doctor._check import Grade
from kernelwright.doctor._rank import ranked, unlooked
from kernelwright.doctor.causes import all_causes
from kernelwright.doctor.checks import all_checks, examine, package
from kernelwright.doctor.machine import driver, extensions, jetson
from kernelwright.doctor.xray import installed
from tests.doctor import cuda_files, made_up
from tests.doctor.made_up import H100, NO_DRIVER, ORIN, WORKSTATION, gcc, libcuda, module, nvcc, torch
from tests.python.support import REPORT, copy_package, run

NVCC = "/usr/local/cuda/bin/nvcc"
OLD = "/usr/local/cuda-11.8/bin/nvcc"
GXX = "/usr/bin/g++"
NOT_LOADED = {"/proc/driver/nvidia/version": None, "/proc/driver/nvidia/gpus/0000:01:00.0/information": None}
NO_TOOLS = dict.fromkeys((NVCC, GXX, "/usr/bin/ninja"))


def driver_of(level=13000, **gpu):
    return {"init": 0, "level": level, "gpus": [{**H100, **gpu}]}


def with_extension(name="fused", **library):
    """The workstation with one more package on torch, different from a good one in `library`."""
    return WORKSTATION.but(files=made_up.extension(name, replace(made_up.EXTENSION, **library)))


BARE = WORKSTATION.but(
    files=dict.fromkeys((*libcuda()["files"], *module(), "/dev/nvidia0")), links={}, driver=NO_DRIVER
)
BARE = made_up.replace(BARE, links={})

LIBC_2_41, LIBC_2_42 = (
    {"/lib/x86_64-linux-gnu/libc.so.6": f"GNU C Library stable release version {version}.".encode()}
    for version in ("2.41", "2.42")
)
MATH = "".join(
    f"extern __device_builtin__ double {name}(double x);\n#endif\n__func__(double {name}(double a));\n"
    for name in ("rsqrt", "sinpi", "cospi")
)
MATH_OF_13 = MATH.replace("pi(double x);", "pi(double x) __NV_IEC_60559_FUNCS_EXCEPTION_SPECIFIER;")
OWN_CODE = min({image["code"] for image in _files.read(_files.MANIFEST)["images"]})

# code, what has to be in the evidence, the machine
SICK = [
    ("KW-001", "0000:01:00.0", BARE),
    ("KW-001", "is not loaded", WORKSTATION.but(
        files={**NOT_LOADED, "/proc/modules": "", "/sys/firmware/efi/efivars/SecureBoot-8be4df61": None},
        driver={"library": "x", "level": 13000, "init": 100, "gpus": []})),
    ("KW-002", "docker", BARE.but(files={"/.dockerenv": "", **module()})),
    ("KW-004", "550.54.15", WORKSTATION.but(files=module("550.54.15"))),
    ("KW-006", "/stubs", WORKSTATION.but(
        files={"/usr/local/cuda/lib64/stubs/libcuda.so.1": ""},
        variables={"LD_LIBRARY_PATH": "/usr/local/cuda/lib64/stubs"})),
    ("KW-006", "gives 34: /opt/x/libcuda.so.1", WORKSTATION.but(
        driver={"library": "/opt/x/libcuda.so.1", "init": 34, "gpus": []})),
    ("KW-007", "/usr/lib", WORKSTATION.but(variables={"IN_NIX_SHELL": "impure"}, driver=NO_DRIVER)),
    ("KW-008", "Windows", BARE.but(kernel="5.15.146.1-microsoft-standard-WSL2")),
    ("KW-009", "999", WORKSTATION.but(driver={"library": "x", "level": 13000, "init": 999, "gpus": []})),
    ("KW-009", "signal 11", WORKSTATION.but(driver={"error": "the process was ended by signal 11", "crashed": True})),
    ("KW-123", "802", WORKSTATION.but(driver={"library": "x", "level": 13000, "init": 802, "gpus": []})),
    ("KW-004", "gives 803 (library /usr/local/cuda/compat/libcuda.so.1 of 550.54.15, kernel module 580.65.06)", WORKSTATION.but(
        **libcuda("550.54.15", "/usr/local/cuda/compat"), variables={"LD_LIBRARY_PATH": "/usr/local/cuda/compat"},
        driver={"library": "/usr/local/cuda/compat/libcuda.so.1", "level": 12040, "init": 803, "gpus": []})),
    ("KW-004", "gives 804", WORKSTATION.but(driver={"library": "x", "level": 13000, "init": 804, "gpus": []})),
    ("KW-012", "hides every GPU", WORKSTATION.but(
        kernel="5.15.146.1-microsoft-standard-WSL2", variables={"CUDA_VISIBLE_DEVICES": ""}, files=NOT_LOADED)),
    ("KW-129", "torch 2.7.0 and 2.8.0", WORKSTATION.but(files={
        **made_up.package("torch", "2.7.0"), **made_up.package("torch", "2.8.0")})),
    ("KW-012", "hides every GPU", WORKSTATION.but(variables={"CUDA_VISIBLE_DEVICES": ""})),
    ("KW-012", "1 is not there", WORKSTATION.but(variables={"CUDA_VISIBLE_DEVICES": "0, 1"})),
    ("KW-012", "'gpu0'", WORKSTATION.but(variables={"CUDA_VISIBLE_DEVICES": "0,gpu0"})),
    ("KW-012", "twice", WORKSTATION.but(variables={"CUDA_VISIBLE_DEVICES": "0,0"})),
    ("KW-012", "'MIG-abc'", WORKSTATION.but(variables={"CUDA_VISIBLE_DEVICES": "MIG-abc"})),
    ("KW-021", "2.8.0+cpu", WORKSTATION.but(files=torch("2.8.0+cpu", None))),
    ("KW-023", "NumPy 2.1.0", WORKSTATION.but(files={**torch("2.2.0", "12.1"), **made_up.package("numpy", "2.1.0")})),
    ("KW-030", "nvidia-cublas-cu12", ORIN.but(files=made_up.package("nvidia_cublas_cu12", "12.6.4"))),
    ("KW-032", "38.2", ORIN.but(files={
        "/usr/lib/aarch64-linux-gnu/nvidia/libnvrm_gpu.so": None, "/usr/lib/aarch64-linux-gnu/libcuda.so.1": b"x",
        "/etc/nv_tegra_release": "# R38 (release), REVISION: 2.0, GCID: 1, BOARD: generic\n"})),
    ("KW-032", "39.2", ORIN.but(files={"/etc/nv_tegra_release": "# R39 (release), REVISION: 2.0, GCID: 1, BOARD: generic\n"})),
    ("KW-033", "PyPI", ORIN.but(files=torch("2.7.1", "12.6"))),
    ("KW-041", "11.8", WORKSTATION.but(**nvcc("11.8"))),
    ("KW-060", "GiB each", WORKSTATION.but(files={"/proc/meminfo": "MemTotal: 8000000 kB\nMemAvailable: 7000000 kB\n", NVCC: "#!"})),
    ("KW-060", "GiB each", WORKSTATION.but(files={"/sys/fs/cgroup/memory.max": "4294967296\n", NVCC: "#!"})),
    ("KW-073", "musl", WORKSTATION.but(
        files={"/lib/ld-musl-x86_64.so.1": b"", "/lib/x86_64-linux-gnu/libc.so.6": None})),
    ("KW-074", "3.5", WORKSTATION.but(driver={"init": 0, "level": 13000, "gpus": [{"name": "K40", "capability": 35}]})),
    ("KW-076", "11.4", WORKSTATION.but(driver={"init": 0, "level": 11040, "gpus": [H100]})),
    ("KW-077", "KERNELWRIGHT_DISABLE=1", WORKSTATION.but(variables={"KERNELWRIGHT_DISABLE": "1"})),
    ("KW-078", "this wheel has", WORKSTATION.but(variables={"KERNELWRIGHT_ARCH": "sm_1"})),
    ("KW-078", "which does not run on 3.5", WORKSTATION.but(
        variables={"KERNELWRIGHT_ARCH": OWN_CODE}, driver=driver_of(capability=35))),
    ("KW-080", "470.82.01", WORKSTATION.but(**libcuda("470.82.01", "/usr/lib64"))),
    ("KW-081", "which is a list", WORKSTATION.but(variables={"CUDA_HOME": ":/usr/local/cuda"})),
    ("KW-003", "13.0", WORKSTATION.but(**nvcc("13.0"), driver=driver_of(12080))),
    ("KW-003", "CUDA 13", replace(with_extension(needed=("libcudart.so.13",)), driver=driver_of(12080))),
    ("KW-005", "PTX 9.0", replace(
        with_extension(fat=cuda_files.container(cuda_files.ptx("90", (9, 0)))), driver=driver_of(12080))),
    ("KW-010", "sm_80", with_extension(fat=cuda_files.container(*cuda_files.sass("80")))),
    ("KW-015", "1 GPU", WORKSTATION.but(driver={"library": "x", "level": 13000, "init": 100, "gpus": []})),
    ("KW-015", "torch", WORKSTATION.but(torch={"available": False, "archs": ["sm_90"]})),
    ("KW-020", "_ZN3c104warnERKNS_7WarningE", with_extension(wants=("_ZN3c104warnERKNS_7WarningE",))),
    ("KW-027", "12.9", WORKSTATION.but(variables={"CONDA_OVERRIDE_CUDA": "12.9"}, driver=driver_of(12020))),
    ("KW-027", "without CUDA", WORKSTATION.but(variables={"CONDA_OVERRIDE_CUDA": ""})),
    ("KW-028", "cuda128", WORKSTATION.but(files={
        f"{made_up.SITE}/bitsandbytes/libbitsandbytes_cuda128.so": None, f"{made_up.SITE}/bitsandbytes/libbitsandbytes_cuda118.so": ""})),
    ("KW-028", "cuda124", WORKSTATION.but(variables={"BNB_CUDA_VERSION": "124"})),
    ("KW-030", "sbsa", ORIN.but(files=made_up.extension("fused", replace(
        made_up.EXTENSION, machine="aarch64", runpath="/usr/local/cuda-12.4/targets/sbsa-linux/lib")))),
    ("KW-031", "libcudart.so.11 ", WORKSTATION.but(
        variables={"LD_LIBRARY_PATH": "/opt/cuda-11/lib64"}, files={"/opt/cuda-11/lib64/libcudart.so.11.0": ""})),
    ("KW-031", "libcublas.so.12", WORKSTATION.but(
        variables={"LD_LIBRARY_PATH": "/opt/lib"}, files={"/opt/lib/libcublas.so.12": ""})),
    ("KW-035", "no libcuda.so.1", ORIN.but(files={"/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1": None}, driver=NO_DRIVER)),
    ("KW-036", "aarch64", with_extension(machine="aarch64")),
    ("KW-037", "2.5.0a0", ORIN.but(files={"/etc/pip.conf": None})),
    ("KW-038", "MODE_30W", ORIN.but(files={"/var/lib/nvpmodel/status": "pmode:0002 fmode:quiet\n"})),
    ("KW-040", "libraries and no bin/nvcc", WORKSTATION.but(files={NVCC: None})),
    ("KW-040", "not on PATH", WORKSTATION.but(files={NVCC: None, OLD: "#!", "/usr/local/cuda-11.8/lib64/a": ""})),
    ("KW-042", "GCC 15", WORKSTATION.but(**gcc("15.1.0"))),
    ("KW-042", "takes GCC 13", WORKSTATION.but(
        files={**nvcc("12.5")["files"], **gcc("14")["files"], "/usr/local/cuda/include/crt/host_config.h":
            "#error -- unsupported GNU version! gcc versions later than 13 are not supported!\n"},
        says={**nvcc("12.5")["says"], **gcc("14")["says"]})),
    ("KW-043", "NVCC_PREPEND_FLAGS", WORKSTATION.but(variables={"NVCC_PREPEND_FLAGS": "-O3 -allow-unsupported-compiler"})),
    ("KW-046", "no g++", WORKSTATION.but(files={GXX: None})),
    ("KW-046", "triton 3.4.0", WORKSTATION.but(files={**NO_TOOLS, "/usr/bin/cc": None})),
    ("KW-047", "ninja is not", WORKSTATION.but(files={"/usr/bin/ninja": None})),
    ("KW-047", "does not run", WORKSTATION.but(says={"/usr/bin/ninja": "ModuleNotFoundError: No module named 'ninja'"})),
    ("KW-050", "libcusparseLt.so.0", with_extension(needed=("libcusparseLt.so.0",))),
    ("KW-052", "2.41", with_extension(versions=(("libc.so.6", ("GLIBC_2.41",)),))),
    ("KW-052", "has 2.17", WORKSTATION.but(files={"/lib/x86_64-linux-gnu/libc.so.6": b"GNU C Library stable release version 2.17."})),
    ("KW-053", "Zstandard", replace(with_extension(
        fat=cuda_files.container(*cuda_files.sass("90", packing="zstd", unpacked=900))), driver=driver_of(12020))),
    ("KW-054", "libpng16.so.16", with_extension(needed=("libpng16.so.16",))),
    ("KW-083", "/builds/cuda/lib64", with_extension(runpath="/builds/cuda/lib64", needed=("libcurand.so.10",))),
    ("KW-084", "nvidia-cuda-runtime 13.0.48", WORKSTATION.but(files=made_up.package("nvidia_cuda_runtime", "13.0.48"))),
    ("KW-088", "libcudnn.so.9", WORKSTATION.but(files={f"{made_up.SITE}/torch/lib/libc10_cuda.so": replace(
        made_up.TORCHS, needed=("libcudart.so.12", "libcudnn.so.9")).bytes()})),
    ("KW-089", "a.so", replace(WORKSTATION, old="/srv/ada/.cache/torch_extensions/py311_cu128/a/a.so")),
    ("KW-094", "3.10", WORKSTATION.but(files=made_up.extension("fused", made_up.EXTENSION, "fused/_C.cpython-310-x86_64-linux-gnu.so"))),
    ("KW-102", "6.8.0-45", WORKSTATION.but(files={**NOT_LOADED, "/proc/modules": ""}, driver=NO_DRIVER)),
    ("KW-103", "6.8.0-45", WORKSTATION.but(files=NOT_LOADED, kernel="6.14.0-1-generic", driver=NO_DRIVER)),
    ("KW-104", "nouveau", WORKSTATION.but(files={**NOT_LOADED, "/proc/modules": "nouveau 3096576 1 - Live 0x0\n"}, driver=NO_DRIVER)),
    ("KW-108", "HOME is not set", WORKSTATION.but(variables={"HOME": ""})),
    ("KW-108", "no such directory", WORKSTATION.but(variables={"HOME": "/nonexistent"})),
    ("KW-114", "cospi and sinpi otherwise than this system's glibc 2.41", WORKSTATION.but(
        files={"/usr/local/cuda/include/crt/math_functions.h": MATH, **LIBC_2_41})),
    ("KW-114", "declares rsqrt", WORKSTATION.but(
        files={"/usr/local/cuda/targets/x86_64-linux/include/crt/math_functions.h": MATH_OF_13, **LIBC_2_42})),
    ("KW-081", "no bin/nvcc", WORKSTATION.but(variables={"CUDA_HOME": "/opt/cuda"})),
    ("KW-082", "11.8", WORKSTATION.but(
        files={NVCC: "#!", OLD: "#!"}, says={**nvcc("12.8")["says"], **nvcc("11.8", OLD)["says"]},
        variables={"CUDA_HOME": "/usr/local/cuda-11.8", "PATH": "/usr/local/cuda/bin"})),
    ("KW-084", "libcudart.so.13", WORKSTATION.but(torch={"libraries": ["/a/libcudart.so.12", "/b/libcudart.so.13"], "archs": []})),
    ("KW-085", "124", WORKSTATION.but(variables={"BNB_CUDA_VERSION": "124"})),
    ("KW-086", "sm_80 sm_90", replace(WORKSTATION, driver=driver_of(capability=120), torch={"hung": True})),
    ("KW-086", "12.0", WORKSTATION.but(files={f"{made_up.SITE}/torch/lib/libtorch_cuda.so": None}, driver=driver_of(capability=120))),
    ("KW-086", "compute_110", WORKSTATION.but(files={f"{made_up.SITE}/torch/lib/libtorch_cuda.so": cuda_files.Library(
        fat=cuda_files.container(*cuda_files.sass("90"), cuda_files.ptx("110"))).bytes()}, driver=driver_of(capability=80))),
    ("KW-087", "12.4", WORKSTATION.but(files=torch("2.9.0+cu130", "13.0"), driver={"init": 0, "level": 12040, "gpus": [H100]})),
    ("KW-088", "libcudnn", WORKSTATION.but(torch={"error": "ImportError: libcudnn.so.9: cannot open shared object file"})),
]  # fmt: skip


@pytest.mark.parametrize(("code", "evidence", "machine"), SICK, ids=[f"{code}-{word}" for code, word, _ in SICK])
def test_a_sick_machine(tmp_path, code, evidence, machine):
    found = [finding for finding in examine(machine.at(tmp_path)) if finding.code == code]
    assert found, examine(machine.at(tmp_path / "again"))
    assert evidence in found[0].evidence


STUBS_LATER = WORKSTATION.but(variables={"LD_LIBRARY_PATH": "/usr/lib:/usr/local/cuda/lib64/stubs"})


@pytest.mark.parametrize("machine", [WORKSTATION, ORIN, STUBS_LATER], ids=["workstation", "orin", "stubs later"])
def test_a_healthy_machine(tmp_path, machine):
    served = {90: {"linux-x86_64"}, 87: {"linux-aarch64", "l4t-r36"}}
    capability = machine.driver["gpus"][0]["capability"]
    here = package.served(capability) is not None
    findings = [
        finding for finding in examine(machine.at(tmp_path)) if here or finding.code not in {"KW-074", "KW-075"}
    ]
    assert served
    assert findings == []


THOR = ORIN.but(
    files={
        "/etc/nv_tegra_release": "# R38 (release), REVISION: 2.0, GCID: 1, BOARD: generic\n",
        "/proc/device-tree/model": "NVIDIA Jetson AGX Thor Developer Kit\x00",
        **module("580.00"),
        **torch("2.9.0+cu130", "13.0"),
        **made_up.package("nvidia_cublas", "13.0.0"),
    },
    driver=driver_of(name="NVIDIA Thor", capability=110, integrated=True),
    torch={"available": True, "archs": ["sm_110"], "libraries": []},
)


@pytest.mark.parametrize("machine", [THOR, THOR.but(files={"/etc/nv_tegra_release": None})], ids=["board", "container"])
def test_a_board_on_the_servers_stack_is_no_tegra(tmp_path, machine):
    """JetPack 7 still has libnvrm_gpu.so; servers' packages are the right ones there."""
    made = machine.at(tmp_path)
    assert jetson.userland(made) == "sbsa"
    assert {finding.code for finding in examine(made)} <= {"KW-074", "KW-075"}  # its GPU's code: not in every build


UUID = "8932f937-d72c-4106-c12f-20bd9faed9f6"


@pytest.mark.parametrize("value", ["0, 1", "GPU-8932f937-d72c-4106", f"MIG-{UUID}", f"MIG-GPU-{UUID}/1/2"])
def test_visible_devices_that_are_right(tmp_path, value):
    machine = WORKSTATION.but(files=made_up.pci("0000:02:00.0"), variables={"CUDA_VISIBLE_DEVICES": value})
    assert "KW-012" not in {finding.code for finding in examine(machine.at(tmp_path))}


def test_a_machine_without_anything(tmp_path):
    """Of an empty root no check fails, and only what does not depend on the machine can be found."""
    findings = examine(made_up.Made().at(tmp_path))
    assert [f for f in findings if f.grade is Grade.UNKNOWN] == []
    assert findings == []


def test_every_check_has_its_cause_and_was_seen_finding_it():
    causes = all_causes()
    codes = {one.code for one in all_checks()}
    assert codes <= set(causes)
    # The package's files are damaged, or made others, in tests of their own; device files and disks are this machine's.
    assert codes - {code for code, _, _ in SICK} == {"KW-014", "KW-061", "KW-070", "KW-071", "KW-072", "KW-075"}


def test_every_cause_can_be_seen():
    """In a log, on a machine, or both; those from KW-110 on in a wheel, where tests/doctor/test_xray.py sees them."""
    checked = {one.code for one in all_checks()}
    assert [c.code for c in all_causes().values() if not c.signs and c.code not in checked] == [
        "KW-110",
        "KW-111",
        "KW-120",
    ]


@pytest.mark.parametrize(
    "files", [{**LIBC_2_41}, {"/usr/local/cuda/include/crt/math_functions.h": MATH},
              {"/usr/local/cuda/include/crt/math_functions.h": MATH_OF_13, **LIBC_2_41}],
    ids=["no header", "an older C library", "a header of CUDA 13"],
)  # fmt: skip
def test_headers_that_go_together(tmp_path, files):
    assert "KW-114" not in {found.code for found in examine(WORKSTATION.but(files=files).at(tmp_path))}


def test_libraries_of_the_loaders_configuration(tmp_path):
    """On a Jetson the toolkit's libraries are found by it."""
    lacks = {f"{made_up.SITE}/torch/lib/libc10_cuda.so": replace(made_up.TORCHS, needed=("libcudnn.so.9",)).bytes()}
    has = {"/etc/ld.so.conf.d/a.conf": "# text\n/opt/cudnn/lib\n", "/opt/cudnn/lib/libcudnn.so.9": ""}
    assert "KW-088" in {found.code for found in examine(WORKSTATION.but(files=lacks).at(tmp_path / "a"))}
    assert "KW-088" not in {found.code for found in examine(WORKSTATION.but(files={**lacks, **has}).at(tmp_path / "b"))}


def test_a_library_of_another_processor(tmp_path):
    """The whole way: a wheel's directory that was copied from another machine."""
    package = copy_package(tmp_path)
    library = package / _files.LIBRARY
    content = bytearray(library.read_bytes())
    content[18] = 183 if content[18] == 62 else 62  # e_machine: aarch64 or x86-64
    library.write_bytes(content)
    told = json.loads(run(REPORT, "--json", "--self", package=package).stdout)
    [found] = [found for found in told["findings"] if found["code"] == "KW-072"]
    assert str(library) in found["evidence"]
    assert "KW-072" not in run(REPORT, "--json", "--self").stdout


def test_device_files(tmp_path, monkeypatch):
    machine = WORKSTATION.at(tmp_path)
    monkeypatch.setattr("os.access", lambda path, _: not str(path).endswith("nvidia0"))
    found = {finding.code: finding for finding in examine(machine)}
    assert "/dev/nvidia0" in found["KW-014"].evidence
    assert found["KW-014"].grade is Grade.FAILS


@pytest.mark.parametrize("full", ["tmp", "srv/ada"])
def test_a_full_disk(tmp_path, monkeypatch, full):
    """Also one that is not the one of /tmp: the home's, where caches are."""

    class Disk:
        f_frsize = 4096

        def __init__(self, path):
            self.f_bavail = 10 if str(path) == str(tmp_path / full) else 10**9

    machine = WORKSTATION.but(files={"/tmp/a": ""}).at(tmp_path)  # noqa: S108
    monkeypatch.setattr("os.statvfs", Disk)
    found = {finding.code: finding.evidence for finding in examine(machine)}
    assert found["KW-061"] == f"/{full} has 0.0 GiB left"
    monkeypatch.setattr("os.access", lambda path, _: str(path) != str(tmp_path / full))
    assert "KW-061" not in {finding.code for finding in examine(machine)}


def test_a_gpu_for_which_the_driver_compiles(tmp_path, monkeypatch):
    """Whatever wheel runs this test: on one with finished code alone the check would never be seen."""
    for wheel, found in ((("sm_90a", "compute_90"), True), (("sm_100",), False)):
        monkeypatch.setattr(
            package,
            "_images",
            lambda wheel=wheel: [{"code": name, "path": "manifest.json", "sha256": ""} for name in wheel],
        )
        told = {
            each.code: each
            for each in examine(replace(WORKSTATION, driver=driver_of(capability=100)).at(tmp_path / wheel[0]))
        }
        assert ("KW-075" in told) == found
        if found:
            assert "compute_90" in told["KW-075"].evidence
            assert told["KW-075"].grade is Grade.WARNS


@pytest.mark.parametrize(("capability", "codes", "expected"), [
    (86, ("sm_80", "sm_86"), "its own code"),
    (86, ("sm_80", "sm_90"), "code for 8.0, the nearest of its family in this wheel"),
    (100, ("sm_80", "compute_80"), "the driver compiles this on first use"),
    (75, ("sm_80", "compute_80"), "none of this wheel's code runs on 7.5"),
])  # fmt: skip
def test_why_a_gpu_gets_it(monkeypatch, capability, codes, expected):
    monkeypatch.setattr(package, "_images", lambda: [{"code": name} for name in codes])
    assert package.why(capability).endswith(expected)


def test_torch_whose_code_the_driver_compiles(tmp_path):
    """Its PTX runs on a GPU that is newer than its finished code."""
    library = cuda_files.Library(fat=cuda_files.container(*cuda_files.sass("80"), cuda_files.ptx("90")))
    made = WORKSTATION.but(
        files={f"{made_up.SITE}/torch/lib/libtorch_cuda.so": library.bytes()}, driver=driver_of(capability=120)
    )
    assert extensions.codes_of_torch(made.at(tmp_path)) == ("sm_80", "compute_90")
    assert "KW-086" not in {each.code for each in examine(made.at(tmp_path, write=False))}


def test_codes_that_most_of_a_library_has(tmp_path):
    """Kernels for one GPU alone lie in modules of their own; they say nothing of the rest. Damage is no code."""
    usual, one = cuda_files.sass("80", "90"), cuda_files.sass("90a")
    library = cuda_files.Library(fat=b"".join(cuda_files.container(*images) for images in (usual, one, usual))).bytes()
    path = tmp_path / "libtorch_cuda.so"
    path.write_bytes(library)
    assert installed.codes(path) == ("sm_80", "sm_90")
    for damaged in (b"", b"\x7fELF", library[: len(library) // 2], library[:80] + b"\xff" * (len(library) - 80)):
        path.write_bytes(damaged)
        assert installed.codes(path) == ()
    assert installed.codes(tmp_path / "nothing") == ()
    assert installed.codes(tmp_path) == ()


@pytest.mark.parametrize(("names", "newer"), [
    (("_ZN3c105ErrorC2ENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES6_PKv",), True),
    (("_ZN3c105ErrorC2ESsSsPKv", "_ZNSt7__cxx1112basic_stringE"), False),
    (("_ZN3c106DeviceC1ERKNSt7__cxx1112basic_stringE",), None),
])  # fmt: skip
def test_the_interface_torch_is_built_with(tmp_path, names, newer):
    made = WORKSTATION.but(files={f"{made_up.SITE}/torch/lib/libc10.so": replace(made_up.TORCHS, wants=names).bytes()})
    assert extensions.abi_of_torch(made.at(tmp_path)) is newer


def test_a_check_that_fails_is_told(tmp_path, monkeypatch):
    def broken(machine):
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(driver, "gpus_on_the_bus", broken)
    found = examine(WORKSTATION.at(tmp_path))
    (error,) = unlooked(found)
    assert error["error"] == "ZeroDivisionError: by zero"
    assert len(error["codes"]) > 1
    assert ranked(found) == []
