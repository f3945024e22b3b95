# SPDX-License-Identifier: MIT
"""The workflows of .github/: templates beside this file, filled from targets.toml and pins.toml."""
