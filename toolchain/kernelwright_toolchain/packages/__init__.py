# SPDX-License-Identifier: MIT
"""Device-only packages: a table for each kernel gives images, a launcher, a torch operator, a C function and checks.

Nothing is linked but the C library: one wheel serves every Python, every torch and every driver of the toolkit's level.
"""
