# SPDX-License-Identifier: MIT
"""What names a person or a machine here: homes, users, hosts, domains."""

from __future__ import annotations

import contextlib
import getpass
import os
import pwd
import re
import socket
from dataclasses import dataclass
from pathlib import Path

from kernelwright import _environment
from kernelwright.doctor.causes import all_causes

# Accounts and hosts that systems, images and services come with: they name nobody, and are words of other things.
_ACCOUNTS = (
    "root user users ubuntu debian fedora centos rocky alma arch nixos linux localhost localdomain python conda mamba "
    "mambauser micromamba pip torch cuda nvidia jetson orin tegra tegra-ubuntu docker podman container runner jenkins "
    "gitlab gitlab-runner github buildkite jovyan jupyter vscode codespace gitpod ec2-user azureuser opc cloud admin "
    "administrator guest test tester nobody default daemon build builder nixbld app apps service worker node dev devel "
    "developer work workspace data home local lib bin usr src opt tmp var share gpu gpus cpu ray slurm batch spark"
)
_NOBODYS = frozenset(_ACCOUNTS.split())
# People's names that are words too: of English, of mathematics, of GPUs.
_PEOPLE = (
    "will may mark bill art grant max min chase ada ampere blackwell fermi grace hopper kepler maxwell pascal rubin "
    "tesla turing volta thor"
)
_WORDS = frozenset(_PEOPLE.split())
_SYSTEMS = frozenset({"/", "/bin", "/dev", "/etc", "/lib", "/nix", "/opt", "/proc", "/sys", "/tmp", "/usr", "/var"})  # noqa: S108


@dataclass(frozen=True)
class Names:
    """Each longest first, so that no part of one is left."""

    homes: tuple[str, ...]
    users: tuple[str, ...]
    """These stand for a person wherever they stand."""
    words: tuple[str, ...]
    """Users' names that are words of the report too: these name a person only where a name is expected."""
    hosts: tuple[str, ...]
    domains: tuple[str, ...]


def _longest_first(found: set[str]) -> tuple[str, ...]:
    return tuple(sorted(found, key=lambda text: (-len(text), text)))


def _account() -> pwd.struct_passwd | None:
    with contextlib.suppress(KeyError):  # a user id without a name
        return pwd.getpwuid(os.getuid())
    return None


def _homes(account: pwd.struct_passwd | None) -> set[str]:
    found = {_environment.everything().get("HOME", "")} | ({account.pw_dir} if account else set())
    with contextlib.suppress(RuntimeError):
        found.add(str(Path.home()))
    found |= {os.path.realpath(home) for home in found if home}
    homes = {home.rstrip("/") for home in found}
    return {home for home in homes if home.startswith("/") and home not in _SYSTEMS}


def _users(account: pwd.struct_passwd | None) -> set[str]:
    found = {_environment.everything().get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER")}
    with contextlib.suppress(KeyError, OSError, ImportError):
        found.add(getpass.getuser())
    if account:
        found |= {account.pw_name, account.pw_gecos.partition(",")[0]}  # the second is the person's whole name
    return {name for name in found if len(name) > 1 and name.lower() not in _NOBODYS}


def _hosts() -> tuple[set[str], set[str]]:
    hosts, domains = set(), set()
    for name in (socket.gethostname(), os.uname().nodename, _environment.everything().get("HOSTNAME", "")):
        short, _, domain = name.partition(".")
        hosts.add(short)
        if "." in domain:
            domains.add(domain)
    return {name for name in hosts if len(name) > 1 and name.lower() not in _NOBODYS}, domains


def _vocabulary(said: str) -> frozenset[str]:
    """The words of the doctor's own pages, and of what is said: a name among them would tear holes into the report."""
    pages = " ".join(f"{cause.title} {cause.why} {cause.fix} {cause.then}" for cause in all_causes().values())
    return _WORDS | set(re.findall(r"[^\W_]+", f"{pages} {said}".lower()))


def names(said: str) -> Names:
    """Of this process's user and machine; `said`: what names products, such as those of GPUs."""
    account = _account()
    users, vocabulary = _users(account), _vocabulary(said)
    words = {name for name in users if name.lower() in vocabulary}
    hosts, domains = _hosts()
    return Names(
        _longest_first(_homes(account)), _longest_first(users - words), _longest_first(words),
        _longest_first(hosts), _longest_first(domains),
    )  # fmt: skip
