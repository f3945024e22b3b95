# SPDX-License-Identifier: MIT
"""Who else has an operator: <family>/<op>.py, whose public functions each import one peer and give its calls."""
