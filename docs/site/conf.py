# SPDX-License-Identifier: MIT
"""Sphinx's settings. It is run by docs/site/__main__.py, on pages that this has laid out."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

project = "kernelwright"
author = "the kernelwright authors"
release = version = os.environ["KW_DOCS_VERSION"]
html_title = f"kernelwright {release}"
language = "en"

extensions = ["myst_parser"]
myst_enable_extensions = ["deflist", "colon_fence"]
myst_heading_anchors = 4
exclude_patterns = ["extra"]
nitpicky = False
python_maximum_signature_line_length = 96
toc_object_entries_show_parents = "hide"
# Lexers see code of a page as it is; what is no Python (schemas, shells' output) says so in its fence.
highlight_language = "text"

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = [("plots.js", {"defer": "defer"})]
html_extra_path = [os.environ["KW_DOCS_EXTRA"]]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {
    "footer_icons": [],
    "light_css_variables": {"color-brand-primary": "#1b5e8c", "color-brand-content": "#1b5e8c"},
    "dark_css_variables": {"color-brand-primary": "#7cc0f2", "color-brand-content": "#7cc0f2"},
}
