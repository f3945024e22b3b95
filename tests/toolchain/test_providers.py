# SPDX-License-Identifier: MIT
"""What providers find, pick and refuse: with stand-ins for nvcc and g++ on PATH, so on any machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from machine_support import Machine, says

from kernelwright_toolchain import providers, targets
from kernelwright_toolchain.errors import BusyError, ProvisionError, RequestError, ToolMismatch, ToolMissing
from kernelwright_toolchain.providers import host, nvrtc, pip, system


@pytest.fixture(scope="module")
def table():
    return targets.load()


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path / "bin", monkeypatch)


def test_a_gcc_above_what_nvcc_takes_is_refused(machine, table):
    nvcc, gcc = machine.nvcc("12.2.140"), machine.gcc("14.2")
    with pytest.raises(ToolMismatch) as error:
        providers.refuse("system", table.toolkits["cu122"], table)
    says(
        error,
        "14.2",
        gcc,
        nvcc,
        "12.2.140",
        "GCC 6 to 12",
        "_Float32",
        "install g++-12",
        "CUDAHOSTCXX",
        "--provider pip",
    )
    other = machine.gcc("11.4", "g++-11")
    with pytest.raises(ToolMismatch) as error:
        providers.refuse("system", table.toolkits["cu122"], table)
    says(error, f"set CUDAHOSTCXX={other}")
    machine.monkeypatch.setenv("CUDAHOSTCXX", str(other))
    providers.refuse("system", table.toolkits["cu122"], table)
    assert system.find_gcc().path == other


def test_a_gcc_below_what_nvcc_takes_is_refused(machine, table):
    machine.nvcc("12.2.140")
    machine.gcc("5.4")
    with pytest.raises(ToolMismatch, match=r"5\.4.*older than"):
        providers.refuse("system", table.toolkits["cu122"], table)


def test_a_host_compiler_that_is_missing_or_no_gcc_is_refused(machine, table):
    machine.nvcc("12.2.140")
    with pytest.raises(ToolMissing, match=r"no g\+\+ on PATH"):
        providers.refuse("system", table.toolkits["cu122"], table)
    machine.monkeypatch.setenv("NVCC_CCBIN", "/nowhere/g++")
    with pytest.raises(ToolMissing, match="NVCC_CCBIN=/nowhere"):
        system.find_gcc()
    machine.monkeypatch.delenv("NVCC_CCBIN")
    machine.gcc("4.2", extra="#define __clang__ 1")
    with pytest.raises(ToolMismatch, match="is not one"):
        system.find_gcc()


def test_an_nvcc_of_another_release_is_refused(machine, table):
    nvcc = machine.nvcc("13.0.88")
    machine.gcc("12.2")
    with pytest.raises(ToolMismatch) as error:
        providers.refuse("system", table.toolkits["cu122"], table)
    says(error, "cu122", "CUDA 12.2", nvcc, "13.0.88", "--toolkit cu130", "--provider pip")
    machine.nvcc("12.3.107")
    with pytest.raises(ToolMismatch) as error:
        providers.refuse("system", table.toolkits["cu122"], table)
    assert "--toolkit" not in str(error.value)  # no row is of that release


def test_nvcc_is_looked_for_in_cuda_home_first(machine):
    assert system.find_nvcc() is None
    machine.nvcc("13.0.88")
    machine.nvcc("12.2.140", "home/bin/nvcc")
    machine.monkeypatch.setenv("CUDA_HOME", str(machine.folder / "home"))
    found = system.find_nvcc()
    assert found is not None
    assert (str(found.version), str(found.release)) == ("12.2.140", "12.2")


def test_a_cuda_home_without_nvcc_is_refused(machine, table):
    machine.nvcc("12.2.140")
    machine.monkeypatch.setenv("CUDA_HOME", str(machine.folder / "nothing"))
    with pytest.raises(ToolMismatch) as error:
        providers.refuse("system", table.toolkits["cu122"], table)
    says(error, "CUDA_HOME", str(machine.folder / "nothing"), "unset it")


def test_no_nvcc_and_an_odd_one_are_told(machine, table):
    with pytest.raises(ToolMissing, match="--provider pip"):
        providers.refuse("system", table.toolkits["cu122"], table)
    machine.program("nvcc", "hello")
    with pytest.raises(ToolMismatch, match="hello"):
        system.find_nvcc()


def test_a_toolkit_this_build_machine_lacks_is_refused_with_the_choices(machine, table):
    machine.monkeypatch.setattr("platform.machine", lambda: "aarch64")
    lacking = replace(table.toolkits["cu122"], hosts={**table.toolkits["cu122"].hosts, "pip": ("x86_64",)})
    without = replace(table, toolkits={**table.toolkits, "cu122": lacking})
    with pytest.raises(RequestError) as error:
        providers.refuse("pip", lacking, without)
    says(error, "cu122", "aarch64", "build on x86_64, also for aarch64", "--toolkit cu124", "--provider system")
    assert providers.settle(without, "pip", None, "cu122") == ("pip", "cu124")  # not asked for: the first there is
    providers.refuse("pip", table.toolkits["cu124"], table)


def test_every_kind_of_build_machine_has_the_releases_compilers(machine, table):
    """NVRTC of the reference toolkit is from PyPI on one, out of NVIDIA's archives on the other."""
    for name in ("x86_64", "aarch64"):
        machine.monkeypatch.setattr("platform.machine", lambda name=name: name)
        for target in table.targets.values():
            if target.release:
                assert providers.settle(table, "pip", None, target.toolkit) == ("pip", target.toolkit)
                providers.refuse("pip", table.toolkits[target.toolkit], table)


def test_unknown_machines_and_providers_are_refused(machine, table):
    with pytest.raises(RequestError, match="there are pip, conda, nix, system, locked, auto"):
        providers.refuse("brew", table.toolkits["cu122"], table)
    machine.monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(RequestError, match=r"riscv64.*aarch64, x86_64"):
        providers.refuse("pip", table.toolkits["cu122"], table)


def test_a_target_of_another_machine_needs_a_compiler_that_makes_it(machine, table):
    with pytest.raises(RequestError, match="--provider pip"):
        host.check_target(table, table.targets["linux-aarch64"], "system")
    host.check_target(table, table.targets["linux-aarch64"], "pip")
    host.check_target(table, table.targets["linux-x86_64"], "system")


def test_system_without_a_toolkit_is_the_nvcc_that_is_here(machine, table):
    machine.nvcc("12.8.93")
    assert providers.settle(table, "system", None, "cu122") == ("system", "cu128")
    assert providers.settle(table, "system", "12.2", "cu122") == ("system", "cu122")  # refuse() has the last word
    machine.nvcc("11.8.89")
    with pytest.raises(RequestError, match=r"11\.8\.89.*no row"):
        providers.settle(table, "system", None, "cu122")


def test_auto_takes_a_usable_nvcc_else_nvrtc_else_says_what_is_missing(machine, table, monkeypatch):
    monkeypatch.setattr(nvrtc, "here", lambda *_: None)
    with pytest.raises(ToolMissing) as error:
        providers.settle(table, "auto", None, "cu122")
    says(error, "no usable nvcc", table.toolkits["cu122"].components["nvrtc"], "./kw provision")
    assert providers.settle(table, "auto", None, "cu122", fetching=True) == ("pip", "cu122")
    monkeypatch.setattr(nvrtc, "here", lambda *_: Path("/libnvrtc.so"))
    assert providers.settle(table, "auto", None, "cu122") == ("pip", "cu122")
    machine.nvcc("13.0.88")
    machine.gcc("12.2")
    assert providers.settle(table, "auto", None, "cu122") == ("system", "cu130")
    assert providers.settle(table, "auto", "cu122", "cu122") == ("pip", "cu122")
    machine.gcc("99.1")
    assert providers.settle(table, "auto", None, "cu122") == ("pip", "cu122")


def test_tools_are_installed_once_and_whole(tmp_path, monkeypatch):
    lock = tmp_path / "some.txt"
    lock.write_text("thing==1 --hash=sha256:00\n")
    calls = []

    def fake(arguments, what, python=None, scratch=None):
        calls.append(arguments)
        assert scratch.is_dir()
        target = Path(arguments[arguments.index("--target") + 1])
        (target / "thing.py").write_text("")
        if len(calls) == 1:
            raise ProvisionError(what)
        return ""

    monkeypatch.setattr(pip, "run_pip", fake)
    with pytest.raises(ProvisionError):
        pip.install(lock, root=tmp_path / "state")
    assert list((tmp_path / "state" / "tools").iterdir()) == []
    place = pip.install(lock, root=tmp_path / "state")
    assert [path.name for path in place.iterdir()] == ["thing.py"]
    assert pip.install(lock, root=tmp_path / "state") == place
    assert len(calls) == 2
    assert "--require-hashes" in calls[0]
    lock.write_text("thing==2 --hash=sha256:00\n")
    assert pip.install(lock, root=tmp_path / "state") != place


def test_a_lock_held_too_long_is_busy(tmp_path):
    with (
        pip.locked(tmp_path / "lock", "waiting"),
        pytest.raises(BusyError, match="use another copy of the tree"),
        pip.locked(tmp_path / "lock", "waiting", patience=0.1),
    ):
        pass


def test_a_tree_that_cannot_be_written_is_refused_in_words(tmp_path):
    (tmp_path / ".kw").write_text("in the way")
    with pytest.raises(ProvisionError, match=r"\.kw cannot be written"), pip.locked(tmp_path / ".kw/build.lock", ""):
        pass


def test_pip_failing_tells_what_it_said():
    with pytest.raises(ProvisionError, match=r"(?s)trying: pip failed \(exit code \d+\)\n.*no-such-option"):
        pip.run_pip(["install", "--no-such-option"], "trying")


def test_another_pythons_pip_does_not_see_this_ones_modules(tmp_path, monkeypatch):
    shown = tmp_path / "python"
    shown.write_text('#!/bin/sh\necho "$PYTHONPATH:$KW_MODULES:$*"\n')
    shown.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", "/modules")
    assert pip.run_pip(["list"], "trying", shown) == "::-I -m pip list\n"
