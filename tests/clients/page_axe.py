#!/usr/bin/env python3
"""axe-core finds nothing to object to in the page of `rollcall report`.

  tests/clients/page_axe.py

Each tab, of a run and of two, light and dark, on a desk and on a phone, is held against the rules
of WCAG 2 (A and AA) and axe's best practices. axe-core is that of axe-selenium-python in
requirements-views.txt, in this interpreter or in BUILD/clients/views, which `make test-clients`
makes; and Chromium with its driver is needed. Without Chromium nothing is tried, and that is said;
without axe-core the exit status is 77.
"""
import os
import sys
import tempfile

import views
from views import check

RULES = ["wcag2a", "wcag2aa", "best-practice"]
LOOKS = {"on a desk": (1280, 800, False), "in the dark": (1280, 800, True),
         "on a phone": (390, 844, False)}
PATIENCE_S = 300
ASK = """const done = arguments[arguments.length - 1];
axe.run(document, {runOnly: arguments[0]}).then(done, (error) => done({error: String(error)}));"""


def objections(browser, page, script, link):
    """Of axe to one tab: rule and elements; an error as it is."""
    opened = browser.open(page, link)
    opened.run(script)
    browser.driver.set_script_timeout(PATIENCE_S)
    found = browser.driver.execute_async_script(ASK, RULES)
    if "error" in found or not found["passes"]:
        return [found]
    return [(one["id"], one["help"], [node["html"][:200] for node in one["nodes"]][:3])
            for one in found["violations"]]


def main():
    views.find_packages("axe_selenium_python")
    import axe_selenium_python
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "page"))
    from browser import Browser, absent_parts
    from runs import keep_stacks, make_page, make_run
    if absent_parts():
        print(f"skipped  {', '.join(absent_parts())} is absent: no page was tried")
        return 0
    folder = os.path.dirname(axe_selenium_python.__file__)
    with open(os.path.join(folder, "node_modules", "axe-core", "axe.min.js"),
              encoding="utf-8") as file:
        script = file.read()
    with tempfile.TemporaryDirectory(prefix="rollcall-axe-") as directory:
        run = make_run(os.path.join(directory, "run"), 4, 60, "--layout", "tp=2", "--fault",
                       "missing-call@2")
        keep_stacks(run, "20260101-000000-RC-MISSING-CALL",
                    "Python, ranks 0-3:\n  train.py:9 main   [rank 2; not ranks 0-1,3]\n")
        page = make_page([run], os.path.join(directory, "page.html"))
        earlier = make_run(os.path.join(directory, "earlier"), 4, 60, "--layout", "tp=2")
        two = make_page([earlier, run], os.path.join(directory, "two.html"))
        for words, look in LOOKS.items():
            with Browser(*look) as browser:
                for of, one, least in (("a run", page, 5), ("two runs", two, 4)):
                    tabs = browser.open(one).run(
                        "return [...document.querySelectorAll('#tabs a')].map((tab) => tab.hash)")
                    check(len(tabs) >= least, f"{words} the page of {of} has tabs", tabs)
                    for link in tabs:
                        found = objections(browser, one, script, link)
                        check(not found,
                              f"axe-core has no objection to {link[1:]} of {of} {words}", found)
    return 1 if views.failures else 0


if __name__ == "__main__":
    sys.exit(main())
