#!/usr/bin/env python3
"""Makes docs/page.png: the page of the job that `make hang` runs, in headless Chromium.

  scripts/page_picture.py BUILD_DIR    build/release by default; needs scripts/setup.sh --browser

The picture has few colours, so that it stays small in the repository.
"""
import os
import struct
import subprocess
import sys
import tempfile
import zlib
from collections import Counter

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "page"))
from browser import Browser, skip_without_browser  # noqa: E402

PICTURE = os.path.join(ROOT, "docs", "page.png")
BYTES_MAX = 60_000
WIDTH, HEIGHT = 1120, 730
COLOURS = 128


def unfiltered(data, width, height, channels):
    """The bytes of a PNG's pixels, row by row."""
    stride = width * channels
    rows, previous = [], bytearray(stride)
    for at in range(height):
        kind = data[at * (stride + 1)]
        row = bytearray(data[at * (stride + 1) + 1:(at + 1) * (stride + 1)])
        for x in range(stride):
            left = row[x - channels] if x >= channels else 0
            above = previous[x]
            corner = previous[x - channels] if x >= channels else 0
            if kind == 1:
                guess = left
            elif kind == 2:
                guess = above
            elif kind == 3:
                guess = (left + above) // 2
            elif kind == 4:
                guess = min((left, above, corner), key=lambda one: abs(left + above - corner - one))
            else:
                guess = 0
            row[x] = (row[x] + guess) & 255
        rows.append(row)
        previous = row
    return rows


def read_png(png):
    width, height, _, colour_type = struct.unpack(">IIBB", png[16:26])
    packed, at = b"", 8
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        if kind == b"IDAT":
            packed += png[at + 8:at + 8 + length]
        at += 12 + length
    channels = {2: 3, 6: 4}[colour_type]
    rows = unfiltered(zlib.decompress(packed), width, height, channels)
    return [[tuple(row[x:x + 3]) for x in range(0, len(row), channels)] for row in rows]


def nearest(colour, palette):
    return min(palette, key=lambda other: sum((a - b) ** 2 for a, b in zip(colour, other)))


def write_png(rows):
    """With a palette of the commonest colours; the others are the nearest of these."""
    count = Counter(pixel for row in rows for pixel in row)
    palette = [colour for colour, _ in count.most_common(COLOURS)]
    number = {colour: at for at, colour in enumerate(palette)}
    for colour in count:
        if colour not in number:
            number[colour] = number[nearest(colour, palette)]
    packed = b"".join(b"\0" + bytes(number[pixel] for pixel in row) for row in rows)

    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data +
                struct.pack(">I", zlib.crc32(kind + data)))

    return (b"\x89PNG\r\n\x1a\n" +
            chunk(b"IHDR", struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 3, 0, 0, 0)) +
            chunk(b"PLTE", bytes(one for colour in palette for one in colour)) +
            chunk(b"IDAT", zlib.compress(packed, 9)) + chunk(b"IEND", b""))


def main():
    skip_without_browser()
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/release")
    rollcall = os.path.join(build, "tools", "rollcall")
    with tempfile.TemporaryDirectory(prefix="rollcall-picture.") as directory:
        run = os.path.join(directory, "run")
        page_path = os.path.join(directory, "page.html")
        # The job hangs on purpose and is ended; its exit status says so.
        subprocess.run([rollcall, "run", "-n", "4", "--emulate", "--watch", "3", "--kill-on-hang",
                        "-d", run, "--", os.path.join(build, "examples", "mini_train"),
                        "--fault", "missing-call@2:3"], check=False, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300)
        subprocess.run([rollcall, "report", run, "-o", page_path], check=True)
        with Browser(WIDTH, HEIGHT) as browser:
            page = browser.open(page_path)
            screenshot = os.path.join(directory, "page.png")
            page.screenshot(screenshot)
            with open(screenshot, "rb") as file:
                picture = write_png(read_png(file.read()))
    if len(picture) > BYTES_MAX:
        print(f"page_picture: {len(picture)} bytes; {BYTES_MAX} are the limit", file=sys.stderr)
        return 1
    with open(PICTURE, "wb") as file:
        file.write(picture)
    print(f"{PICTURE}: {len(picture)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
