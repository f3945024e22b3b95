# SPDX-License-Identifier: MIT
"""`./kw provision`: fetches the locked compilers and tools, so that what follows needs no network."""

from __future__ import annotations

import argparse

from kernelwright_toolchain import providers
from kernelwright_toolchain.exact.sass import LOCK as SASS_LOCK
from kernelwright_toolchain.locking.wanted import lock_of
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import download, host, nvrtc, pip
from kernelwright_toolchain.request import settled
from kernelwright_toolchain.targets import load
from kernelwright_toolchain.wheel.gates import POLICY_LOCK

ALSO = (POLICY_LOCK, SASS_LOCK)  # dependency groups: what the gates read, what `verify` shows machine code with


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--toolkit", metavar="NAME", help=f"one of {', '.join(load().toolkits)}")


def run(arguments: argparse.Namespace) -> int:
    table = load()
    asked = {"provider": "pip"} | ({"toolkit": arguments.toolkit} if arguments.toolkit else {})
    request = settled(table, asked, fetching=True)
    download.announce(table, request.toolkit, ALSO)
    library = nvrtc.library(request.toolkit, providers.machine_of(table))
    tools = host.provision(table)
    for group in ALSO:
        pip.install(lock_of(group))
    shown = project().shown
    print(f"NVRTC of {request.toolkit.name}: {shown(library)}\ntools: {shown(tools.modules[0])}")
    return 0
