# SPDX-License-Identifier: MIT
"""Recognises the cause in a build or run log: `python -m kernelwright explain < log`."""

from kernelwright.doctor.explain._match import Answer, Confidence, Explanation, explain

__all__ = ["Answer", "Confidence", "Explanation", "explain"]
