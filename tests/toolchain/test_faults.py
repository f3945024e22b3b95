# SPDX-License-Identifier: MIT
"""What a build leaves when it is killed, when the disk is full, when the index gives nothing or something else.

`faults.py` beside this file does the same to whole builds, at random moments, for as long as it is asked to.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from kernelwright_toolchain import disk, orphans
from kernelwright_toolchain.errors import CompileError, DiskFull, ProvisionError, RequestError
from kernelwright_toolchain.providers import pip
from tests.toolchain import launcher
from tests.tree import ROOT

TOOLCHAIN = ROOT / "toolchain"  # where programs find it that import it

# A verb that holds a lock, and has two processes under it: one of them in a session of its own, as compilers are.
HOLDER = """
import pathlib, signal, subprocess, sys, time
from kernelwright_toolchain import __main__ as verb, orphans
from kernelwright_toolchain.providers import pip
place = pathlib.Path(sys.argv[1])
class Command:
    def add_arguments(parser):
        pass
    def run(arguments):
        with pip.locked(place / "lock", "waiting"):
            shell = subprocess.Popen(["sh", "-c", "setsid sleep 600 & exec sleep 600"])
            while len(orphans.marked(orphans.mark_of(place / "lock"))) < 2:
                time.sleep(0.01)
            (place / "ready").touch()
            time.sleep(600)
verb.import_module = lambda name: Command
# Whoever runs the tests may have had any of them ignored, as a shell does for a background job.
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, getattr(signal, sys.argv[2]))
sys.exit(verb.main(["build"]))
"""
# Starts a program as noxfile.py does, and tells its number.
OUTER = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, *sys.argv[1:]], env={**os.environ, "KW_PARENT": str(os.getpid())})
child.wait()
"""


def until(true: Callable[[], object], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "this did not come true in time"
        time.sleep(0.02)


def start(*words: object) -> subprocess.Popen[str]:
    command = [sys.executable, *map(str, words)]
    return subprocess.Popen(command, cwd=TOOLCHAIN, stderr=subprocess.PIPE, text=True, start_new_session=True)


@pytest.fixture
def holder(tmp_path):
    """A process that holds `tmp_path/lock`, with what it started."""
    child = start("-c", HOLDER, tmp_path, "SIG_DFL")
    until(lambda: (tmp_path / "ready").exists() or child.poll() is not None)
    yield child
    child.kill()
    orphans.end(orphans.mark_of(tmp_path / "lock"))
    child.communicate()


def watchers(mark: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        words = path.read_bytes().split(b"\0") if path.exists() else []
        if words[-2:-1] == [mark.encode()]:
            found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize(("number", "code"), [("SIGKILL", -9), ("SIGTERM", 143), ("SIGINT", 130), ("SIGHUP", 129)])
def test_nothing_outlives_a_build_that_is_ended(holder, tmp_path, number, code):
    mark = orphans.mark_of(tmp_path / "lock")
    assert len(orphans.marked(mark)) == 2
    holder.send_signal(signal.Signals[number])
    with launcher.load().Lock(tmp_path / "lock", "waiting", patience=120):  # nobody else has it before they are gone
        assert orphans.marked(mark) == []
    assert holder.wait(120) == code


def test_what_outlives_a_build_and_its_watcher_is_ended_by_the_next_one(holder, tmp_path, capfd):
    mark = orphans.mark_of(tmp_path / "lock")
    (watcher,) = watchers(mark)
    os.kill(watcher, signal.SIGKILL)
    holder.kill()
    holder.wait()
    assert len(orphans.marked(mark)) == 2
    with pip.locked(tmp_path / "lock", "waiting", patience=120):
        assert orphans.marked(mark) == []
    assert "ended 2 processes that a killed build had left running" in capfd.readouterr().err


def test_a_lock_ends_nothing_but_what_was_started_under_it(tmp_path):
    with pip.locked(tmp_path / "outer", ""), subprocess.Popen(["sleep", "600"]) as under_outer:
        with pip.locked(tmp_path / "inner", ""), subprocess.Popen(["sleep", "600"]) as under_both:
            assert orphans.marked(orphans.mark_of(tmp_path / "inner")) == [under_both.pid]
            under_both.kill()
        assert under_outer.poll() is None
        under_outer.kill()
    assert orphans.VARIABLE not in os.environ


def test_a_process_is_seen_while_it_changes_its_program(monkeypatch):
    """Popen returns when the kernel has taken the new program, and may not have given it its environment yet."""
    monkeypatch.setenv(orphans.VARIABLE, "here")
    for _ in range(500):
        with subprocess.Popen(["sleep", "600"]) as child:
            found = orphans.environment(Path(f"/proc/{child.pid}"))
            child.kill()
        assert b"\0%b=here\0" % orphans.VARIABLE.encode() in b"\0" + found


def test_a_process_with_no_environment_or_none_any_more(tmp_path):
    with subprocess.Popen(["sleep", "600"], env={}) as child:
        assert orphans.environment(Path(f"/proc/{child.pid}")) == b""
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # a zombie
        with pytest.raises(OSError, match=r"No such (process|file)"):
            orphans.environment(Path(f"/proc/{child.pid}"))


def ignored(number: signal.Signals, pid: int) -> bool:
    mask = re.search(r"(?m)^SigIgn:\s+(\w+)$", Path(f"/proc/{pid}/status").read_text())[1]
    return bool(int(mask, 16) >> (number - 1) & 1)


@pytest.mark.parametrize("before", ["SIG_DFL", "SIG_IGN"])
def test_a_verb_ends_with_the_nox_that_started_it(tmp_path, before):
    """Also where the signals that end it are ignored, which they then stay, as nohup wants it."""
    with start("-c", OUTER, "-c", HOLDER, tmp_path, before) as outer:
        until(lambda: (tmp_path / "ready").exists() or outer.poll() is not None)
        verb = int((tmp_path / "lock").read_text())
        found = {ignored(number, verb) for number in (signal.SIGTERM, signal.SIGHUP)}
        outer.kill()
    assert found == {before == "SIG_IGN"}
    with pip.locked(tmp_path / "lock", "waiting", patience=120):
        assert orphans.marked(orphans.mark_of(tmp_path / "lock")) == []
    late = subprocess.run(
        [sys.executable, "-c", "from kernelwright_toolchain.__main__ import _listen; _listen()"],
        env={**os.environ, "KW_PARENT": "1"}, cwd=TOOLCHAIN, check=False,
    )  # fmt: skip
    assert late.returncode == 143  # its parent had ended before it could ask


# A build whose work is to wait for a file; it says whether it had to do anything.
BUILD = """
import pathlib, platform, sys, time
from kernelwright_toolchain import project, targets
from kernelwright_toolchain.building import Options, build, run, stamp
place = pathlib.Path(sys.argv[1])
class Beside(project.Project):
    state, dist = place / ".kw", place / "dist"
project._chosen.append(Beside(project.project().root))
run.publish = lambda *_: None
platform.machine = lambda: "x86_64"
def work(given, request, table, workspace):
    (place / "begun").touch(exist_ok=False)
    while not (place / "go on").exists():
        time.sleep(0.01)
    wheel = place / "dist" / "k.whl"
    wheel.write_text("whole")
    made = stamp.Stamp(stamp.inputs(request), wheel.name, stamp.digest_of(wheel), "", (), stamp.Step(0.0, 0), 0.0)
    stamp.save(workspace / "stamp.json", made)
    return run.Outcome(wheel, made, fresh=True, request=request)
run._build = work
print(build(Options(target="linux-x86_64"), targets.load()).fresh)
"""


def test_a_second_build_in_one_tree_waits_and_takes_what_the_first_made(tmp_path):
    (tmp_path / "dist").mkdir()
    command = [sys.executable, "-c", BUILD, str(tmp_path)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=TOOLCHAIN, **pipes) as first:
        until(lambda: (tmp_path / "begun").exists() or first.poll() is not None)
        with subprocess.Popen(command, cwd=TOOLCHAIN, **pipes) as second:
            said = second.stderr.readline()
            (tmp_path / "go on").touch()
            told = [child.communicate(timeout=120)[0] for child in (first, second)]
    assert "another build holds this tree; waiting for it to finish" in said
    assert [first.returncode, second.returncode] == [0, 0]
    assert told == ["True\n", "False\n"]


def noxfile(monkeypatch) -> ModuleType:
    stand_in = SimpleNamespace(options=SimpleNamespace(), session=lambda function: function, Session=object)
    monkeypatch.setitem(sys.modules, "nox", stand_in)
    return launcher.load(ROOT / "noxfile.py")


def test_kw_ends_with_the_exit_code_of_its_verb(monkeypatch, capfd):
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit) as ended:
        noxfile(monkeypatch).build(SimpleNamespace(posargs=["--archs", "12"]))
    assert ended.value.code == RequestError.exit_code
    assert "error: arch '12'" in capfd.readouterr().err


# -- a full disk

SMALL = """
import pathlib, subprocess, sys
from kernelwright_toolchain import __main__ as verb, project
from kernelwright_toolchain.providers import pip
place = pathlib.Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], check=True)
class Command:
    add_arguments = staticmethod(lambda parser: None)
    run = staticmethod(lambda arguments: print(pip.install(pathlib.Path(sys.argv[2]), root=place)) or 0)
verb.import_module = lambda name: Command
class Small(project.Project):
    state = project.project().state
project._chosen.append(Small(place))
print("first", verb.main(["provision"]), sorted(path.name for path in (place / "tools").iterdir()), flush=True)
subprocess.run(["mount", "-o", "remount,size=64m", str(place)], check=True)
print("second", verb.main(["provision"]), sorted(path.name for path in (place / "tools").iterdir()), flush=True)
"""


def locked_package(tmp_path: Path, content: str) -> Path:
    """The lock of one package in tmp_path/wheels."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel = launcher.make_wheel(wheels, "thing", {"thing.py": content})
    lock = tmp_path / "thing.txt"
    lock.write_text(f"thing==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
    return lock


@pytest.mark.slow
def test_a_full_disk_is_named_and_what_did_not_fit_is_not_used(tmp_path):
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this kernel or container lets nobody mount a small file system of their own (unshare failed)")
    lock, small = locked_package(tmp_path, f"x = '{os.urandom(1 << 20).hex()}'\n"), tmp_path / "small"
    small.mkdir()
    env = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "wheels")}
    command = [*unshare, sys.executable, "-c", SMALL, str(small), str(lock)]
    done = subprocess.run(command, cwd=TOOLCHAIN, env=env, capture_output=True, text=True, check=False)
    said = done.stdout.splitlines()
    assert said[1:2] == ["first 22 []"], done.stdout + done.stderr
    assert said[-1].startswith("second 0 ['thing-"), done.stdout + done.stderr
    assert "error: the disk is full: " in done.stderr
    assert f"  {small}: 0 of 1 MiB free, for this tree's .kw/, build/ and dist/\n" in done.stderr
    assert "Then run the same command again" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_way_to_say_it_is_a_full_disk_and_nothing_else_is():
    for words in ("[Errno 28] No space left on device: '/x'", "error: NoSpaceLeft", "x\ny: Disk quota exceeded\nz"):
        told = disk.full(CompileError(f"it failed\n{words}\nmore"))
        assert isinstance(told, DiskFull)
        assert words.splitlines()[-2 if "\n" in words else 0] in str(told)
    for number in (28, 122):
        assert disk.full(OSError(number, "in whatever language", "/some/file"))
    assert disk.full(FileNotFoundError(2, "No usable temporary directory found in ['/tmp']"))
    assert disk.full(CompileError("no such register")) is None
    assert disk.full(PermissionError(13, "Permission denied")) is None
    assert disk.full(ValueError("No space left on device")) is None


def test_a_program_that_says_nothing_of_a_full_disk_is_not_believed(monkeypatch):
    """CMake reports a file as written for which there was no room, and ninja then misses it."""
    silent = CompileError("ninja: error: loading 'build.ninja': No such file or directory")
    assert disk.full(silent) is None
    monkeypatch.setattr(disk, "LITTLE", 1 << 40)
    told = disk.full(silent)
    assert isinstance(told, DiskFull)
    assert "hardly any room, and this failed:\nninja: error: loading" in str(told)
    assert disk.full(RequestError("arch '12'")) is None


# -- the index


@pytest.fixture
def index(tmp_path):
    """An index of the one package, by HTTP, as pip asks it; its files can be changed."""
    lock = locked_package(tmp_path, "x = 1\n")
    page = tmp_path / "wheels" / "simple" / "thing"
    page.mkdir(parents=True)
    name = "thing-1.0-py3-none-any.whl"
    (page / "index.html").write_text(f'<a href="/{name}">{name}</a>')
    handler = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(tmp_path / "wheels"))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield SimpleNamespace(lock=lock, file=tmp_path / "wheels" / name, port=server.server_address[1], server=server)
        server.shutdown()


@pytest.fixture
def fetching(index, tmp_path, monkeypatch):
    """Installs the package from an index at this port, into a state directory of the test's."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("no_proxy", "*")

    def act(port: int, scheme: str = "http") -> Path:
        monkeypatch.setenv("PIP_INDEX_URL", f"{scheme}://127.0.0.1:{port}/simple")
        return pip.install(index.lock, root=tmp_path / "state")

    return act


@pytest.mark.slow
def test_a_file_of_another_hash_is_refused_and_nothing_of_it_is_kept(index, fetching, tmp_path):
    right = index.file.read_bytes()
    index.file.write_bytes(launcher.make_wheel(tmp_path, "thing", {"thing.py": "x = 2\n"}).read_bytes())
    with pytest.raises(ProvisionError) as refused:
        fetching(index.port)
    words = str(refused.value)
    assert f"Got        {hashlib.sha256(index.file.read_bytes()).hexdigest()}" in words
    assert f"sha256 {hashlib.sha256(right).hexdigest()}" in words
    assert "gave another file than the lock names, and nothing of it was installed. Try `pip cache purge`" in words
    assert list((tmp_path / "state" / "tools").iterdir()) == []
    index.file.write_bytes(right)
    assert (fetching(index.port) / "thing.py").read_text() == "x = 1\n"


@pytest.mark.slow
def test_without_a_network_what_is_here_is_used_and_what_is_not_is_told(index, fetching, tmp_path, monkeypatch):
    with pytest.raises(ProvisionError, match=r"(?s)installing thing\.txt.*thing==1\.0.*is there a network.*provision"):
        fetching(9)  # nobody listens there
    assert list((tmp_path / "state" / "tools").iterdir()) == []
    place = fetching(index.port)
    monkeypatch.setattr(pip, "run_pip", None)  # pip is not even asked
    assert fetching(9) == place


@pytest.mark.slow
def test_a_certificate_that_pip_does_not_know_is_told_and_can_be_named(index, fetching, tmp_path, monkeypatch):
    """As behind a proxy that reads along, which many companies have."""
    openssl = shutil.which("openssl") or pytest.skip("no openssl on this machine, which makes the certificate")
    certificate, key = tmp_path / "certificate", tmp_path / "key"
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(certificate), "-keyout", str(key)]
    subprocess.run([openssl, *words], capture_output=True, check=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # of this machine's own; they would win
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_RETRIES", "1")  # only between two tries does pip say why
    index.server.socket = context.wrap_socket(index.server.socket, server_side=True)
    with pytest.raises(ProvisionError, match=r"(?s)CERTIFICATE_VERIFY_FAILED.*does not trust .* PIP_CERT=FILE"):
        fetching(index.port, "https")
    monkeypatch.setenv("PIP_CERT", str(certificate))
    assert (fetching(index.port, "https") / "thing.py").is_file()


@pytest.mark.slow
def test_two_at_once_install_once(index, fetching, tmp_path):
    fetching(index.port)  # for the settings alone
    act = "import sys, pathlib; from kernelwright_toolchain.providers import pip; a, b = map(pathlib.Path, sys.argv[1:]); print(pip.install(a, root=b))"
    command = [sys.executable, "-c", act, str(index.lock), str(tmp_path / "shared")]
    both = [subprocess.Popen(command, cwd=TOOLCHAIN, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [child.communicate(timeout=120)[0].splitlines() for child in both]
    assert [child.returncode for child in both] == [0, 0, 0]
    assert sum(line.startswith("installing") for lines in said for line in lines) == 1
    assert len({lines[-1] for lines in said}) == 1
    assert [path.name for path in (tmp_path / "shared" / "tools").iterdir()] == [Path(said[0][-1]).name]
