# SPDX-License-Identifier: MIT
"""What a log says beside its error: the package, the releases, the GPU, the system. Names are taken only where they are
of letters that mean nothing to a shell: whoever wrote the log does not write the command.
"""

from kernelwright.doctor.explain.said._said import Said

__all__ = ["Said"]
