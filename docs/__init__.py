# SPDX-License-Identifier: MIT
"""The pages, and in `site` what makes them a site."""
