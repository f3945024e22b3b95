# SPDX-License-Identifier: MIT
"""The report on machines that nobody would build: it says what it can, raises nothing, and is there in time."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from kernelwright.doctor.html.report import report
from kernelwright.doctor.report.facts import gather
from kernelwright.doctor.report.redact import redacted
from kernelwright.doctor.report.text import lines
from tests.doctor.made_up import ORIN, WORKSTATION
from tests.python.support import REPORT, copy_package, run

MACHINES = 60
BASES = [
    WORKSTATION.but(variables={"CUDA_HOME": "/usr/local/cuda", "TMPDIR": "/tmp", "LD_LIBRARY_PATH": "/usr/lib"}),  # noqa: S108
    ORIN,
]
NASTY = [
    "",
    "9" * 5000,
    "/" + "a" * 5000,
    "::",
    "\udcff/x",
    "[",
    "**/*",
    "../" * 99,
    "\u00b2",
    "%s",
    "-1",
    "12",
    "a.b",
    "\n",
    "0x1",
]


def garbage(draw, old):
    """What stands in a file instead: noise, a part of what was there, or all of it with some bytes changed."""
    kind = draw.randrange(5)
    if kind == 0:
        return draw.randbytes(draw.randrange(200))
    if kind == 1:
        return old[: draw.randrange(len(old) + 1)]
    if kind == 2:
        return old * 50
    if kind == 3:
        return draw.choice(NASTY).encode("utf-8", "surrogateescape")
    changed = bytearray(old or b"x")
    for _ in range(draw.randrange(1, 20)):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    return bytes(changed)


def spoil(draw, path):
    """Makes of a file something else. A link is replaced: its file may have become anything by now."""
    kind = draw.choice([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 5, 6])
    old = b"" if path.is_symlink() else path.read_bytes()
    path.unlink()
    if kind < 3:
        path.write_bytes(garbage(draw, old))
        path.chmod(0o755)
        return
    if kind == 3:
        path.mkdir()
    elif kind == 4:
        path.symlink_to(draw.choice(["/nowhere/at/all", path.name, ".."]))
    elif kind == 5:
        os.mkfifo(path)
    else:
        with path.open("wb") as file:
            file.truncate(1 << 36)  # 64 GiB of nothing


def odd(draw, value):
    """An answer of a probe that is of the right kind and says nonsense."""
    if isinstance(value, dict):
        return {key: odd(draw, each) for key, each in value.items() if draw.random() > 0.1}
    if isinstance(value, list):
        return [odd(draw, each) for each in value] * draw.randrange(3)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return draw.choice([value, 0, -1, 1, 1 << 40])
    return draw.choice([value, *NASTY])


@pytest.mark.parametrize("part", range(5))
def test_machines_that_nobody_would_build(tmp_path, seed, part, monkeypatch):
    monkeypatch.setattr("kernelwright.doctor.report.facts._on_cpu", list)  # they know nothing of the machine
    for number in range(MACHINES // 5):
        draw = random.Random(f"{seed}-{part}-{number}")
        made, root = draw.choice(BASES), tmp_path / str(number)
        variables = {name: draw.choice([value, *NASTY]) for name, value in made.variables.items()}
        variables |= {name: draw.choice(NASTY) for name in ("MAX_JOBS", "BNB_CUDA_VERSION", "CONDA_OVERRIDE_CUDA", "HOME")
                      if draw.random() < 0.3}  # fmt: skip
        says = {name: draw.choice([text, *NASTY]) for name, text in made.says.items()}
        made = replace(made, variables=variables, says=says, driver=odd(draw, made.driver), torch=odd(draw, made.torch),
                       operators=odd(draw, made.operators), kernel=draw.choice([made.kernel, *NASTY]))  # fmt: skip
        machine = made.at(root)
        for name in draw.sample(sorted([*made.files, *made.links]), draw.randrange(1, 12)):
            spoil(draw, root / name.lstrip("/"))
        start = time.process_time()
        told = gather(machine)
        assert time.process_time() - start < 20  # of a limit that only a loop without an end reaches
        wrong = [each for each in told["findings"] if "itself failed" in each["evidence"]]
        assert not wrong, wrong
        broken = [name for name, each in told.items() if isinstance(each, dict) and set(each) == {"error"}]
        assert broken in ([], ["driver"]), {name: told[name] for name in broken}
        assert "\n".join(lines(told))
        assert report(redacted(told))
        json.dumps(told)


def test_a_machine_without_proc_and_home(tmp_path):
    files = {name: content for name, content in WORKSTATION.files.items() if not name.startswith(("/proc", "/sys"))}
    told = gather(replace(WORKSTATION, files=files, variables={}).at(tmp_path))
    assert [each for each in told["findings"] if "itself failed" in each["evidence"]] == []
    assert told["system"]["memory"] is None


def test_files_of_somebody_else(tmp_path):
    """A directory of PATH that may not be entered, as root's is for everybody else."""
    machine = WORKSTATION.at(tmp_path)
    closed = {"/usr/local/cuda/bin", "/usr/bin", "/proc/driver/nvidia"}
    real = type(tmp_path).stat

    def stat(path, **more):
        if any(str(path).startswith(str(tmp_path) + place) for place in closed):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(tmp_path), "stat", stat)
        told = gather(machine)
    assert [each for each in told["findings"] if "itself failed" in each["evidence"]] == []
    assert told["toolkits"] == []


@pytest.mark.parametrize(
    "environment",
    [
        {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0"},
        {"HOME": "/nonexistent", "TMPDIR": "/nonexistent"},
        {"HOME": "\udcff\udcfe", "PATH": "\udcff:/usr/bin"},
        {"PATH": "", "LD_LIBRARY_PATH": "/" + "x" * 5000},
        {"MAX_JOBS": "9" * 5000, "CUDA_HOME": "a\nb", "CUDA_VISIBLE_DEVICES": "\u2028"},
    ],
    ids=["C", "no home", "no text", "no path", "odd"],
)
def test_a_process_in_an_odd_environment(environment):
    for options in ([], ["--json", "--redact"]):
        done = subprocess.run(
            [sys.executable, "-m", "kernelwright", *options],
            env={**{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}, **environment},
            capture_output=True,
            check=False,
            timeout=120,
        )
        assert b"Traceback" not in done.stderr, done.stderr
        assert b"itself failed" not in done.stdout
        assert len(done.stdout) > 500


def test_from_a_directory_that_was_deleted(tmp_path):
    """torch may not import there (oneMKL finds none of its files), which is the report's to say; it is whole."""
    gone = tmp_path / "gone"
    gone.mkdir()
    done = run(f"import os; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r}); {REPORT}")
    assert "Traceback" not in done.stderr, done.stderr
    assert "itself failed" not in done.stdout, done.stdout
    assert done.stdout.endswith(("SUCCESS\n", "FAILED\n")), done.stdout


def test_from_a_directory_that_may_not_be_written(tmp_path):
    """And with no file of its own: nothing is written anywhere."""
    package = copy_package(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    done = run(f"import sys; sys.dont_write_bytecode = True; {REPORT}", package=package, TMPDIR=str(tmp_path))
    assert done.stdout.endswith("SUCCESS\n"), done.stdout
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_doctor_with_damaged_files_says_so(tmp_path):
    package = copy_package(tmp_path)
    (package / "doctor/checks/settings.py").write_text("raise SystemError('damaged')\n")
    done = run(REPORT, package=package)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "kernelwright doctor failed itself (SystemError: damaged); pip install" in done.stderr
