# SPDX-License-Identifier: MIT
"""Facts of a machine, read from its files under a root directory: the real one, or a made-up one in a test.

Nothing here runs CUDA or imports torch: what needs that runs in a child process (`probes`), since a broken driver or a
broken torch can end the process that touches it.
"""
