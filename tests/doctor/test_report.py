# SPDX-License-Identifier: MIT
"""`python -m kernelwright`: the facts it prints, and that it fails when something is wrong."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import kernelwright
from kernelwright import __main__ as report
from kernelwright import _environment, _files, _library, ops
from kernelwright.doctor.report.command import exit_code
from kernelwright.doctor.report.facts import gather
from kernelwright.doctor.report.text import lines
from tests.doctor.made_up import H100, WORKSTATION
from tests.python.support import REPORT, WITHOUT_TORCH, copy_package, run

SITE = Path(kernelwright.__path__[0]).parent


def test_report():
    done = subprocess.run(
        [sys.executable, "-m", "kernelwright"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[-1] == "SUCCESS"
    facts = {line.split()[0]: line for line in lines[:-1] if line}
    manifest = _files.read("manifest.json")
    assert kernelwright.__version__ in facts["kernelwright"]
    for word in (manifest["target"], manifest["toolkit"], manifest["provider"]):
        assert word in facts["build"]
    assert manifest["compiler"]["version"] in facts["compiler"]
    assert set(facts["images"].split()[1:]) == {image["code"] for image in manifest["images"]}
    served = [(image["code"], image["served_by"]["code"]) for image in manifest["images"] if image["served_by"]]
    for code, by in set(served):
        words = f"{served.count((code, by))} images for {code}: the files of {by}, of which the same is loaded"
        assert words in done.stdout
    assert str(_files.locate(_files.LIBRARY)) in facts["library"]
    assert _library.load().text("kw_cpu_isa") in facts["cpu"]
    for name in _environment.MEANINGS:
        assert any(line.startswith("environment") and name in line for line in lines), name
    assert {"gpus", "torch", *ops.names()} <= set(facts)


def test_the_console_script():
    """`kernelwright explain` is `python -m kernelwright explain`."""
    [script] = [
        entry for entry in metadata.distribution("kernelwright").entry_points if entry.group == "console_scripts"
    ]
    assert (script.name, script.value) == ("kernelwright", "kernelwright.__main__:main")
    assert script.load() is report.main


def test_an_import_of_torch_is_not_waited_for(tmp_path):
    """The report is there within a second, however long torch takes; --torch waits."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/version.py").write_text("__version__ = '2.9.0'\ncuda = None\n")
    slow = "import time\ntime.sleep({})\nraise ImportError('not whole')\n"
    (tmp_path / "torch/__init__.py").write_text(slow.format(100))
    path = f"{tmp_path}{os.pathsep}{SITE}"
    told = json.loads(run(REPORT, "--json", PYTHONPATH=path).stdout)
    assert told["torch"]["import"] == {"waited_for": False}
    assert "KW-088" not in [found["code"] for found in told["findings"]]
    (tmp_path / "torch/__init__.py").write_text(slow.format(1))
    told = json.loads(run(REPORT, "--json", "--torch", PYTHONPATH=path).stdout)
    assert told["torch"]["import"] == {"error": "ImportError: not whole"}
    assert "KW-088" in [found["code"] for found in told["findings"]]


@pytest.mark.parametrize("place", ["/dev/full", "closed"])
def test_a_report_that_cannot_be_written(place):
    command = f"{sys.executable} -m kernelwright"
    done = subprocess.run(
        ["sh", "-c", f"{command} >&-" if place == "closed" else f"{command} > {place}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode in {0, 1}


def test_a_terminal_that_knows_ascii_only(tmp_path):
    log = tmp_path / "log"
    log.write_text("\u2570\u2500\u25b6 nvcc fatal   : Unsupported gpu architecture 'compute_120'\n")
    done = subprocess.run(
        [sys.executable, "-m", "kernelwright", "explain", str(log)],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\u2570" in done.stdout


def test_without_torch():
    done = run(WITHOUT_TORCH + REPORT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("SUCCESS\n")


def test_torch_is_looked_up_and_not_imported():
    done = run(
        "import sys, runpy\ntry:\n  runpy.run_module('kernelwright', run_name='__main__')\nexcept SystemExit: print('torch' in sys.modules)"
    )
    assert done.stdout.endswith("SUCCESS\nFalse\n"), done.stdout


def test_a_wrong_operator_fails_the_report(monkeypatch, capsys):
    name = ops.names()[0]
    monkeypatch.setitem(_library.load().functions, f"kw_{name}", lambda *_: 0)
    assert report.main(["doctor"]) == 1
    printed = capsys.readouterr().out
    assert f"FAILED {name}: SelfCheckFailed: {name}, " in printed
    assert "SUCCESS" not in printed
    assert printed.endswith("FAILED\n")


def two_gpus(root):
    """A machine with an H100 and a Kepler."""
    gpus = [H100, {"name": "Tesla K40m", "capability": 35, "memory": 12 << 30}]
    return WORKSTATION.but(driver={"level": 12020, "init": 0, "library": "/usr/lib/libcuda.so.1", "gpus": gpus}).at(
        root
    )


def test_gpus_and_their_images(tmp_path):
    told = gather(two_gpus(tmp_path))
    printed = list(lines(told))
    first, second = (line for line in printed if line.startswith("gpus"))
    assert first.split(": ")[0].endswith("0")
    assert "NVIDIA H100, compute capability 9.0, 80 GiB: gets " in first
    assert "compute capability 3.5, 12 GiB: gets nothing from this wheel" in second
    assert any(line.startswith("driver       CUDA 12.2, kernel module 580.65.06") for line in printed)
    assert printed[-1] == "FAILED"
    assert "KW-074" in [found["code"] for found in told["findings"]]
    assert exit_code(told) > 9


def test_json(capsys):
    assert report.main(["--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == 1
    assert told["success"] is True
    assert {"build", "system", "driver", "gpus", "python", "torch", "operators", "findings"} <= set(told)
    assert [each["name"] for each in told["operators"]] == list(ops.names())


def test_of_itself_alone(tmp_path):
    """A build checks its wheel, not the machine: the fault of a machine may not fail it, a fault of the wheel must."""
    told = gather(two_gpus(tmp_path), only_self=True)
    assert told["success"] is True
    assert told["findings"] == []
    assert "gpus" not in told
    assert list(lines(told))[-1] == "SUCCESS"
    package = copy_package(tmp_path)
    (package / "manifest.json").write_text("{")
    done = run(REPORT, "--self", package=package)
    assert "FAILS KW-070" in done.stdout
    assert done.returncode > 9


def test_the_version(capsys):
    assert report.main(["--version"]) == 0
    assert capsys.readouterr().out == f"kernelwright {kernelwright.__version__}\n"


def test_what_the_program_does_not_know(capsys):
    assert report.main(["heal"]) == 2
    assert report.main(["doctor", "--now"]) == 2
    assert report.main(["doctor", "--help"]) == 0
    assert "Exit code" in capsys.readouterr().out


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help_without_a_verb_is_all_verbs(word, capsys):
    assert report.main([word]) == 0
    out = capsys.readouterr().out
    listed = re.findall(r"^  (\w+) +\S", out, re.MULTILINE)
    assert listed == list(report._VERBS)
    assert "kernelwright VERB --help" in out
    assert max(map(len, out.splitlines())) <= 120
    for module, words in report._VERBS.values():
        assert importlib.util.find_spec(f"kernelwright.{module}") is not None
        assert words in out
    for word_ in ("--against LIST", "transformers", "bitnet"):
        assert f"    {word_}" in out


def test_a_broken_package_is_a_report_too(tmp_path):
    package = copy_package(tmp_path)
    (package / "manifest.json").write_text("{")
    done = run(REPORT, package=package)
    assert done.stderr == ""
    assert "FAILS KW-070" in done.stdout
    assert done.returncode > 9
    assert done.stdout.endswith("FAILED\n")


def test_a_reader_that_goes_away():
    """As with `python -m kernelwright | head -1`: no traceback."""
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "kernelwright"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline().startswith("kernelwright ")
        process.stdout.close()
        assert process.stderr.read() == ""


@pytest.mark.gpu
def test_every_gpu_is_listed():
    done = run(REPORT)
    assert "gpus         0: " in done.stdout
    assert ": gets " in done.stdout
