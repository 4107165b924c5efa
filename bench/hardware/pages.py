# SPDX-License-Identifier: MIT
"""Pages of doc/results whose tables are made: a page holds its prose, and between two comments what a script prints there."""
import pathlib
import re


def table(head, rows):
    """Markdown. None is a dash."""
    def line(cells):
        return "| " + " | ".join("–" if c is None else str(c) for c in cells) + " |"
    return "\n".join([line(head), line(["---"] * len(head)), *map(line, rows)])


def fill(page, made):
    """Puts each text between <!-- name --> and <!-- /name --> of the page. Raises KeyError where the page has no such place."""
    path = pathlib.Path(page)
    text = path.read_text()
    for name, body in made.items():
        place = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- /{re.escape(name)} -->)", re.S)
        if not place.search(text):
            raise KeyError(f"{page}: no place for '{name}'")
        text = place.sub(lambda m: m[1] + body + "\n" + m[2], text)
    path.write_text(text)
