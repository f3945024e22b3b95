# SPDX-License-Identifier: MIT
"""The verbs of `python -m toolchain`, one file each: `add_arguments(parser)` and `run(arguments) -> int`."""
