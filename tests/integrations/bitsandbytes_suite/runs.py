# SPDX-License-Identifier: MIT
"""bitsandbytes' own tests with kernelwright underneath and instead, in many processes, on a CPU or a GPU.

    python -m tests.integrations.bitsandbytes_suite.runs OUT --suite PATH [--device cuda] [--processes 12] [--minutes 5]
        [--ways underneath instead] [--files test_ops.py …] [--only EXPRESSION]

PATH is `tests/` of a checkout. Only what does not pass is run as it is too: a test that passes with kernelwright tells
all that is asked. OUT/<way>.txt gets a line when a test ends, so that a call that was cut off loses nothing: the same call
goes on where it stopped. OUT/summary.json has the counts and the tests that pass as they are and not with ours;
the exit code is 1 where there is one that differences.toml does not name, 2 where no call of a way reached kernelwright
(then it says nothing about it), and 3 where the time was up or a process broke off.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent
WAYS = ("underneath", "instead")


def settings_of(suite: Path) -> str:
    """pytest's for these tests: their checkout's, and never those of a tree that it lies in."""
    own = suite.parent / "pyproject.toml"
    return str(own) if own.is_file() else os.devnull


def outcomes(out: Path, way: str) -> dict[str, str]:
    """What became of each test: of what is said of its parts, the last that is not "passed"."""
    report, found = out / f"{way}.txt", {}
    for line in report.read_text(encoding="utf-8").splitlines() if report.is_file() else ():
        outcome, _, name = line.partition(" ")
        if outcome != "passed" or name not in found:
            found[name] = outcome
    return found


def calls(out: Path, way: str) -> int:
    """How many reached kernelwright, in all processes that have written this folder's reports."""
    count = out / f"{way}.calls"
    return sum(map(int, count.read_text(encoding="utf-8").split())) if count.is_file() else 0


def listed(way: str) -> list[tuple[str, str]]:
    """Tests that may differ this way: (pattern, reason)."""
    rows = tomllib.loads((HERE / "differences.toml").read_text(encoding="utf-8"))["differs"]
    return [(row["tests"], row["reason"]) for row in rows if way in row["ways"]]


def unlisted(way: str, names: list[str]) -> list[str]:
    """Those of these tests that differences.toml does not let differ this way."""
    known = [pattern for pattern, _ in listed(way)]
    return [n for n in names if not any(fnmatch.fnmatchcase(re.sub(r"\[.*", "", n), pattern) for pattern in known)]


def start(way: str, suite: Path, out: Path, **asked: object) -> subprocess.Popen[str]:
    """One process with a part of the tests: what became of each goes to out/<way>.txt, what is printed to out/log.txt."""
    named = {"done": [], "wanted": [], "part": 0, "parts": 1, "only": None, "files": [], **asked}
    named |= {"way": way, "root": str(ROOT), "suite": str(suite), "settings": settings_of(suite)}
    named["report"] = str(out / f"{way}.txt")
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1"}
    environment["REACHED"] = str(out / f"{way}.calls")
    with (out / "log.txt").open("a", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, str(HERE / "one.py")],
            cwd=suite.parent, env=environment, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
    assert process.stdin is not None
    with process.stdin:
        json.dump(named, process.stdin)  # thousands of names are too long for an argument
    return process


def wait(running: list[subprocess.Popen[str]], until: float) -> bool:
    """Whether all came to the end of their tests; where the time is up, the others are ended."""
    for process in running:
        try:
            process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            for other in running:
                other.kill()
                other.wait()
            return False
    return all(process.returncode in (0, 1, 5) for process in running)  # pytest's: passed, failed, no test


def take(arguments: argparse.Namespace, until: float) -> bool:
    """Both ways, then what did not pass as it is; whether all ended in time."""
    out, suite, chosen = arguments.out, arguments.suite, {"only": arguments.only, "files": arguments.files}
    parts = max(1, arguments.processes // len(arguments.ways))
    running = [
        start(way, suite, out, done=sorted(done), part=part, parts=parts, **chosen)
        for way in arguments.ways
        for done in [outcomes(out, way)]
        for part in range(parts)
    ]
    if not wait(running, until):
        return False
    found = {way: outcomes(out, way) for way in arguments.ways}
    wanted = sorted({n for names in found.values() for n, outcome in names.items() if outcome != "passed"})
    done = outcomes(out, "plain")
    if set(wanted) <= set(done):
        return True
    parts = min(arguments.processes, len(wanted))
    asked = {"wanted": wanted, "done": sorted(done), "parts": parts, **chosen}
    return wait([start("plain", suite, out, part=part, **asked) for part in range(parts)], until)


def summary(out: Path, ways: list[str]) -> dict[str, dict[str, object]]:
    plain, said = outcomes(out, "plain"), {}
    for way in ways:
        found = outcomes(out, way)
        worse = sorted(n for n, outcome in found.items() if outcome != "passed" and plain.get(n) == "passed")
        said[way] = {
            **{outcome: list(found.values()).count(outcome) for outcome in sorted(set(found.values()))},
            "calls that reached kernelwright": calls(out, way),
            "pass as they are and not so": worse,
            "of those not listed": unlisted(way, worse),
        }
    return said


def verdict(said: dict[str, dict[str, object]]) -> int:
    """The exit code of a run that came to its end."""
    if any(way["of those not listed"] for way in said.values()):
        return 1
    return 0 if all(way["calls that reached kernelwright"] for way in said.values()) else 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--suite", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--files", nargs="+", default=[])
    parser.add_argument("--only")
    arguments = parser.parse_args()
    until = time.monotonic() + 60.0 * arguments.minutes
    os.environ["BNB_TEST_DEVICE"] = arguments.device
    arguments.out, arguments.suite = arguments.out.resolve(), arguments.suite.resolve()
    arguments.out.mkdir(parents=True, exist_ok=True)
    ended = take(arguments, until)
    said = summary(arguments.out, arguments.ways)
    (arguments.out / "summary.json").write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(said, indent=1))
    return 3 if not ended else verdict(said)


if __name__ == "__main__":
    raise SystemExit(main())
