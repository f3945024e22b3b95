# SPDX-License-Identifier: MIT
"""One tiny run of each operator against its reference: on the CPU in this process, on GPUs in a child process."""

from __future__ import annotations
