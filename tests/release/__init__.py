# SPDX-License-Identifier: MIT
"""A whole release, rehearsed: cut in a clone, offered by an index of this machine, installed where nothing is."""
