# SPDX-License-Identifier: MIT
"""Where tests, benchmarks and linters run: environments made from the locks, kept under .kw/ until a lock changes."""

from kernelwright_toolchain.testing.run import run_bench, run_docs, run_lint, run_tests
from kernelwright_toolchain.testing.torch import to_compare, to_test

__all__ = ["run_bench", "run_docs", "run_lint", "run_tests", "to_compare", "to_test"]
