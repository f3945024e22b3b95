# SPDX-License-Identifier: MIT
"""`./kw provision`: fetches the locked compilers and tools, so that what follows needs no network."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from toolchain import pep517, providers
from toolchain.providers import host, nvrtc
from toolchain.targets import ROOT, load


def main(argv: Sequence[str]) -> int:
    table = load()
    parser = argparse.ArgumentParser(prog="./kw provision --", description=__doc__)
    parser.add_argument("--toolkit", metavar="NAME", help=f"one of {', '.join(table.toolkits)}")
    options = parser.parse_args(argv)
    asked = {"provider": "pip"} | ({"toolkit": options.toolkit} if options.toolkit else {})
    request = pep517.settled(table, asked, fetching=True)
    library = nvrtc.library(request.toolkit, providers.machine_of(table))
    tools = host.provision(table)
    print(f"NVRTC of {request.toolkit.name}: {library.relative_to(ROOT)}\ntools: {tools.modules.relative_to(ROOT)}")
    return 0
