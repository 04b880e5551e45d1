"""Draws docs/report/*.png. Each picture shows one report: at three widths side by side, and below, its first printed pages.

    PYTHONPATH=.:tests .busbar/venv/bin/python tests/report_sheets.py docs/report

Needs chromium and pdftoppm (Debian's packages chromium and poppler-utils). Prints how many pages each report has on paper.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import report_pages
from PIL import Image

from benchmarks.report import web_page

#: There is no sheet of the report of 8 nodes, which looks like the reports of 2 and 64 nodes.
SHEETS = [name for name in report_pages.PAGES if not name.endswith("-8")]
WIDTHS, HEIGHT, SCALE = (1280, 820, 390), 2300, 0.38
_GAP, _PRINTED, _GREY = 8, 4, (136, 136, 136)
#: Chromium's window is at least 500 pixels wide, so a frame inside the window sets each width.
_FRAME = '<body style="margin:0"><iframe src="{page}" style="border:0;width:{width}px;height:{height}px" scrolling="no">'


def _browse(*words: str) -> None:
    subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", *words], capture_output=True, check=True)


def _seen(page: Path, width: int) -> Image.Image:
    frame, picture = page.with_name("frame.html"), page.with_name(f"{width}.png")
    frame.write_text(_FRAME.format(page=page.name, width=width, height=HEIGHT))
    _browse("--hide-scrollbars", f"--window-size={max(width, 500)},{HEIGHT}", f"--screenshot={picture}", str(frame))
    with Image.open(picture) as seen:
        return _smaller(seen.convert("RGB").crop((0, 0, width, HEIGHT)), int(width * SCALE))


def _printed(page: Path) -> list[Image.Image]:
    paper = page.with_name("paper.pdf")
    _browse("--no-pdf-header-footer", f"--print-to-pdf={paper}", str(page))
    subprocess.run(["pdftoppm", "-png", "-r", "60", str(paper), str(page.with_name("paper"))], check=True)
    return [Image.open(one).convert("RGB") for one in sorted(page.parent.glob("paper-*.png"))]


def _smaller(picture: Image.Image, width: int) -> Image.Image:
    return picture.resize((width, round(picture.height * width / picture.width)), Image.Resampling.LANCZOS)


def sheet(page: Path) -> tuple[Image.Image, int]:
    """Return the sheet of a report's page, and the number of pages that the report has on paper."""
    seen, paper = [_seen(page, width) for width in WIDTHS], _printed(page)
    wide = sum(one.width for one in seen) + _GAP * (len(seen) - 1)
    each = (wide - _GAP * (_PRINTED - 1)) // _PRINTED
    below = [_smaller(one, each) for one in paper[:_PRINTED]]
    top = seen[0].height
    made = Image.new("RGB", (wide, top + _GAP + below[0].height), _GREY)
    for row, at in ((seen, 0), (below, top + _GAP)):
        left = 0
        for one in row:
            made.paste(one, (left, at))
            left += one.width + _GAP
    return made, len(paper)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for name in SHEETS:
            web_page.write(report_pages.page(name), Path(folder) / name)
            made, pages = sheet(Path(folder) / name / "report.html")
            made.quantize(128, method=Image.Quantize.MAXCOVERAGE).save(  # keeps colours that only a few pixels have
                Path(sys.argv[1]) / f"{name}.png", optimize=True
            )
            sys.stdout.write(f"{name}: {pages} pages on paper\n")
