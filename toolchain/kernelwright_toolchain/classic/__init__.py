# SPDX-License-Identifier: MIT
"""Projects of host and device code, compiled by a whole nvcc to the same bytes wherever they are built.

What makes nvcc's bytes differ is taken away, not patched afterwards: sources, toolkit and build lie at fixed paths in a
mount namespace, and each nvcc runs in a PID namespace of its own, with fixed times and time zone.
"""
