# SPDX-License-Identifier: MIT
"""What `kwt init` writes: all that a project needs, read again by what it is for, and nothing over what is there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from test_found import CMAKE, SETUP, tree

from kernelwright_toolchain.__main__ import VERBS, main
from kernelwright_toolchain.classic import environments, requirements, toolkit
from kernelwright_toolchain.errors import ProvisionError, RequestError
from kernelwright_toolchain.locking import conda, conda_tool
from kernelwright_toolchain.settings import Settings, read
from kernelwright_toolchain.targets import load
from kernelwright_toolchain.version import VERSION
from tests.tree import ROOT

TABLE = load()
MACHINES = ("environment-linux-64.yml", "environment-linux-aarch64.yml")
WORKFLOW = ".github/workflows/wheels.yml"
MADE = ("flake.nix", *MACHINES, "virtual-packages.yml", WORKFLOW, "install.sh")


def kwt(*words: str | Path) -> int:
    return main([str(word) for word in words], VERBS)


@pytest.fixture(autouse=True)
def _no_index(monkeypatch, request):
    """Nothing is fetched, and pip itself is started by the one test that looks at what it says then."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")

    def out_of_reach(*_: object, **__: object) -> str:
        raise ProvisionError("no index here")

    if request.node.name != "test_all_of_it_is_written_and_read_again":
        monkeypatch.setattr(requirements, "pinned", out_of_reach)


@pytest.fixture
def plain(tmp_path) -> Path:
    return tree(tmp_path, setup__py=SETUP, versions__py="", CMakeLists__txt=CMAKE)


def test_all_of_it_is_written_and_read_again(plain, capsys):
    config = plain / "kernelwright.toml"
    assert kwt("init", "--project", plain, "--config", config) == 0
    said = capsys.readouterr().out
    assert f"kwt build --config {config}" in said
    settings = read(plain, config)
    assert settings.defines == {"COMPUTE_CAPABILITY": "{archs}", "GPU_BACKEND": "cuda", "WITH_CUDA": "ON"}
    assert settings.libraries == ("cublas", "curand", "cusolver", "nvrtc")
    assert settings.requires == ("packaging", "wheel")
    assert settings.locks == plain
    assert not (plain / "pyproject.toml").exists()
    assert {path.relative_to(plain).as_posix() for path in plain.rglob("*") if path.is_file()} == {
        "setup.py", "versions.py", "CMakeLists.txt", "kernelwright.toml", *MADE,
    }  # fmt: skip
    for name in (requirements.LOCK, requirements.LIBRARIES):  # no index answered
        assert re.search(rf"{name}: not written, `kwt lock` does it: \S+", said)
    assert "conda-lock.yml: not written: " in said
    assert "No channel was asked whether the environments can be solved" in said
    assert "flake.nix was not evaluated" in said
    assert kwt("init", "--project", plain, "--config", config) == RequestError.exit_code
    assert "already; nothing was written" in capsys.readouterr().err


def test_without_a_backend_of_its_own_pip_is_given_this_one_and_the_locks_are_those_of_before(plain, capsys):
    assert kwt("init", "--project", plain) == 0
    text = (plain / "pyproject.toml").read_text()
    assert f'requires = ["kernelwright-toolchain=={VERSION}"]\nbuild-backend = "kernelwright_toolchain.backend"' in text
    settings = read(plain)
    assert settings.backend == "setuptools.build_meta"
    wanted = requirements.wanted(plain, settings.backend, settings.torch, settings.requires)
    assert wanted == ["wheel", "setuptools", "torch"]  # packaging is of the tools' own lock
    assert "[build-system] is left as it is" not in capsys.readouterr().out


def test_what_is_there_stays_and_is_named(plain, capsys):
    own = '[build-system]\nrequires = ["scikit-build-core"]\nbuild-backend = "scikit_build_core.build"\n'
    (plain / "pyproject.toml").write_text(own)
    for name in MADE:
        (plain / name).parent.mkdir(parents=True, exist_ok=True)
        (plain / name).write_text("mine\n")
    assert kwt("init", "--project", plain) == 0
    said = capsys.readouterr().out
    for name in MADE:
        assert (plain / name).read_text() == "mine\n"
        assert f"{plain / name}: is there already, and is left as it is" in said
    assert (plain / "pyproject.toml").read_text().startswith(own + "\n[tool.kernelwright]\n")
    assert "[build-system] is left as it is. For `pip install .` to build the same wheel:\n\n[build-system]\n" in said
    (plain / "flake.nix").unlink()
    assert kwt("init", "--project", plain) == 0  # what is missing later
    assert f"{plain / 'pyproject.toml'}: has [tool.kernelwright] already" in capsys.readouterr().out
    assert "mkKernelShell" in (plain / "flake.nix").read_text()


def test_the_conda_environment_has_the_projects_toolkit_and_every_library_that_it_links(plain):
    kwt("init", "--project", plain)
    kit = toolkit.row_of(None, TABLE)
    text, other = ((plain / name).read_text() for name in MACHINES)
    assert "  - gxx_linux-64=" in text
    assert "  - gxx_linux-aarch64=" in other
    assert "gxx_linux-64" not in other
    wanted = re.findall(r"^  - (\S+)", text.partition("dependencies:\n")[2], re.MULTILINE)
    assert {kit.conda, f"cuda-nvcc={kit.components['nvcc']}", f"cuda-cudart-dev={kit.components['cudart']}"} <= set(
        wanted
    )
    assert {"libcublas-dev", "libcurand-dev", "libcusolver-dev", "cuda-nvrtc-dev"} <= set(wanted)
    assert "libcusparse-dev" not in wanted
    assert text.splitlines()[2] == f"name: {plain.name.lower()}"
    assert f'__cuda: "{kit.driver.cuda}"' in (plain / conda.VIRTUAL).read_text()
    assert kit.gcc.accepts(TABLE.gcc.get(kit.name, TABLE.gcc[conda.toolkit(TABLE).name]).major)


def test_the_locks_are_written_where_an_index_answers(plain, monkeypatch, capsys):
    asked = []

    def pinned(needed: list[str], *, nvidia: bool = False, machines: tuple[str, ...] = ()) -> str:
        assert machines == ()  # no target of another machine is named
        asked.append((needed, nvidia))
        return "a==1 \\\n    --hash=sha256:aa\n"

    monkeypatch.setattr(requirements, "pinned", pinned)
    assert kwt("init", "--project", plain) == 0
    kit = toolkit.row_of(None, TABLE)
    meta, _, release = kit.pypi["meta"].partition("==")
    assert asked[1] == ([f"{meta}[cublas,curand,cusolver,nvrtc]=={release}"], True)
    assert (plain / requirements.LIBRARIES).read_text().startswith("a==1")
    assert f"{plain / requirements.LIBRARIES}: 1 packages for" in capsys.readouterr().out


def test_the_branch_is_gits_own(plain):
    git = ["git", "-C", str(plain), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "--quiet", "--initial-branch", "trunk"], check=True)
    kwt("init", "--project", plain)
    assert 'branches: ["trunk"]' in (plain / WORKFLOW).read_text()


def test_a_workflow_that_no_runner_could_run_is_not_written_and_said(plain, capsys):
    (plain / "pyproject.toml").write_text(
        '[tool.kernelwright]\nbackend = "setuptools.build_meta"\ntargets = ["l4t-r36"]\n'
    )
    assert kwt("init", "--project", plain) == 0
    assert (
        "wheels.yml: not written: targets names l4t-r36, whose CUDA libraries are the board's own"
        in capsys.readouterr().out
    )
    assert not (plain / WORKFLOW).exists()
    assert (plain / "flake.nix").exists()


def test_a_library_of_which_nothing_is_known_is_refused_with_those_that_are(plain, capsys):
    (plain / "pyproject.toml").write_text(
        '[tool.kernelwright]\nbackend = "setuptools.build_meta"\nlibraries = ["cudnn"]\n'
    )
    assert kwt("init", "--project", plain) == RequestError.exit_code
    assert "'cudnn', of which nothing is known; there are cublas, cusparse" in capsys.readouterr().err


def test_a_device_only_package_gets_a_wheel_by_nix_where_its_compilers_are():
    own = Settings(ROOT, "mine", "1", kernels={"a": {}})
    text = environments.flake_text(own, TABLE)
    systems = re.findall(r"packages\.(\S+)\.default = kernelwright\.lib\.buildWheel", text)
    assert systems == ["x86_64-linux", "aarch64-linux"]
    assert "buildWheel" not in environments.flake_text(Settings(ROOT, "mine", "1", backend="a"), TABLE)


@pytest.mark.skipif(
    not shutil.which("nix-instantiate"), reason="Nix is not installed; its reader is what is asked here"
)
def test_nix_evaluates_the_flake_with_a_stand_in_for_kernelwright(plain, tmp_path):
    kwt("init", "--project", plain)
    ask = (
        "let f = import %s; given = { system, libraries ? [ ] }: { inherit system libraries; }; "
        "in (f.outputs { self = null; kernelwright.lib.mkKernelShell = given; }).devShells"
    ) % (plain / "flake.nix")
    command = ["nix-instantiate", "--eval", "--strict", "--json", "--expr", ask]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    libraries = ["cublas", "curand", "cusolver", "nvrtc"]
    assert json.loads(done.stdout) == {
        system: {"default": {"system": system, "libraries": libraries}} for system in ("x86_64-linux", "aarch64-linux")
    }


def test_conda_locks_what_was_written_where_there_is_a_solver(plain, tmp_path_factory, monkeypatch, capsys):
    programs = tmp_path_factory.mktemp("bin")
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr(requirements, "pinned", lambda *_, **__: "a==1 \\\n    --hash=sha256:aa\n")
    asked = []

    def conda_lock(words: list[str]) -> subprocess.CompletedProcess[str]:
        asked.append(words)
        Path(words[words.index("--lockfile") + 1]).write_text("# solved\n")
        return subprocess.CompletedProcess(words, 0, "", "")

    monkeypatch.setattr(conda_tool, "_run", conda_lock)
    assert kwt("init", "--project", plain) == 0
    assert "conda-lock.yml: not written: needs one of micromamba, mamba, conda on PATH" in capsys.readouterr().out
    assert kwt("lock", "--project", plain) == 0
    assert "conda-lock.yml: left as it is: solving needs one of" in capsys.readouterr().out
    assert asked == []
    (programs / "mamba").write_text("#!/bin/sh\n")
    (programs / "mamba").chmod(0o755)
    assert kwt("lock", "--project", plain) == 0
    assert (plain / conda.LOCK).read_text() == "# solved\n"
    assert [words[words.index("--file") + 1] for words in asked] == list(MACHINES)
