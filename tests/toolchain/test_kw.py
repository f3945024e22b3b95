# SPDX-License-Identifier: MIT
"""`kw` in trees of its own: what it makes, what it never touches, what it says when it cannot."""

from __future__ import annotations

import ast
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from kernelwright_toolchain import start
from kernelwright_toolchain.errors import RequestError
from kernelwright_toolchain.providers import pip
from tests.toolchain import launcher
from tests.tree import ROOT

KW = ROOT / "kw"


@pytest.fixture
def kw():
    return launcher.load()


@pytest.fixture
def tree(tmp_path: Path) -> launcher.Tree:
    return launcher.Tree(tmp_path)


def test_an_old_python_can_read_it_and_is_told():
    source = KW.read_text()
    ast.parse(source, feature_version=(3, 6))
    act = "import sys; sys.version_info = (3, 9, 2, 'final', 0); sys.argv = ['kw', 'build']; exec(open('kw').read())"
    done = subprocess.run([sys.executable, "-c", act], cwd=KW.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Python 3.10 or newer is needed" in done.stderr
    assert "is 3.9" in done.stderr
    assert "Traceback" not in done.stderr


def test_it_imports_the_standard_library_only():
    for path, ours in ((KW, {"kernelwright_toolchain"}), (ROOT / launcher.CODE, set())):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        names = {alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        names |= {str(node.module).split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)}
        assert names - ours <= sys.stdlib_module_names


def test_it_is_executable():
    assert os.access(KW, os.X_OK)


@pytest.mark.slow
def test_words_become_sessions_and_odd_settings_change_nothing(tree, tmp_path):
    elsewhere, config = tmp_path / "elsewhere", tmp_path / "pip.conf"
    config.write_text(f"[global]\nprefix = {elsewhere}\n[install]\nuser = true\nno-deps = yes\n")
    odd = {"PIP_TARGET": str(elsewhere), "PIP_USER": "1", "PIP_REQUIRE_VIRTUALENV": "1", "PIP_QUIET": "3",
           "PIP_CONFIG_FILE": str(config), "PYTHONPATH": str(elsewhere), "PYTHONHOME": "",
           "PYTHONSAFEPATH": "1", "NOX_DEFAULT_VENV_BACKEND": "uv", "NOXPYTHON": "3.9"}  # fmt: skip
    code, out, err = tree.run("build", "--", "--archs", "89;90", cwd=tmp_path, **odd)
    assert (code, err.count("setting up")) == (0, 1), err
    noxfile = str(tree.root / "noxfile.py")
    assert out == f"NOX {['--noxfile', noxfile, '-s', 'build', '--', '--archs', '89;90']} {tree.root} {tmp_path}\n"
    assert not elsewhere.exists()
    assert len(tree.homes()) == 1
    code, out, err = tree.run("-s", "lint")
    assert f"{noxfile!r}, '-s', 'lint']" in out


def test_alone_it_lists_the_verbs_and_makes_nothing(tree):
    for words in ([], ["--help"], ["-h"]):
        code, out, err = tree.run(*words)
        assert (code, err) == (0, "")
        assert out.startswith("usage: ./kw VERB [OPTIONS]\n\n  build  Make the wheel.\n  lint   Look at it.\n")
    code, out, err = tree.run("biuld", "--ops", "rms_norm")
    assert (code, out) == (RequestError.exit_code, "")
    assert "kw: 'biuld' is no verb\nusage: ./kw VERB" in err
    assert "  build  Make the wheel.\n" in err
    assert not (tree.root / ".kw").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["build"], ["-s", "build"]),
        (["build", "lint"], ["-s", "build", "lint"]),
        (["build", "--ops", "rms_norm"], ["-s", "build", "--", "--ops", "rms_norm"]),
        (["build", "--", "--ops", "rms_norm"], ["-s", "build", "--", "--ops", "rms_norm"]),
        (["build", "--help"], ["-s", "build", "--", "--help"]),
        (["lint", "some/path"], ["-s", "lint", "--", "some/path"]),
        (["build", "--", "lint"], ["-s", "build", "--", "lint"]),
        (["build", "-j", "2", "--", "x", "--", "y"], ["-s", "build", "--", "-j", "2", "x", "--", "y"]),
        (["-s", "lint"], ["-s", "lint"]),
    ],
)
def test_the_dashes_before_a_verbs_options_may_be_left_out(kw, words, told):
    assert kw.nox_words(words, {"build": "", "lint": ""}) == told


def test_the_verbs_are_those_of_the_noxfile(kw):
    verbs = kw.sessions(ROOT)
    assert {"build", "tests", "lint", "verify"} <= set(verbs)
    assert all(verbs.values())


def strays(*places: Path) -> dict[str, str]:
    """Modules that end whoever imports them, in these directories; and a PYTHONPATH that names them."""
    for place in places:
        place.mkdir(exist_ok=True)
        for name in (
            "venv",
            "ensurepip",
            "pip",
            "nox",
            "virtualenv",
            "json",
            "argparse",
            "toolchain",
            "kernelwright_toolchain",
            "tomllib",
        ):
            (place / f"{name}.py").write_text(f"raise SystemExit('STRAY {name}')\n")
    return {"PYTHONPATH": os.pathsep.join(["", *map(str, places)])}


@pytest.mark.slow
@pytest.mark.parametrize("has_venv", [True, False])
def test_modules_where_somebody_stands_do_not_run(tree, tmp_path, has_venv):
    if not has_venv:
        text = tree.code.read_text()
        tree.code.write_text(text.replace('has("venv")', "False"))
    odd = strays(tmp_path / "stand", tree.root)  # the tree as well: ./kw is run there
    for place in (tmp_path / "stand", tree.root):
        code, out, err = tree.run("build", cwd=place, **odd)
        assert (code, "STRAY" in out + err) == (0, False), err
        assert out.startswith("NOX")
    (home,) = tree.homes()
    assert (home / "modules").is_dir() is not has_venv


def test_modules_where_somebody_stands_do_not_run_in_the_toolchain(monkeypatch, tmp_path):
    odd = strays(tmp_path)
    command = start.command(sys.executable, KW.parent, "kernelwright_toolchain", "build", "--archs", "none")
    for words in (command, start.others(sys.executable, "pip", "--version")):
        done = subprocess.run(
            words, cwd=tmp_path, env={**os.environ, **odd}, capture_output=True, text=True, check=False
        )
        assert "STRAY" not in done.stdout + done.stderr, done.stderr
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert pip.run_pip(["--version"], "trying").startswith("pip ")


def test_a_verb_finds_the_toolchain_where_python_does_not_look_beside_itself(monkeypatch):
    """As `nox -s build` calls it; an arch that does not exist is refused by the toolchain, once it is found."""
    nox = ModuleType("nox")
    nox.session, nox.Session, nox.options = (lambda verb: verb), object, SimpleNamespace()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "nox", nox)
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    monkeypatch.chdir(KW.parent)
    verbs = runpy.run_path("noxfile.py")
    with pytest.raises(SystemExit) as ended:
        verbs["build"](SimpleNamespace(posargs=["--archs", "none"]))
    assert ended.value.code == RequestError.exit_code


@pytest.mark.slow
def test_what_is_half_made_or_stale_is_made_anew(tree):
    tree.run("build")
    (home,) = tree.homes()
    (home.parent / f"{home.name}.part-left").mkdir()  # an interrupted run left this
    (home / "complete").write_text("{")
    code, _, err = tree.run("build")
    assert (code, err.count("setting up")) == (0, 1)
    assert [path.name for path in tree.homes()] == [home.name]
    if (home / "bin").is_dir():
        (home / "bin" / "python").unlink()
    else:  # this interpreter has no ensurepip
        shutil.rmtree(home / "modules" / "nox")
    assert "setting up" in tree.run("build")[2]
    before = (home / "complete").stat().st_mtime_ns
    tree.lock(next(iter((tree.root / "locks" / "nox.txt").read_text().split("sha256:")[1:])).strip(), "# changed\n")
    assert "setting up" in tree.run("build")[2]
    assert len(tree.homes()) == 2  # whoever still runs from the old one keeps it
    assert (home / "complete").stat().st_mtime_ns == before


@pytest.mark.slow
def test_two_at_once_make_one(tree):
    children = [tree.start("lint") for _ in range(3)]
    ended = [child.communicate(timeout=120) for child in children]
    assert [child.returncode for child in children] == [0, 0, 0]
    assert sum("setting up .kw/ (once)" in err for _, err in ended) == 1
    assert len(tree.homes()) == 1
    assert all(out.startswith("NOX") for out, _ in ended)


@pytest.mark.slow
def test_a_wrong_hash_is_refused_and_leaves_nothing(tree):
    tree.lock("0" * 64)
    code, out, err = tree.run("build")
    assert (code, out) == (17, "")
    assert "locks/nox.txt" in err
    assert "hash" in err.lower()
    assert tree.homes() == []


@pytest.mark.slow
def test_with_pip_and_no_venv_a_directory_holds_nox(tree):
    broken = tree.code
    text = broken.read_text()
    assert text.count('if has("venv") and has("ensurepip"):') == 1
    broken.write_text(text.replace('if has("venv") and has("ensurepip"):', "if False:"))
    code, out, err = tree.run("build", PIP_TARGET="/nowhere", PIP_PREFIX="/nowhere")
    assert code == 0, err
    assert out.startswith("NOX")
    (home,) = tree.homes()
    assert sorted(path.name for path in home.iterdir()) == ["complete", "modules"]
    assert tree.run("build")[2] == ""


def test_with_neither_it_names_the_command_and_why(kw, tmp_path, monkeypatch):
    monkeypatch.setattr(kw, "has", lambda _: False)
    monkeypatch.setattr(kw, "pip_command", list)
    with pytest.raises(kw.Failed) as failed:
        kw.make(tmp_path, tmp_path / "lock")
    assert failed.value.code == 13
    assert kw.advice() in str(failed.value)
    assert "never into the system's Python" in str(failed.value)
    assert sys.executable in str(failed.value)


def test_the_command_fits_the_distribution(kw, tmp_path, monkeypatch):
    release = tmp_path / "os-release"
    monkeypatch.setattr(kw, "Path", lambda path: release if path == "/etc/os-release" else Path(path))
    monkeypatch.setattr(kw.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(kw.shutil, "which", lambda name: f"/usr/bin/{name}")
    for text, command in (
        ("ID=debian\n", "sudo apt-get install -y python3-venv"),
        ('ID=pop\nID_LIKE="ubuntu debian"\n', "sudo apt-get install -y python3-venv"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "sudo dnf install -y python3-pip"),
    ):
        release.write_text(text)
        assert kw.advice() == command
    release.write_text("ID=debian\n")
    monkeypatch.setattr(kw.shutil, "which", lambda _: None)
    assert kw.advice() == "su -c 'apt-get install -y python3-venv'"
    monkeypatch.setattr(kw.os, "geteuid", lambda: 0)
    assert kw.advice() == "apt-get install -y python3-venv"
    release.write_text("ID=nobody\n")
    assert sys.executable in kw.advice()


def test_pip_hears_where_packages_come_from_and_nothing_else(kw, tmp_path, monkeypatch):
    config = tmp_path / "pip.conf"
    config.write_text(
        "[global]\nindex-url = https://mirror.invalid/simple\ntimeout = 7\ntarget = /nowhere\n"
        "[install]\nfind-links =\n  /a\n  /b\nuser = true\n"
    )
    for name in list(os.environ):
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    monkeypatch.setenv("PIP_TARGET", "/nowhere")
    monkeypatch.setenv("PIP_TIMEOUT", "9")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    env = kw.pip_environment([sys.executable, "-I", "-m", "pip"])
    told = {key: value for key, value in env.items() if key.startswith(("PIP_", "PYTHON"))}
    assert told.pop("PIP_FIND_LINKS").split() == ["/a", "/b"]
    wanted = {
        "PIP_INDEX_URL": "https://mirror.invalid/simple",
        "PIP_TIMEOUT": "9",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
    }
    allowed = {"PIP_" + key.upper().replace("-", "_") for key in kw.PIP_SETTINGS}  # of this machine's own configuration
    assert {key: told[key] for key in wanted} == wanted
    assert set(told) - set(wanted) <= allowed


@pytest.mark.parametrize(("free", "code"), [(0, 22), (1 << 30, 17)])
def test_a_full_disk_is_told_where_venv_does_not_say_so(kw, tmp_path, monkeypatch, capsys, free, code):
    """Its pip dies, and it says that a command of its own failed."""
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'Error: Command returned non-zero exit status 1.'\nexit 1\n")
    broken.chmod(0o755)
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "nox.txt").write_text("")
    (tmp_path / "noxfile.py").write_text(launcher.NOXFILE)
    monkeypatch.setattr(kw.sys, "executable", str(broken))
    monkeypatch.setattr(kw.shutil, "disk_usage", lambda _: SimpleNamespace(free=free, total=1 << 40))
    with pytest.raises(SystemExit) as ended:
        kw.main(tmp_path, ["build"])
    assert ended.value.code == code
    assert ("The disk is full" in capsys.readouterr().err) == (code == 22)


@pytest.mark.slow
@pytest.mark.parametrize("size", ["4k", "2m", "12m"])
def test_a_disk_that_fills_up_while_nox_is_set_up_is_named(tree, size):
    """By the directory's first file, by venv, whose pip dies without a word, and by what pip installs."""
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this kernel or container lets nobody mount a small file system of their own (unshare failed)")
    (tree.root / ".kw").mkdir()
    act = f'mount -t tmpfs -o size={size} tmpfs "$0/.kw" && {{ "$1" "$0/kw" build; code=$?; ls "$0/.kw"; exit $code; }}'
    command = [*unshare, "sh", "-c", act, str(tree.root), sys.executable]
    env = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tree.wheels)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 22, done.stdout + done.stderr
    assert "The disk is full:" in done.stderr
    assert "Traceback" not in done.stderr
    assert "nox-" not in done.stdout  # nothing half-made is left


def test_a_directory_appears_whole_or_not_at_all(kw, tmp_path):
    place = tmp_path / "place"

    def fill(fail: bool) -> None:
        with kw.published(place) as part:
            (part / "file").write_text("new")
            assert not place.exists() or (place / "file").read_text() == "old"
            if fail:
                raise RuntimeError

    with pytest.raises(RuntimeError):
        fill(fail=True)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "place.part-dead").mkdir()
    fill(fail=False)
    assert [path.name for path in tmp_path.iterdir()] == ["place"]
    assert (place / "file").read_text() == "new"


def test_a_held_lock_is_waited_for_then_told_with_its_holder(kw, tmp_path, capsys):
    path = tmp_path / "below" / "lock"
    with kw.Lock(path, "waiting for it"):
        with pytest.raises(TimeoutError, match=rf"process {os.getpid()} holds {path}"):
            kw.Lock(path, "waiting for it", patience=0.2).__enter__()
        assert capsys.readouterr().err == "kw: waiting for it\n"
    with kw.Lock(path, "waiting for it", patience=0):
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize("letter", [*launcher.load().NOT_IN_PATHS, "\n", "\x7f"])
def test_a_path_that_the_build_tools_cannot_take_is_refused_at_once(tmp_path, letter):
    place = tmp_path / f"a{letter}b"
    place.mkdir()
    tree = launcher.Tree(place)
    code, out, err = tree.run("build")
    assert (code, out) == (RequestError.exit_code, "")
    assert repr(str(tree.root)) in err
    assert f"do not take {letter!r} in a path" in err
    assert not (tree.root / ".kw").exists()
    with pytest.raises(RequestError, match="move or copy it"):
        pip.check_place(tree.root)


def test_spaces_and_all_scripts_are_no_obstacle(kw):
    assert kw.about_path(Path("/x ~=@!^é'#&(1)+-_.ü/核")) == ""


def test_a_tree_that_cannot_be_written_is_told(kw, tmp_path):
    (tmp_path / ".kw").write_text("in the way, also of root, whom a mode would not stop")
    with pytest.raises(kw.Failed, match=r"\.kw cannot be written \(.*copy the tree"), kw.Lock(tmp_path / ".kw/a", ""):
        pass
