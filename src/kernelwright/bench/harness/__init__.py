# SPDX-License-Identifier: MIT
"""Times one case of an operator beside its limit and its peers: all are compared with float64, then timed in turns.

`bench --against` is the command of the installed package, benchmarks/run.py that of the source tree.
"""
