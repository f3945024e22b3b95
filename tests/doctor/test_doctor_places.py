# SPDX-License-Identifier: MIT
"""The report wherever it is asked for: containers, conda, Nix, WSL, Jetson, without torch, with a broken driver; and
what it says is all that a report of a fault has to say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import time
from dataclasses import replace

import pytest

from kernelwright import _files, _library, ops
from kernelwright.doctor._cause import Area
from kernelwright.doctor.machine import _probes, python
from kernelwright.doctor.machine._machine import Machine
from kernelwright.doctor.report.command import exit_code, usage
from kernelwright.doctor.report.facts import gather
from kernelwright.doctor.report.text import lines
from tests.doctor import made_up
from tests.doctor.made_up import H100, ORIN, WORKSTATION, gcc, torch
from tests.python import standin
from tests.python.support import copy_package

WSL = "5.15.146.1-microsoft-standard-WSL2"
CONDA = {"CONDA_PREFIX": "/opt/conda/envs/a"}

# What the place is, its machine, and what its report has to say of it.
PLACES = {
    "docker": (WORKSTATION.but(files={"/.dockerenv": ""}), "in a container (docker)"),
    "podman": (WORKSTATION.but(files={"/run/.containerenv": ""}), "in a container (podman)"),
    "apptainer": (WORKSTATION.but(variables={"APPTAINER_NAME": "a.sif"}), "in a container (apptainer)"),
    "kubernetes": (WORKSTATION.but(files={"/proc/1/cgroup": "0::/kubepods/pod1\n"}), "in a container (kubepods)"),
    "lxc": (WORKSTATION.but(files={"/proc/1/cgroup": "4:memory:/lxc/a\n"}), "in a container (lxc)"),
    "conda": (WORKSTATION.but(files={"/opt/conda/envs/a/conda-meta/history": ""}, variables=CONDA), " (conda), NumPy"),
    "Nix": (WORKSTATION.but(variables={"IN_NIX_SHELL": "pure"}), " (Nix shell), NumPy"),
    "WSL": (WORKSTATION.but(kernel=WSL, files={"/usr/lib/wsl/lib/libcuda.so.1": ""}), "in WSL"),
    "L4T": (ORIN, "Jetson AGX Orin Developer Kit, L4T 36.4.3, JetPack 6.2, tegra userland"),
    "no torch": (
        WORKSTATION.but(files={name: None for name in WORKSTATION.files if "/torch/" in name}),
        "torch        is not installed",
    ),
    "no GPU": (made_up.Made(driver=made_up.NO_DRIVER), "gpus         none"),
    "a driver that crashes": (
        WORKSTATION.but(driver={"error": "the process was ended by signal 11", "crashed": True}),
        "driver       does not answer: the process was ended by signal 11",
    ),
    "a driver that hangs": (
        WORKSTATION.but(driver={"error": "no answer within 5 s", "hung": True}),
        "driver       does not answer: no answer within 5 s",
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_place(tmp_path, place):
    made, expected = PLACES[place]
    told = gather(made.at(tmp_path))
    printed = "\n".join(lines(told))
    assert expected in printed
    assert "itself failed" not in printed
    assert [each["name"] for each in told["operators"] if "right" in each]
    assert printed.endswith(("SUCCESS", "FAILED"))


def test_the_pythons_own_environment(tmp_path, monkeypatch):
    here = Machine(variables={})
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert python.environment(here) == "virtual environment"
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    assert python.environment(here) == "system"
    monkeypatch.setattr(sys, "executable", "/nix/store/abc-python3/bin/python3")
    assert python.environment(here) == "Nix"
    (tmp_path / "conda-meta").mkdir()
    assert python.environment(here) == "conda"


# The whole command, in processes of their own.


def report(package, *options, interpreter=(), **environment):
    """`python -m kernelwright` with nothing on its path but the package and Python's own library."""
    code = (
        "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); runpy.run_module('kernelwright', run_name='__main__')"
    )
    return subprocess.run(
        [sys.executable, "-I", "-S", *interpreter, "-c", code, str(package.parent), *options],
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return copy_package(tmp_path_factory.mktemp("alone"))


def test_it_needs_the_standard_library_alone(package):
    """Every verb, with no site-packages; and each module that was loaded is the package's or Python's."""
    done = report(package)
    assert done.stdout.endswith("SUCCESS\n"), done.stdout + done.stderr
    assert "torch        is not installed" in done.stdout
    code = """
import contextlib, io, runpy, sys
sys.path.insert(0, sys.argv[1])
for verb in (["doctor", "--html", "/dev/null"], ["xray", "--json", sys.argv[1] + "/kernelwright"], ["explain", "/dev/null"], ["causes"]):
    sys.argv[1:] = verb
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        runpy.run_module("kernelwright", run_name="__main__")
for name, module in sys.modules.items():
    print(name, getattr(module, "__file__", None) or "")
"""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(package.parent)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    loaded = dict(line.partition(" ")[::2] for line in done.stdout.splitlines())
    own = (str(package), sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    assert {name for name, place in loaded.items() if place and not place.startswith(own)} == set()
    assert {"kernelwright.doctor.xray", "kernelwright.doctor.explain", "kernelwright.doctor.html"} <= set(loaded)


def write_garbage(directory):
    (directory / "libcuda.so.1").write_bytes(b"\x7fELF" + b"\xff" * 4000)


def write_text(directory):
    (directory / "libcuda.so.1").write_text("<html>not found</html>\n")


def write_directory(directory):
    (directory / "libcuda.so.1").mkdir()


def write_other(directory):
    """A library that has none of the driver's functions."""
    standin.build(directory, form=0)


DRIVERS = {"garbage": write_garbage, "a text": write_text, "a directory": write_directory, "no driver": write_other}


@pytest.mark.parametrize("kind", DRIVERS)
def test_a_broken_driver(tmp_path, package, kind):
    DRIVERS[kind](tmp_path)
    done = report(package, "--json", LD_LIBRARY_PATH=str(tmp_path))
    assert done.stderr == ""
    told = json.loads(done.stdout)
    assert told["driver"]["error"]
    assert told["gpus"] == []
    assert str(tmp_path) in told["variables"]["LD_LIBRARY_PATH"]
    assert all("right" in each for each in told["operators"])


def build(directory, source):
    command = [*standin.compiler(), "-x", "c", "-", "-shared", "-fPIC", "-o", str(directory / "libcuda.so.1")]
    subprocess.run(command, input=source, text=True, check=True, capture_output=True)


CRASHES = "#include <stdlib.h>\nint cuDriverGetVersion(int *n) { abort(); }\n"
HANGS = "#include <unistd.h>\nint cuDriverGetVersion(int *n) { for (;;) sleep(1); }\n"
WRITES = '#include <stdio.h>\nint cuDriverGetVersion(int *n) { puts("[1, 2"); fflush(stdout); return 999; }\nint cuInit(int n) { return 999; }\n'


@pytest.mark.parametrize(
    ("source", "error"),
    [(CRASHES, "signal 6"), (HANGS, "no answer within"), (WRITES, None)],
    ids=["crash", "hang", "noise"],
)
def test_a_driver_that_does_harm(tmp_path, package, source, error):
    """It is only ever loaded in a child process."""
    build(tmp_path, source)
    done = report(package, "--json", LD_LIBRARY_PATH=str(tmp_path))
    assert done.stderr == ""
    told = json.loads(done.stdout)
    assert told["gpus"] == []
    if error:
        assert error in told["driver"]["error"]
        assert {"signal 6": "KW-009", "no answer within": "KW-009"}[error] in [
            each["code"] for each in told["findings"]
        ]
    else:
        assert told["driver"]["init"] == 999
        assert "KW-009" in [each["code"] for each in told["findings"]]
    assert all("right" in each for each in told["operators"])


WORKS = """
#include <string.h>
int cuDriverGetVersion(int *n) { *n = 12020; return 0; }
int cuInit(unsigned n) { return 0; }
int cuDeviceGetCount(int *n) { *n = 3; return 0; }
int cuDeviceGet(int *device, int n) { *device = n; return 0; }
int cuDeviceGetName(char *to, int size, int device) { strncpy(to, "A \\xff GPU", size); return 0; }
int cuDeviceGetAttribute(int *to, int which, int device) {
  int all[] = {87, 90, 35};
  *to = which == 75 ? all[device] / 10 : which == 76 ? all[device] % 10 : device == 0;
  return 0;
}
int cuDeviceTotalMem_v2(unsigned long *to, int device) { *to = 8ul << 30; return 0; }
"""


def test_a_driver_with_gpus(tmp_path, package):
    build(tmp_path, WORKS)
    done = report(package, "--json", LD_LIBRARY_PATH=str(tmp_path))
    told = json.loads(done.stdout)
    assert told["driver"]["library"] == str(tmp_path / "libcuda.so.1")
    assert [gpu["capability"] for gpu in told["gpus"]] == [87, 90, 35]
    assert [gpu["integrated"] for gpu in told["gpus"]] == [True, False, False]
    assert told["gpus"][2]["why"] == "none of this wheel's code runs on 3.5"
    assert "KW-074" in [each["code"] for each in told["findings"]]
    assert done.returncode == 10 + list(Area).index(Area.PACKAGE)


VERSION = "__version__ = '2.8.0+cu128'\ncuda = '12.8'\n"
ENDS = "cannot be imported: "
# What the files of torch are, by name, and what the report says of it.
BROKEN = {
    "one file": ({".py": "raise SystemError('my own file')"}, ENDS + "SystemError: my own file"),
    "no version": ({"__init__.py": ""}, "of unknown version, no CUDA"),
    "noise": ({"version.py": "\x00\xff(((", "__init__.py": "("}, ENDS + "SyntaxError: "),
    "an end": ({"version.py": VERSION, "__init__.py": "import os; os._exit(0)"}, ENDS + "exit code 0 and no word"),
    "a crash": ({"version.py": VERSION, "__init__.py": "import os; os.kill(os.getpid(), 11)"}, ENDS + "the process was ended"),
    "nothing is what it should be": ({"version.py": VERSION, "__init__.py": """
__version__ = 3
class version: cuda = 12
class cuda:
    is_available = staticmethod(lambda: "perhaps")
    get_arch_list = staticmethod(lambda: [1, None, "sm_"])
"""}, "can be imported, sees a GPU, has code for 1 None sm_"),
    "links in a circle": ({"version.py": VERSION, "__init__.py": "", "lib/libtorch_cuda.so": None}, "2.8.0+cu128, CUDA 12.8"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_torch(tmp_path, package, kind):
    files, expected = BROKEN[kind]
    for name, content in files.items():
        path = tmp_path / ("torch.py" if name == ".py" else f"torch/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.symlink_to(path.name)
        else:
            path.write_text(content)
    code = "import os, runpy, sys; sys.path[:0] = sys.argv.pop(1).split(':'); runpy.run_module('kernelwright', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code, f"{package.parent}:{tmp_path}", "--torch"],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{package.parent}:{tmp_path}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert expected in done.stdout, done.stdout + done.stderr
    assert done.stderr == ""
    if ENDS in done.stdout:
        assert "FAILS KW-088" in done.stdout
        assert done.returncode == 10 + list(Area).index(Area.TORCH)


def test_which_torch_is_imported(tmp_path):
    """A directory with no Python in it is imported only where no other torch is."""
    first, second = "/usr/local/lib/python3.10/site-packages", made_up.SITE
    left = made_up.Made(files={f"{first}/torch/lib/a.txt": ""})
    found = python.torch(left.at(tmp_path / "left"))
    assert (found.version, found.cuda, found.place) == ("of unknown version", None, f"{first}/torch")
    both = left.but(files=torch("2.8.0", "12.8", second))
    assert python.torch(both.at(tmp_path / "both")).place == f"{second}/torch"
    one_file = both.but(files={f"{first}/torch.py": ""})
    assert python.torch(one_file.at(tmp_path / "file")).place == f"{first}/torch"
    spaced = left.but(files={f"{second}/torch/version.py": "__version__: str='2.8.0'\ncuda='12.8'\n"})
    found = python.torch(spaced.at(tmp_path / "spaced"))
    assert (found.version, found.cuda) == ("2.8.0", "12.8")


def test_what_an_import_starts_is_not_waited_for(tmp_path, package):
    """A child of the child holds the pipes of both: the report took as long as that lived."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/version.py").write_text(VERSION)
    (tmp_path / "torch/__init__.py").write_text(
        "import subprocess, time; subprocess.Popen(['sleep', '60']); time.sleep(60)"
    )
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "kernelwright", "--json"],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{package.parent}:{tmp_path}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert time.monotonic() - start < 30
    assert json.loads(done.stdout)["torch"]["import"] == {"waited_for": False}


def test_where_no_process_can_be_started(tmp_path, monkeypatch):
    """That says nothing of torch, and nothing of the driver."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    probes = _probes.Probes({"driver": 1, "torch": 1})
    made = WORKSTATION.at(tmp_path / "root")
    told = gather(replace(made, probe=probes))
    assert {"KW-088", "KW-009"} & {each["code"] for each in told["findings"]} == set()
    assert "its import was not tried: no child process could be started" in "\n".join(lines(told))


def test_redacted_from_end_to_end(tmp_path):
    """Neither text, data nor page has the home, the host's name or the user's."""
    home = tmp_path / "people/grace.hopper"
    package = copy_package(home)
    page = tmp_path / "page.html"
    host = os.uname().nodename
    environment = {"HOME": str(home), "LOGNAME": "grace.hopper", "USER": "grace.hopper", "CUDA_HOME": f"{home}/cuda",
                   "LD_LIBRARY_PATH": f"/data/grace.hopper/lib:/net/{host}/lib", "PATH": f"{home}/bin:/usr/bin"}  # fmt: skip
    plain = report(package, **environment).stdout
    assert f"{home}/kernelwright" in plain
    assert "/data/grace.hopper/lib" in plain
    assert host in plain
    for options in (["--redact"], ["--redact", "--json"], ["--redact", "--html", str(page)]):
        done = report(package, *options, **environment)
        texts = [done.stdout, page.read_text(encoding="utf-8") if page.exists() else ""]
        for text in texts:
            assert "grace" not in text
            assert str(home) not in text
            assert f"/net/{host}/" not in text
        assert "<home>/kernelwright" in done.stdout
        assert "/data/<user>/lib:/net/<host>/lib" in done.stdout
    assert "&lt;home&gt;/kernelwright" in page.read_text(encoding="utf-8")


# The exit code says where the first cause lies; a machine for each area in which a check can fail.
AREAS = {
    Area.DRIVER: WORKSTATION.but(driver={"library": "x", "level": 13000, "init": 999, "gpus": []}),
    Area.GPU: WORKSTATION.but(driver={"library": "x", "level": 13000, "init": 100, "gpus": []}),
    Area.TORCH: WORKSTATION.but(torch={"error": "ImportError: no"}),
    Area.JETSON: ORIN.but(files=made_up.package("nvidia_cublas_cu12", "12.6.4"), driver=made_up.NO_DRIVER),
    Area.LIBRARIES: WORKSTATION.but(files={"/lib/x86_64-linux-gnu/libc.so.6": b"GNU C Library stable release version 2.17."}),
    Area.PACKAGE: WORKSTATION.but(driver={"level": 13000, "init": 0, "gpus": [{**H100, "capability": 35}]}),
}  # fmt: skip


@pytest.mark.parametrize("area", AREAS, ids=lambda area: area.name)
def test_the_exit_code_of_a_machine(tmp_path, area):
    told = gather(AREAS[area].at(tmp_path))
    assert exit_code(told) == 10 + list(Area).index(area), [each["code"] for each in told["findings"]]


def found(code, area, grade, explained_by=None):
    return {"code": code, "area": area, "grade": grade, "explained_by": explained_by}


def test_the_exit_code_says_where():
    for number, area in enumerate(Area):
        findings = [found("KW-001", "GPU", "warns"), found("KW-002", area.value, "fails")]
        assert exit_code({"findings": findings, "success": False}) == 10 + number
        assert f"{10 + number} {area.value}" in usage()
    assert exit_code({"findings": [found("KW-001", "GPU", "warns")], "success": True}) == 0
    led = [found("KW-012", "GPU", "warns"), found("KW-015", "driver", "fails", "KW-012")]
    assert exit_code({"findings": led, "success": False}) == 10 + list(Area).index(Area.GPU)
    assert exit_code({"findings": [], "success": False}) == 1


def test_its_output_alone_is_a_complete_report(tmp_path):
    """What people are asked for under such a report: each is a fact of the text, with nothing else at hand."""
    made = WORKSTATION.but(
        **gcc("13.3.0"),
        variables={"LD_LIBRARY_PATH": "/usr/local/cuda/lib64", "CUDA_HOME": "/usr/local/cuda", "MAX_JOBS": "4"},
    )
    made = replace(made, files=made.files | torch("2.8.0+cu128", "12.8") | made_up.package("numpy", "2.1.0"))
    told = gather(made.at(tmp_path))
    printed = "\n".join(lines(told))
    manifest = _files.read(_files.MANIFEST)
    asked = {
        "our version and build": (manifest["version"], manifest["target"], manifest["toolkit"], manifest["compiler"]["version"]),
        "our library": (str(_library.opened().path), _library.opened().text("kw_cpu_isa")),
        "the system": ("Ubuntu 24.04 LTS", "x86_64", "6.8.0-45-generic", "glibc 2.39"),
        "the machine": ("8 processors, 62 GiB of memory",),
        "the driver": ("CUDA 13.0", "kernel module 580.65.06", "/usr/lib/x86_64-linux-gnu/libcuda.so.1"),
        "the GPUs and what each gets": ("NVIDIA H100, compute capability 9.0, 80 GiB: gets ",),
        "Python": (sys.version.split()[0], sys.executable, "NumPy 2.1.0"),
        "torch": ("2.8.0+cu128, CUDA 12.8, built by PyPI", "older C++ interface", "has code for sm_80 sm_90", "sees a GPU"),
        "packages": ("triton 3.4.0", "nvidia-cuda-runtime-cu12 12.8.90", "scatter 1.0"),
        "the toolkit": ("12.8, /usr/local/cuda/bin/nvcc",),
        "the compiler of the host": ("release 13, /usr/bin/g++",),
        "variables": ("LD_LIBRARY_PATH=/usr/local/cuda/lib64", "CUDA_HOME=/usr/local/cuda", "MAX_JOBS=4"),
        "each operator": tuple(f"\n{name:<12} " for name in ops.names()),
    }  # fmt: skip
    missing = {what: [text for text in texts if text not in printed] for what, texts in asked.items()}
    assert {what: texts for what, texts in missing.items() if texts} == {}, printed
    assert all(each["evidence"] and each["why"] and each["fix"] for each in told["findings"])
    assert json.loads(json.dumps(told)) == told
