# SPDX-License-Identifier: MIT
"""The build verb around its compilers: when nothing is done, what is refused, the table, the torch of the tests."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernelwright_toolchain import pep517, targets
from kernelwright_toolchain.building import Options, build, options, stamp
from kernelwright_toolchain.building import run as module
from kernelwright_toolchain.building.package import _failure, build_wheel
from kernelwright_toolchain.building.table import table as as_table
from kernelwright_toolchain.commands import build as verb
from kernelwright_toolchain.commands import tests as tests_verb
from kernelwright_toolchain.device import Built
from kernelwright_toolchain.errors import CompileError, GateError, ProvisionError, RequestError, ToolMissing
from kernelwright_toolchain.providers import host, nvrtc, system
from kernelwright_toolchain.request import _debug, resolve, restored, settings, settled
from kernelwright_toolchain.testing import torch
from tests.tree import ROOT, Beside, Project, serve

TABLE = targets.load()
ROWS = (
    stamp.Row("sm_80", "rms_norm", 300_016, 70, 64, 8.44, 512_000_000),
    stamp.Row("compute_90", "rms_norm", 9, 0, None, 3.9, 99_600_000),
)
STEP = stamp.Step(4.5, 300_000_000)


def test_options_are_those_of_the_documentation():
    parser = argparse.ArgumentParser()
    options.add_arguments(parser, TABLE)
    words = ["--archs", "89;90", "--toolkit", "cu122", "--target", "linux-x86_64", "--provider", "system"]
    given = Options(**vars(parser.parse_args([*words, "--ops", "rms_norm", "--debug", "--clean", "-j", "2"])))
    assert given == Options("89;90", "cu122", "linux-x86_64", "system", "rms_norm", debug=True, clean=True, jobs=2)
    assert given.settings() == {
        "archs": "89;90", "toolkit": "cu122", "target": "linux-x86_64", "ops": "rms_norm", "provider": "system",
        "debug": "yes",
    }  # fmt: skip
    assert Options().settings() == {"provider": "locked", "debug": "no"}


def test_release_means_the_locked_nvrtc_and_zig_in_every_environment(monkeypatch):
    parser = argparse.ArgumentParser()
    options.add_arguments(parser, TABLE)
    assert Options(**vars(parser.parse_args(["--release"]))).settings() == {"provider": "pip", "debug": "no"}
    assert Options(release=True, provider="pip").settings()["provider"] == "pip"
    with pytest.raises(RequestError, match=r"--release means .* --provider nix means others"):
        Options(release=True, provider="nix").settings()
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setenv("KW_NIX_TARGET", "linux-x86_64")  # a shell whose compilers are not looked at
    monkeypatch.setenv("CUDACXX", "/nowhere/nvcc")
    request = settled(TABLE, Options(release=True).settings(), fetching=True)
    assert (request.provider, request.is_default) == ("pip", True)


def test_the_table_sums_up():
    lines = as_table(ROWS).splitlines()
    assert lines[0].split() == ["image", "op", "bytes", "registers", "spills", "seconds", "peak", "MB"]
    assert lines[2].split() == ["sm_80", "rms_norm", "300,016", "70", "64", "8.4", "512"]
    assert lines[3].split() == ["compute_90", "rms_norm", "9", "-", "-", "3.9", "100"]
    assert lines[-1].split() == ["total", "2", "images", "300,025", "64", "12.3", "512"]
    assert len({len(line) for line in lines[:4]}) == 1


@pytest.mark.parametrize(("fresh", "how"), [(True, "built in 5.0 s"), (False, "unchanged")])
def test_the_verb_says_what_was_made_how_and_where_it_lies(tmp_path, monkeypatch, capsys, fresh, how):
    wheel = tmp_path / "dist" / "k.whl"
    wheel.parent.mkdir()
    wheel.write_bytes(bytes(12345))
    made = stamp.Stamp("0", wheel.name, "ab" * 32, "kernelwright 1\nrms_norm   2 %\nSUCCESS", ROWS, STEP, 5.0)
    serve(monkeypatch, Project(tmp_path))
    (tmp_path / "csrc/ops/toy").mkdir(parents=True)
    (tmp_path / "csrc/ops/toy/a.cu").touch()
    monkeypatch.setattr(
        verb, "build", lambda *_: module.Outcome(wheel, made, fresh, resolve(TABLE, target="linux-x86_64", root=ROOT))
    )
    monkeypatch.setattr(verb.recorded, "check", lambda path, _: f"{path.name} is as recorded")
    words = argparse.ArgumentParser()
    verb.add_arguments(words)
    assert verb.run(words.parse_args([])) == 0
    said = capsys.readouterr().out
    assert said.startswith(as_table(ROWS))
    assert "the library and the wheel: 4.5 s, largest process 300 MB" in said
    assert ("rms_norm   2 %" if fresh else "self-check passed then") in said
    assert said.endswith(f"dist/k.whl  12,345 bytes, {how}\nsha256 {'ab' * 32}\nk.whl is as recorded\nSUCCESS\n")
    assert said.count("SUCCESS") == 1


def test_what_packing_takes_is_measured_in_its_own_process(tmp_path):
    program = tmp_path / "python"
    program.write_text(f"#!{sys.executable}\nheld = bytearray(90_000_000)\nprint('[1/2] x\\nwheel: k.whl')\n")
    program.chmod(0o755)
    tools = host.HostTools(program, (), (), None)
    ours = b"x" * 300_000_000
    wheel, step = build_wheel({}, tools, tmp_path, tmp_path / "cmake", tmp_path / "out", 1)
    assert len(ours) == 300_000_000  # held until here
    assert wheel == tmp_path / "out" / "k.whl"
    assert 90_000_000 < step.peak < 200_000_000
    assert 0 < step.seconds < 60
    program.write_text(f"#!{sys.executable}\nprint('error: not today')\nraise SystemExit({GateError.exit_code})\n")
    with pytest.raises(GateError, match="not today"):
        build_wheel({}, tools, tmp_path, tmp_path / "cmake", tmp_path / "out", 1)


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A tree of three inputs."""
    serve(monkeypatch, Project(tmp_path))
    for name in ("csrc/ops/toy/a.cu", "toolchain/x.py", "targets.toml", "toolchain/__pycache__/x.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    "asked", [{}, {"archs": "90;90+ptx", "debug": True}, {"ops": "swiglu,rms_norm", "target": "linux-aarch64"}]
)
def test_another_process_is_given_the_request_as_it_was_settled(asked):
    """Nothing is decided again there: no provider is picked, and no environment looked at."""
    request = resolve(TABLE, **{"target": "linux-x86_64", **asked})
    assert restored(TABLE, json.loads(json.dumps(settings(request)))) == request


def test_the_tests_of_one_operator_are_those_of_a_wheel_of_it(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(tests_verb, "to_test", lambda *_: "a torch")
    monkeypatch.setattr(tests_verb, "build", lambda options, _: asked.append(options) or SimpleNamespace(wheel="w"))
    monkeypatch.setattr(tests_verb, "run_tests", lambda *given: asked.append(given) or 0)
    words = ["--archs", "90a", "--ops", "swiglu", "tests/python", "-k", "swiglu"]
    assert tests_verb.run(argparse.Namespace(arguments=words)) == 0
    assert asked == [Options(archs="90a", ops="swiglu"), ("w", "a torch", ["tests/python", "-k", "swiglu"], None)]


def test_inputs_are_contents_and_never_times(tree):
    asked = resolve(TABLE, target="linux-x86_64")
    first = stamp.inputs(asked)
    os.utime(tree / "targets.toml", (1, 1))
    (tree / "toolchain/__pycache__/x.pyc").write_text("other")
    (tree / "dist").mkdir()
    assert stamp.inputs(asked) == first
    (tree / "csrc/ops/toy/a.cu").write_text("other")
    second = stamp.inputs(asked)
    (tree / "csrc/ops/toy/b.cu").write_text("")
    third = stamp.inputs(asked)
    assert len({first, second, third, stamp.inputs(replace(asked, debug=True))}) == 4


def test_a_stamp_is_read_back_and_a_broken_one_is_none(tmp_path):
    made = stamp.Stamp("0", "k.whl", "1", "fine", ROWS, STEP, 5.0)
    stamp.save(tmp_path / "stamp.json", made)
    assert stamp.load(tmp_path / "stamp.json") == made
    whole = json.loads((tmp_path / "stamp.json").read_text())
    for text in ("", "{}", "[]", json.dumps({**whole, "more": 1}), json.dumps({**whole, "rows": [1]})):
        (tmp_path / "stamp.json").write_text(text)
        assert stamp.load(tmp_path / "stamp.json") is None
    assert stamp.load(tmp_path / "nothing") is None


def test_nothing_is_done_twice_unless_input_or_wheel_changed(tmp_path, monkeypatch):
    serve(monkeypatch, Beside(ROOT, tmp_path))
    (tmp_path / "dist").mkdir()
    wheel, inputs, made, published = tmp_path / "dist" / "k.whl", ["0"], [], []

    def work(given, request, table, workspace):
        made.append(given)
        wheel.write_text("wheel")
        done = stamp.Stamp(inputs[0], wheel.name, stamp.digest_of(wheel), "fine", ROWS, STEP, 1.0)
        stamp.save(workspace / "stamp.json", done)
        return module.Outcome(wheel, done, fresh=True, request=request)

    monkeypatch.setattr(module, "_build", work)
    monkeypatch.setattr(module, "publish", lambda path, _: published.append(path))
    monkeypatch.setattr(stamp, "inputs", lambda _: inputs[0])
    asked = Options(target="linux-x86_64")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert [build(asked, TABLE).fresh for _ in range(2)] == [True, False]
    wheel.write_text("tampered with")
    assert [build(asked, TABLE).fresh for _ in range(2)] == [True, False]
    inputs[0] = "1"
    assert [build(asked, TABLE).fresh for _ in range(2)] == [True, False]
    assert build(replace(asked, clean=True), TABLE).fresh
    assert build(replace(asked, archs="89"), TABLE).fresh  # a workspace of its own
    assert len(made) == 5
    assert published == [wheel] * 3  # once each time that nothing else was done


def test_a_wheel_whose_sources_changed_while_it_was_built_is_not_kept(tree, monkeypatch):
    """Its statement is written at the end, and would name files that nothing was compiled from."""
    edited = tree / "csrc/ops/toy/a.cu"
    for folder in ("csrc/ops/toy", "csrc/core"):
        (tree / folder).mkdir(exist_ok=True)
        (tree / folder / "family.toml").write_text("budget = 1\n")
    wheel = tree / "dist" / "k.whl"
    wheel.parent.mkdir()

    def work(*_: object) -> tuple[Path, stamp.Step]:
        wheel.write_text("wheel")
        edited.write_text("edited in the middle")
        return wheel, STEP

    monkeypatch.setattr(module, "build_wheel", work)
    monkeypatch.setattr(module, "compiled", lambda *_, **__: Built((), 1.0, ""))
    monkeypatch.setattr(module.sass, "check", lambda *_: None)
    monkeypatch.setattr(host, "tools", lambda *_: host.HostTools(Path(sys.executable), (), (), None))
    with pytest.raises(GateError, match=r"changed in .* while it was built, so k\.whl would say"):
        module._build(Options(), resolve(TABLE, target="linux-x86_64"), TABLE, tree / "work")
    assert not wheel.exists()


def test_a_build_by_the_systems_compilers_says_which_toolkit_they_are(monkeypatch, capsys):
    """Nobody asked for one: it is that of the nvcc which is there, and decides what the wheel runs on."""
    monkeypatch.setattr(module.providers, "device_compiler", lambda *_: "nvcc 12.4.131 (/usr/bin/nvcc)")
    monkeypatch.setattr("kernelwright_toolchain.device.build.build_images", lambda *_, **__: Built((), 1.0, ""))
    module.compiled(resolve(TABLE, target="linux-x86_64", toolkit="cu124", provider="system"), TABLE, 1)
    assert capsys.readouterr().err == (
        "device compiler: nvcc 12.4.131 (/usr/bin/nvcc)\ntoolkit: cu124 (CUDA 12.4), provider system\n"
    )


@pytest.mark.parametrize("clean", [False, True])
def test_a_clean_build_takes_nothing_from_a_cache_that_others_share(tmp_path, monkeypatch, clean):
    """KERNELWRIGHT_CACHE may be the cache of many trees: it is not removed, but its images are made again."""
    cached = tmp_path / "cache" / "images" / "0"
    cached.mkdir(parents=True)
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))
    serve(monkeypatch, Beside(ROOT, tmp_path))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(host, "tools", lambda *_: host.HostTools(Path(sys.executable), (), (), None))
    monkeypatch.setattr(module.providers, "device_compiler", lambda *_: "a compiler")
    asked: list[bool] = []

    def built(*_: object, afresh: bool, **__: object) -> None:
        asked.append(afresh)
        raise CompileError("far enough")

    monkeypatch.setattr("kernelwright_toolchain.device.build.build_images", built)
    with pytest.raises(CompileError, match="far enough"):
        build(Options(target="linux-x86_64", clean=clean), TABLE)
    assert (asked, cached.is_dir()) == ([clean], True)


def test_a_number_of_jobs_that_makes_no_sense_is_refused_before_anything_is_fetched(tmp_path, monkeypatch):
    def fetched(*_: object) -> None:
        raise AssertionError("something was about to be fetched")

    serve(monkeypatch, Beside(ROOT, tmp_path))
    monkeypatch.setattr(module, "_build", fetched)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    with pytest.raises(RequestError, match="-j 0 makes no sense"):
        build(Options(target="linux-x86_64", jobs=0), TABLE)
    monkeypatch.setenv("MAX_JOBS", "many")
    with pytest.raises(RequestError, match="MAX_JOBS='many' is not a number"):
        build(Options(target="linux-x86_64"), TABLE)


def test_a_failure_keeps_its_class_or_its_log():
    log = Path("/there/package.log")
    told = _failure(GateError.exit_code, "much\nerror: libx.so needs libstdc++\n", log)
    assert (type(told), str(told)) == (GateError, "libx.so needs libstdc++")
    told = _failure(1, "-- fine\nFAILED: a.o\na.cpp:1: error: no\n", log)
    assert type(told) is CompileError
    assert "FAILED: a.o\na.cpp:1: error: no" in str(told)
    assert "-- fine" not in str(told)
    assert str(log) in str(told)


def test_settings_of_the_backend_are_split_and_checked():
    ours, theirs = pep517._split({"archs": ["89", "90"], "cmake.verbose": "true", "debug": "on"})
    assert (ours, theirs) == ({"archs": "89,90", "debug": "on"}, {"cmake.verbose": "true"})
    assert [_debug({"debug": word}) for word in ("yes", "1", "off", "No")] == [True, True, False, False]
    with pytest.raises(RequestError, match="neither yes"):
        _debug({"debug": "perhaps"})


def asked_for(
    monkeypatch, *, zig: bool, library: bool, cmake: bool, machine: str = "x86_64", **settings: str
) -> list[str]:
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr(host, "find_zig", lambda _: Path("/zig") if zig else None)
    monkeypatch.setattr(nvrtc, "here", lambda *_: Path("/libnvrtc.so") if library else None)
    monkeypatch.setattr(host, "has_cmake", lambda: cmake)
    monkeypatch.setattr(host, "has_ninja", lambda: cmake)
    return [line.partition("==")[0] for line in pep517.get_requires_for_build_wheel(settings)]


def test_compilers_are_asked_for_where_none_is_found(monkeypatch):
    monkeypatch.setattr(system, "find_nvcc", lambda: None)
    always, both = ["scikit-build-core", "deflate"], ["cmake", "ninja"]
    found = asked_for(monkeypatch, zig=False, library=False, cmake=True)
    assert found == [*always, "nvidia-cuda-nvrtc-cu12", "ziglang", "ninja"]  # any CMake makes the same bytes
    assert asked_for(monkeypatch, zig=True, library=True, cmake=True) == [*always, "ninja"]
    assert asked_for(monkeypatch, zig=True, library=True, cmake=False) == [*always, *both]
    newer = asked_for(monkeypatch, zig=True, library=False, cmake=True, toolkit="cu130")
    assert newer == [*always, "nvidia-cuda-nvrtc", "ninja"]
    nvcc = system.FoundNvcc(Path("/nvcc"), targets.Version.parse("13.0.88"))
    monkeypatch.setattr(system, "find_nvcc", lambda: nvcc)
    monkeypatch.setattr(system, "find_gcc", lambda: system.FoundGcc(Path("/g++"), targets.Version.parse("12.2"), ""))
    assert asked_for(monkeypatch, zig=False, library=False, cmake=True) == always
    assert asked_for(monkeypatch, zig=False, library=False, cmake=False) == [*always, *both]


def test_what_pip_cannot_bring_is_fetched_when_it_asks(monkeypatch):
    """NVRTC of the reference toolkit for aarch64 is no package: `pip install .` would look for it in vain."""
    monkeypatch.setattr(system, "find_nvcc", lambda: None)
    fetched = []
    monkeypatch.setattr(nvrtc, "library", lambda kit, machine: fetched.append((kit.name, machine)))
    wanted = {"zig": True, "library": False, "cmake": True, "machine": "aarch64"}
    assert asked_for(monkeypatch, **wanted) == ["scikit-build-core", "deflate", "ninja"]
    assert fetched == [("cu122", "aarch64")]
    assert "nvidia-cuda-nvrtc-cu12" in asked_for(monkeypatch, **wanted, toolkit="cu124")
    assert len(fetched) == 1


def test_a_refused_build_ends_with_words_and_its_code(monkeypatch, capsys):
    with pytest.raises(SystemExit) as ended:
        asked_for(monkeypatch, zig=True, library=True, cmake=True, archs="12", provider="pip")
    assert ended.value.code == RequestError.exit_code
    assert "error: arch '12'" in capsys.readouterr().err


def test_cmake_is_told_the_same_whatever_the_way_in(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(host, "find_zig", lambda _: Path("/zig"))
    plain = pep517.defines(TABLE, resolve(TABLE, target="linux-x86_64"))
    assert (plain["KW_ARCHS"], plain["KW_OPS"], plain["KW_LABEL"], plain["KW_DEBUG"]) == ("", "", "", "OFF")
    assert (plain["KW_ZIG"], plain["KW_ZIG_TARGET"]) == ("/zig", "x86_64-linux-gnu.2.28")
    other = pep517.defines(TABLE, resolve(TABLE, target="linux-aarch64", archs="87;90+ptx", debug=True), jobs=2)
    assert (other["KW_ARCHS"], other["KW_JOBS"]) == ("sm_87,sm_90,compute_90", "2")
    assert other["KW_LABEL"] == "cu122.sm87.sm90.compute90.debug"
    assert other["KW_ZIG_TARGET"] == "aarch64-linux-gnu.2.28"
    monkeypatch.setattr(host, "find_zig", lambda _: None)
    with pytest.raises(ToolMissing, match="ziglang"):
        pep517.defines(TABLE, resolve(TABLE, target="linux-x86_64"))


def item(name: str, version: str = "1", size: Path | None = None) -> dict:
    info = {
        "url": size.as_uri() if size else "ftp://nowhere.invalid/x",
        "archive_info": {"hashes": {"sha256": "0" * 64}},
    }
    return {"metadata": {"name": name, "version": version}, "download_info": info}


def test_which_torch_the_tests_get(monkeypatch, tmp_path):
    big = tmp_path / "torch.whl"
    big.write_bytes(bytes(3_000_000))
    answers = {
        "cpu": [item("torch", "2.13.0+cpu", big), item("sympy")],
        "gpu": [item("torch", "2.13.0", big), item("triton")],
    }
    answer = [answers["cpu"]]
    monkeypatch.setattr(torch, "_report", lambda _: answer[0])
    monkeypatch.setattr(torch, "installed", lambda: None)
    monkeypatch.setattr(torch.locked_torch, "known", dict)  # no row for what these stand-ins are
    assert torch.choose("none").key == "none"
    chosen = torch.choose(None)
    assert chosen.key == "spec-2.13.0+cpu"
    assert "a build for CPUs: 2 packages, 3 MB to fetch" in chosen.about
    assert f"torch==2.13.0+cpu --hash=sha256:{'0' * 64}\n" in chosen.lock
    answers["cpu"][0]["download_info"]["archive_info"] = {
        "hash": f"sha256={'0' * 64}"
    }  # pip 23.0, of a file in a folder
    assert torch.choose(None) == chosen
    answer[0] = answers["gpu"]
    assert torch.choose(None).key == "none"
    assert "PIP_EXTRA_INDEX_URL" in torch.choose(None).about
    assert "a build for GPUs: 2 packages, 3 MB to fetch" in torch.choose("torch==2.13.0").about
    with pytest.raises(ToolMissing, match="--torch installed"):
        torch.choose("installed")
    with pytest.raises(RequestError, match="--torch '' names nothing"):  # a variable that is not set; not gigabytes
        torch.choose("")
    here = torch.Torch("installed-2", "here")
    monkeypatch.setattr(torch, "installed", lambda: here)
    assert torch.choose(None) is here
    assert torch.choose("installed") is here


def test_a_torch_that_is_not_to_be_had_is_none_unless_asked_for(monkeypatch):
    def fail(spec):
        raise ProvisionError(f"asking for {spec}\nERROR: No matching distribution")

    monkeypatch.setattr(torch, "_report", fail)
    monkeypatch.setattr(torch, "installed", lambda: None)
    assert "No matching distribution" in torch.choose(None).about
    with pytest.raises(ProvisionError):
        torch.choose("torch==99")
