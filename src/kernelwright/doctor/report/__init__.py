# SPDX-License-Identifier: MIT
"""The report of `python -m kernelwright`: what this installation is, what the machine is, what is wrong, what to do.

`facts` gathers it as plain data, `text` and JSON show it. Alone it has to be enough for a bug report.
"""
