# SPDX-License-Identifier: MIT
"""`python -m kernelwright bench`: a model with random weights generates text in 4 bits, in bfloat16, without kernels.

`bench --against …` times single operators beside other libraries' (operators/). Their records, goals and limits are the
business of benchmarks/ in the source tree (`./kw bench`), which measures with the same harness/.
"""

from __future__ import annotations
