# SPDX-License-Identifier: MIT
"""`python -m kernelwright bench`: a model with random weights generates text in 4 bits, in bfloat16, without kernels.

Single operators beside their limits and peers are the business of benchmarks/ in the source tree (`./kw bench`).
"""

from __future__ import annotations
