# SPDX-License-Identifier: MIT
"""What is inside anybody's CUDA wheel or library, and whether it will run here or on a board. Standard library only.

Everything read here may have been made to harm: each size, count and offset is checked before it is used, nothing is
written under a name the file gives, and what was left out is said.
"""
