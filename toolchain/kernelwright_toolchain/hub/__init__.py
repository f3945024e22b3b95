# SPDX-License-Identifier: MIT
"""kernelwright as Hugging Face's `kernels` loads it: a folder made from released wheels."""
