# SPDX-License-Identifier: MIT
"""Goals, records and pictures of what kernelwright.bench.harness times; benchmarks/run.py is the command."""
