# SPDX-License-Identifier: MIT
"""The documentation as a site: docs/ and what it links to, the API from the sources, the recorded results as plots."""
