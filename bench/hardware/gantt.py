# SPDX-License-Identifier: MIT
"""The picture of which task ran where and when, as SVG: a part for each run, a row for each GPU, a bar for each attempt."""
import itertools

WIDE, LINE, LEFT = 900, 9, 96
COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#17becf", "#eeca3b", "#9d755d", "#ff9da6", "#79706e", "#a6d854", "#d62790",
           "#1b5e50", "#e45756")


def lanes(spans, gpu):
    """The spans on that GPU, each in the first lane that is free: [(lane, span)]."""
    ends, out = [], []
    for span in sorted((s for s in spans if gpu in s[1]), key=lambda s: s[2]):
        lane = next((n for n, end in enumerate(ends) if end <= span[2] + 0.05), len(ends))
        ends[lane:lane + 1] = [span[3]]
        out.append((lane, span))
    return out


def bar(span, y, scale, colour, start_s):
    """One attempt; its first `start_s` seconds are pale."""
    name, _, start, end, verdict = span
    x, wide, pale = LEFT + start * scale, max(1, (end - start) * scale), min(start_s, end - start) * scale
    edge = ' stroke="#c00" stroke-width="1.5"' if verdict != "ok" else ""
    told = f"<title>{name}: {start:.1f} to {end:.1f} s, {verdict}</title>"
    parts = [f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{LINE - 1}" fill="{colour}"{edge}>{told}</rect>']
    if pale:
        parts.append(f'<rect x="{x:.1f}" y="{y}" width="{pale:.1f}" height="{LINE - 1}" fill="#fff" fill-opacity="0.6">{told}</rect>')
    return parts


def bars(spans, top, scale, colour, starts):
    """(SVG of one run, its height)."""
    out, y = [], top
    for gpu in sorted({g for s in spans for g in s[1]}):
        placed = lanes(spans, gpu)
        out.append(f'<text x="{LEFT - 6}" y="{y + LINE}" text-anchor="end">GPU {gpu}</text>')
        for lane, span in placed:
            out += bar(span, y + lane * LINE, scale, colour[span[0]], starts.get(span[0], 0) if span[4] == "ok" else 0)
        y += LINE * (1 + max(lane for lane, _ in placed)) + 4
    return out, y - top


def picture(runs, title):
    """`runs`: [(headline, [(name, GPUs, start, end, verdict)] in seconds, {name: seconds of its start})]."""
    longest = max(s[3] for _, spans, _ in runs for s in spans)
    names = sorted({s[0] for _, spans, _ in runs for s in spans})
    colour, scale = dict(zip(names, itertools.cycle(COLOURS))), (WIDE - LEFT - 10) / longest
    out, y = [], 4
    for headline, spans, starts in runs:
        out.append(f'<text x="4" y="{y + 11}" font-weight="bold">{headline}</text>')
        more, high = bars(spans, y + 16, scale, colour, starts)
        out += more
        y += high + 22
    for n, name in enumerate(names):
        x, at = LEFT + n % 5 * 150, y + 12 + n // 5 * 14
        out.append(f'<rect x="{x}" y="{at - 8}" width="9" height="9" fill="{colour[name]}"/><text x="{x + 13}" y="{at}">{name}</text>')
    high = y + 24 + len(names) // 5 * 14
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {high}" font-family="sans-serif" font-size="10" '
                      'role="img">', f"<title>{title}</title>", f'<rect width="{WIDE}" height="{high}" fill="#fff"/>', *out,
                      "</svg>"]) + "\n"
