# SPDX-License-Identifier: MIT
"""The toolchain as a distribution of its own: what its wheel and its sdist hold, and the backend that makes them."""
