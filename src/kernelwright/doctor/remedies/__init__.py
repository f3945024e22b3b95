# SPDX-License-Identifier: MIT
"""Commands that end a cause on the machine that is looked at: of its package manager, its Python, its container.

Each gives text to paste and does nothing itself. Where one comes with what follows it, it is (command, prose).
"""
