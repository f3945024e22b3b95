# SPDX-License-Identifier: MIT
"""The verbs of `kwt`, one file each: for the project that the working directory is in."""
