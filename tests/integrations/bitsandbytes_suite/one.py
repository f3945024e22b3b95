# SPDX-License-Identifier: MIT
"""bitsandbytes' tests, one way, in this process. `runs.py` starts it by its path, with what it needs as JSON in its input.

Their tests and ours are packages of one name: the plugins of ours are imported first, then ours is forgotten.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest


class Outcomes:
    """Takes the part of the tests that is asked for, and writes down what became of each as it ends."""

    def __init__(self, asked: dict) -> None:
        self.asked = asked
        self.file = Path(asked["report"]).open("a", encoding="utf-8")  # noqa: SIM115 - open until the process ends

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        done, wanted = set(self.asked["done"]), set(self.asked["wanted"])
        kept = [item for item in items if item.nodeid not in done and (not wanted or item.nodeid in wanted)]
        kept = kept[self.asked["part"] :: self.asked["parts"]]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
        items[:] = kept

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
            print(outcome, report.nodeid, file=self.file, flush=True)


def main(asked: dict) -> int:
    suite, plugins = asked["suite"], [Outcomes(asked)]
    if asked["way"] != "plain":
        sys.path.insert(0, asked["root"])
        plugins.append(importlib.import_module(f"tests.integrations.bitsandbytes_suite.{asked['way']}"))
        sys.path.remove(asked["root"])
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    fixed = ["-q", "--tb=short", "-rf", "-p", "no:cacheprovider", "-p", "no:xdist", "--continue-on-collection-errors"]
    fixed += ["-W", "default::pytest.PytestDeprecationWarning"]
    fixed += ["-c", asked["settings"], "--rootdir", str(Path(suite).parent), "-o", "log_cli=false", "-o", "log_file="]
    chosen = ["-k", asked["only"]] if asked["only"] else []
    files = [str(Path(suite) / name) for name in asked["files"]] or [suite]
    return pytest.main([*files, *fixed, *chosen], plugins=plugins)


if __name__ == "__main__":
    sys.path.pop(0)  # this file's folder
    raise SystemExit(main(json.load(sys.stdin)))
