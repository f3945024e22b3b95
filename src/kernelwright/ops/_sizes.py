# SPDX-License-Identifier: MIT
"""Sizes of test cases by the role they play, for the records of all operators."""

from __future__ import annotations

FLOATS = ("float32", "float16", "bfloat16")
"""The element types that most operators take; float64 is computed by their references."""

SMALL = (3, 33)
"""Little work, in sizes that are no multiples of a vector."""
ALIGNED = (3, 64)
"""Whole vectors of each element type."""
ROLES = {"small": SMALL, "aligned": ALIGNED}
"""What tests of all operators ask for (`Op.roles`)."""

EDGES = (1, 2, 3, 7, 8, 15, 16, 31, 33, 64, 100, 127, 128, 129)
"""Lengths of rows around what one vector, one warp's elements and one warp's vectors are."""
LONGER = (1000, 1024, 4096)
"""Lengths of rows for a block, whole vectors or not."""

DIMENSIONS = ((64,), (0, 64), (2, 0, 16), (2, 3, 40), (2, 1, 3, 1, 24))
"""One dimension, several, none that has elements."""
NO_COLUMNS = (4, 0)
LONG_ROW = (1, 65537)
MANY_ROWS = (300, 1000)
"""More than one thread's, with a part of a vector at each row's end."""


def rows_of(*cols: int) -> tuple[tuple[int, int], ...]:
    """Three rows of each length: some begin off the addresses that vectors need."""
    return tuple((3, each) for each in cols)
