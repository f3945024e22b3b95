# SPDX-License-Identifier: MIT
"""bitsandbytes' own tests: as they are, with kernelwright underneath, and with kernelwright instead.

`./kw tests -- --bitsandbytes=PATH tests/integrations/test_bitsandbytes_suite.py`, PATH being `tests/` of a checkout of the
release that is installed. None of its files are here. A test that passes as it is passes the other two ways as well, or
bitsandbytes_suite/differences.toml says why not. bitsandbytes_suite/runs.py does the same in many processes, and on a GPU.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("tomllib", reason="Python 3.11 or newer reads the list of differences")

from tests.integrations.bitsandbytes_suite import runs

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.fixture(scope="module")
def suite(request):
    path = request.config.getoption("--bitsandbytes")
    if path is None:
        pytest.skip("--bitsandbytes=PATH names the tests of a checkout of bitsandbytes")
    found = Path(path).resolve()
    if not (found / "test_functional.py").is_file():
        pytest.fail(f"--bitsandbytes {path}: no test_functional.py is there; name the folder tests/ of a checkout")
    return found


@pytest.fixture(scope="module")
def run(suite, request, tmp_path_factory):
    """Runs them one way, each way once: outcomes, and how many calls reached kernelwright."""
    done = {}

    def one(way):
        if way not in done:
            folder = tmp_path_factory.mktemp(way)
            runs.start(way, suite, folder, only=request.config.getoption("--bitsandbytes-only")).wait()
            assert (folder / f"{way}.txt").is_file(), (folder / "log.txt").read_text(encoding="utf-8")[-8000:]
            done[way] = runs.outcomes(folder, way), runs.calls(folder, way)
        return done[way]

    return one


@pytest.mark.parametrize("way", runs.WAYS)
def test_what_passes_as_it_is_passes(way, run):
    plain, _ = run("plain")
    ours, calls = run(way)
    passed = [name for name, outcome in plain.items() if outcome == "passed"]
    assert passed, "no test of bitsandbytes passes here as it is"
    worse = [name for name in passed if ours.get(name) != "passed"]
    counts = {outcome: list(ours.values()).count(outcome) for outcome in sorted(set(ours.values()))}
    print(
        f"{way}: {counts}; {len(passed)} passed as they are, {len(worse)} of them not {way}; {calls} calls reached us"
    )
    assert runs.unlisted(way, worse) == []
    assert calls > 0


@pytest.mark.parametrize("way", runs.WAYS)
def test_the_list_has_reasons_and_nothing_else(way):
    for tests, reason in runs.listed(way):
        assert len(reason) > 20, tests


SUITE = """
import os
import pytest
import bitsandbytes

@pytest.mark.parametrize("number", range(5))
def test_codes(number):
    import torch
    assert bitsandbytes.functional.quantize_4bit(torch.ones(64))[0].numel() == 32

def test_whose():
    assert "kernelwright" not in bitsandbytes.functional.quantize_4bit.__module__

@pytest.mark.xfail
def test_known():
    assert os.environ["BNB_TEST_DEVICE"] == "cuda"

@pytest.mark.skipif(True, reason="as it is")
def test_skipped():
    pass

def test_broken():
    raise AssertionError("as it is too")
"""


def test_many_processes_and_what_was_cut_off(tmp_path, monkeypatch, capfd):
    """A suite of our own: each test once in all processes, those that are there already not again, and what passes as it
    is and not instead is named."""
    pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_some.py").write_text(SUITE, encoding="utf-8")
    out = tmp_path / "out"
    out.mkdir()
    (out / "instead.txt").write_text("passed tests/test_some.py::test_codes[3]\n", encoding="utf-8")
    arguments = ["runs", str(out), "--suite", str(tmp_path / "tests"), "--ways", "instead", "--processes", "2"]
    monkeypatch.setattr(sys, "argv", arguments)
    monkeypatch.setenv("BNB_TEST_DEVICE", os.environ.get("BNB_TEST_DEVICE", "cpu"))
    assert runs.main() == 1
    said = json.loads((out / "summary.json").read_text(encoding="utf-8"))["instead"]
    assert json.loads(capfd.readouterr().out)["instead"] == said
    assert [said[outcome] for outcome in ("passed", "failed", "skipped", "xfailed")] == [5, 2, 1, 1]
    assert said["of those not listed"] == said["pass as they are and not so"] == ["tests/test_some.py::test_whose"]
    assert said["calls that reached kernelwright"] == 4
    lines = (out / "instead.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(set(lines)) == 9
    assert runs.outcomes(out, "plain").keys() == {
        f"tests/test_some.py::test_{name}" for name in ("whose", "known", "skipped", "broken")
    }


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Runs a suite of one file, instead, and gives its exit code and the folder of its reports."""
    pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed")
    (tmp_path / "tests").mkdir()
    monkeypatch.setenv("BNB_TEST_DEVICE", "cpu")

    def one(text, *more):
        (tmp_path / "tests" / "test_some.py").write_text(text, encoding="utf-8")
        arguments = ["runs", str(tmp_path / "out"), "--suite", str(tmp_path / "tests"), "--ways", "instead"]
        monkeypatch.setattr(sys, "argv", [*arguments, "--processes", "1", *more])
        return runs.main(), tmp_path / "out"

    return one


def test_a_run_without_a_call_of_ours_fails(small, capfd):
    code, out = small("def test_of_something_else():\n    pass\n")
    assert code == 2
    assert json.loads(capfd.readouterr().out)["instead"]["calls that reached kernelwright"] == 0
    assert runs.outcomes(out, "instead") == {"tests/test_some.py::test_of_something_else": "passed"}


CUT_OFF = """
import os
import pytest
import bitsandbytes

def codes():
    import torch
    return bitsandbytes.functional.quantize_4bit(torch.ones(64))

def test_before():
    codes()

@pytest.mark.skipif(os.path.exists("cut"), reason="the process ended here the first time")
def test_that_ends_the_process():
    open("cut", "w").close()
    os._exit(9)

def test_after():
    pass
"""


def test_calls_of_a_process_that_was_cut_off_count(small):
    code, out = small(CUT_OFF)
    assert code == 3
    counted = runs.calls(out, "instead")
    assert counted > 0
    code, out = small(CUT_OFF)
    assert code == 0
    assert runs.calls(out, "instead") == counted
