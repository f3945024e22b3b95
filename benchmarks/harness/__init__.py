# SPDX-License-Identifier: MIT
"""Times every operator's benchmark cases beside their limit and their peers; benchmarks/run.py is the command."""
