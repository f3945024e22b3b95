# SPDX-License-Identifier: MIT
"""Pages of a report: one file, without scripts, without anything fetched; readable in light and in dark.

`_page` has the frame and what escapes every text, `report` and `xray` the two pages.
"""
