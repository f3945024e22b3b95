# SPDX-License-Identifier: MIT
"""The verbs of kwt for a project outside this tree: what they write, what they refuse, and where a build stands."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from kernelwright_toolchain import editable
from kernelwright_toolchain.__main__ import VERBS, main
from kernelwright_toolchain.classic import build, inside, run, toolkit
from kernelwright_toolchain.errors import (
    GateError,
    RequestError,
    TableError,
    ToolMismatch,
)
from kernelwright_toolchain.project import Project, carried, serving
from kernelwright_toolchain.providers import system
from kernelwright_toolchain.settings import Settings, read
from kernelwright_toolchain.targets import Version, load
from kernelwright_toolchain.targets.read import toml
from kernelwright_toolchain.verbs import build as verb
from tests.tree import ROOT, serve
from tests.tree import Project as Tree

TABLE = load()
OWN = '[project]\nname = "mine"\nversion = "1"\n[tool.kernelwright]\nbackend = "setuptools.build_meta"\n'


def kwt(*words: str | Path) -> int:
    return main([str(word) for word in words], VERBS)


@pytest.fixture
def mine(tmp_path) -> Path:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "pyproject.toml").write_text(OWN)
    return tmp_path / "mine"


def test_the_host_compiler_is_one_that_this_nvcc_takes_and_all_of_the_build_takes_it(tmp_path, monkeypatch):
    kit, home = TABLE.toolkits["cu130"], toolkit.Home(tmp_path, "13.0.88", None)
    gxx = tmp_path / "g++-12"
    gxx.write_text("#!/bin/sh\necho 'g++ (Own) 12.9'\n")
    gxx.chmod(0o755)
    (tmp_path / "gcc-12").touch()
    monkeypatch.setattr(system, "find_gcc", lambda: system.FoundGcc(gxx, Version((12, 9)), "a test"))
    said, variables = build.host_compiler(home, kit)
    assert said == "g++ (Own) 12.9"
    assert variables == {
        "CXX": str(gxx),
        "CC": str(tmp_path / "gcc-12"),
        "CUDAHOSTCXX": str(gxx),
        "NVCC_CCBIN": str(gxx),
    }
    monkeypatch.setattr(system, "find_gcc", lambda: system.FoundGcc(gxx, Version((99, 1)), "a test"))
    with pytest.raises(ToolMismatch, match=r"host GCC 99\.1 .* newer than what nvcc 13\.0\.88"):
        build.host_compiler(home, kit)


def test_variables_that_no_wheel_could_tell_of_are_named_and_left_out(monkeypatch, tmp_path):
    for name in os.environ:
        if name.startswith(run.UNWANTED):
            monkeypatch.delenv(name)
    monkeypatch.setenv("BNB_CUDA_VERSION", "118")
    monkeypatch.setenv("CXXFLAGS", "-O1")
    assert run.ignored() == ["BNB_CUDA_VERSION", "CXXFLAGS"]
    env = run.environment(run.Ground(tmp_path, tmp_path, toolkit.Home(tmp_path, "1", None)), 1)
    assert not {"BNB_CUDA_VERSION", "CXXFLAGS"} & env.keys()


def test_archs_in_the_projects_own_words_survive_a_shell_and_an_unknown_word_is_refused():
    words = {"cmake": "80-real;90-real", "torch": "8.0 9.0", "archs": "80;90"}
    said = build.said_archs(Settings(ROOT, "a", "1", defines={"CAPS": "{archs}", "NAME": "two words"}), words)
    assert said["CAPS"] == "80;90"
    assert said["CMAKE_ARGS"] == "-D'CMAKE_CUDA_ARCHITECTURES=80-real;90-real' -D'CAPS=80;90' -D'NAME=two words'"
    with pytest.raises(RequestError, match=r"'arch' in braces is not known; there are \{cmake\}"):
        build.said_archs(Settings(ROOT, "a", "1", defines={"CAPS": "{arch}"}), words)


def test_a_board_whose_driver_is_of_cuda_12_gets_nothing_of_13():
    build.check_tegra(TABLE.targets["l4t-r36"], TABLE.toolkits["cu128"].release)
    build.check_tegra(TABLE.targets["linux-aarch64"], TABLE.toolkits["cu130"].release)
    with pytest.raises(RequestError, match=r"l4t-r36 has a driver of CUDA 12\.2, which runs nothing of CUDA 13\.0"):
        build.check_tegra(TABLE.targets["l4t-r36"], TABLE.toolkits["cu130"].release)


def test_a_key_of_another_kind_is_refused(mine):
    for line, words in (("network = 1", "is not true or false"), ('requires = "wheel"', "is not a list of strings")):
        (mine / "pyproject.toml").write_text(OWN + line)
        with pytest.raises(TableError, match=words):
            read(mine)


def within(
    place: Path, *command: str, user: int | None = None, network: bool = False
) -> subprocess.CompletedProcess[str]:
    given = {
        "root": str(place),
        "places": {},
        "cwd": "/",
        "command": command,
        "env": dict(os.environ),
        "network": network,
    }
    python = sys.executable if user is None else "/usr/bin/python3"
    words = [python, "-I", "-S", inside.__file__, json.dumps(given)]
    return subprocess.run(words, capture_output=True, text=True, check=False, user=user, group=user)


def test_an_exact_build_sees_no_network_and_another_command_does(tmp_path):
    if why := run.refusal():
        pytest.skip(f"no namespaces here: {why}")
    for network in (False, True):
        done = within(tmp_path, "cat", "/proc/self/net/dev", network=network)
        assert done.returncode == 0, done.stderr
        inner = set(re.findall(r"^\s*(\w+):", done.stdout, re.MULTILINE))
        outer = set(re.findall(r"^\s*(\w+):", Path("/proc/self/net/dev").read_text(), re.MULTILINE))
        assert inner == (outer if network else {"lo"})


def test_a_user_without_rights_gets_the_same_places(tmp_path):
    """In a user namespace, in which they are root."""
    if os.geteuid() != 0 or not os.access("/usr/bin/python3", os.X_OK):
        pytest.skip("only root can become another user, and the system's Python must be there")
    with tempfile.TemporaryDirectory(prefix="kwt-user-") as scratch:
        place = Path(scratch)
        place.chmod(0o755)
        (place / "root").mkdir()
        os.chown(place / "root", 65534, 65534)
        copied = shutil.copy(inside.__file__, place)
        given = {"root": str(place / "root"), "places": {"/kw/source": str(place)}, "cwd": "/kw/source", "env": dict(os.environ),
                 "command": ["sh", "-c", "pwd; ls; id -u; umask"], "network": False}  # fmt: skip
        command = ["/usr/bin/python3", "-I", "-S", copied, json.dumps(given)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, user=65534, group=65534, cwd="/")
    if done.returncode == inside.REFUSED:
        pytest.skip(f"users may make no namespaces here: {done.stderr}")
    assert done.stdout.split() == ["/kw/source", "inside.py", "root", "0", "0022"], done.stderr


def test_what_is_not_exact_can_be_made_to_fail(mine, monkeypatch, capsys):
    def made(_: Settings, __: object, out: Path, *___: object, **____: object) -> build.Made:
        out.mkdir()
        (out / "a-1+inexact-py3-none-any.whl").touch()
        return build.Made(out / "a-1+inexact-py3-none-any.whl", "0", ("no namespaces here",))

    monkeypatch.setattr(verb.classic, "build", made)
    assert kwt("build", "--project", mine, "--require-exact") == GateError.exit_code
    assert "is not exact, and --require-exact was given: no namespaces here" in capsys.readouterr().err
    assert not list((mine / "dist").iterdir())
    shutil.rmtree(mine / "dist")
    assert kwt("build", "--project", mine) == 0


def test_ci_writes_a_workflow_of_whole_pins_and_a_script(mine, capsys):
    assert kwt("ci", "--project", mine, "--branch", "trunk") == 0
    assert "Run kwt lock: without kernelwright-build.txt wheels are labelled" in capsys.readouterr().out
    text = (mine / ".github" / "workflows" / "wheels.yml").read_text()
    assert "<<" not in text + (mine / "install.sh").read_text()
    assert 'branches: ["trunk"]' in text
    assert "TARGETS: linux-x86_64\n" in text
    assert "kernelwright-toolchain==" in text
    assert "sudo" in text
    assert "--require-exact" in text
    assert all(re.fullmatch(r".*@[0-9a-f]{40} # v.*", line) for line in text.splitlines() if "uses:" in line)
    subprocess.run(["sh", "-n", mine / "install.sh"], check=True)
    (mine / "install.sh").write_text("mine\n")
    assert kwt("ci", "--project", mine, "--branch", "trunk") == RequestError.exit_code
    assert "install.sh is there already and another; --force" in capsys.readouterr().err
    assert kwt("ci", "--project", mine, "--force") == 0


def test_ci_refuses_a_target_that_its_runners_cannot_build(mine, capsys):
    (mine / "pyproject.toml").write_text(OWN + 'targets = ["l4t-r36"]\n')
    assert kwt("ci", "--project", mine) == RequestError.exit_code
    assert "l4t-r36, whose CUDA libraries are the board's own" in capsys.readouterr().err
    assert not (mine / "install.sh").exists()


def test_ci_installs_a_gcc_that_crosses_where_a_target_is_another_machines(mine):
    workflow = mine / ".github" / "workflows" / "wheels.yml"
    for targets, packages in (
        ('["linux-x86_64"]', '""'),
        ('["linux-x86_64", "linux-aarch64"]', '"g++-aarch64-linux-gnu"'),
    ):
        (mine / "pyproject.toml").write_text(f"{OWN}targets = {targets}\n")
        assert kwt("ci", "--project", mine, "--force") == 0
        assert f"PACKAGES: {packages}\n" in workflow.read_text()


def test_the_install_script_takes_a_wheel_whose_sum_is_right_and_else_builds(mine, tmp_path):
    kwt("ci", "--project", mine)
    for name in ("python", "kwt"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (tmp_path / name).chmod(0o755)
    (tmp_path / "mine-1-py3-none-any.whl").write_text("whole")
    sums = subprocess.run(
        ["sha256sum", "mine-1-py3-none-any.whl"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    (tmp_path / "SHA256SUMS").write_text(sums.stdout)
    env = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    for damaged in (False, True):
        if damaged:
            (tmp_path / "mine-1-py3-none-any.whl").write_text("another")
        command = ["sh", "install.sh", tmp_path, "python"]
        done = subprocess.run(command, cwd=mine, env=env, capture_output=True, text=True, check=True)
        assert ("kwt build" in done.stdout) is damaged
        assert (f"--find-links {tmp_path}" in done.stdout) is not damaged


def installed(root: Path, site: Path) -> None:
    (root / "src" / "mine").mkdir(parents=True)
    (root / "src" / "mine" / "__init__.py").write_text("from mine._c import value\n")
    (root / "a.cu").write_text("1\n")
    wheel = site.with_name("mine-1-py3-none-any.whl")
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(root / "src" / "mine" / "__init__.py", "mine/__init__.py")
        archive.writestr("mine/_c.py", "value = 1\n")  # as if compiled
        archive.writestr("mine-1.dist-info/METADATA", "Name: mine\n")
        archive.writestr("mine-1.dist-info/RECORD", "")
    found = editable.members(wheel, root / ".kw" / "editable", root, "mine")
    site.mkdir()
    for name, data in found.items():
        (site / name).parent.mkdir(exist_ok=True)
        (site / name).write_bytes(data)


def test_an_editable_install_shows_edits_of_python_and_says_what_is_stale(mine, tmp_path):
    installed(mine, tmp_path / "site")
    act = f"import site; site.addsitedir({str(tmp_path / 'site')!r}); import mine; print(mine.value)"

    def said() -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-I", "-c", act], capture_output=True, text=True, check=True)

    assert (said().stdout, said().stderr) == ("1\n", "")
    (mine / "src" / "mine" / "__init__.py").write_text("from mine._c import value\nvalue += 1\n")
    (mine / "a.cu").write_text("1\n")  # another date alone
    assert (said().stdout, said().stderr) == ("2\n", "")
    (mine / "a.cu").write_text("2\n")
    assert "mine was built before a.cu changed: what is imported is stale; pip install" in said().stderr


def test_exec_refuses_what_it_cannot_run(mine, capsys):
    assert kwt("exec", "--project", mine) == RequestError.exit_code
    assert "nothing to run" in capsys.readouterr().err
    (mine / "pyproject.toml").write_text("[tool.kernelwright.kernel.a]\n")
    assert kwt("exec", "--project", mine, "--", "make") == RequestError.exit_code
    assert "`kwt build`, which runs no command" in capsys.readouterr().err


def test_the_doctor_and_the_x_ray_are_packed_and_need_nothing_of_kernelwright(tmp_path, monkeypatch, capfd):
    """As the toolchain's wheel has them: without operators, library or manifest."""
    from kernelwright_toolchain.distribution import contents

    for name, data in contents.package(ROOT / "toolchain").items():
        if name.startswith(f"{contents.DATA}/doctor/"):
            path = tmp_path / name.removeprefix(f"{contents.DATA}/doctor/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    monkeypatch.setattr("kernelwright_toolchain.diagnosis.carried", lambda: tmp_path)
    serve(monkeypatch, Tree(ROOT))
    (tmp_path / "liba.so").write_bytes(b"\x7fELF")
    assert kwt("xray", tmp_path / "liba.so") == 2
    assert "KW-112" in capfd.readouterr().out
    code = kwt("doctor", "--json")
    told = json.loads(capfd.readouterr().out)
    assert "operators" not in told
    assert told["unlooked"] == []
    assert not [found for found in told["findings"] if found["area"] == "package"]
    assert code == 0 or told["findings"]
    assert carried() == ROOT / "src"


def test_the_newest_release_with_a_whole_nvcc_is_what_is_built_with(tmp_path):
    (tmp_path / "pyproject.toml").write_text(OWN)
    assert toolkit.row_of(None, TABLE).nvcc
    assert read(tmp_path).toolkit is None
    assert toml(OWN)["tool"]["kernelwright"]["backend"] == "setuptools.build_meta"


def test_under_exec_a_torch_for_cpus_builds_for_the_cuda_that_there_is(tmp_path):
    for name, text in {
        "__init__.py": "",
        "version.py": "cuda = None\n",
        "utils/__init__.py": "",
        "utils/cpp_extension.py": "from torch.version import cuda as seen\nCUDA_HOME = None if seen is None else '/found'\n",
    }.items():
        (tmp_path / "torch" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "torch" / name).write_text(text)
    act = "import torch.utils.cpp_extension as built; print(built.seen, built.CUDA_HOME)"
    shims = Path(run.__file__).parent
    for variables, said in (({}, "None None"), ({"KWT_TORCH_CUDA": "13.0", "CUDA_HOME": "/kw/cuda"}, "13.0 /kw/cuda")):
        env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{shims}", **variables}
        command = [
            sys.executable,
            "-c",
            f"import sys, runpy; runpy.run_path({str(shims / 'sitecustomize.py')!r}); {act}",
        ]
        done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == said


def test_each_nvcc_has_the_same_number_an_empty_tmpdir_and_a_source_of_one_date_however_many_run(tmp_path):
    """Of two in one TMPDIR, the second counts its files on, and objects are named by that count."""
    if why := run.refusal():
        pytest.skip(f"no namespaces here: {why}")
    home = tmp_path / "cuda"
    (home / "bin").mkdir(parents=True)
    nvcc = home / "bin" / "nvcc"
    nvcc.write_text(
        "#!/bin/sh\necho $$ $TMPDIR $(ls -A $TMPDIR | wc -l) $(stat -c %Y a.cu)\ntouch $TMPDIR/left; sleep 0.2\n"
    )
    nvcc.chmod(0o755)
    for name in ("source", "build"):
        (tmp_path / name).mkdir()
    (tmp_path / "source" / "a.cu").touch()
    (tmp_path / "source" / ".kw").mkdir()
    with serving(Project(tmp_path / "source")):
        ground = run.Ground(tmp_path / "source", tmp_path / "build", toolkit.Home(home, "1", None))
        log = tmp_path / "log"
        assert (
            run.run(ground, ["sh", "-c", "nvcc a.cu & nvcc -v a.cu & wait; nvcc a.cu"], cwd="/kw/source", log=log) == 0
        )
    said = log.read_text().splitlines()
    assert len(said) == 3
    assert len(set(said)) == 1, said
    number, place, files, date = said[0].split()
    assert (place, files, date) == ("/kw/tmp", "0", run.EPOCH)
    assert int(number) < 30
    assert len((tmp_path / "build" / "compiles").read_text().splitlines()) == 3
