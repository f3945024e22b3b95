# SPDX-License-Identifier: MIT
"""Conda environments and Nix shells with stand-ins for their compilers: what is found there, taken, and refused."""

from __future__ import annotations

import ctypes.util
import os
import shutil
import zlib
from pathlib import Path

import pytest
from machine_support import Folder, Machine, says

from kernelwright_toolchain import pep517, providers, targets
from kernelwright_toolchain.errors import RequestError, ToolMismatch, ToolMissing
from kernelwright_toolchain.exact import conditions, rebuild
from kernelwright_toolchain.locking import conda as lock
from kernelwright_toolchain.providers import environment, host, nvrtc, system
from kernelwright_toolchain.request import settled
from kernelwright_toolchain.testing import environment as testing
from kernelwright_toolchain.wheel import archive
from kernelwright_toolchain.wheel.libdeflate import Libdeflate
from tests.tree import ROOT

LOCKED = [package for package in lock.locked() if package.platform == "linux-64"]


@pytest.fixture(scope="module")
def table():
    return targets.load()


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path / "bin", monkeypatch)


class Place(Machine):
    """A machine on which an environment is active; it begins whole, and tests take something away."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(root / "bin", monkeypatch)
        self.root = root

    def compilers(self, nvcc: str = "12.2.140", gcc: str = "12.4") -> None:
        self.nvcc(nvcc)
        self.gcc(gcc, self.gxx)
        self.program(self.gxx.replace("g++", "gcc"), "")


class Conda(Place):
    gxx = "x86_64-conda-linux-gnu-g++"

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(root, monkeypatch)
        (root / "conda-meta").mkdir(parents=True)
        for package in LOCKED:
            self.record(package).write_text("{}")
        monkeypatch.setenv("CONDA_PREFIX", str(root))
        self.compilers()

    def record(self, package: lock.Locked) -> Path:
        return self.root / "conda-meta" / f"{package.stem}.json"


class Nix(Place):
    gxx = "g++"

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(root, monkeypatch)
        monkeypatch.setattr(environment, "STORE", root)
        self.compilers()
        self.program("python3", "")
        for name, value in {
            "KW_NIX_TARGET": "linux-x86_64",
            "CUDACXX": f"{root}/bin/nvcc",
            "CUDAHOSTCXX": f"{root}/bin/g++",
            "KW_LIBDEFLATE": f"{root}/lib/libdeflate.so",
        }.items():
            monkeypatch.setenv(name, value)


@pytest.fixture
def conda(tmp_path, monkeypatch):
    return Conda(tmp_path / "conda", monkeypatch)


@pytest.fixture
def nix(tmp_path, monkeypatch):
    return Nix(tmp_path / "store", monkeypatch)


@pytest.fixture(params=["conda", "nix"])
def place(request):
    return request.getfixturevalue(request.param)


def provider(place: Place) -> str:
    return type(place).__name__.lower()


def elsewhere(place: Place, name: str, version: str) -> Path:
    """The same compiler, outside the environment."""
    other = Folder(place.root.parent / "usr" / "bin")
    place.monkeypatch.setenv("PATH", f"{place.folder}:{other.folder}")
    return other.nvcc(version) if name == "nvcc" else other.gcc(version, name)


def test_a_build_takes_the_environments_compilers(place, table):
    name = provider(place)
    assert providers.settle(table, "locked", None, "cu122") == (name, "cu122")
    assert providers.settle(table, "auto", None, "cu122") == (name, "cu122")
    nvcc, gcc = providers.compilers(name, table.toolkits["cu122"], table)
    assert (nvcc.path, gcc.path) == (place.folder / "nvcc", place.folder / place.gxx)
    request = settled(table, {"provider": "locked"})
    assert (request.provider, request.toolkit.name, request.target.name) == (name, "cu122", "linux-x86_64")
    tools = host.tools(table, name)
    assert tools.zig is None
    assert tools.modules == ()
    assert place.folder in tools.programs
    assert tools.python.parent == place.folder
    defines = host.cmake_defines(table, table.targets["linux-x86_64"], name)
    assert defines == {
        "CMAKE_CXX_COMPILER": str(place.folder / place.gxx),
        "CMAKE_C_COMPILER": str(place.folder / place.gxx.replace("g++", "gcc")),
    }


def test_no_environment_is_no_obstacle_and_asking_for_one_says_how_to_enter_it(machine, table):
    assert providers.settle(table, "locked", None, "cu122") == ("pip", "cu122")
    for name, how in (("conda", "conda-lock install"), ("nix", "nix develop")):
        with pytest.raises(ToolMissing) as error:
            providers.refuse(name, table.toolkits["cu122"], table)
        says(error, f"provider {name}", "none is active", how, "--provider pip")


def test_somebody_elses_environment_is_left_alone(machine, table, tmp_path):
    (tmp_path / "other" / "conda-meta").mkdir(parents=True)
    (tmp_path / "other" / "conda-meta" / "cuda-nvcc-12.8.93-0.json").write_text("{}")
    machine.monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "other"))
    machine.monkeypatch.setenv("IN_NIX_SHELL", "impure")
    assert environment.active() is None
    assert providers.settle(table, "locked", None, "cu122") == ("pip", "cu122")


def test_a_conda_environment_that_left_its_lock_is_refused(conda, table):
    changed = next(package for package in LOCKED if package.name == "gcc_impl_linux-64")
    conda.record(changed).rename(conda.record(changed).with_name("gcc_impl_linux-64-13.3.0-0.json"))
    with pytest.raises(ToolMismatch) as error:
        providers.refuse("conda", table.toolkits["cu122"], table)
    says(error, "1 of its packages", changed.stem, "conda-lock install", "--provider pip")


def test_more_than_the_lock_has_is_no_harm(conda, table):
    (conda.root / "conda-meta" / "cowsay-1.json").write_text("{}")
    providers.refuse("conda", table.toolkits["cu122"], table)


def test_a_toolkit_that_no_environment_has_is_refused(place, table):
    with pytest.raises(RequestError) as error:
        providers.refuse(provider(place), table.toolkits["cu128"], table)
    says(error, f"provider {provider(place)} has no toolkit cu128", "--toolkit cu122", "--provider pip")
    assert "build on" not in str(error.value)  # no kind of machine has it


def test_a_toolkit_that_the_shell_does_not_have_is_refused(nix, table):
    with pytest.raises(ToolMismatch) as error:
        providers.refuse("nix", table.toolkits["cu124"], table)
    says(error, "cu124", "12.2.140", nix.folder / "nvcc", "--provider pip", "--toolkit cu122")


def test_a_shell_is_for_one_toolkit_and_a_build_in_it_takes_that_one(nix, table):
    nix.compilers("12.4.131", "13.3")
    nix.monkeypatch.setenv("KW_NIX_TOOLKIT", "cu124")
    assert providers.settle(table, "locked", None, "cu122") == ("nix", "cu124")
    assert providers.settle(table, "pip", None, "cu122") == ("pip", "cu122")  # the release's compilers
    nvcc, gcc = providers.compilers("nix", table.toolkits["cu124"], table)
    assert (str(nvcc.version), gcc.version.major) == ("12.4.131", 13)
    assert settled(table, {"provider": "locked"}).toolkit.name == "cu124"
    nix.compilers("12.4.131", "12.4")  # a GCC that this nvcc takes, and not the one that is locked beside it
    with pytest.raises(ToolMismatch, match=r"GCC of the Nix shell.* is 12, and targets\.toml locks 13"):
        providers.refuse("nix", table.toolkits["cu124"], table)


@pytest.mark.parametrize(("nvcc", "gcc", "words"), [("12.2.91", "12.4", "12.2.91"), ("12.2.140", "11.4", "GCC")])
def test_compilers_of_other_releases_than_the_tables_are_refused(place, table, nvcc, gcc, words):
    place.compilers(nvcc, gcc)
    with pytest.raises(ToolMismatch, match=words):
        providers.refuse(provider(place), table.toolkits["cu122"], table)


@pytest.mark.parametrize("variable", ["CUDAHOSTCXX", "NVCC_CCBIN"])
def test_a_gcc_of_elsewhere_is_a_mix(place, table, variable):
    gcc = elsewhere(place, "g++-12", "12.2")
    place.monkeypatch.setenv(variable, str(gcc))
    with pytest.raises(ToolMismatch) as error:
        providers.refuse(provider(place), table.toolkits["cu122"], table)
    says(error, f"{variable}={gcc}", "GCC outside", f"unset {variable}", "--provider system")


def test_an_nvcc_of_elsewhere_is_a_mix(place, table):
    nvcc = elsewhere(place, "nvcc", "12.2.140")
    place.monkeypatch.setenv("CUDACXX", str(nvcc))
    with pytest.raises(ToolMismatch, match=r"CUDACXX=.* names a CUDA outside"):
        providers.refuse(provider(place), table.toolkits["cu122"], table)


@pytest.mark.parametrize("variable", ["CUDA_HOME", "CUDA_PATH"])
def test_a_toolkit_that_a_shell_names_for_everything_is_unset(place, table, variable, capfd):
    home = elsewhere(place, "nvcc", "12.2.140").parent.parent
    place.monkeypatch.setenv(variable, str(home))
    nvcc, _ = providers.compilers(provider(place), table.toolkits["cu122"], table)
    assert nvcc.path == place.folder / "nvcc"
    assert variable not in os.environ  # nor in that of what the build starts
    assert f"{variable}={home} is unset for this build" in capfd.readouterr().err
    providers.refuse(provider(place), table.toolkits["cu122"], table)
    assert capfd.readouterr().err == ""  # it is said once


def test_the_environments_own_paths_are_no_mix(place, table):
    place.monkeypatch.setenv("CUDA_HOME", str(place.root))
    place.monkeypatch.setenv("CUDAHOSTCXX", str(place.folder / place.gxx))
    providers.refuse(provider(place), table.toolkits["cu122"], table)
    assert os.environ["CUDA_HOME"] == str(place.root)


def test_provider_system_takes_no_gcc_of_conda_for_a_system_nvcc(conda, table):
    nvcc = elsewhere(conda, "nvcc", "12.2.140")
    conda.monkeypatch.setenv("CUDA_HOME", str(nvcc.parent.parent))
    conda.monkeypatch.setenv("PATH", str(nvcc.parent))
    conda.monkeypatch.setenv("CUDAHOSTCXX", str(conda.folder / conda.gxx))
    with pytest.raises(ToolMismatch) as error:
        providers.refuse("system", table.toolkits["cu122"], table)
    says(error, nvcc, "of the system", f"the conda environment {conda.root}", "--provider pip")


def test_provider_system_takes_no_system_gcc_for_an_nvcc_of_conda(conda, table):
    elsewhere(conda, "g++", "12.2")
    with pytest.raises(ToolMismatch, match=r"is of the conda environment .* is of the system"):
        providers.refuse("system", table.toolkits["cu122"], table)
    conda.monkeypatch.setenv("CUDAHOSTCXX", str(conda.folder / conda.gxx))
    providers.refuse("system", table.toolkits["cu122"], table)


def test_auto_passes_a_mix_over(machine, table, tmp_path, monkeypatch):
    monkeypatch.setattr(nvrtc, "here", lambda *_: Path("/libnvrtc.so"))
    machine.nvcc("12.2.140")
    (tmp_path / "env" / "conda-meta").mkdir(parents=True)
    other = Folder(tmp_path / "env" / "bin").gcc("12.4")
    monkeypatch.setenv("PATH", f"{machine.folder}:{other.parent}")
    assert providers.settle(table, "auto", None, "cu122") == ("pip", "cu122")
    machine.gcc("12.4")
    assert providers.settle(table, "auto", None, "cu122") == ("system", "cu122")


def test_a_nix_shell_builds_its_own_target(nix, table):
    nix.monkeypatch.setattr("platform.machine", lambda: "aarch64")
    nix.monkeypatch.setenv("KW_NIX_TARGET", "l4t-r36")
    assert settled(table, {"provider": "locked"}).target.name == "l4t-r36"
    with pytest.raises(RequestError) as error:
        settled(table, {"provider": "nix", "target": "linux-aarch64"})
    says(error, "the Nix shell for l4t-r36", "nix develop .#linux-aarch64", "--provider pip")


def test_a_target_of_another_machine_is_refused(place, table):
    with pytest.raises(RequestError, match="--provider pip"):
        settled(table, {"provider": "locked", "target": "linux-aarch64"})


def test_a_build_is_repeated_inside_its_environment_by_the_tools_there(place):
    name = provider(place)
    python = conditions.Python("python3", "", "", "")
    assert rebuild.provision(ROOT, {"provider": name}, python) == []
    assert host.only_python(name) == environment.require(name).python
    assert host.only_python("pip") is None
    place.monkeypatch.setenv("NIX_CFLAGS_COMPILE", "-isystem /nix/store/x")
    place.monkeypatch.setenv("SECRET", "of the session")
    carried = environment.carried()
    assert "SECRET" not in carried
    assert carried["NIX_CFLAGS_COMPILE"] == "-isystem /nix/store/x"
    assert set(carried) >= ({"CONDA_PREFIX"} if name == "conda" else {"KW_NIX_TARGET", "CUDACXX", "KW_LIBDEFLATE"})


def test_outside_of_it_a_build_is_not_repeated(machine):
    for name in environment.HOW:
        with pytest.raises(ToolMissing, match="none is active"):
            conditions.pair(jobs=1, quick=True, provider=name)


def test_nvcc_is_never_told_another_clock(monkeypatch):
    """Its front end asks for the time before libfaketime is ready to answer, and waits for ever."""
    monkeypatch.setattr(conditions, "faketime", lambda: Path("/libfaketime.so.1"))
    assert conditions.pair(jobs=1, quick=True)[1].clock
    first, second = conditions.pair(jobs=1, quick=True, provider="system")
    assert (first.clock, second.clock) == ("", "")
    assert "nvcc never ends under libfaketime" in second.notes["clock"]


def test_asking_for_pip_inside_an_environment_is_heard(place, table):
    assert providers.settle(table, "pip", None, "cu122") == ("pip", "cu122")
    assert host.libdeflate("pip") is None
    assert host.libdeflate(provider(place)) == environment.require(provider(place)).libdeflate


def test_tests_see_the_environments_tools_and_no_zig(place, tmp_path, monkeypatch):
    for name in ("KW_ZIG", "ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"):  # what a run of these tests itself has set
        monkeypatch.delenv(name, raising=False)
    seen = testing.environment(tmp_path / "venv" / "bin" / "python")
    assert seen["PATH"].split(":")[:2] == [str(tmp_path / "venv" / "bin"), str(place.folder)]
    assert not any(name.startswith(("KW_ZIG", "ZIG_")) for name in seen)


def test_the_build_backend_asks_pip_for_no_compiler(place):
    place.program("cmake", "cmake version 3.31.8")
    place.program("ninja", "")
    asked = pep517.get_requires_for_build_wheel({"provider": "auto"})
    assert [need.partition("==")[0] for need in asked] == ["scikit-build-core", "deflate"]


def test_the_c_library_is_given_by_condas_sysroot_and_zig_alone(table):
    target = table.targets["linux-x86_64"]
    given = {name: host.floor_is_given(table, target, name, "cu122") for name in ("pip", "conda", "nix", "system")}
    assert given == {"pip": True, "conda": True, "nix": False, "system": False}


def test_gcc_is_found_beside_its_gxx(machine):
    assert system.c_compiler(machine.gcc("12.4", "g++-12")) is None
    gcc = machine.program("gcc-12", "")
    assert system.c_compiler(machine.folder / "g++-12") == gcc
    cc = machine.program("cc", "")
    assert system.c_compiler(machine.gcc("12.4", "c++")) == cc


def test_a_library_of_libdeflate_packs_as_the_format_says():
    found = ctypes.util.find_library("deflate")
    if not found:
        pytest.skip("this machine has no shared libdeflate; conda's and Nix's environments do")
    data = bytes(range(256)) * 99 + b"end"
    packed = archive.compressor(Path(found))(data)
    assert len(packed) < len(data)
    assert zlib.decompress(packed, -15) == data
    assert zlib.decompress(archive.compressor(Path(found))(b""), -15) == b""


def test_a_library_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ToolMissing, match=r"libdeflate\.so cannot be loaded"):
        Libdeflate(tmp_path / "libdeflate.so")


REAL_NVCC, REAL_GCC = shutil.which("nvcc"), shutil.which("g++")


@pytest.mark.skipif(not (REAL_NVCC and REAL_GCC), reason="no nvcc and g++ on PATH: the real pair cannot be asked")
def test_the_real_compilers_of_this_machine_go_together_until_one_is_condas(table, tmp_path, monkeypatch):
    for name in ("CUDAHOSTCXX", "NVCC_CCBIN", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    nvcc = system.require_nvcc()
    toolkit = system.toolkit_of(nvcc, table)
    if toolkit is None or not toolkit.gcc.accepts(system.find_gcc().version.major):
        pytest.skip(
            f"nvcc {nvcc.version} and GCC {system.find_gcc().version} of this machine do not go together anyway"
        )
    providers.refuse("system", toolkit, table)
    (tmp_path / "conda" / "conda-meta").mkdir(parents=True)
    wrapper = tmp_path / "conda" / "bin" / "g++"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec {REAL_GCC} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("CUDAHOSTCXX", str(wrapper))
    with pytest.raises(ToolMismatch, match="is of the conda environment"):
        providers.refuse("system", toolkit, table)
    wrong = next(other for other in table.toolkits.values() if other.release != nvcc.release)
    with pytest.raises(ToolMismatch, match="was asked for"):
        providers.refuse("system", wrong, table)
