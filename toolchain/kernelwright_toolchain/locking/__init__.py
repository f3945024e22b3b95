# SPDX-License-Identifier: MIT
"""The lock files under locks/: what goes into each, how it is resolved, how it is checked."""
