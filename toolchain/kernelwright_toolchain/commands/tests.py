# SPDX-License-Identifier: MIT
"""`./kw tests`: installs the wheel and runs the tests. What is not an option here is pytest's: paths, -k, -x, …

--long also runs what takes long: the toolchain's builds the long way round, and every combination of cases.

--torch none|installed|SPEC says which torch the tests see: none; the one that is installed for this machine's Python
(a Jetson's, say); or a requirement such as torch==2.13.0, pinned by hash before it is installed. Without it: an
installed one, else a CPU build if the package index has one, else none, and the tests that need it say so.

--python PYTHON tests the same wheel on another interpreter, without torch unless --torch names one for it.

--archs and --ops test a wheel of these alone, as `./kw build` makes it: of other operators the tests know nothing.

--with FILE installs packages beside what the tests need: a file of requirements with their hashes, such as
tests/integrations/requirements.txt. Nothing that these depend on is fetched.
"""

from __future__ import annotations

import argparse

from kernelwright_toolchain.building import Options, build
from kernelwright_toolchain.files import given as given_path
from kernelwright_toolchain.targets import load
from kernelwright_toolchain.testing import run_tests, to_test


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.prefix_chars = "\0"  # every word is ours or pytest's to read, also those with a dash
    parser.add_argument("arguments", nargs="*")


def run(given: argparse.Namespace) -> int:
    parser = argparse.ArgumentParser(
        prog="./kw tests --",
        description=__doc__,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--torch", metavar="none|installed|SPEC")
    parser.add_argument("--python", metavar="PYTHON")
    parser.add_argument("--with", dest="more", type=given_path, metavar="FILE")
    parser.add_argument("--archs", metavar="A;B")
    parser.add_argument("--ops", metavar="A,B")
    options, rest = parser.parse_known_args(given.arguments)
    torch = to_test(options.torch, options.python)
    return run_tests(build(Options(archs=options.archs, ops=options.ops), load()).wheel, torch, rest, options.more)
