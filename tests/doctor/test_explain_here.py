# SPDX-License-Identifier: MIT
"""One paste: `explain --here` and `run`, which put a log and the machine it is of together; and other packages' causes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from kernelwright import __main__ as program
from kernelwright.doctor.explain import run
from kernelwright.doctor.explain.here import gathered, markdown
from kernelwright.doctor.report import causes
from tests.doctor import cuda_files, made_up
from tests.doctor.made_up import ORIN, WORKSTATION, torch

KERNEL = "RuntimeError: No CUDA GPUs are available"
LOG = "nvcc fatal   : Unsupported gpu architecture 'compute_120'"
ISOLATED = "  ModuleNotFoundError: No module named 'torch'\n  Getting requirements to build wheel\nFailed building wheel for apex"


def lines_on(machine, log=LOG):
    return list(markdown(gathered(log, machine)))


def test_the_cause_comes_first_and_its_command_second(tmp_path):
    printed = lines_on(WORKSTATION.at(tmp_path), ISOLATED)
    assert printed[0] == "**KW-022: the build does not see the torch that is installed** (high confidence)"
    assert printed[1].startswith("fix: `python3 -m pip install ")
    assert " --no-build-isolation git+https://github.com/NVIDIA/apex " in printed[1]
    assert printed[2] == ""
    text = "\n".join(printed)
    assert text.count("<details>") == text.count("</details>") == 2
    assert "  * line 1: `ModuleNotFoundError: No module named 'torch'`" in printed
    assert "| torch | ok: 2.8.0+cu128, CUDA 12.8, built by PyPI |" in printed


def test_the_machine_explains_the_log(tmp_path):
    """What the log shows is the consequence of what a check finds: that is the root cause."""
    hidden = WORKSTATION.but(variables={"CUDA_VISIBLE_DEVICES": ""})
    assert (
        lines_on(hidden.at(tmp_path / "a"), KERNEL)[0]
        == "**KW-012: CUDA_VISIBLE_DEVICES hides the GPU that is asked for**"
    )
    board = ORIN.but(files=torch("2.9.0", "13.0"), torch={"available": False, "archs": []})
    printed = lines_on(board.at(tmp_path / "b"), KERNEL)
    assert printed[0].startswith("**KW-033: ")
    assert "/jp/v61/pytorch/ torch`" in printed[1]


def test_a_log_that_shows_nothing(tmp_path):
    assert lines_on(WORKSTATION.at(tmp_path / "a"), "all is well")[0].startswith("**no known cause**: ")
    sick = WORKSTATION.but(files=made_up.module("550.54.15"))
    assert lines_on(sick.at(tmp_path / "b"), "it does not work")[0].startswith("**KW-004: ")


def test_the_toolkit_that_is_here_is_taken(tmp_path):
    """Another nvcc of this machine knows the GPU; a script in its place says where its toolkit is."""
    script = {
        "files": {"/usr/local/bin/nvcc": "#!"},
        "says": {"/usr/local/bin/nvcc": "release 13.0, V13.0.1\n#$ TOP=/opt/kit/bin/..\n"},
    }
    made = WORKSTATION.but(**script, variables={"PATH": "/usr/local/bin:/usr/bin"})
    machine = made.but(files={"/usr/local/cuda/bin/nvcc": None}).at(tmp_path)
    assert lines_on(machine)[1] == 'fix: `export CUDA_HOME=/opt/kit PATH=/opt/kit/bin:"$PATH"`'


def test_the_file_that_is_named_is_looked_into(tmp_path):
    library = tmp_path / "pkg" / "_C.so"
    library.parent.mkdir()
    library.write_bytes(cuda_files.Library(fat=cuda_files.container(*cuda_files.sass("80"))).bytes())
    log = f"ImportError: {library}: undefined symbol: _ZN3c105ErrorC2ESs"
    text = "\n".join(lines_on(WORKSTATION.at(tmp_path / "machine"), log))
    assert "<details><summary>The file it names</summary>" in text
    assert f"{library}: code for sm_80" in text


def test_nobody_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/srv/zebedee")
    monkeypatch.setenv("USER", "zebedee")
    log = f"/srv/zebedee/app.py\n{LOG} /srv/zebedee/x\nFailed building wheel for apex\n"
    assert "zebedee" not in "\n".join(lines_on(WORKSTATION.at(tmp_path), log))


def test_code_with_backticks(tmp_path):
    log = "ImportError: `libcudart.so.12`: cannot open shared object file: No such file or directory"
    assert f"  * line 1: `` {log} ``" in lines_on(WORKSTATION.at(tmp_path), log)


def start(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "kernelwright", "run", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


def test_a_command_that_fails_is_explained():
    process = start("--", "sh", "-c", f'echo out; echo "{LOG}" >&2; exit 3')
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (3, b"out\n")
    text = err.decode().split("\n")
    assert text[0] == LOG
    assert text[2].startswith("**KW-044: ")
    assert text[3].startswith("fix: `")


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (["true"], 0, b""),
        (["--", "sh", "-c", "exit 0"], 0, b""),
        (["/nonexistent/x"], 127, b"run cannot start /nonexistent/x: No such file or directory\n"),
        ([], 2, None),
    ],
)
def test_the_exit_code_is_the_commands(command, code, said):
    process = start(*command)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert said is None or err == said


def test_a_command_that_a_signal_ends():
    process = start("sh", "-c", "kill -9 $$")
    process.communicate(timeout=120)
    assert process.returncode == 128 + 9


def test_an_interrupt_is_the_commands():
    """As at a terminal, where both get it: the command decides what becomes of it."""
    process = start(
        "sh", "-c", "trap 'echo caught; exit 0' INT; echo ready; while :; do sleep 0.1; done", start_new_session=True
    )
    assert process.stdout.readline() == b"ready\n"
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, b"caught\n")


def test_what_ends_run_ends_the_command():
    process = start("sh", "-c", "trap 'echo told; exit 5' TERM; echo ready; while :; do sleep 0.1; done")
    assert process.stdout.readline() == b"ready\n"
    process.terminate()
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (5, b"told\n")


def test_what_a_command_leaves_behind_is_not_waited_for():
    began = time.monotonic()
    process = start("sh", "-c", "sleep 50 & echo late; exit 4")
    out, _ = process.communicate(timeout=45)
    assert (process.returncode, out) == (4, b"late\n")
    assert time.monotonic() - began < 40


def test_a_reader_that_goes_away_changes_no_exit_code():
    process = start("sh", "-c", "head -c 3000000 /dev/zero; exit 6")
    process.stdout.close()
    with process.stderr:
        err = process.stderr.read()
    assert process.wait(timeout=60) == 6
    assert b"**no known cause**" in err


@pytest.mark.parametrize("closed", ["<&- ", ">&- ", "2>&- "])
def test_a_stream_may_be_closed(closed):
    command = f"{sys.executable} -m kernelwright run -- sh -c 'echo x; exit 5' {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 5, done.stderr
    assert "failed itself" not in done.stderr


def test_a_command_that_may_not_be_executed(tmp_path):
    (tmp_path / "x").write_text("")
    process = start("--", str(tmp_path / "x"))
    process.communicate(timeout=60)
    assert process.returncode == 126


def test_the_home_in_a_command_is_one_that_a_shell_knows(tmp_path, monkeypatch):
    """Also within double quotes, where a tilde is a tilde."""
    monkeypatch.setenv("HOME", "/srv/zebedee")
    log = "ImportError: /srv/zebedee/scans/scans/_C.so: undefined symbol: _ZN3c105ErrorC2ESs"
    assert "`cd $HOME/scans/scans && until" in lines_on(WORKSTATION.at(tmp_path), log)[1]


def test_of_a_long_output_the_ends_are_kept(monkeypatch):
    monkeypatch.setattr(run, "FIRST", 10)
    monkeypatch.setattr(run, "LAST", 20)
    kept = run.Kept()
    for number in range(1000):
        kept.add(b"%03d\n" % number)
    text = kept.text()
    assert text.startswith("000\n001\n00")
    assert text.endswith("996\n997\n998\n999\n")
    assert len(text) == 31
    short = run.Kept()
    short.add(b"abc")
    short.add(b"defghijklmn")
    assert short.text() == "abcdefghijklmn"


PACKAGES = {
    "gridlock": """
from kernelwright.doctor.api import Area, Cause, Cure, of, sign
CAUSES = (
    Cause(code="GRID-001", title="gridlock's cache is of another release", area=Area.LIBRARIES, why="It keeps compiled grids.",
          fix="gridlock clear", signs=(sign(r"gridlock: cache version \\d+, expected \\d+"),), explains=("KW-010",)),
)
@of("GRID-001")
def clear(said):
    return Cure("gridlock clear --all" if said.has("cuda:1") else "")
""",
    "mesh_ops": """
from kernelwright.doctor.api import Area, Cause, sign
CAUSES = (
    Cause(code="MESH-042", title="mesh-ops lacks its plug-in", area=Area.TORCH, why="It is a package of its own.",
          fix="python -m pip install mesh-ops-plugin", signs=(sign("mesh_ops: no plug-in"),)),
    Cause(code="KW-001", title="x", area=Area.TORCH, why="x.", fix="x"),
    "no cause",
)
""",
    "broken": "raise ValueError('as made')",
}  # fmt: skip


@pytest.fixture
def packages(tmp_path):
    for name, text in PACKAGES.items():
        (tmp_path / f"{name}_doctor.py").write_text(text)
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[kernelwright.causes]\n{name} = {name}_doctor\n")
    return tmp_path


def with_packages(packages, log, *arguments):
    places = [str(packages), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    command = [sys.executable, "-m", "kernelwright", *(arguments or ("explain",))]
    return subprocess.run(command, input=log, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_packages_ship_causes_of_their_own(packages):
    log = "gridlock: cache version 3, expected 4\nRuntimeError: CUDA error: no kernel image is available for execution"
    done = with_packages(packages, log)
    assert [line.split()[0] for line in done.stdout.splitlines() if not line.startswith(" ")] == ["GRID-001"]
    assert "\n  fix: gridlock clear\n" in done.stdout + "\n"
    done = with_packages(packages, f"{log} on cuda:1")
    assert "\n  fix: gridlock clear --all\n" in done.stdout + "\n"
    done = with_packages(packages, "mesh_ops: no plug-in")
    assert done.stdout.startswith("MESH-042  mesh-ops lacks its plug-in  (confidence: high)\n")
    assert with_packages(packages, "", "causes", "mesh-042").stdout.startswith("MESH-042  mesh-ops lacks its plug-in\n")


def test_a_refusal_imports_nobodys_causes(packages):
    """Only who asks for an explanation runs other packages' code for it."""
    code = "import sys; from kernelwright import _refusal; _refusal._named('cuInit gives 999 (unknown error)'); print([m for m in sys.modules if '_doctor' in m])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_package_that_fails_is_told_and_left_out(packages):
    done = with_packages(packages, LOG)
    assert done.stdout.startswith("KW-044  ")
    told = done.stderr.splitlines()
    assert "left out: causes of broken: broken_doctor could not be loaded (ValueError: as made)" in told
    assert any(re.match(r"left out: causes of mesh_ops: 'KW-001' is no code: ", line) for line in told)
    assert any(line.startswith("left out: causes of mesh_ops: 'no cause' is not a Cause") for line in told)
    assert len(told) == 3


def test_the_command_line(capsys, tmp_path):
    (tmp_path / "log").write_text(LOG)
    assert program.main(["explain", "--here", "--json", str(tmp_path / "log")]) == 2
    assert "explain does not know --json with --here" in capsys.readouterr().err
    assert program.main(["explain", "--here", str(tmp_path / "log")]) == 0
    assert capsys.readouterr().out.startswith("**KW-044: ")
    assert causes.main(["KW-123"]) == 0
    assert program.main(["run", "--help"]) == 0
