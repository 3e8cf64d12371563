#!/usr/bin/env python3
"""Each classic of examples/pytorch yields its verdict, and a healthy run of each style none.

    pytorch_faults.py [--non-blocking] PYTHON [BACKEND [WORDS OF A SENTENCE]]

PYTHON is an interpreter that has PyTorch. Of the backends `nccl` and `nccl-legacy`, the recorded
calls are also held against the script's own log, and PyTorch's Flight Recorder dumps of the same
run are judged by themselves. With --non-blocking NCCL's calls come back before they are carried
out, as PyTorch 2.6 has it wherever a device is bound, and the GPU is timed.
"""
import os
import signal
import sys

import pytorch_job
import torch_calls
import witnesses
from pytorch_job import Failure, PytorchJob, Zygote, expect, expect_equal, job

sys.path.insert(0, pytorch_job.EXAMPLES)

import faults  # noqa: E402

RANKS = 4
STEP = 1
# Longer than a loaded machine takes for any collective of a healthy job.
WATCHDOG_S = 15
CULPRIT = {"rank0-only": 0, "new-group": 3, "crossed-pipeline": 1}
STEPS = {"new-group": 0}
# A cycle has no single culprit.
SEVERAL = ("group-order", "crossed-pipeline")
# Where a rank may be unable to dump: PyTorch holds the interpreter's lock while it creates a group,
# and the former backend waits in the end of an interpreter that has raised.
SILENT = ("new-group", "raise")
STYLES = ("ddp", "fsdp2", "tensor", "pipeline", "moe", "mixed")
# Whose calls the table of torch_calls describes, and whose Flight Recorder can be asked.
DESCRIBED = ("nccl", "nccl-legacy")
# What the dumps of a hanging job may lead with where they cannot tell why it hangs: a rank is dead,
# or cannot dump, or the circle is one of transfers, which the dumps do not tell the order of.
WEAKER = "RC-INSUFFICIENT"
UNTOLD = ("kill", "raise", "new-group", "crossed-pipeline")
NON_BLOCKING = "--non-blocking" in sys.argv
# 100: every operation is timed, however slow the machine that runs this test.
ENVIRONMENT = {"TORCH_NCCL_USE_COMM_NONBLOCKING": "1", "ROLLCALL_GPU_TIMING": "events",
               "ROLLCALL_OVERHEAD_BUDGET": "100"} if NON_BLOCKING else {}
IN_PROGRESS = 7
COMPARED = ("comm", "op", "count", "dtype", "redop", "root", "peer", "seq", "p2p_seq")


def group_name(communicator):
    """PyTorch names a communicator after its group, in the former backend behind a description."""
    return communicator["name"].rpartition(":")[2]


def expect_calls_of_log(run, is_legacy):
    """What was recorded is what the script's own log implies, call for call."""
    lines = run.dump()
    for rank in range(RANKS):
        pid = run.pids[rank]
        comms = {line["key"]: line for line in lines if line["type"] == "comm"
                 and line["pid"] == pid}
        places = {group_name(comm): torch_calls.Place(comm["rank"], comm["nranks"], is_legacy)
                  for comm in comms.values()}
        log = torch_calls.read_log(f"{run.call_log_prefix()}.{rank}")
        expected = torch_calls.expected_calls(log, places)
        expect(len(expected) > 10, f"rank {rank} logged only {len(expected)} calls")
        recorded = [{name: line[name] for name in COMPARED}
                    | {"comm": group_name(comms[line["comm"]])}
                    for line in lines
                    if line["type"] == "op" and line["pid"] == pid and line["op"] != "GroupEnd"]
        for position, (mine, theirs) in enumerate(zip(expected, recorded)):
            expect_equal(theirs, mine, f"call {position} of rank {rank}, recorded")
        expect_equal(len(recorded), len(expected), f"calls recorded of rank {rank}")
        expect_witnesses_agree(run, rank, expected, places)


def expect_witnesses_agree(run, rank, expected, places):
    """Two who know nothing of Rollcall: NCCL's log is the table's, PyTorch's dump the script's."""
    seen = [{name: value for name, value in operation.items() if name != "ranks"}
            for operation in witnesses.operations_of_log(run.nccl_log(rank))]
    expect_equal(seen, witnesses.with_numbered_groups(expected), f"NCCL's log of rank {rank}")
    dumped = torch_calls.expected_calls(
        witnesses.calls_of_dump(f"{run.dump_prefix()}.{rank}"), places)
    said = [{name: value for name, value in call.items() if theirs[name] is not None}
            for call, theirs in zip(expected, dumped)]
    expect_equal([{name: value for name, value in call.items() if value is not None}
                  for call in dumped], said, f"PyTorch's dump of rank {rank}")
    expect_equal(len(dumped), len(expected), f"calls in PyTorch's dump of rank {rank}")


def expect_dumps_agree(run, kind, culprit):
    """The verdict of PyTorch's dumps alone is the recorder's, or a weaker one that says so."""
    codes = (*kind.codes, WEAKER) if kind.name in UNTOLD else kind.codes
    run.remove_request_pipes()
    if not os.listdir(run.dumps):
        expect(kind.name in SILENT, f"no rank wrote a dump\n{run.describe()}")
        return
    report = run.diff(directory=run.dumps)
    text = run.diff_text(run.dumps)
    leading = report["findings"][0]
    expect(leading["code"] in codes, f"the dumps say {leading['code']}\n{text}")
    named = [one["rank"] for finding in report["findings"] for one in finding["culprits"]]
    expect(set(named) <= {culprit}, f"the dumps name the ranks {named}\n{text}")
    if leading["code"] != WEAKER:
        expect_equal(named[:1], [culprit], f"the culprit of the dumps\n{text}")


def expect_timed_without_blocking(run):
    """Each call came back early or not, was launched, and is through."""
    lines = run.dump()
    made = {line["how"]: line["non_blocking"] for line in lines if line["type"] == "comm"}
    expect_equal(made.get("init"), True, f"whether the communicators do not block ({made})")
    expect("unknown" not in made and None not in made, f"how communicators were made: {made}")
    calls = [line for line in lines if line["type"] == "op" and line["op"] != "GroupEnd"]
    expect(any(call["result"] == IN_PROGRESS for call in calls), "no call came back early")
    for call in calls:
        expect_equal(call["state"], "finished", f"the state of {call}")
        early = call["result"] == IN_PROGRESS
        expect(not early or call["called_ns"] <= call["launched_ns"] <= call["finished_ns"],
               f"the times of {call}")


def healthy(zygote, backend, style):
    is_described = backend in DESCRIBED and zygote.is_present
    with PytorchJob(zygote, RANKS, ["--parallel", style, "--backend", backend],
                    flight_recorder=is_described, environment=ENVIRONMENT) as run:
        run.wait_for_end_or_hang()
        expect_equal(run.statuses(), [0] * RANKS, f"exit statuses\n{run.describe()}")
        report = run.diff()
        expect_equal([finding["code"] for finding in report["findings"]], ["RC-IN-LOCKSTEP"],
                     f"the verdict\n{run.diff_text()}")
        expect_equal(report["run"]["ranks"], RANKS, "ranks of the run")
        if NON_BLOCKING:
            expect_timed_without_blocking(run)
        if is_described:
            expect_calls_of_log(run, backend == "nccl-legacy")
            run.remove_request_pipes()
            expect_equal(len(os.listdir(run.dumps)), RANKS, "PyTorch's dumps")
            dumps = run.diff(directory=run.dumps)
            expect_equal([finding["code"] for finding in dumps["findings"]], ["RC-IN-LOCKSTEP"],
                         f"the verdict of PyTorch's dumps\n{run.diff_text(run.dumps)}")


def faulty(zygote, backend, kind):
    culprit = CULPRIT.get(kind.name, 2)
    fault = f"{kind.name}@{culprit}:{STEPS.get(kind.name, STEP)}"
    is_described = backend in DESCRIBED and zygote.is_present
    with PytorchJob(zygote, RANKS, ["--fault", fault, "--backend", backend],
                    flight_recorder=is_described, environment=ENVIRONMENT) as run:
        ended = run.wait_for_end_or_hang(planted_by=culprit)
        expect("planted" in run.output(culprit), f"no fault was planted\n{run.describe()}")
        expect(not ended, f"the job does not hang\n{run.describe()}\n{run.diff_text()}")
        if is_described:
            run.dump_flight_recorder(may_be_silent=kind.name in SILENT)
        run.kill()
        leading = run.diff()["findings"][0]
        if os.environ.get("ROLLCALL_E2E_SHOW"):
            print(run.diff_text(), flush=True)
        try:
            expect(leading["code"] in kind.codes, f"{leading['code']} is none of {kind.codes}")
            culprits = sorted(one["rank"] for one in leading["culprits"])
            expect(culprit in culprits, f"rank {culprit} is not among the culprits {culprits}")
            if kind.name not in SEVERAL:
                expect_equal(culprits, [culprit], "the culprits")
        except Failure as failure:
            raise Failure(f"{fault}: {failure}\n{run.diff_text()}\n{run.describe()}") from None
        if is_described:
            expect_dumps_agree(run, kind, culprit)


def ended_by_watchdog(zygote, backend):
    """Nobody but PyTorch ends this job, and it writes its dumps unasked."""
    kind, culprit = faults.KINDS["shape"], 2
    arguments = ["--fault", f"{kind.name}@{culprit}:{STEP}", "--backend", backend, "--timeout",
                 str(WATCHDOG_S)]
    recorder = {"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_FR_DUMP_ON_TIMEOUT": "1",
                "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "2000", **ENVIRONMENT}
    with PytorchJob(zygote, RANKS, arguments, environment=recorder) as run:
        run.wait_until(lambda: not run.running(), "the end by PyTorch's watchdog")
        expect_equal(run.statuses(), [-signal.SIGABRT] * RANKS, f"exit statuses\n{run.describe()}")
        expect_equal(sorted(os.listdir(run.watchdog_dumps)),
                     [f"rank_{rank}" for rank in range(RANKS)], "PyTorch's dumps")
        for folder in (run.run_directory, run.watchdog_dumps):
            leading = run.diff(directory=folder)["findings"][0]
            text = run.diff_text(folder)
            expect_equal(leading["code"], kind.codes[0], f"the verdict of {folder}\n{text}")
            expect_equal([one["rank"] for one in leading["culprits"]], [culprit],
                         f"the culprits of {folder}\n{text}")


def main():
    if NON_BLOCKING:
        sys.argv.remove("--non-blocking")
    python = sys.argv[1]
    backend = sys.argv[2] if len(sys.argv) > 2 else "nccl"
    where = f"non-blocking {backend}" if NON_BLOCKING else backend
    zygote = Zygote(python)
    tests = [(f"a healthy {style} job on {where} is in lockstep",
              lambda style=style: healthy(zygote, backend, style)) for style in STYLES]
    tests += [(f"{kind.name} on {where}: a rank that {kind.description} is named",
               lambda kind=kind: faulty(zygote, backend, kind)) for kind in faults.KINDS.values()]
    if backend in DESCRIBED:
        tests.append((f"a job on {where} that PyTorch's watchdog ends is judged, by its records "
                      "and by the dumps that PyTorch wrote",
                      lambda: ended_by_watchdog(zygote, backend)))
    sys.argv[1:] = sys.argv[3:4]
    try:
        return job.main(tests)
    finally:
        zygote.close()


if __name__ == "__main__":
    sys.exit(main())
