# SPDX-License-Identifier: MIT
"""What `./kw` does: it makes `.kw/` in its tree, once, with the nox of locks/nox.txt in it, and hands over.

Nothing is ever installed into the Python that runs it: a virtual environment, or else a plain directory, holds nox.
Standard library only, and nothing else of the toolchain. What is fetched later is fetched in the same ways (`Lock`,
`published`, `pip_environment`).
"""

from __future__ import annotations

import ast
import contextlib
import errno
import fcntl
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import shutil
import signal
import site
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Iterator
from pathlib import Path

LOCK = "locks/nox.txt"
EXIT = {"RequestError": 11, "ToolMissing": 13, "ProvisionError": 17, "BusyError": 18, "DiskFull": 22}  # as errors.py

# What pip may be told from outside: where packages come from. Where they go, and which, is said here.
PIP_SETTINGS = (
    "index-url", "extra-index-url", "no-index", "find-links", "cert", "client-cert", "proxy", "trusted-host",
    "timeout", "default-timeout", "retries", "cache-dir", "no-cache-dir", "keyring-provider",
)  # fmt: skip

# What CMake, ninja, zig and PATH read as something else than a part of a path. All other characters are tried in tests.
NOT_IN_PATHS = '"$%*,:;<>?[\\]`{|}'

# What changes which modules Python finds, here and in all that it starts. NOX…, such as another default backend of all
# of a person's projects, is kept from nox as well: ours needs no environment but its own.
NOT_PASSED_ON = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONSAFEPATH")

# Where nox lies if it is in no virtual environment, for start.py too; how it is run: Ctrl-C waits until it is caught.
MODULES = "KW_MODULES"
NOX = f"""
import os, runpy, signal, sys
sys.path[:0] = filter(None, [os.environ.get("{MODULES}")])
try:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    runpy.run_module("nox", run_name="__main__", alter_sys=True)
except KeyboardInterrupt:
    sys.exit(130)
"""

NO_ROOM = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))  # as pip says it too

# What to install where neither venv nor pip is there, by ID or ID_LIKE of /etc/os-release.
PACKAGES = {
    "debian": "apt-get install -y python3-venv",
    "ubuntu": "apt-get install -y python3-venv",
    "fedora": "dnf install -y python3-pip",
    "rhel": "dnf install -y python3-pip",
    "suse": "zypper install -y python3-pip",
    "arch": "pacman -S --noconfirm python-pip",
    "alpine": "apk add py3-pip",
}


class Failed(Exception):
    """What a person reads, and the exit code."""

    def __init__(self, text: str, code: int = EXIT["ProvisionError"]) -> None:
        super().__init__(text)
        self.code = code


class Lock:
    """An exclusive lock on a file, between processes; the kernel drops it when its holder dies.

    Says `waiting` and waits if another process has it; TimeoutError names that one when patience (seconds) is over.
    """

    def __init__(self, path: Path, waiting: str, patience: float = 3600) -> None:
        self.path, self.waiting, self.patience = path, waiting, patience

    def __enter__(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.file = self.path.open("a+", encoding="ascii")
        except OSError as error:
            raise Failed(
                f"{self.path.parent} cannot be written ({error.strerror}), and everything that is fetched or built "
                "goes there; run as a user who may write in this tree, or copy the tree to a place that you may write"
            ) from None
        start, said = time.monotonic(), False
        while not self._taken():
            if time.monotonic() - start >= self.patience:
                self.file.seek(0)
                holder = self.file.read().strip() or "unknown"
                self.file.close()
                raise TimeoutError(f"process {holder} holds {self.path}")
            if not said:
                say(self.waiting)
            said = True
            time.sleep(0.1)
        self.file.truncate(0)
        self.file.write(f"{os.getpid()}\n")
        self.file.flush()

    def _taken(self) -> bool:
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self.file.close()


def say(text: str) -> None:
    print(f"kw: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def published(path: Path) -> Iterator[Path]:
    """A fresh directory to fill, which takes the name `path` only if all went well.

    Call it with the lock of `path` held: what an interrupted run left beside it is swept up first.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in [path, *path.parent.glob(f"{path.name}.part-*")]:
        shutil.rmtree(left, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix=f"{path.name}.part-", dir=path.parent))
    try:
        yield part
        part.chmod(0o755)  # mkdtemp's is private to the user
        part.replace(path)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def about_path(tree: Path) -> str:
    """Why nothing can be built in a directory of this name; "" if it can."""
    odd = sorted({letter for letter in str(tree) if letter in NOT_IN_PATHS or not letter.isprintable()})
    if not odd:
        return ""
    return (
        f"this tree lies in {str(tree)!r}, and the build tools do not take {' '.join(map(repr, odd))} in a path: move "
        "or copy it to a directory without such characters (spaces and letters of any script are no obstacle)"
    )


def about_room(tree: Path) -> str:
    """For a full disk: the file systems that kw writes to, and what to do."""
    room = {str(place): shutil.disk_usage(place) for place in (tree, os.environ.get("TMPDIR") or "/tmp")}  # noqa: S108
    lines = "".join(
        f"  {place}: {usage.free >> 20:,} of {usage.total >> 20:,} MiB free\n" for place, usage in room.items()
    )
    return f"The disk is full:\n{lines}Make room, or copy the tree elsewhere or point TMPDIR there; then run kw again."


def bare_environment() -> dict[str, str]:
    """The environment without what redirects pip or Python."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON"))}


def pip_environment(pip: list[str]) -> dict[str, str]:
    """The environment for `pip`, a command: its settings on where packages come from, and no other.

    Configuration files may hold `target` or `user` as well, so they are read here and then hidden from pip.
    """
    env = bare_environment()
    asking = {**env, "PIP_QUIET": "0"}
    if "PIP_CONFIG_FILE" in os.environ:
        asking["PIP_CONFIG_FILE"] = os.environ["PIP_CONFIG_FILE"]
    done = subprocess.run([*pip, "config", "list"], env=asking, capture_output=True, text=True, check=False)
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, "environment": {}}  # the later ones win
    for line in done.stdout.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.partition(".")
        if section in found and key in PIP_SETTINGS:
            found[section][key] = ast.literal_eval(value)
    for key in PIP_SETTINGS:
        if os.environ.get(variable(key)):
            found["environment"][key] = os.environ[variable(key)]
    for settings in found.values():
        env.update({variable(key): value for key, value in settings.items()})
    return {**env, "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}


def variable(key: str) -> str:
    return "PIP_" + key.upper().replace("-", "_")


def run(command: list[str], env: dict[str, str], what: str) -> None:
    done = subprocess.run(command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        for line in done.stdout.splitlines():
            if any(words in line for words in NO_ROOM):  # the rest is where in pip it happened
                raise Failed(f"{what} failed: {line.strip()}")
        told = f"{what} failed (exit code {done.returncode}):\n  {' '.join(command)}\n{done.stdout}"
        place = env.get("TMPDIR")
        if place and Path(place).is_dir() and shutil.disk_usage(place).free < 1 << 20:
            told += f"{NO_ROOM[0]}\n"  # which not every program says that dies of it
        raise Failed(f"{told}{what_to_do(done.stdout)}")


def what_to_do(pip_said: str) -> str:
    """About a failure of pip to fetch what a lock names: "" if its own words are enough."""
    if "DO NOT MATCH THE HASHES" in pip_said:
        return (
            "The index, a proxy or pip's cache gave another file than the lock names, and nothing of it was installed. "
            "Try `pip cache purge`, then another index (PIP_INDEX_URL); if both give these bytes, do not use them."
        )
    if "CERTIFICATE_VERIFY_FAILED" in pip_said:
        return (
            "pip does not trust the certificate of the index, or of a proxy that answers in its place. If it is the "
            "right one here, name the file with its authority's: PIP_CERT=FILE, or `cert` in pip's configuration."
        )
    if "(from versions: none)" in pip_said or "connection broken" in pip_said:
        return (
            "No index gave the package: is there a network, and are index and proxy right (PIP_INDEX_URL, PIP_PROXY)? "
            "What is in .kw/ already needs no network: `./kw provision` fills it while there is one."
        )
    return ""


def has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def pip_command() -> list[str]:
    """This interpreter's own pip, [] if it has none: never a pip.py that lies where somebody stands."""
    if importlib.machinery.PathFinder.find_spec("pip", site.getsitepackages()):
        return [sys.executable, "-I", "-m", "pip"]
    users = importlib.machinery.PathFinder.find_spec("pip", [site.getusersitepackages()])  # which -I hides
    return [sys.executable, "-I", str(Path(users.origin).parent)] if users and users.origin else []


def advice() -> str:
    """The one command for this distribution."""
    try:
        lines = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    release = dict(line.split("=", 1) for line in lines if "=" in line)
    for name in f"{release.get('ID', '')} {release.get('ID_LIKE', '')}".replace('"', "").split():
        if name in PACKAGES:
            return as_root(PACKAGES[name])
    return f"{sys.executable} -m ensurepip --user    (or your distribution's package of Python's venv module)"


def as_root(command: str) -> str:
    """The command for whoever runs this; bare systems have no sudo."""
    if os.geteuid() == 0:
        return command
    return f"sudo {command}" if shutil.which("sudo") else f"su -c '{command}'"


def make(part: Path, lock: Path) -> None:
    """Fills a directory with nox: a virtual environment, or a plain directory of modules."""
    scratch = part.with_name(f"{part.name}.part-tmp")  # of pip, which leaves it in /tmp when it is killed
    scratch.mkdir()
    try:
        fill(part, lock, {"TMPDIR": str(scratch)})
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    (part / "complete").write_text(json.dumps(identity(lock)), encoding="utf-8")


def fill(part: Path, lock: Path, more: dict[str, str]) -> None:
    """By venv and its pip, or by this interpreter's pip; `more` is for their environment."""
    install = ["install", "--quiet", "--require-hashes", "--only-binary", ":all:", "-r", str(lock)]
    if has("venv") and has("ensurepip"):
        env = {**bare_environment(), **more}
        python = [str(part / "bin" / "python"), "-I", "-m"]
        # Apart: venv keeps to itself what its pip died of, and sweeps up the file that filled the disk.
        run([sys.executable, "-I", "-m", "venv", "--without-pip", str(part)], env, "making a virtual environment")
        run([*python, "ensurepip", "--upgrade", "--default-pip"], env, "installing pip into it")
        env = {**pip_environment([*python, "pip"]), **more}
        run([*python, "pip", *install], env, "installing nox from locks/nox.txt")
    elif pip_command():
        pip, into = pip_command(), ["--target", str(part / "modules")]
        env = {**pip_environment(pip), **more}
        run([*pip, *install, *into], env, "installing nox from locks/nox.txt into a directory")
    else:
        raise Failed(
            f"{sys.executable} (Python {sys.version.split()[0]}) can make no isolated place for tools: it has neither "
            "pip nor venv with ensurepip.\nkw installs into .kw/ beside it and never into the system's Python, so it "
            f"needs one of the two. Run\n\n    {advice()}\n\nand then the same ./kw again.",
            EXIT["ToolMissing"],
        )


def identity(lock: Path) -> dict[str, str]:
    """What a ready directory was made from; another lock or another interpreter gets a directory of its own."""
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()
    return {"lock": digest, "python": os.path.realpath(sys.executable), "version": sys.version}


def python_of(home: Path, lock: Path) -> str:
    """The Python that has nox; "" if this directory is not whole."""
    try:
        whole = json.loads((home / "complete").read_text(encoding="utf-8")) == identity(lock)
    except (OSError, ValueError):
        return ""
    own = home / "bin" / "python"
    if not whole:
        return ""
    if (home / "modules" / "nox").is_dir():
        return sys.executable
    return str(own) if os.access(own, os.X_OK) else ""


def ready(tree: Path) -> tuple[str, Path]:
    """Python with nox and the directory that holds it, made first if need be."""
    state, lock = tree / ".kw", tree / LOCK
    key = hashlib.sha256(json.dumps(identity(lock)).encode()).hexdigest()[:16]
    home = state / f"nox-{key}"
    if not python_of(home, lock):
        with Lock(state / "nox.lock", "another kw is setting up .kw/; waiting for it"):
            if not python_of(home, lock):
                say(f"setting up .kw/ (once): nox from {LOCK}")
                with published(home) as part:
                    make(part, lock)
    return python_of(home, lock), home


def sessions(tree: Path) -> dict[str, str]:
    """verb -> what it does, out of noxfile.py, which is read and not imported: there may be no nox yet."""
    module = ast.parse((tree / "noxfile.py").read_text(encoding="utf-8"))
    found = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.decorator_list]
    return {node.name: (ast.get_docstring(node) or "").partition("\n")[0] for node in found}


def usage(verbs: dict[str, str]) -> str:
    width = max(map(len, verbs), default=0)
    return "\n".join([
        "usage: ./kw VERB [OPTIONS]", "",
        *(f"  {verb:<{width}}  {about}" for verb, about in verbs.items()), "",
        "`./kw VERB --help` has a verb's options. All that is fetched or made lies in .kw/ and dist/.",
    ])  # fmt: skip


def nox_words(words: list[str], verbs: dict[str, str]) -> list[str]:
    """What nox is told: the verbs, and behind `--` what is theirs, which a person may leave out."""
    if words[0].startswith("-"):
        return words  # nox's own, as in `-s build`
    count = next((place for place, word in enumerate(words) if word not in verbs), len(words))
    if not count:
        raise Failed(f"{words[0]!r} is no verb\n{usage(verbs)}", EXIT["RequestError"])
    options = words[count:]
    if "--" in options:
        options.remove("--")
    return ["-s", *words[:count], *(["--", *options] if options else [])]


def hand_over(tree: Path, words: list[str]) -> None:
    verbs = sessions(tree)
    if not words or words[0] in ("-h", "--help"):
        print(usage(verbs))
        return
    given = nox_words(words, verbs)
    odd = about_path(tree)
    if odd:
        raise Failed(odd, EXIT["RequestError"])
    python, home = ready(tree)
    env = {k: v for k, v in os.environ.items() if not k.startswith("NOX") and k not in (*NOT_PASSED_ON, MODULES)}
    if (home / "modules").is_dir():
        env[MODULES] = str(home / "modules")
    with contextlib.suppress(FileNotFoundError):  # the toolchain sees paths from where the person stands
        env["KW_CALLED_FROM"] = str(Path.cwd())
    os.chdir(tree)  # as nox does anyway
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    os.execve(python, [python, "-I", "-c", NOX, "--noxfile", str(tree / "noxfile.py"), *given], env)  # noqa: S606 - no shell


def main(tree: Path, words: list[str]) -> None:
    """Hands over to the tree's nox, or ends with what stands in the way."""
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        hand_over(tree, words)
    except (Failed, OSError) as error:
        is_full = any(words in str(error) for words in NO_ROOM)
        if not is_full and not isinstance(error, Failed):
            raise
        say(f"{error}\n{about_room(tree)}" if is_full else str(error))
        sys.exit(EXIT["DiskFull"] if is_full or not isinstance(error, Failed) else error.code)
    except TimeoutError as error:
        say(f"another kw is setting up .kw/ and does not end: {error}")
        sys.exit(EXIT["BusyError"])
    except KeyboardInterrupt:
        sys.exit(130)
