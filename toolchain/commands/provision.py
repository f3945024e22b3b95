# SPDX-License-Identifier: MIT
"""`./kw provision`: fetches the locked compilers and tools, so that what follows needs no network."""

from __future__ import annotations

import argparse

from toolchain import pep517, providers
from toolchain.providers import host, nvrtc
from toolchain.targets import ROOT, load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--toolkit", metavar="NAME", help=f"one of {', '.join(load().toolkits)}")


def run(arguments: argparse.Namespace) -> int:
    table = load()
    asked = {"provider": "pip"} | ({"toolkit": arguments.toolkit} if arguments.toolkit else {})
    request = pep517.settled(table, asked, fetching=True)
    library = nvrtc.library(request.toolkit, providers.machine_of(table))
    tools = host.provision(table)
    print(f"NVRTC of {request.toolkit.name}: {library.relative_to(ROOT)}\ntools: {tools.modules[0].relative_to(ROOT)}")
    return 0
