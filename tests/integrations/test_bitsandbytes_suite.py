# SPDX-License-Identifier: MIT
"""bitsandbytes' own tests: as they are, with kernelwright underneath, and with kernelwright instead.

`./kw tests -- --bitsandbytes=PATH tests/integrations/test_bitsandbytes_suite.py`, PATH being `tests/` of a checkout of the
release that is installed. None of its files are here. A test that passes as it is passes the other two ways as well, or
bitsandbytes_suite/differences.toml says why not.
"""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tree import ROOT

tomllib = pytest.importorskip("tomllib", reason="Python 3.11 or newer reads the list of differences")

pytestmark = [pytest.mark.torch, pytest.mark.slow]
HERE = Path(__file__).parent / "bitsandbytes_suite"
WAYS = ("underneath", "instead")


def outcomes(report):
    """What became of each test: of what is said of its parts, the last that is not "passed"."""
    found = {}
    for line in report.read_text(encoding="utf-8").splitlines():
        outcome, _, name = line.partition(" ")
        if outcome != "passed" or name not in found:
            found[name] = outcome
    return found


def settings_of(suite):
    """pytest's for these tests: their checkout's, and never those of a tree that it lies in."""
    own = suite.parent / "pyproject.toml"
    return str(own) if own.is_file() else os.devnull


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
            report, count = folder / "outcomes", folder / "reached"
            plugin = [] if way == "plain" else ["-p", f"tests.integrations.bitsandbytes_suite.{way}"]
            chosen = request.config.getoption("--bitsandbytes-only")
            chosen = ["-k", chosen] if chosen else []
            program = [
                sys.executable,
                "-c",
                PROGRAM,
                str(ROOT),
                str(suite),
                settings_of(suite),
                str(report),
                *plugin,
                *chosen,
            ]
            environment = {**os.environ, "REACHED": str(count), "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1"}
            ended = subprocess.run(
                program, cwd=suite.parent, env=environment, capture_output=True, text=True, check=False
            )
            assert report.is_file(), ended.stdout[-4000:] + ended.stderr[-4000:]
            done[way] = outcomes(report), int(count.read_text()) if count.is_file() else 0
        return done[way]

    return one


# The plugins are of this project's `tests`, and theirs is a package of that name too: ours is gone before theirs is read.
PROGRAM = """
import sys
root, suite, settings, report, *options = sys.argv[1:]
from pathlib import Path
import pytest

class Outcomes:
    def __init__(self):
        self.file = open(report, "w", encoding="utf-8")
    def pytest_runtest_logreport(self, report):
        if report.when == "call" or not report.passed:
            print(report.outcome, report.nodeid, file=self.file, flush=True)

plugins = [Outcomes()]
if options[:1] == ["-p"]:
    import importlib
    sys.path.insert(0, root)
    plugins.append(importlib.import_module(options[1]))
    sys.path.remove(root)
    options = options[2:]
for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
    del sys.modules[name]
fixed = ["-q", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist", "--continue-on-collection-errors"]
fixed += ["-W", "default::pytest.PytestDeprecationWarning"]
fixed += ["-c", settings, "--rootdir", str(Path(suite).parent), "-o", "log_cli=false", "-o", "log_file="]
raise SystemExit(pytest.main([suite, *fixed, *options], plugins=plugins))
"""


def listed(way):
    """Tests that may differ this way: (pattern, reason)."""
    rows = tomllib.loads((HERE / "differences.toml").read_text(encoding="utf-8"))["differs"]
    return [(row["tests"], row["reason"]) for row in rows if way in row["ways"]]


def plain_name(name):
    return re.sub(r"\[.*", "", name)


@pytest.mark.parametrize("way", WAYS)
def test_what_passes_as_it_is_passes(way, run):
    plain, _ = run("plain")
    ours, calls = run(way)
    known = listed(way)
    passed = [name for name, outcome in plain.items() if outcome == "passed"]
    assert passed, "no test of bitsandbytes passes here as it is"
    worse = [name for name in passed if ours.get(name) != "passed"]
    unlisted = [name for name in worse if not any(fnmatch.fnmatchcase(plain_name(name), at) for at, _ in known)]
    counts = {outcome: list(ours.values()).count(outcome) for outcome in sorted(set(ours.values()))}
    print(
        f"{way}: {counts}; {len(passed)} passed as they are, {len(worse)} of them not {way}; {calls} calls reached us"
    )
    assert unlisted == []
    assert calls > 0


@pytest.mark.parametrize("way", WAYS)
def test_the_list_has_reasons_and_nothing_else(way):
    for tests, reason in listed(way):
        assert len(reason) > 20, tests
