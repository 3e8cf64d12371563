#!/usr/bin/env python3
"""The page of `rollcall report`, used in a browser: each test is a sentence about what it does.

  page.py              all tests; exit status 77 where no browser is
  page.py WORD...      those whose name has a word
"""
import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

from browser import Browser, Keys, skip_without_browser
from runs import (HOSTILE, LONG, ROLLCALL, hostile_dumps, keep_stacks, make_page, make_run,
                  make_timed_run)

TESTS = []


def test(function):
    TESTS.append(function)
    return function


class World:
    """Pages that several tests look at, made once, and a window."""

    def __init__(self, directory):
        self.directory = directory
        self.pages = {}
        self.browser = None

    def path(self, name):
        return os.path.join(self.directory, name)

    def page(self, ranks, calls, *more):
        key = (ranks, calls, *more)
        if key not in self.pages:
            name = f"{len(self.pages)}-{ranks}x{calls}"
            run = make_run(self.path(name), ranks, calls, *more)
            self.pages[key] = make_page([run], self.path(name + ".html"))
        return self.pages[key]

    def two_runs(self, link=""):
        if "two" not in self.pages:
            runs = [make_run(self.path("old"), 4, 60, "--layout", "tp=2"),
                    make_run(self.path("new"), 4, 60, "--layout", "tp=2", "--fault",
                             "extra-call@2:1")]
            self.pages["two"] = make_page(runs, self.path("two.html"))
        return self.open(self.pages["two"], link)

    def timed(self, link=""):
        if "timed" not in self.pages:
            run = make_timed_run(self.path("timed"))
            self.pages["timed"] = make_page([run], self.path("timed.html"))
        return self.open(self.pages["timed"], link)

    def open(self, page, link=""):
        return self.browser.open(page, link)

    def small(self, link=""):
        return self.open(self.page(4, 60, "--layout", "tp=2", "--fault", "missing-call@2"), link)


def quiet(page):
    """Nothing was asked of a network, and neither the script nor the policy complained."""
    requests, complaints = page.requests(), page.complaints()
    assert requests == [], requests
    assert complaints == [], complaints


@test
def the_first_screen_names_the_culprit_and_the_roll_shows_it(world):
    page = world.small()
    assert "rank 2" in page.text("h1"), page.text("h1")
    assert "RC-MISSING-CALL" in page.text(".code")
    assert page.details()["rank"] == "2"
    assert "node0000, pid" in page.details()["host"]
    assert page.one(".scroller canvas").size["width"] > 300
    quiet(page)


@test
def each_tab_opens_its_section_alone_by_mouse_and_by_number(world):
    page = world.small()
    tabs = page.all("#tabs a")
    assert len(tabs) >= 5
    for number, tab in enumerate(tabs, 1):
        tab.click()
        section = tab.get_attribute("data-section")
        assert page.shown_sections() == [section], (section, page.shown_sections())
        assert tab.get_attribute("aria-selected") == "true"
        tabs[0].click()
        page.press(str(number))
        assert page.shown_sections() == [section], (number, section, page.shown_sections())
    quiet(page)


@test
def arrow_keys_move_between_tabs(world):
    page = world.small()
    first, second = [tab.get_attribute("data-section") for tab in page.all("#tabs a")[:2]]
    page.run("document.querySelector('#tabs a').focus()")
    page.press(Keys.ARROW_RIGHT, "#tabs a[aria-selected=true]")
    assert page.shown_sections() == [second]
    page.press(Keys.ARROW_LEFT, "#tabs a[aria-selected=true]")
    assert page.shown_sections() == [first]


@test
def keys_move_the_choice_on_the_roll_and_the_link_follows(world):
    page = world.small()
    page.press("c")
    at = page.details()
    assert at["rank"] == "2", at
    seq = int(re.search(r"seq (\d+)", at["call"]).group(1))
    page.press(Keys.ARROW_UP, ".scroller")
    assert page.details()["rank"] == "1"
    page.press(Keys.ARROW_LEFT, ".scroller")
    assert f"seq {seq - 1} " in page.details()["call"]
    assert f"rank=1&seq={seq - 1}" in page.hash(), page.hash()
    page.press(Keys.HOME, ".scroller")
    assert "seq 0 " in page.details()["call"]
    page.press(Keys.END, ".scroller")
    page.press("d")
    assert page.details()["rank"] == "2"
    quiet(page)


@test
def a_click_chooses_the_cell_under_it(world):
    page = world.small()
    before = page.details()
    page.run("const canvas = document.querySelector('.scroller canvas');"
             "const box = canvas.getBoundingClientRect();"
             "canvas.dispatchEvent(new MouseEvent('click', {bubbles: true,"
             " clientX: box.left + 140, clientY: box.top + 125}))")
    assert page.details()["rank"] == "0", (before, page.details())


@test
def a_link_opens_its_tab_its_rank_and_its_position(world):
    page = world.small("#communicators")
    assert page.shown_sections() == ["communicators"]
    top = page.run("return document.getElementById('tabs').getBoundingClientRect().top")
    assert 0 <= top < 800, top
    page = world.small("#lateness")
    assert page.shown_sections() == ["lateness"]
    page = world.small("#roll&rank=3&seq=5")
    assert page.shown_sections() == ["roll"]
    assert page.details()["rank"] == "3"
    assert "seq 5 " in page.details()["call"]
    # A link to what is not there opens the first tab and breaks nothing.
    for link in ("#nonsense&rank=x&seq=-1&comm=%3Cimg%3E", "#roll&rank=999999&seq=1e9", "#&&==&"):
        page = world.small(link)
        assert page.shown_sections() == ["roll"]
        quiet(page)


@test
def a_link_that_is_no_text_breaks_nothing(world):
    page = world.small("#%E0%A4%A")
    assert page.shown_sections() == ["roll"]
    quiet(page)


@test
def a_chip_leaves_the_rows_that_it_names_and_pressed_again_all(world):
    page = world.small()
    chips = page.all(".chips button")
    names = [chip.get_attribute("data-filter") for chip in chips]
    assert "culprit" in names, names
    chips[names.index("culprit")].click()
    page.press(Keys.ARROW_DOWN * 5, ".scroller")
    assert page.details()["rank"] == "2"
    chips[names.index("culprit")].click()
    page.press(Keys.ARROW_DOWN * 5, ".scroller")
    assert page.details()["rank"] == "3"


@test
def the_search_finds_ranks_and_words_and_says_when_there_is_no_row(world):
    page = world.small()
    page.press("/")
    assert page.run("return document.activeElement.type") == "search"
    page.press("3", "input[type=search]")
    assert page.details()["rank"] == "3"
    page.press(Keys.BACKSPACE + "nowhere", "input[type=search]")
    assert page.details() == {}
    page.press(Keys.ESCAPE, "input[type=search]")
    # Letters that were typed into the search were no commands.
    assert page.shown_sections() == ["roll"]
    quiet(page)


@test
def another_communicator_has_its_own_roll_and_link(world):
    page = world.small()
    page.press("c")
    key = page.hash()
    page.run("const select = document.querySelector('.tools select'); select.value = '1';"
             "select.dispatchEvent(new Event('change'))")
    assert page.hash() != key and "comm=" in page.hash(), (page.hash(), page.complaints())
    again = world.small(page.hash())
    assert again.run("return document.querySelector('.tools select').value") == "1"
    quiet(again)


@test
def zooming_changes_the_cells_and_draws_in_a_blink(world):
    page = world.open(world.page(64, 400, "--fault", "missing-call@17"))
    for key in "---++++++---":
        page.press(key)
    assert int(page.root("data-draw-ms")) < 2000
    quiet(page)


@test
def above_64_ranks_equal_ones_share_a_row_and_the_culprit_is_first(world):
    page = world.open(world.page(1024, 40, "--fault", "missing-call@17"))
    rows = json.loads(page.run(
        "return document.getElementById('rollcall-data').textContent"))["rolls"][0]["rows"]
    assert rows["ranks"][0] == "17" and rows["culprit"][0] == 1, rows["ranks"]
    assert sum(rows["count"]) == 1024
    assert len(rows["ranks"]) == 2, rows["ranks"]
    assert page.details()["rank"] == "17"
    page.press(Keys.ARROW_DOWN, ".scroller")
    assert page.details()["1,023 ranks that are alike"] == "0-16,18-1023", page.details()
    assert page.details()["hosts"].endswith("and 124 more"), page.details()
    page.press("1000", "input[type=search]")
    assert page.details()["1,023 ranks that are alike"] == "0-16,18-1023", page.details()
    quiet(page)


@test
def of_several_hosts_each_is_a_square_and_that_of_the_culprit_is_named(world):
    page = world.open(world.page(1024, 40, "--fault", "missing-call@17"))
    assert page.text(".hosts") == ("128 hosts, each as the worst of its ranks; the culprit is on "
                                   "node0002"), page.text(".hosts")
    click = ("const canvas = document.querySelector('.hosts canvas');"
             "const box = canvas.getBoundingClientRect();"
             "canvas.dispatchEvent(new MouseEvent('click', {bubbles: true,"
             " clientX: box.left + arguments[0] * 18 + 9, clientY: box.top + 9}))")
    page.run(click, 3)
    assert page.text(".hosts").startswith("node0003: 8 ranks, the worst: "), page.text(".hosts")
    assert "1,023 ranks that are alike" in page.details(), page.details()
    page.run(click, 2)
    assert page.text(".hosts").startswith("node0002: 8 ranks, the worst: "), page.text(".hosts")
    assert page.details()["rank"] == "17", page.details()
    quiet(page)
    # On one host there is nothing to compare.
    assert world.small().run("return document.querySelector('.hosts').hidden")


@test
def a_verdict_about_transfers_opens_on_the_last_calls_with_the_one_that_is_blamed(world):
    page = world.open(world.page(8, 200, "--layout", "pp=4", "--fault", "p2p-cycle@2"))
    assert page.shown_sections() == ["calls"], page.shown_sections()
    assert "rank 2 on node0000" in page.text("#calls h3.culprit")
    assert "Recv" in page.text("#calls tr.blamed"), page.text("#calls tr.blamed")
    quiet(page)


@test
def stacks_of_the_newest_incident_that_has_some_are_a_tab_of_text(world):
    run = make_run(world.path("stacks"), 4, 60, "--layout", "tp=2", "--fault", "missing-call@2")
    keep_stacks(run, "20260101-000000-RC-OLD", "of the old one\n")
    keep_stacks(run, "20260102-000000-RC-NEW",
                f"Python, ranks 0-3:\n  main\n    {HOSTILE}   [rank 2; not ranks 0-1,3]\n")
    os.makedirs(os.path.join(run, "incidents", "20260103-000000-RC-WITHOUT"))
    # What links lead to is not for whom the page is sent to.
    private = world.path("private")
    keep_stacks(private, "x", "secret\n")
    os.makedirs(os.path.join(run, "incidents", "20260104-000000-RC-LINKED"))
    os.symlink(os.path.join(private, "incidents", "x", "stacks.txt"),
               os.path.join(run, "incidents", "20260104-000000-RC-LINKED", "stacks.txt"))
    os.symlink(os.path.join(private, "incidents", "x"),
               os.path.join(run, "incidents", "20260105-000000-RC-LINKED"))
    page = world.open(make_page([run], world.path("stacks.html")), "#stacks")
    assert page.shown_sections() == ["stacks"], page.shown_sections()
    assert "20260102-000000-RC-NEW" in page.text("#stacks")
    assert "\n    </script><img" in page.text("#stacks pre"), page.text("#stacks pre")
    assert page.text("#stacks b") == "[rank 2; not ranks 0-1,3]"
    assert page.all("img") == [] and page.run("return document.title") != "run"
    page.run("document.querySelector('#tab-roll').click()")
    page.press(Keys.ARROW_RIGHT * 10, "#tabs a[aria-selected=true]")
    order = [tab.get_attribute("data-section") for tab in page.all("#tabs a")]
    page.press(str(order.index("stacks") + 1))
    assert page.shown_sections() == ["stacks"]
    width = page.run("return document.documentElement.scrollWidth")
    assert width <= 1280, width
    quiet(page)
    assert world.small().all("#stacks") == []


@test
def stacks_of_an_attempt_are_those_of_its_page_and_an_older_ones_are_not(world):
    job = world.path("attempts")
    os.makedirs(job)
    for attempt in range(2):
        folder = make_timed_run(os.path.join(job, f"attempt-{attempt}"), steps=3)
        keep_stacks(folder, f"2026010{2 - attempt}-000000-RC-X", f"of attempt {attempt}\n")
    page = world.open(make_page([job], world.path("attempts.html")), "#stacks")
    # That of the older attempt has the newer name: a clock was moved.
    assert "of attempt 1" in page.text("#stacks pre"), page.text("#stacks")
    assert "attempt-1/incidents/20260101-000000-RC-X" in page.text("#stacks"), page.text("#stacks")
    assert "attempt-1/incidents/20260101-000000-RC-X" in page.text("header"), page.text("header")
    assert "attempt-0" not in page.text("header")
    quiet(page)


@test
def of_two_runs_the_stacks_of_both_are_a_tab(world):
    runs = [make_run(world.path(name), 4, 60, "--fault", "missing-call@2")
            for name in ("stacks-old", "stacks-new")]
    keep_stacks(runs[0], "20260101-000000-RC-X", "of the old run\n")
    keep_stacks(runs[1], "20260102-000000-RC-X", "of the new run\n")
    page = world.open(make_page(runs, world.path("stacks-two.html")), "#stacks")
    assert page.shown_sections() == ["stacks"], page.shown_sections()
    texts = [one.text for one in page.all("#stacks article")]
    assert len(texts) == 2 and "of the old run" in texts[0] and "of the new run" in texts[1], texts
    quiet(page)
    assert world.two_runs().all("#stacks") == []


@test
def a_page_of_an_incident_has_what_it_said_and_its_stacks(world):
    run = make_run(world.path("incident"), 4, 60, "--layout", "tp=2", "--fault", "missing-call@2")
    said = subprocess.run([ROLLCALL, "diff", run, "--incident"], capture_output=True, text=True,
                          check=False).stdout
    incident = re.search(r"Saved in (\S+)", said).group(1)
    name = os.path.basename(incident)
    keep_stacks(run, name, "of this one\n")
    keep_stacks(run, "99990101-000000-RC-NEWER", "of another one\n")
    with open(os.path.join(incident, "changes.txt"), "w", encoding="utf-8") as file:
        file.write("2026-01-02T00:00:00.000Z nothing has changed for 60 s\n")
    for number, path in enumerate((incident, incident + "/")):
        page = world.open(make_page([path], world.path(f"incident-{number}.html")), "#stacks")
        assert "of this one" in page.text("#stacks pre"), page.text("#stacks")
        header = page.text("header")
        assert f"incidents/{name}: RC-MISSING-CALL: " in header, header
        assert "nothing has changed for 60 s" in header, header
        assert "rank 2" in page.text("h1"), page.text("h1")
        assert page.all("#roll .scroller canvas") != []
        quiet(page)


def span(text):
    """Seconds of "4 min 10 s"."""
    units = {"h": 3600, "min": 60, "s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
    return sum(float(number) * units[unit]
               for number, unit in re.findall(r"([\d.]+) ([a-z]+)", text))


def calls_that_may_have_waited(directory):
    """How many, and the least and the most of seconds that GPUs spent in them: from where the host
    was back from the call, and from where its stream had come to it."""
    calls, least, most = 0, 0, 0
    dump = subprocess.run([ROLLCALL, "dump", directory], check=True, capture_output=True, text=True)
    for line in dump.stdout.splitlines():
        op = json.loads(line)
        if op["type"] != "op" or op["seq"] is None or not op["finished_ns"]:
            continue
        is_root = op["comm_rank"] == op["root"]
        if (op["op"] == "Broadcast" and is_root) or (op["op"] == "Reduce" and not is_root):
            continue
        calls += 1
        most += op["finished_ns"] - op["started_ns"]
        least += max(op["finished_ns"] - max(op["started_ns"], op["returned_ns"]), 0)
    return calls, least / 1e9, most / 1e9


@test
def waits_are_a_tree_with_the_names_of_wait_states_and_bandwidth_has_peers(world):
    page = world.timed("#waits")
    assert page.shown_sections() == ["waits"], page.shown_sections()
    assert "Wait at NxN, AllReduce" in page.text("#waits"), page.text("#waits")
    kinds = page.run("return [...document.querySelectorAll('#waits tr[class]')]"
                     ".map((one) => one.className)")
    assert kinds[0] == "branch" and kinds[1] == "twig", kinds
    # The parts of a communicator add up to it, and all of them to what the run has on file.
    rows = page.run("return [...document.querySelectorAll('#waits tr[class]')].map((row) =>"
                    "[row.className, ...[...row.children].map((one) => one.textContent)])")
    branches = []
    for kind, name, waited, _, calls, *_ in rows:
        if kind == "branch":
            branches.append({"name": name, "waited": span(waited), "of": [], "calls": []})
        if kind in ("branch", "twig"):
            branches[-1]["of"].append(span(waited))
            branches[-1]["calls"].append(int(calls.replace(",", "")))
    for one in branches:
        assert one["calls"][0] == sum(one["calls"][1:]), one
        assert abs(sum(one["of"][1:]) - one["waited"]) <= 0.1 * one["waited"], one
    spent, waited = re.search(r"The GPUs spent (.+?) in these calls, and (.+?) of that waiting",
                              page.text("#waits")).groups()
    assert 0 < span(waited) < span(spent), (waited, spent)
    assert abs(sum(one["waited"] for one in branches) - span(waited)) <= 0.1 * span(waited), rows
    calls, least, most = calls_that_may_have_waited(world.path("timed"))
    assert sum(one["calls"][0] for one in branches) == calls, (calls, rows)
    assert 0.9 * least <= span(spent) <= 1.1 * most, (least, spent, most)
    page.run("document.querySelector('#tab-bandwidth').click()")
    head = [one.text for one in page.all("#bandwidth th")]
    assert head[-2:] == ["to peers", "to what was reached"], head
    assert re.search(r"\d+ % of [\d.]+ \(\d+\)", page.text("#bandwidth")), page.text("#bandwidth")
    quiet(page)


@test
def what_was_not_seen_stands_in_front_of_the_files(world):
    page = world.small("#evidence")
    assert page.shown_sections() == ["evidence"], page.shown_sections()
    assert [one.text for one in page.all("#evidence h3")][:2] == ["What was not seen",
                                                                  "Who has records"]
    assert "The calls of all ranks have no GPU time" in page.text("#evidence")
    quiet(page)


# Of each size what a person does with a page: `rows` are those of the roll.
SIZES = {4: 4, 64: 64, 1024: 2, 16384: 2}


@test
def tabs_filters_keys_and_links_work_at_any_size(world):
    for ranks, rows in SIZES.items():
        culprit = ranks // 3
        path = world.page(ranks, 40, "--fault", f"missing-call@{culprit}")
        page = world.open(path)
        use_at_size(world, page, path, ranks, rows, culprit)
        quiet(page)


def use_at_size(world, page, path, ranks, rows, culprit):
    data = json.loads(page.run("return document.getElementById('rollcall-data').textContent"))
    assert len(data["rolls"][0]["rows"]["ranks"]) == rows, ranks
    assert f"ank {culprit} " in page.text("h1"), (ranks, page.text("h1"))
    assert page.details()["rank"] == str(culprit), (ranks, page.details())
    tabs = page.all("#tabs a")
    for number, tab in enumerate(tabs, 1):
        tab.click()
        section = tab.get_attribute("data-section")
        assert page.shown_sections() == [section], (ranks, section)
        tabs[0].click()
        page.press(str(number))
        assert page.shown_sections() == [section], (ranks, number)
        assert page.hash().split("&")[0] == "#" + section, (ranks, page.hash())
    tabs[0].click()
    # Each chip leaves its rows; together they are all ranks.
    counts = []
    for chip in page.all(".chips button"):
        counts.append(int(chip.text.rsplit(": ", 1)[1].replace(",", "")))
        name = chip.get_attribute("data-filter")
        chip.click()
        assert chip.get_attribute("aria-pressed") == "true"
        alone = page.details().get("rank") == str(culprit)
        assert alone == (name != "returned"), (ranks, name, page.details())
        chip.click()
    assert sum(counts) == ranks + 1, (ranks, counts)  # the culprit is counted as such, too
    # Keys.
    page.press("c")
    assert page.details()["rank"] == str(culprit), (ranks, page.details())
    page.press(Keys.HOME, ".scroller")
    assert "seq 0 " in page.details()["call"], (ranks, page.details())
    page.press("d")
    assert page.details()["rank"] == str(culprit), (ranks, page.details())
    assert "seq 0 " not in page.details()["call"], (ranks, page.details())
    page.press(Keys.ARROW_DOWN, ".scroller")
    other = page.details()
    assert other.get("rank") != str(culprit), (ranks, other)
    for key in "+-":
        page.press(key)
    # The search finds the row of any rank.
    page.press("/")
    page.press(str(ranks - 1), "input[type=search]")
    if ranks > 64:
        assert f"{ranks - 1:,} ranks that are alike" in page.details(), (ranks, page.details())
    else:
        assert page.details()["rank"] == str(ranks - 1), (ranks, page.details())
    # Links.
    linked = world.open(path, f"#roll&rank={ranks - 1}&seq=3")
    assert "seq 3 " in linked.details()["call"], (ranks, linked.details())
    assert world.open(path, "#evidence").shown_sections() == ["evidence"], ranks


@test
def printed_it_is_every_section_one_after_another(world):
    page = world.small()
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        shown = page.shown_sections()
    finally:
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert len(shown) == len(page.all("main > section")), shown


@test
def hostile_names_are_text_and_run_nothing(world):
    folder = hostile_dumps(world.directory, HOSTILE)
    page_path = make_page([folder], world.path("hostile.html"))
    page = world.open(page_path)
    assert "run" != page.run("return document.title")
    assert page.all("img") == [] and len(page.all("script")) == 2
    assert "<script>" in page.run("return document.body.textContent")
    for tab in page.all("#tabs a"):
        tab.click()
    page.press("1")
    page.press("c")
    for _ in range(8):
        page.press(Keys.ARROW_LEFT, ".scroller")
    assert page.run("return document.title") != "run"
    assert page.all("img") == [] and page.all("header script, main script") == []
    text = page.run("return document.body.innerText")
    assert "\u202e" not in text and "\u2028" not in text
    quiet(page)


@test
def of_two_runs_what_differs_opens_first_and_tabs_have_mouse_keys_and_links(world):
    page = world.two_runs()
    assert "ranks make other calls" in page.text("h1"), page.text("h1")
    assert "RC-OP-MISMATCH" in page.text("header dl")
    assert page.shown_sections() == ["calls"], page.shown_sections()
    assert "AllReduce 7777" in page.text("#calls .added"), page.text("#calls")
    tabs = page.all("#tabs a")
    order = ["calls", "settings", "steps", "evidence"]
    assert [tab.get_attribute("data-section") for tab in tabs] == order
    for number, tab in enumerate(tabs, 1):
        tab.click()
        assert page.shown_sections() == [order[number - 1]], number
        assert page.hash() == "#" + order[number - 1], page.hash()
        tabs[0].click()
        page.press(str(number))
        assert page.shown_sections() == [order[number - 1]], number
    page.press(Keys.ARROW_LEFT, "#tabs a[aria-selected=true]")
    assert page.shown_sections() == ["steps"]
    # Keys of the roll do nothing where there is none.
    for key in "cd+-/":
        page.press(key)
    assert world.two_runs("#settings").shown_sections() == ["settings"]
    quiet(page)


@test
def a_page_of_two_runs_is_no_wider_than_a_phone_and_reads_without_scripts(world):
    world.two_runs()
    with Browser(390, 844) as phone:
        page = phone.open(world.pages["two"])
        for tab in page.all("#tabs a"):
            page.run("arguments[0].click()", tab)
            width = page.run("return document.documentElement.scrollWidth")
            assert width <= 390, (tab.get_attribute("data-section"), width)
    driver = world.browser.driver
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        driver.get("about:blank")
        driver.get("file://" + world.pages["two"])
        text = driver.find_element("tag name", "body").text
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    for words in ("AllReduce 7777", "Versions, settings", "cannot be compared", "Old run"):
        assert words in text, words


@test
def hostile_names_of_two_runs_are_text_and_run_nothing(world):
    old = hostile_dumps(world.path("hostile-old"), HOSTILE)
    new = hostile_dumps(world.path("hostile-new"), HOSTILE, calls=9)
    page = world.open(make_page([old, new], world.path("hostile-two.html")))
    assert page.text("#calls .added") != ""
    for tab in page.all("#tabs a"):
        tab.click()
    assert page.run("return document.title") != "run"
    assert page.all("img") == [] and len(page.all("script")) == 2
    assert "<script>" in page.run("return document.body.textContent")
    text = page.run("return document.body.innerText")
    assert "\u202e" not in text and "\u2028" not in text
    quiet(page)


@test
def a_name_of_a_mebibyte_leaves_the_page_whole(world):
    folder = hostile_dumps(world.directory, LONG)
    page = world.open(make_page([folder], world.path("long.html")))
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")
    assert page.run("return document.documentElement.scrollHeight") < 20000
    quiet(page)


@test
def nothing_is_wider_than_a_phone(world):
    page_path = world.page(4, 60, "--layout", "tp=2", "--fault", "missing-call@2")
    with Browser(390, 844) as phone:
        page = phone.open(page_path)
        for tab in page.all("#tabs a"):
            page.run("arguments[0].click()", tab)
            width = page.run("return document.documentElement.scrollWidth")
            assert width <= 390, (tab.get_attribute("data-section"), width)
            # What is wider than its place is scrolled by keys, too.
            wide = page.run("return [...document.querySelectorAll('section:not([hidden]) .table')]"
                            ".map((one) => [one.scrollWidth > one.clientWidth, one.tabIndex])")
            assert all(is_wide == (index == 0) for is_wide, index in wide), wide
        quiet(page)


@test
def texts_stand_out_from_their_ground_in_light_and_dark(world):
    page_path = world.page(4, 60, "--layout", "tp=2", "--fault", "missing-call@2")
    for dark in (False, True):
        with Browser(1280, 800, dark) as browser:
            page = browser.open(page_path)
            for pair, ratio in page.run(CONTRASTS).items():
                assert ratio >= 4.5, (dark, pair, ratio)


# WCAG's contrast of each pair of the page's colours that stand on each other.
CONTRASTS = """
const style = getComputedStyle(document.documentElement);
const context = document.createElement('canvas').getContext('2d');
function light(name) {
  context.fillStyle = style.getPropertyValue('--' + name).trim();
  context.fillRect(0, 0, 1, 1);
  const [r, g, b] = [...context.getImageData(0, 0, 1, 1).data].slice(0, 3).map((one) => {
    const share = one / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
const pairs = {};
for (const [text, ground] of [['ink', 'paper'], ['ink', 'sheet'], ['quiet', 'paper'],
    ['quiet', 'sheet'], ['link', 'paper'], ['on-code', 'hang'], ['on-code', 'slow'],
    ['on-code', 'info'], ['culprit', 'paper'], ['culprit', 'row'], ['cell-ink', 'cell-finished'],
    ['cell-ink', 'cell-returned'], ['cell-ink', 'cell-launched'], ['cell-ink', 'cell-started'],
    ['cell-ink', 'cell-called'], ['cell-ink', 'cell-lost'], ['cell-ink', 'cell-unknown'],
    ['culprit', 'cell-absent'], ['cell-ink-strong', 'cell-differs'],
    ['cell-ink-strong', 'cell-failed']]) {
  const [low, high] = [light(text), light(ground)].sort((a, b) => a - b);
  pairs[text + ' on ' + ground] = (high + 0.05) / (low + 0.05);
}
return pairs;
"""


@test
def without_scripts_the_page_reads_as_a_document(world):
    world.small()
    driver = world.browser.driver
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        driver.get("about:blank")
        driver.get("file://" + world.page(4, 60, "--layout", "tp=2", "--fault", "missing-call@2"))
        text = driver.find_element("tag name", "body").text
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    for words in ("RC-MISSING-CALL", "culprit", "last common call", "Communicators", "Evidence"):
        assert words in text, words


@test
def the_policy_names_script_and_style_by_their_hashes_and_lets_nothing_else_in(world):
    with open(world.page(4, 60, "--layout", "tp=2", "--fault", "missing-call@2"),
              encoding="utf-8") as file:
        page = file.read()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page).group(1)
    assert policy.startswith("default-src 'none';"), policy
    for tag in ("style", "script"):
        inside = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL).group(1)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy, (tag, digest, policy)
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page)


@test
def pages_keep_to_their_budgets(world):
    # Bytes, and milliseconds until it is drawn on an idle machine; here ten times as long.
    # `make bench SCALE=full` has 2,000 calls of all sizes.
    for ranks, calls, bytes_max, ready_ms in ((8, 2000, 300_000, 1000),
                                              (1024, 300, 2_000_000, 1500),
                                              (16384, 40, 3_000_000, 3000)):
        path = world.page(ranks, calls, "--fault", f"missing-call@{ranks // 3}")
        assert os.path.getsize(path) <= bytes_max, (ranks, os.path.getsize(path))
        with Browser() as browser:
            page = browser.open(path)
            assert page.ready_ms() < 10 * ready_ms, (ranks, page.ready_ms())
            quiet(page)  # reading pixels back, as below, makes Chromium give advice
            for keys in ("", "-" * 12, "+" * 12):
                page.press(keys or "c")
                slowest, middle = page.redraw_ms()
                assert middle <= 10 * 50, (ranks, keys, slowest, middle)
            assert page.renderer_mib() <= 300, (ranks, page.renderer_mib())


def main():
    skip_without_browser()
    chosen = [one for one in TESTS
              if not sys.argv[1:] or any(word in one.__name__ for word in sys.argv[1:])]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="rollcall-page.") as directory:
        world = World(directory)
        with Browser() as browser:
            world.browser = browser
            for one in chosen:
                name = one.__name__.replace("_", " ")
                try:
                    one(world)
                    print(f"holds: {name}")
                except Exception as error:  # a browser's are of many kinds
                    failed += 1
                    print(f"FAILED: {name}: {type(error).__name__}: {error}")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
