# SPDX-License-Identifier: MIT
"""Sphinx's settings. It is run by docs/site/__main__.py, on pages that this has laid out."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

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

# A signature of several lines is a list without terms in Sphinx's HTML, which is none.
_ARGUMENTS = re.compile(r"<dl>\n((?:<dd>.*?</dd>\n)+)</dl>", re.DOTALL)


def _as_spans(found: re.Match[str]) -> str:
    return f'<span class="kw-arguments">{found[1].replace("<dd>", "<span>").replace("</dd>", "</span>")}</span>'


def for_keys_and_readers(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:  # noqa: ARG001
    """What the theme and Sphinx leave out: the level of the navigation's captions, code that keys can scroll, spans."""
    if "furo_navigation_tree" in context:
        captions = context["furo_navigation_tree"]
        context["furo_navigation_tree"] = captions.replace('role="heading"', 'role="heading" aria-level="2"')
    if "body" in context:
        body = context["body"].replace("<pre>", '<pre tabindex="0">')
        context["body"] = _ARGUMENTS.sub(_as_spans, body)


def setup(app: Any) -> None:
    """After the theme, whose own handler makes the navigation."""
    app.connect("html-page-context", for_keys_and_readers, priority=900)
