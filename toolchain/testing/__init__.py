# SPDX-License-Identifier: MIT
"""Where tests and linters run: environments made from the locks, kept under .kw/ while their locks stay the same."""

from toolchain.testing.run import run_lint, run_tests

__all__ = ["run_lint", "run_tests"]
