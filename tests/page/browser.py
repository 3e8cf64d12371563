"""A page of `rollcall report` in headless Chromium, as a person with a mouse and keys has it.

Debian's chromium, chromium-driver and python3-selenium. Where one is absent the test that asked is
skipped, and says so.
"""
import json
import os
import shutil
import sys
import tempfile

SKIPPED = 77
# Long enough for a page of many ranks on a busy machine; ends when the page is drawn.
PATIENCE_S = 120

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:
    # Debian's modules are those of Debian's interpreter, which need not be the first on the PATH.
    DEBIANS = "/usr/bin/python3"
    if os.path.exists(DEBIANS) and not os.path.samefile(DEBIANS, sys.executable):
        os.execv(DEBIANS, [DEBIANS, *sys.argv])
    webdriver = None


def absent_parts():
    absent = [name for name in ("chromium", "chromedriver") if not shutil.which(name)]
    if webdriver is None:
        absent.append("python3-selenium")
    return absent


def skip_without_browser():
    if absent_parts():
        print(f"skipped: {', '.join(absent_parts())} is absent (scripts/setup.sh --browser)")
        sys.exit(SKIPPED)


# Scrolls to and fro, and answers for how long each redraw took, until its pixels are there.
REDRAWS = """
const done = arguments[arguments.length - 1];
const scroller = document.querySelector('.scroller');
const canvas = scroller.querySelector('canvas');
const times = [];
function again(left) {
  if (left === 0) return done(times);
  let began = 0;
  requestAnimationFrame(() => { began = performance.now(); });
  scroller.scrollLeft += left % 2 ? 331 : -157;
  scroller.scrollTop += left % 2 ? 87 : -43;
  scroller.dispatchEvent(new Event('scroll'));
  requestAnimationFrame(() => {
    canvas.getContext('2d').getImageData(0, 0, 1, 1);
    times.push(performance.now() - began);
    again(left - 1);
  });
}
again(arguments[0]);
"""


def descendants(pid):
    """The processes that came of one, itself included."""
    children = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue  # it is gone
        children.setdefault(parent, []).append(int(name))
    found, open_ = [], [pid]
    while open_:
        found.append(open_.pop())
        open_ += children.get(found[-1], [])
    return found


class Browser:
    """One window. `with Browser() as browser: page = browser.open("report.html")`."""

    def __init__(self, width=1280, height=800, dark=False):
        self.profile = tempfile.mkdtemp(prefix="rollcall-browser.")
        options = Options()
        options.binary_location = shutil.which("chromium")
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
                         "--disable-dev-shm-usage", "--disable-background-networking",
                         "--disable-component-update", "--hide-scrollbars",
                         f"--user-data-dir={self.profile}", f"--window-size={width},{height}"):
            options.add_argument(argument)
        if dark:
            options.add_argument("--force-dark-mode")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")),
                                       options=options)
        # The window's frame takes some of its size; a phone's screen is smaller than any window.
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
        if dark:
            self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
                "features": [{"name": "prefers-color-scheme", "value": "dark"}]})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.quit()
        shutil.rmtree(self.profile, ignore_errors=True)

    def open(self, path, link=""):
        self.driver.get("about:blank")
        for log in ("browser", "performance"):
            self.driver.get_log(log)
        self.driver.get("file://" + os.path.abspath(path) + link)
        return Page(self.driver)


class Page:
    def __init__(self, driver):
        self.driver = driver
        WebDriverWait(driver, PATIENCE_S).until(lambda _: self.root("data-ready"))

    def root(self, attribute):
        return self.driver.find_element(By.TAG_NAME, "html").get_attribute(attribute)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector):
        return self.one(selector).text

    def shown_sections(self):
        return self.run("return [...document.querySelectorAll('main > section')]"
                        ".filter((one) => one.offsetParent !== null).map((one) => one.id)")

    def details(self):
        """The lines beside the roll: {term: text}."""
        return self.run("const terms = {}; for (const term of document.querySelectorAll("
                        "'.details dt')) terms[term.textContent] ="
                        " term.nextElementSibling.textContent; return terms")

    def hash(self):
        return self.run("return location.hash")

    def press(self, keys, selector="body"):
        self.one(selector).send_keys(keys)

    def requests(self):
        """Addresses that the page asked for, itself not counted."""
        asked = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.append(message["params"]["request"]["url"])
        own = self.driver.current_url.split("#")[0]
        return [url for url in asked if url.split("#")[0] not in (own, "about:blank")]

    def complaints(self):
        """What the console says: script errors and what the Content-Security-Policy refused."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def ready_ms(self):
        """Milliseconds from the beginning of the load until the roll was drawn."""
        return int(self.root("data-ready"))

    def redraw_ms(self, times=20):
        """How long the slowest of so many redraws took, and the one in the middle."""
        taken = sorted(self.driver.execute_async_script(REDRAWS, times))
        return taken[-1], taken[len(taken) // 2]

    def renderer_mib(self):
        """The most memory that the process which draws the page has had."""
        most = 0
        for pid in descendants(self.driver.service.process.pid):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if b"--type=renderer" not in file.read():
                        continue
                with open(f"/proc/{pid}/status", encoding="utf-8") as file:
                    kib = [line.split()[1] for line in file if line.startswith("VmHWM")]
            except OSError:
                continue
            most = max([most, *(int(one) for one in kib)])
        return most / 1024

    def screenshot(self, path):
        self.driver.save_screenshot(path)
