# SPDX-License-Identifier: MIT
"""Where tests and linters run: environments made from the locks, kept under .kw/ as long as their locks are the same."""

from toolchain.testing.run import run_lint, run_tests

__all__ = ["run_lint", "run_tests"]
