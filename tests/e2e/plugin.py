#!/usr/bin/env python3
"""The profiler plugin in a job: found by NCCL's rules, one record per call whatever is loaded,
unloaded and loaded again, with another plugin behind it."""
import os
import re
import shutil
import struct
import subprocess
import sys

import job
from job import Job, Way, expect, expect_equal
from profiled_client import LATE_S, USER_TAG
from sequence import TOLD, expect_same_calls, recorded_calls, told_calls

RANKS = 2
ARGUMENTS = ["--steps", "2", "--bucket-elements", "64", *job.shape_arguments(RANKS)]
HERE = os.path.dirname(os.path.abspath(__file__))
RING = os.path.join(HERE, "ring_client.py")
CLIENT = [sys.executable, os.path.join(HERE, "profiled_client.py")]
COUNTING = os.path.join(job.BUILD, "tests", "abi", "rollcall_counting_plugin{}.so")
SHIM_ALONE = Way("shim")
ENRICHED = {"launched", "started", "finished"}
# Of what the meta says, what is about the NCCL and CUDA in use.
LIBRARIES = ("nccl_version", "nccl_path", "emulated", "cuda_driver_version",
             "cuda_runtime_version")


class Seen:
    """What `rollcall dump` prints of a finished job."""

    def __init__(self, run):
        lines = run.dump()
        self.ops = [line for line in lines if line["type"] == "op"]
        self.runs = [line for line in lines if line["type"] == "run"]
        self.comms = [line for line in lines if line["type"] == "comm"]
        self.counters = [line["counters"] for line in lines if line["type"] == "stats"]
        self.tags = [line["arguments"][:2] for line in lines
                     if line["type"] == "event" and line["kind"] == "UserTag"]
        self.stderr = run.stderr()
        self.channels = [line for line in lines if line["type"] == "channel"]
        self.stats = run.stats()

    def called(self):
        """By rank, in order."""
        calls = {}
        for line in self.ops:
            calls.setdefault(line["job_rank"], []).append((line["op"], line["count"], line["seq"]))
        return calls

    def count(self, counter):
        return sum(counters.get(counter, 0) for counters in self.counters)

    def expect_enriched(self, ranks=RANKS):
        expect_equal(len(self.runs), ranks, "files of the run: one recorder per process")
        launched = [line for line in self.ops if line["seq"] is not None
                    and line["op"] != "Broadcast"]  # NCCL tells nothing of a Broadcast's kernel
        expect(launched, "no collective was recorded")
        for line in launched:
            expect("launched_ns" in line, f"no launch in {line}")
            expect_equal(line.get("algorithm"), "RING", f"algorithm of {line}")
            expect(line["state"] in ENRICHED, f"state of {line}")

    def expect_clean(self):
        for counter in ("plugin_stale", "plugin_null", "plugin_stopped_twice", "plugin_foreign",
                        "plugin_unwanted", "plugin_full"):
            expect_equal(self.count(counter), 0, counter)


# NCCL 2.31 drops what its thread has not told when a communicator ends: on a busy machine that may
# be a whole step, of which such a job has enough.
MANY_SLOW_STEPS = ["--steps", "8", "--step-ms", "50"]


def run_job(environment, *, way=SHIM_ALONE, arguments=()):
    with Job(RANKS, [*ARGUMENTS, *arguments], environment=environment, way=way) as run:
        expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
        return Seen(run)


def client(rounds, environment, way, *arguments):
    return Job(1, [str(rounds), *arguments], gpus=2, program=CLIENT, environment=environment,
               way=way)


def client_with_windows(way):
    """Copy engines asked for, which AllGather and AlltoAll can use."""
    return client(1, {"NCCL_CTA_POLICY": "2"}, Way(way), "windows")


def one_record_with_both(path, version):
    def test():
        plain = run_job({})
        seen = run_job({"NCCL_PROFILER_PLUGIN": path, "ROLLCALL_EMULATE_PROFILER": version})
        expect_equal(seen.called(), plain.called(), "the calls with and without the plugin")
        seen.expect_enriched()
        seen.expect_clean()
        expect(all("from_plugin" not in line for line in seen.ops), "records of the plugin")
        expect_equal(len(seen.comms), len(plain.comms), "communicators")
    return test


def alone_call_for_call(version):
    def test():
        arguments = ["--steps", "2", "--bucket-elements", "64", *job.shape_arguments(4)]
        with Job(4, arguments, way=Way(f"plugin-v{version}")) as run:
            expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
            lines = run.dump()
            for rank, pid in run.pids().items():
                logged = told_calls(run, rank, version)
                expect(len(logged) > 10, f"rank {rank} logged only {len(logged)} calls")
                expect_same_calls(logged, recorded_calls(lines, pid, TOLD), rank)
    return test


def is_found(value, version, **more):
    """The plugin found by NCCL_PROFILER_PLUGIN=value in a job without the shim."""
    environment = {"NCCL_PROFILER_PLUGIN": value, "ROLLCALL_EMULATE_PROFILER": str(version), **more}
    with Job(RANKS, ARGUMENTS, environment=environment,
             way=Way("plugin-v7")) as run:
        expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
        rings = os.path.isdir(run.run_directory) and os.listdir(run.run_directory)
        return bool(rings)


def look_up():
    path = {"LD_LIBRARY_PATH": os.path.dirname(job.PLUGIN)}
    name = os.path.basename(job.PLUGIN)
    with Job(RANKS, []) as folder:
        default = os.path.join(folder.folder, "libnccl-profiler.so")
        shutil.copy(job.PLUGIN, default)
        long = os.path.join(folder.folder, *["d" * 100] * 3)
        os.makedirs(long)
        long = shutil.copy(job.PLUGIN, os.path.join(long, name))
        cases = [
            ("rollcall", 7, True, path),   # libnccl-profiler-rollcall.so
            ("rollcall", 4, True, path),
            ("rollcall", 2, False, path),  # up to 2.25: what is said and nothing else
            (name, 2, True, path),
            (job.PLUGIN, 1, True, {}),
            ("libnone.so", 7, False, path),
            ("none", 7, False, path),
            ("", 7, True, {"LD_LIBRARY_PATH": folder.folder}),  # libnccl-profiler.so
            ("/nowhere/" + name, 7, False, path),
            (long, 2, True, {}),
            (long, 3, False, {}),  # 2.26 and later have room for 254 letters
            ("nowhere", 5, True, {"NCCL_NET_PLUGIN": job.PLUGIN}),  # 2.28: a network plugin's
            ("nowhere", 4, False, {"NCCL_NET_PLUGIN": job.PLUGIN}),
        ]
        for value, version, expected, more in cases:
            expect_equal(is_found(value, version, **more), expected,
                         f"{value[-60:]!r} found through version {version} with {list(more)}")


def static_plugin():
    """Any beginning of STATIC_PLUGIN: what is preloaded."""
    for value in ("STATIC_PLUGIN", "s"):
        run_job({"NCCL_PROFILER_PLUGIN": value}).expect_enriched()


def second_copy():
    with Job(RANKS, []) as folder:
        copy = os.path.join(folder.folder, "libnccl-profiler-copy.so")
        shutil.copy(job.PLUGIN, copy)
        seen = run_job({"NCCL_PROFILER_PLUGIN": copy})
        seen.expect_enriched()
        alone = run_job({"NCCL_PROFILER_PLUGIN": copy, "LD_PRELOAD": job.PLUGIN},
                        way=Way("plugin-v7"))
        expect_equal(len(alone.runs), RANKS, "recorders of two copies of the plugin")


def other_version():
    """A copy of the plugin that says it is of another version, which takes no more bytes."""
    version = subprocess.run([job.ROLLCALL, "--version"], text=True, capture_output=True,
                             check=True).stdout.split()[1].rstrip(",")
    with open(job.PLUGIN, "rb") as file:
        content = file.read()
    own, other = f"rollcall\0{version}\0", f"rollcall\0{'9' * len(version)}\0"
    expect_equal(content.count(own.encode()), 1, "places that say the plugin's version")
    plain = run_job({})
    with Job(RANKS, []) as folder:
        path = os.path.join(folder.folder, "libnccl-profiler-other.so")
        with open(path, "wb") as file:
            file.write(content.replace(own.encode(), other.encode()))
        seen = run_job({"NCCL_PROFILER_PLUGIN": path})
        alone = run_job({"NCCL_PROFILER_PLUGIN": path}, way=Way("plugin-v7"))
    said = seen.stderr.count("another version of Rollcall is in this process")
    expect_equal(said, RANKS, f"lines of {RANKS} processes: {seen.stderr}")
    expect_equal(seen.called(), plain.called(), "the calls, as the preloaded library saw them")
    expect_equal(len(seen.runs), RANKS, "files of the run: one recorder per process")
    expect(all("launched_ns" not in line for line in seen.ops), "the other plugin was heard")
    seen.expect_clean()
    # By itself it is as good as any.
    expect_equal(alone.stderr.count("another version"), 0, f"lines about it: {alone.stderr}")
    expect_equal(len(alone.runs), RANKS, "files of the plugin alone")


def chained_to_itself():
    seen = run_job({"NCCL_PROFILER_PLUGIN": job.PLUGIN, "ROLLCALL_PLUGIN_CHAIN": job.SHIM})
    expect("ROLLCALL_PLUGIN_CHAIN" in seen.stderr, f"no word about it:\n{seen.stderr}")
    seen.expect_enriched()


def kernel_times(version):
    def test():
        seen = run_job({"NCCL_PROFILER_PLUGIN": job.PLUGIN, "ROLLCALL_PLUGIN_EVENTS": "kernelch",
                        "ROLLCALL_EMULATE_PROFILER": version, "ROLLCALL_GPU_TIMING": "off"},
                       arguments=MANY_SLOW_STEPS)
        finished = [line for line in seen.ops if line["finished_ns"] is not None]
        # The last ones may be dropped by NCCL 2.31, a Broadcast has none.
        expect(len(finished) > len(seen.ops) / 2, f"{len(finished)} of {len(seen.ops)} have times")
        for line in finished:
            expect(line["called_ns"] <= line["started_ns"] <= line["finished_ns"],
                   f"times of {line}")
        seen.expect_clean()
    return test


def times_behind_silent_broadcast():
    """NCCL 2.31 counts kernels by itself, without those that it does not tell of, and so finds the
    times of others behind them."""
    for is_silent in (True, False):
        seen = run_job({"NCCL_PROFILER_PLUGIN": job.PLUGIN, "ROLLCALL_PLUGIN_EVENTS": "kernelch",
                        "ROLLCALL_EMULATE_PROFILER": "7", "ROLLCALL_GPU_TIMING": "off",
                        "NCCL_ALLGATHERV_ENABLE": "0" if not is_silent else "1"},
                       arguments=MANY_SLOW_STEPS)
        by_comm = {}
        for line in seen.ops:
            if line["op"] != "GroupEnd":
                by_comm.setdefault((line["pid"], line["comm"]), []).append(line)
        behind = timed = 0
        for lines in by_comm.values():
            ops = [line["op"] for line in lines]
            first = ops.index("Broadcast") if is_silent and "Broadcast" in ops else len(ops)
            for line in lines[:first]:
                timed += line["finished_ns"] is not None
            for line in lines[first:]:
                behind += 1
                expect(line["started_ns"] is None and line["finished_ns"] is None,
                       f"times of {line}")
        expect_equal(behind > 0, is_silent, "calls behind a silent Broadcast")
        expect(timed >= (len(seen.ops) - behind) * 0.8, f"only {timed} have times")
        expect_equal(seen.count("plugin_kernel_lost") > 0, is_silent, "times that were not used")
        seen.expect_clean()


PHASES = ("initial_sync", "compute", "final_sync")


def phased_client(way, events, *arguments):
    with client(1, {"ROLLCALL_PLUGIN_EVENTS": events}, Way(way), *arguments) as run:
        expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
        return Seen(run)


def expect_phases_add_up(seen, what):
    """Those of an operation to no more than its time, those of all to the communicator's."""
    phased = [line for line in seen.ops if "phases_ns" in line]
    for line in phased:
        expect_equal(tuple(line["phases_ns"]), PHASES, f"{what}: phases of {line}")
        # The ends went through the recorder's clock and back, and a processor may have been taken
        # away between the readings of the two.
        span_ns = line["finished_ns"] - line["started_ns"] + 5_000_000
        expect(sum(line["phases_ns"].values()) <= span_ns, f"{what}: longer than itself: {line}")
    for comm in seen.comms:
        mine = [line for line in phased if line["comm_rank"] == comm["rank"]]
        expect_equal(comm.get("phased_operations", 0), len(mine), f"{what}: operations of {comm}")
        for name in PHASES if mine else ():
            expect_equal(comm["phases_ns"][name], sum(line["phases_ns"][name] for line in mine),
                         f"{what}: sum of {name}")
    return phased


def phases_say_who_waits():
    """Rank 1 is late to every collective, so rank 0's symmetric kernels wait for it first."""
    for way in ("both-v7", "plugin-v7"):
        seen = phased_client(way, "phases", "windows", "late")
        seen.expect_clean()
        expect_equal(seen.count("plugin_kernel_lost"), 0, f"{way}: times not used")
        symmetric = {}
        for line in expect_phases_add_up(seen, way):
            if line.get("algorithm") == "symmetric":
                symmetric[line["comm_rank"], line["seq"]] = line
            else:
                expect_equal(line["phases_ns"]["initial_sync"], 0, f"{way}: initial_sync of {line}")
        pairs = [(symmetric[0, seq], symmetric[1, seq]) for rank, seq in symmetric
                 if rank == 0 and (1, seq) in symmetric]
        expect(pairs, f"{way}: no symmetric kernel is on file for both ranks")
        for line, late in pairs:
            expect(late["called_ns"] - line["called_ns"] >= LATE_S * 1e9, f"{way}: {late} is early")
            # It waits until the other has called at least, whenever the machine lets it begin. The
            # shim's own start is that of an event, some time before the kernel's.
            missed_ns = late["called_ns"] - line["started_ns"] - 10_000
            expect(Way(way).shim or line["phases_ns"]["initial_sync"] >= missed_ns,
                   f"{way}: rank 0 met rank 1 before that called: {line}, {late}")
        # NCCL 2.31 may drop the last kernel of a communicator that ends.
        reductions = [line for line in seen.ops if line["op"] == "AllReduce"]
        expect_equal(len(reductions), 2 * RANKS, f"{way}: AllReduces")
        for line in reductions:
            expect("phases_ns" in line, f"{way}: no phases in {line}")
        by_rank = {entry["rank"]: entry for entry in seen.stats["kernel_phases"]}
        expect_equal(sorted(by_rank), [0, 1], f"{way}: ranks in rollcall stats")
        expect(by_rank[0]["phases_ns"]["initial_sync"] > by_rank[1]["phases_ns"]["initial_sync"],
               f"{way}: rank 0 waits for rank 1: {by_rank}")


def phases_of_other_kernels():
    """They wait inside their work, and sends and receives have none."""
    seen = phased_client("both-v7", "phases", "late")
    phased = expect_phases_add_up(seen, "usual kernels")
    expect_equal({line["op"] for line in phased}, {"AllReduce"}, "operations with phases")
    for line in phased:
        expect_equal(line["phases_ns"]["initial_sync"], 0, f"initial_sync of {line}")
    for way, events in (("both-v7", "all"), ("both-v6", "phases"), ("plugin-v4", "phases")):
        seen = phased_client(way, events)
        expect_equal(expect_phases_add_up(seen, way), [], f"{way}, {events}: phases nobody told of")
        expect_equal(seen.stats["kernel_phases"], [], f"{way}, {events}: phases in stats")
        seen.expect_clean()


def everything_between_nodes():
    """All event types, with network steps, from every thread that NCCL has."""
    for version in ("7", "6", "4", "2"):
        for way in ("both", "plugin"):
            seen = run_job({"ROLLCALL_PLUGIN_EVENTS": "all,phases",
                            "ROLLCALL_EMULATE_GPUS_PER_NODE": "1"},
                           way=Way(f"{way}-v{version}"))
            expect_equal(len(seen.runs), RANKS, "files of the run")
            seen.expect_clean()


def channels_of(run):
    """What the plugin summed up per channel, of all processes, by docs/FORMAT.md:
    (pid, communicator, peer, channel, is_send) -> (operations done, steps done, bytes)."""
    sums = {}
    for name in os.listdir(run.run_directory):
        if not name.endswith(".ring"):
            continue
        with open(os.path.join(run.run_directory, name), "rb") as file:
            content = file.read()
        pid = struct.unpack_from("<I", content, 160)[0]
        offset, _, entries, entry_bytes = struct.unpack_from("<QQII", content, 640)
        for at in range(offset, offset + entries * entry_bytes, entry_bytes):
            state, comm, peer, channel, is_send = struct.unpack_from("<IIiBB", content, at)
            if state == 1:
                started, *done = struct.unpack_from("<4Q", content, at + 16)
                expect_equal(done[0], started, f"operations of {name} that are over")
                sums[(pid, comm, peer, channel, bool(is_send))] = tuple(done)
    return sums


def link_of(line):
    """Of a line of dump, or a link of stats."""
    return line["comm"], line.get("comm_rank", line.get("rank")), line["peer"], line["direction"]


def expect_channels_of_file(run, seen):
    """What the commands print is what the files hold, and a link's are its channels' sums."""
    untold = -1  # steps without bytes: NCCL does not tell them
    in_files = sorted((pid, peer, channel, is_send, operations, steps,
                       moved if moved or not steps else untold)
                      for (pid, _, peer, channel, is_send), (operations, steps, moved)
                      in channels_of(run).items())
    expect(in_files, "no channel in the files")
    printed = sorted((line["pid"], line["peer"], line["channel"], line["direction"] == "send",
                      line["operations_done"], line["steps"],
                      untold if line["bytes"] is None else line["bytes"])
                     for line in seen.channels)
    expect_equal(printed, in_files, "channels in rollcall dump")
    expect_equal({line["comm"] for line in seen.channels} - {line["key"] for line in seen.comms},
                 set(), "communicators that only channels name")
    links = seen.stats["links"]
    expect_equal({link_of(link) for link in links}, {link_of(line) for line in seen.channels},
                 "links in rollcall stats")
    for link in links:
        mine = [line for line in seen.channels if link_of(line) == link_of(link)]
        expect_equal(link["channels"], len(mine), f"channels of {link}")
        for name in ("operations_started", "operations_done", "steps"):
            expect_equal(link[name], sum(line[name] for line in mine), f"{name} of {link}")
        moved = sum(line["bytes"] or 0 for line in mine)
        expect_equal(link["bytes"], None if link["steps"] and not moved else moved,
                     f"bytes of {link}")
        for name, wait_ns in link["waits_ns"].items():
            expect_equal(wait_ns, sum(line["waits_ns"][name] for line in mine), f"{name} of {link}")
    for line in seen.channels:
        expect_equal((line["waiting"], line["waiting_since_ns"]), (None, None),
                     f"what is waited for after the end: {line}")
    text = run.rollcall("stats", run.run_directory).stdout
    for title in ("sends", "receives"):
        expect_equal(f"\n{title} over the network" in text,
                     any(title.startswith(link["direction"][:3]) for link in links),
                     f"table of {title} in {text}")


def late_rank_is_seen():
    """Rank 1 is late to four of five steps, by more than a busy machine makes others late: the
    others' receives wait, its own do not."""
    delay_s = 0.5
    arguments = ["--steps", "5", "--bucket-elements", "64", "--dp", "4", "--fault",
                 "straggler@1:1", "--straggler-delay-ms", str(int(delay_s * 1000))]
    environment = {"ROLLCALL_PLUGIN_EVENTS": "proxy", "ROLLCALL_EMULATE_GPUS_PER_NODE": "1"}
    for way in ("both-v7", "plugin-v4"):
        with Job(4, arguments, environment=environment, way=Way(way)) as run:
            expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
            seen = Seen(run)
            expect_channels_of_file(run, seen)
        seen.expect_clean()
        received = [link for link in seen.stats["links"] if link["direction"] == "recv"]
        longest = max(received, key=lambda link: link["waits_ns"]["recv_network"])
        received = [link for link in received if link["comm"] == longest["comm"]]
        expect_equal(len(received), 4, f"{way}: receivers of {longest['comm_name']}")
        expect_equal(received[0], longest, f"{way}: the first of its communicator")
        expect_equal(received[-1]["rank"], 1, f"{way}: who waits least")
        for link in received[:-1]:
            expect_equal(link["longest_wait"], "recv_network", f"{way}: {link}")
            # Two channels each.
            expect(link["waits_ns"]["recv_network"] / 1e9 > 2 * 4 * delay_s / 2, f"{way}: {link}")
            expect(link["network_to_median"] > received[-1]["network_to_median"], f"{way}: {link}")


def open_waits(run):
    return [line for line in run.dump() if line["type"] == "channel" and line["waiting"]]


def without_times(line):
    return {name: value for name, value in line.items()
            if name not in ("waiting_since_ns", "waits_ns")}


def waits_of_a_hang_are_open():
    """Rank 1 leaves out a call: what rank 0 waits for is on record, and since when."""
    environment = {"ROLLCALL_PLUGIN_EVENTS": "proxy", "ROLLCALL_EMULATE_GPUS_PER_NODE": "1"}
    with Job(RANKS, [*ARGUMENTS, "--fault", "missing-call@1:1"], environment=environment,
             way=Way("both-v7")) as run:
        run.start()
        run.wait_until(lambda: run.planted_fault(1), "the planted fault")
        expect(not run.wait_for_end_or_hang(), f"the job ended\n{run.describe()}")
        started_ns = min(line["called_ns"] for line in run.dump() if line["type"] == "op")
        waits = open_waits(run)
        run.kill()
        left = open_waits(run)
        # An anchor of the clock more, and the same ticks are a nanosecond later or earlier.
        moved_ns = [abs(one["waiting_since_ns"] - other["waiting_since_ns"])
                    for one, other in zip(left, waits)]
        expect(max(moved_ns, default=0) < 1000, f"times have moved: {moved_ns}")
        expect_equal([without_times(line) for line in left],
                     [without_times(line) for line in waits], "what is on file after SIGKILL")
    expect({"send_gpu", "recv_network"} <= {line["waiting"] for line in waits},
           f"waits of a hang: {waits}")
    for line in waits:
        expect(line["operations_done"] < line["operations_started"], f"nothing is open in {line}")
        expect(line["waiting_since_ns"] > started_ns, f"since before the job: {line}")


def nothing_of_steps_that_nobody_told():
    """Without the events, and with them where all ranks share a node."""
    for environment in ({"ROLLCALL_EMULATE_GPUS_PER_NODE": "1"},
                        {"ROLLCALL_PLUGIN_EVENTS": "proxy"}):
        with Job(RANKS, ARGUMENTS, environment=environment, way=Way("both-v7")) as run:
            expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
            seen = Seen(run)
            text = run.rollcall("stats", run.run_directory).stdout
        expect_equal(seen.channels, [], f"channels with {environment}")
        expect_equal(seen.stats["links"], [], f"links with {environment}")
        expect("AllReduce" in text and "over the network" not in text,
               f"rollcall stats with {environment}: {text}")


PXN_RANKS = 4


def run_between_nodes(way, pxn):
    """Two nodes of two ranks; what was recorded, by rank in place of the process's number."""
    environment = {"ROLLCALL_PLUGIN_EVENTS": "proxy", "ROLLCALL_EMULATE_GPUS_PER_NODE": "2",
                   "ROLLCALL_EMULATE_PXN": pxn}
    arguments = ["--steps", "4", "--bucket-elements", "4096", "--dp", str(PXN_RANKS)]
    with Job(PXN_RANKS, arguments, environment=environment, way=Way(way)) as run:
        expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
        ranks = {pid: rank for rank, pid in run.pids().items()}
        channels = {(ranks[pid], *key): sums for (pid, *key), sums in channels_of(run).items()}
        codes = [finding["code"] for finding in run.diff()["findings"]]
        seen = Seen(run)
        expect_channels_of_file(run, seen)
        return seen, codes, channels


def operations(channels, sends):
    return sum(sums[0] for key, sums in channels.items() if key[-1] == sends)


def served_by_another_process():
    """With PXN a rank's sends are told in another process, with its own context and parent, which
    may have the value of a context or an operation there."""
    for way in ("both-v7", "plugin-v6", "plugin-v4", "both-v1"):
        plain, plain_codes, own = run_between_nodes(way, "0")
        seen, codes, served = run_between_nodes(way, "1")
        plain.expect_clean()
        expect(operations(own, True) > 0, f"{way}: no sends without PXN")
        expect_equal(seen.called(), plain.called(), f"{way}: the calls")
        expect_equal(codes, plain_codes, f"{way}: the verdict")
        for counters in seen.counters:
            expect(counters["plugin_foreign"] > 0, f"{way}: nothing of another process: {counters}")
        for counter in ("plugin_stale", "plugin_null", "plugin_stopped_twice", "plugin_unwanted",
                        "checks_failed"):
            expect_equal(seen.count(counter), 0, f"{way}: {counter}")
        # What was told elsewhere is in nobody's sums, and everything else is as before.
        for key, sums in own.items():
            if not key[-1]:
                expect_equal(served.get(key), sums, f"{way}: what {key} received")
        more = set(served) - set(own)
        expect(not more, f"{way}: channels that nobody has: {more}")
        expect(operations(served, True) + seen.count("plugin_foreign") <= operations(own, True),
               f"{way}: sends of {served}")


def facts_of(seen):
    """What is on file of the libraries; the same in every process."""
    facts = [{key: line["meta"].get(key) for key in LIBRARIES} for line in seen.runs]
    for fact in facts:
        expect_equal(fact, facts[0], "what two ranks say of their libraries")
    return facts[0]


def facts_are_the_shims():
    told = facts_of(run_job({}))
    expect(all(told.values()), f"what the shim says of the libraries: {told}")
    for version in ("7", "4", "1"):
        seen = run_job({}, way=Way(f"plugin-v{version}"))
        expect_equal(facts_of(seen), told, f"the libraries, by version {version} alone")
        for line in seen.runs:
            expect("env.NCCL_PROFILER_PLUGIN" in line["meta"], f"no environment in {line}")


def verdicts_of(environment, odd):
    """The codes and sentences on a job of which rank 1 alone has `odd` in its environment."""
    script = f'[ "$RANK" = 1 ] && export {odd}; exec "$0" "$@"' if odd else 'exec "$0" "$@"'
    with Job(RANKS, ARGUMENTS, environment=environment, way=Way("plugin-v7"),
             program=["/bin/sh", "-c", script, job.MINI_TRAIN]) as run:
        expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
        return {finding["code"]: finding["summary"] for finding in run.diff()["findings"]}


def disagreement_is_found():
    for odd, code in (("NCCL_ALGO=Tree", "RC-ENV-MISMATCH"),
                      ("ROLLCALL_EMULATE_DRIVER_VERSION=13010", "RC-VERSION-MISMATCH")):
        found = verdicts_of({}, odd)
        expect(code in found, f"{odd} on one rank: {found}")
        expect("differs between ranks" in found[code], f"{code}: {found[code]}")
        for both in ("RC-ENV-MISMATCH", "RC-VERSION-MISMATCH"):
            expect((both in found) == (both == code), f"{odd} on one rank: {found}")
    # A name that no release reads: judged by the version that the plugin found.
    found = verdicts_of({"NCCL_ALGOO": "Tree"}, None)
    expect("NCCL_ALGOO" in found.get("RC-ENV-MISMATCH", ""), f"NCCL_ALGOO on all ranks: {found}")
    found = verdicts_of({}, None)
    expect_equal([code for code in found if code.startswith(("RC-ENV", "RC-VERSION"))], [],
                 "codes of a job whose ranks agree")


def grouped_transfers_are_no_circle():
    """Up to version 4 nobody tells of groups: the parts of a ring do not wait in turn for that."""
    for version in (1, 2, 4, 7):
        for fault in ([], ["count"]):
            with Job(3, program=[sys.executable, RING], way=Way(f"plugin-v{version}")) as run:
                run.command += [run.folder, *fault]
                run.start()
                if not fault:
                    expect_equal(run.wait(), 0, f"the job's status ({run.describe()})")
                    expect_equal(run.diff()["findings"][0]["code"], "RC-IN-LOCKSTEP",
                                 f"the verdict by version {version}")
                    continue
                stale = ("diff", run.run_directory, "--stalled-after", "1")
                run.wait_until(lambda: ", hang," in run.rollcall(*stale).stdout, "a hang")
                leading = run.diff("--stalled-after", "1")["findings"][0]
                expect_equal((leading["code"], [line["rank"] for line in leading["culprits"]]),
                             ("RC-COUNT-MISMATCH", [1]), f"by version {version}: {leading}")


def a_left_out_exchange_is_no_circle():
    """Alone the plugin sees an AlltoAll as the sends and receives that it is made of."""
    for version in (4, 5, 7):
        with Job(4, program=[sys.executable, RING], way=Way(f"plugin-v{version}")) as run:
            run.command += [run.folder, "experts", "missing"]
            run.start()
            stale = ("diff", run.run_directory, "--stalled-after", "1")
            run.wait_until(lambda: ", hang," in run.rollcall(*stale).stdout, "a hang")
            leading = run.diff("--stalled-after", "1")["findings"][0]
            expect_equal((leading["code"], [line["rank"] for line in leading["culprits"]]),
                         ("RC-P2P-UNMATCHED", [1]), f"by version {version}: {leading}")


def unloaded_and_loaded_again():
    rounds = 5
    for way in ("plugin-v7", "both-v6", "plugin-v2"):
        with client(rounds, {}, Way(way)) as run:
            expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
            seen = Seen(run)
        expect_equal(len(seen.runs), 1, f"files of one process, {way}")
        expect_equal(len(seen.comms), 2 * rounds, f"communicators, {way}")
        reductions = [line for line in seen.ops if line["op"] == "AllReduce"]
        expect_equal(len(reductions), 4 * rounds, f"AllReduces, {way}")
        expect_equal(seen.count("plugin_stale"), 0, "stale handles")


def other_ways_than_kernels():
    copies, symmetric = {"AllGather": "copy_engine", "AlltoAll": "copy_engine"}, {
        "AllReduce": "symmetric", "ReduceScatter": "symmetric"}
    # What NCCL tells of them grew: nothing of either's way in 2.28, of copies since 2.29.
    for version, told in ((5, {}), (6, copies), (7, copies | symmetric)):
        for way in ("plugin", "both"):
            with client_with_windows(f"{way}-v{version}") as run:
                expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
                seen = Seen(run)
            what = f"{way}, version {version}"
            calls = [line for line in seen.ops if line["op"] != "GroupEnd"]
            # Of a collective by copies NCCL 2.28 tells nothing whatever.
            silent = version == 5 and way == "plugin"
            expect_equal([line["op"] for line in calls if line["job_rank"] == 0][::RANKS],
                         [name for name in ("AllGather", "AlltoAll", "AllReduce", "AllReduce",
                                            "AllGather", "ReduceScatter")
                          if not (silent and name in copies)], f"calls, {what}")
            for line in calls:
                expect_equal(line.get("algorithm"), told.get(line["op"]), f"{what}: {line}")
                expect_equal("launched_ns" in line, line["op"] in told, f"launch, {what}: {line}")
            expect_user_tags(seen, version, what)
            seen.expect_clean()


def expect_user_tags(seen, version, what):
    """An event per communicator where the tag changes, with the ticket of the operation."""
    if version < 7:
        return expect_equal(seen.tags, [], f"user tags, {what}")
    tickets = {line["ticket"]: line["op"] for line in seen.ops}
    named = [(tag, tickets[ticket]) for tag, ticket in seen.tags]
    return expect_equal(named, [(USER_TAG, "AllReduce")] * RANKS + [(0, "ReduceScatter")] * RANKS,
                        f"user tags, {what}")


def heard(log):
    """The counting plugin's log with everything that differs from run to run taken out: the
    identifiers of communicators, the order in which they were made, the numbers of handles. Up to
    version 3 nobody says at the making which rank it is: the first event's is #0."""
    names, lines, made = {}, [], []
    for line in log.splitlines():
        init = re.fullmatch(r"init \d+ (\d+)/(\d+) -> (\d+)", line)
        if init:
            names[init[3]] = f"rank {init[1]}"
            made.append(f"init rank {init[1]} of {init[2]}")
            continue
        if re.fullmatch(r"init -> \d+", line):
            made.append("init")
            continue
        lines.append(re.sub(r"((?:in|under|of|->|stop|finalize|group) )([1-9]\d*)",
                            lambda match: match[1] + names.setdefault(match[2], f"#{len(names)}"),
                            line))
    return sorted(made), lines


def log_of(plugin, version, mask, environment, arguments, make_client):
    """What the counting plugin `plugin` hears of a job without the shim."""
    settings = {"COUNTING_PLUGIN_MASK": mask, "ROLLCALL_EMULATE_PROFILER": version,
                "NCCL_CTA_POLICY": "2", **environment}
    with make_client(1, settings, Way("plugin-v7"), *arguments) as run:
        path = run.environment["COUNTING_PLUGIN_LOG"] = os.path.join(run.folder, "heard")
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        expect(os.path.exists(path), f"{plugin} was not loaded ({run.describe()})")
        with open(path, encoding="utf-8") as file:
            return heard(file.read())


def chain_hears(suffix, version, mask, *arguments, make_client=client):
    plugin = COUNTING.format(suffix)
    more = (arguments, make_client)
    alone = log_of(plugin, version, mask, {"NCCL_PROFILER_PLUGIN": plugin}, *more)
    expect(len(alone[1]) > 2, f"alone it hears only {alone}")
    behind = log_of(plugin, version, mask, {"ROLLCALL_PLUGIN_CHAIN": plugin}, *more)
    expect_equal(behind, alone, f"what a chained plugin hears (version {suffix or 'any'} behind "
                 f"{version}, mask {mask})")


def chain():
    for suffix, version in (("", "7"), ("", "5"), ("", "4"), ("", "3"), ("", "1"), ("_v4", "7"),
                            ("_v5", "7")):
        for mask in ("0x2", "0x4", "0xf07"):
            chain_hears(suffix, version, mask)


def chain_of_other_ways():
    """Also where only what is inside a collective by copies is wanted: CeBatch alone."""
    for suffix, version, mask in (("", "7", "0x7f07"), ("", "6", "0x7f07"), ("", "7", "0x4000"),
                                  ("_v5", "7", "0xf07"), ("_v4", "7", "0x7")):
        chain_hears(suffix, version, mask, "windows")


def main():
    return job.main([
        ("the plugin's file named beside the shim: one record per call, enriched",
         one_record_with_both(job.PLUGIN, "6")),
        ("so it is through the interface of NCCL 2.27", one_record_with_both(job.PLUGIN, "4")),
        ("so it is through the first interface", one_record_with_both(job.PLUGIN, "1")),
        ("the shim's own file named as plugin: the same", one_record_with_both(job.SHIM, "7")),
        ("alone, the plugin records every call in order, all but its reduction",
         alone_call_for_call(7)),
        ("so it does with NCCL 2.28", alone_call_for_call(5)),
        ("so it does with NCCL 2.27, which tells of launches", alone_call_for_call(4)),
        ("so it does with NCCL 2.23", alone_call_for_call(1)),
        ("alone, it says of NCCL, CUDA and the environment what the shim says",
         facts_are_the_shims),
        ("alone, it leads to the verdicts on settings and versions that differ",
         disagreement_is_found),
        ("NCCL finds the plugin by its rules, release by release", look_up),
        ("STATIC_PLUGIN means what is preloaded", static_plugin),
        ("a copy of the plugin under another name joins the first", second_copy),
        ("a plugin of another version beside the preloaded library stays off and says so",
         other_version),
        ("Rollcall is not chained to itself", chained_to_itself),
        ("KernelCh events give operations their times on the GPU", kernel_times("6")),
        ("so they do from NCCL 2.31's profiler thread", kernel_times("7")),
        ("behind a Broadcast that NCCL 2.31 does not tell of its times are not used",
         times_behind_silent_broadcast),
        ("kernel phases of NCCL 2.31 are kept with their operation, and say who waits for whom",
         phases_say_who_waits),
        ("kernels without an initial wait, and releases without phases, are told as they are",
         phases_of_other_kernels),
        ("all types of events from all threads leave nothing stale", everything_between_nodes),
        ("network steps say who is waited for: all receive late but the late rank",
         late_rank_is_seen),
        ("what a hung job's network steps wait for is in the dump, also after SIGKILL",
         waits_of_a_hang_are_open),
        ("where nobody tells of network steps no command speaks of them",
         nothing_of_steps_that_nobody_told),
        ("sends that another process carries out (PXN) are counted and added to nobody's sums",
         served_by_another_process),
        ("alone, it makes no circle of a ring in groups, whatever is wrong behind it",
         grouped_transfers_are_no_circle),
        ("alone, it names who leaves out an AlltoAll", a_left_out_exchange_is_no_circle),
        ("the plugin survives being unloaded and loaded again", unloaded_and_loaded_again),
        ("a chained plugin hears what it would hear alone", chain),
        ("collectives by copy engines, symmetric kernels and user tags are on record, as far as "
         "NCCL tells of them", other_ways_than_kernels),
        ("a chained plugin hears of copies, symmetric kernels and tags what it would hear alone",
         chain_of_other_ways),
    ])


if __name__ == "__main__":
    sys.exit(main())
