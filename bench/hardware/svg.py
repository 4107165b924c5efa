# SPDX-License-Identifier: MIT
"""Small pictures as SVG, without a library: lines over an axis, bars, and plots of points. The same data give the same file."""
import math
from xml.sax.saxutils import escape

COLOURS = ("#0b5fa5", "#c8500a", "#2c8a3c", "#8a3ca0", "#a08000", "#507078")
DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 2", "10 4")
FONT = 'font-family="sans-serif" font-size="11"'


def text(x, y, words, anchor="start", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(str(words))}</text>'


def line(x1, y1, x2, y2, more='stroke="#cccccc"'):
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" {more}/>'


def document(width, height, parts, title):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" {FONT} '
            f'role="img"><title>{escape(title)}</title><rect width="100%" height="100%" fill="white"/>\n'
            + "\n".join(parts) + "\n</svg>\n")


def legend(x, y, names):
    """Names of lines beside each other; returns the parts."""
    parts = []
    for k, name in enumerate(names):
        parts += [line(x, y - 4, x + 22, y - 4, stroke(k)), text(x + 27, y, name)]
        x += 42 + 6.2 * len(str(name))
    return parts


def stroke(k):
    dash = f' stroke-dasharray="{DASHES[k % len(DASHES)]}"' if DASHES[k % len(DASHES)] else ""
    return f'stroke="{COLOURS[k % len(COLOURS)]}" stroke-width="1.8" fill="none"{dash}'


def lines(x, y, width, height, title, series, ticks, top=1.0, unit=lambda v: f"{v:.0%}"):
    """One panel: `series` are lists of (x, y) with x in `ticks`, on an axis of powers; None is left out."""
    left, bottom = x + 40, y + height - 20
    low, high = math.log(min(ticks)), math.log(max(ticks))
    at = lambda v: left + (math.log(v) - low) / ((high - low) or 1) * (x + width - 10 - left)
    up = lambda v: bottom - min(v / top, 1.05) * (bottom - y - 22)
    parts = [text(x, y + 12, title, more='font-weight="bold"')]
    for share in (0, 0.5, 1):
        parts += [line(left, up(share * top), x + width - 10, up(share * top)),
                  text(left - 5, up(share * top) + 4, unit(share * top), "end")]
    last = -100.0
    for tick in ticks:
        parts.append(line(at(tick), bottom, at(tick), bottom + 3, 'stroke="#666666"'))
        if at(tick) - last > 6.5 * len(str(tick)) + 4:
            last = at(tick)
            parts.append(text(last, bottom + 14, tick, "middle"))
    for k, points in enumerate(series):
        known = [(at(a), up(b)) for a, b in points if b is not None]
        if known:
            parts.append('<path d="M' + "L".join(f"{a:.1f} {b:.1f}" for a, b in known) + f'" {stroke(k)}/>')
    return parts


def bars(x, y, width, title, rows, words):
    """One panel: `rows` are (name, value, spread or None); `words` writes a value. Returns the parts and their height."""
    parts, most = [text(x, y + 12, title, more='font-weight="bold"')], max([v + (s or 0) for _, v, s in rows if v is not None] or [1])
    for k, (name, value, spread) in enumerate(rows):
        top = y + 20 + k * 18
        parts.append(text(x + 130, top + 11, name, "end"))
        if value is None:
            parts.append(text(x + 138, top + 11, "–"))
            continue
        end = x + 136 + value / (most or 1) * (width - 220)
        parts.append(f'<rect x="{x + 136:.1f}" y="{top:.1f}" width="{max(end - x - 136, 1):.1f}" height="13" fill="{COLOURS[0]}"/>')
        if spread:
            half = spread / (most or 1) * (width - 220)
            parts.append(line(max(end - half, x + 136), top + 6.5, end + half, top + 6.5, 'stroke="#000000"'))
            end += half
        parts.append(text(end + 6, top + 11, words(value)))
    return parts, 28 + 18 * len(rows)


MARKS = ("circle", "square", "cross", "triangle", "ring", "square")


def mark(k, x, y):
    """The kth mark, told apart by its form as well as by its colour."""
    kind, colour, r = MARKS[k % len(MARKS)], COLOURS[k % len(COLOURS)], 3
    if kind in ("circle", "ring"):
        paint = f'fill="none" stroke="{colour}"' if kind == "ring" else f'fill="{colour}"'
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}" {paint}/>'
    if kind == "square":
        return f'<rect x="{x - r:.1f}" y="{y - r:.1f}" width="{2 * r}" height="{2 * r}" fill="{colour}"/>'
    shape = {"cross": f"M{x - r:.1f} {y - r:.1f}l{2 * r} {2 * r}m0 {-2 * r}l{-2 * r} {2 * r}",
             "triangle": f"M{x:.1f} {y - r:.1f}l{r} {2 * r}h{-2 * r}z"}[kind]
    return f'<path d="{shape}" stroke="{colour}" fill="{colour if kind == "triangle" else "none"}"/>'


def even_ticks(low, high):
    """At most seven round numbers."""
    step = next(s for s in (0.1, 0.2, 0.25, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 20000, 1e9) if (high - low) / s <= 6)
    first = -(-low // step) * step
    return [round(first + n * step, 6) for n in range(int((high - first) / step + 1e-9) + 1)]


class Plot:
    """Points over two even axes; the nth of a picture of plots, `columns` of them side by side."""
    WIDE, HIGH, CELL = 245, 190, (310, 252)

    def __init__(self, n, columns, title, x_name, y_name, x_range, y_range):
        left, top = n % columns * self.CELL[0], 24 + n // columns * self.CELL[1]
        self.left, self.top, self.x_range, self.y_range = left + 50, top + 22, x_range, y_range
        middle, bottom = top + 22 + self.HIGH / 2, self.top + self.HIGH
        self.parts = [text(self.left, top + 13, title, more='font-weight="bold"'),
                      text(self.left + self.WIDE / 2, bottom + 28, x_name, "middle"),
                      text(0, 0, y_name, "middle", f'transform="translate({left + 12} {middle}) rotate(-90)"'),
                      f'<rect x="{self.left}" y="{self.top}" width="{self.WIDE}" height="{self.HIGH}" fill="none" stroke="#999999"/>']
        for v in even_ticks(*x_range):
            self.parts.append(text(self.x(v), bottom + 14, f"{v:g}", "middle"))
        for v in even_ticks(*y_range):
            self.parts += [text(self.left - 5, self.y(v) + 4, f"{v:g}", "end"),
                           line(self.left, self.y(v), self.left + self.WIDE, self.y(v))]

    def x(self, v):
        low, high = self.x_range
        return self.left + (v - low) / (high - low) * self.WIDE

    def y(self, v):
        low, high = self.y_range
        return self.top + self.HIGH - (v - low) / (high - low) * self.HIGH

    def points(self, k, pairs):
        self.parts += [mark(k, self.x(x), self.y(y)) for x, y in pairs]

    def line(self, k, pairs):
        """The points, joined."""
        if len(pairs) > 1:
            self.parts.append('<path d="M' + "L".join(f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in pairs) + f'" {stroke(k)}/>')
        self.points(k, pairs)


def plots_document(plots, columns, names, title):
    """Plots that were made with their places, below a legend of their marks."""
    parts = [part for k, name in enumerate(names) for part in (mark(k, 50 + k * 185, 11), text(59 + k * 185, 15, name))]
    high = 24 + -(-len(plots) // columns) * Plot.CELL[1]
    return document(columns * Plot.CELL[0] + 10, high, parts + [part for plot in plots for part in plot.parts], title)
