# SPDX-License-Identifier: MIT
"""The frame of a page and its parts. Whatever is put into one is text until `Markup` says otherwise."""

from __future__ import annotations

import datetime as dt
import html
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_STYLE = """
:root { color-scheme: light dark; --ground: #fff; --card: #f6f7f9; --text: #1a1d21; --soft: #5a6270; --line: #d8dce2;
  --good: #146c36; --bad: #a61b1b; --warn: #8a5300; --bar: #4a7fd1; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171b; --card: #1e2228; --text: #e8eaed; --soft: #a3abb8;
  --line: #363c45; --good: #6fd08c; --bad: #ff8d85; --warn: #f0b95f; --bar: #6d9ce8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 66rem; padding: 1.5rem 1.25rem 4rem; background: var(--ground); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 0 0 .25rem; }
p { margin: .25rem 0; } .soft { color: var(--soft); } .good { color: var(--good); } .bad { color: var(--bad); }
.warn { color: var(--warn); } .word { font-weight: 700; }
.card { background: var(--card); border: 1px solid var(--line); border-left: .3rem solid var(--line);
  border-radius: .3rem; padding: .75rem 1rem; margin: .6rem 0; }
.card.bad { border-left-color: var(--bad); color: inherit; }
.card.warn { border-left-color: var(--warn); color: inherit; }
.card.good { border-left-color: var(--good); color: inherit; }
.card.bad h3 { color: var(--bad); } .card.warn h3 { color: var(--warn); } .card.good h3 { color: var(--good); }
code, pre { font: .875em/1.45 ui-monospace, monospace; }
pre { overflow-x: auto; white-space: pre-wrap; margin: .5rem 0; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .925rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .75rem .3rem 0; border-bottom: 1px solid var(--line); }
th, td { overflow-wrap: break-word; } .facts td { overflow-wrap: anywhere; }
th { color: var(--soft); font-weight: 600; } td.number { text-align: right; white-space: nowrap; }
tbody th { width: 9.5rem; } td.bar { width: 22%; min-width: 5rem; }
.bar i { display: block; height: .7rem; margin-top: .35rem; min-width: 2px; background: var(--bar);
  border-radius: 2px; }
details { margin: .6rem 0; } summary { cursor: pointer; font-weight: 600; }
@media (max-width: 40rem) { body { padding: 1rem .75rem 3rem; } tbody th { width: 6.5rem; }
  th.bar, td.bar { display: none; }
  table { font-size: .85rem; } th, td { padding-right: .45rem; } .scroll td { overflow-wrap: anywhere; } }
@media print { details > * { display: block; } }
"""


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def safe(text: object) -> Markup:
    """Any text as HTML; what would not be seen, or would turn the text around, as its number."""
    if isinstance(text, Markup):
        return text
    shown = "".join(each if each.isprintable() or each == "\n" else f"\\u{ord(each):04x}" for each in str(text))
    return Markup(html.escape(shown, quote=True))


def tag(name: str, *inside: object, kind: str = "", **attributes: str) -> Markup:
    given = {"class": kind, **attributes} if kind else attributes
    written = "".join(f' {key}="{safe(value)}"' for key, value in given.items())
    return Markup(f"<{name}{written}>{''.join(map(safe, inside))}</{name}>")


def rows(pairs: Iterable[tuple[str, object]]) -> Markup:
    """A table of words and what is so; the same word again is left out."""
    made, before = [], None
    for word, text in pairs:
        made.append(tag("tr", tag("th", "" if word == before else word, scope="row"), tag("td", text)))
        before = word
    return tag("div", tag("table", tag("tbody", *made)), kind="scroll facts")


def table(head: Iterable[object], lines: Iterable[Iterable[object]]) -> Markup:
    """Cells that are Markup of a td, or of a th in the head, stay as they are."""

    def cell(kind: str, inside: object, **more: str) -> Markup:
        if isinstance(inside, Markup) and inside.startswith(("<td", "<th")):
            return inside
        return tag(kind, inside, **more)

    titles = tag("thead", tag("tr", *(cell("th", one, scope="col") for one in head)))
    body = (tag("tr", *(cell("td", one) for one in line)) for line in lines)
    return tag("div", tag("table", titles, tag("tbody", *body)), kind="scroll")


def cause(found: dict[str, Any], evidence: Iterable[str], also: Iterable[tuple[str, str, str]] = ()) -> Markup:
    """What was found, why it is so, the fix; `also`: (code, title, evidence) of what comes from it."""
    kind = "bad" if found["grade"] == "fails" else "warn"
    head = tag("h3", tag("span", found["code"], kind="code"), " ", tag("span", found["title"], kind="title"))
    seen = [tag("p", tag("span", "found: ", kind="word"), tag("span", one, kind="evidence")) for one in evidence]
    why = tag("p", found["why"], kind="soft why")
    fix = tag("p", tag("span", "fix: ", kind="word"), tag("code", found["fix"], kind="fix"))
    then = [tag("p", found["then"], kind="soft then")] if found["then"] else []
    led = []
    for code, title, text in also:
        parts = (tag("span", code, kind="code"), " ", tag("span", title, kind="title"), ": ")
        led.append(tag("p", tag("span", "also: ", kind="word"), *parts, tag("span", text, kind="evidence")))
    return tag("article", head, *seen, why, fix, *then, *led, kind=f"card {kind} finding")


def page(title: str, parts: Iterable[Markup], data: Any) -> str:
    """The whole file. All the data stands at its end, as --json gives it."""
    written = json.dumps(data, indent=2, ensure_ascii=True)
    whole = tag("details", tag("summary", "All data, as --json gives it"), tag("pre", written, id="data"))
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{safe(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
    )
    today = dt.datetime.now(dt.timezone.utc).date().isoformat()
    made = tag("p", f"{title}, made on {today}", kind="soft date")
    inside = "\n".join([*parts, made, whole])
    return f"{head}<main>\n{inside}\n</main>\n</body>\n</html>\n"
