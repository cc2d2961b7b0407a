#!/usr/bin/env python3
"""Draws a trace (TENON_TRACE_FILE, or a session's profile) as an SVG: a panel for all of it, and one for each --zoom.

    tools/draw_trace.py trace.json docs/trace.svg --zoom run

A row is a level of nesting of one thread, a box a span. For reading traces use Perfetto; this is for pages.
"""
import argparse
import html
import json
import pathlib

WIDTH, LEFT, ROW, FONT = 1000, 110, 15, 10
COLOURS = {"load": "#8fb3d9", "pass": "#b7a3d6", "plan": "#d6b98c", "pack": "#c97b63", "allocate": "#999999", "run": "#7fb08a",
           "kernel": "#e0c45c", "part": "#efe2a8", "copy": "#e08a3c", "wait": "#d9d9d9", "signal": "#bbbbbb", "stream": "#a8c7c5"}


def read_events(path):
    text = pathlib.Path(path).read_text(encoding="utf-8").rstrip()
    return json.loads(text if text.endswith("]") else text + "]")  # a process that crashed wrote no end


def rows_of(spans):
    """The spans of one thread with their level of nesting."""
    placed, open_ends = [], []
    for span in sorted(spans, key=lambda one: (one["ts"], -one["dur"])):
        while open_ends and open_ends[-1] <= span["ts"] + 0.002:
            open_ends.pop()
        placed.append((len(open_ends), span))
        open_ends.append(span["ts"] + span["dur"])
    return placed


def milliseconds(microseconds):
    return f"{microseconds / 1000:.3g} ms"


def panel(threads, names, begin, end, top):
    """The boxes of all threads between two times, and the height that they take."""
    scale = (WIDTH - LEFT) / max(end - begin, 1e-3)
    out = [f'<text x="0" y="{top + 11}" font-weight="bold">{milliseconds(end - begin)}</text>']
    y = top + ROW + 4
    for thread, placed in threads.items():
        shown = [(level, span) for level, span in placed if span["ts"] < end and span["ts"] + span["dur"] > begin]
        if not shown:
            continue
        least = min(level for level, _ in shown)
        out.append(f'<text x="0" y="{y + 11}">{html.escape(names.get(thread, str(thread)))}</text>')
        for level, span in shown:
            x = LEFT + max(span["ts"] - begin, 0) * scale
            width = LEFT + min(span["ts"] + span["dur"] - begin, end - begin) * scale - x
            if width < 0.1:
                continue
            top_of_box = y + (level - least) * ROW
            fill = COLOURS.get(span["cat"], "#cccccc")
            out.append(f'<rect x="{x:.1f}" y="{top_of_box}" width="{max(width, 0.4):.1f}" height="{ROW - 2}" fill="{fill}"/>')
            fits = int((width - 4) / (0.6 * FONT))
            if fits >= 3:
                label = span["name"] if len(span["name"]) <= fits else span["name"][:fits - 1] + "…"
                out.append(f'<text x="{x + 2:.1f}" y="{top_of_box + 10}">{html.escape(label)}</text>')
        y += (max(level for level, _ in shown) - least + 1) * ROW + 6
    return out, y - top


def draw(events, zooms):
    spans = [event for event in events if event.get("ph") == "X"]
    names = {event["tid"]: event["args"]["name"] for event in events if event.get("name") == "thread_name"}
    threads = {}
    for span in spans:
        threads.setdefault(span["tid"], []).append(span)
    threads = {thread: rows_of(own) for thread, own in sorted(threads.items())}
    ranges = [(min(span["ts"] for span in spans), max(span["ts"] + span["dur"] for span in spans))]
    for zoom in zooms:
        of = [span for span in spans if zoom in (span["cat"], span["name"])]
        if not of:
            raise SystemExit(f'The trace has no span of the category or name "{zoom}".')
        ranges.append((min(span["ts"] for span in of), max(span["ts"] + span["dur"] for span in of)))
    body, y = [], 4
    for begin, end in ranges:
        boxes, height = panel(threads, names, begin, end, y)
        body += boxes
        y += height + 8
    x = 0
    for category in dict.fromkeys(span["cat"] for span in spans):
        body.append(f'<rect x="{x}" y="{y}" width="10" height="10" fill="{COLOURS.get(category, "#cccccc")}"/>'
                    f'<text x="{x + 14}" y="{y + 9}">{html.escape(category)}</text>')
        x += 34 + 6 * len(category)
    height = y + 18
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
                      f'font-family="monospace" font-size="{FONT}">', f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
                      *body, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("picture")
    parser.add_argument("--zoom", action="append", default=[], metavar="CATEGORY", help="a panel for the time of its spans")
    arguments = parser.parse_args()
    pathlib.Path(arguments.picture).write_text(draw(read_events(arguments.trace), arguments.zoom), encoding="utf-8")


if __name__ == "__main__":
    main()
