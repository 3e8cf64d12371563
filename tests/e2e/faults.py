#!/usr/bin/env python3
"""Each fault that mini_train can plant yields its verdict, with the rank and the position.

    faults.py KIND [RANKS…]

The job is judged twice: while it hangs, and after SIGKILL has taken all of it. How it is recorded
says ROLLCALL_E2E_WAY (job.py). The profiler plugin alone does not hear of everything: of some
faults it can give a weaker verdict only, and must then say how weak it is.
"""
import subprocess
import sys

import job
from job import Failure, Job, expect, expect_equal

STEP = 1  # not the first: the step before it gives the analysis a healthy example
# The rank at fault, by the number of ranks: neither the first nor the last where there is a choice,
# and in the first half, which is the first pipeline stage.
CULPRIT = {2: 1, 4: 1, 8: 2, 16: 5}
P2P = ("p2p-unmatched", "p2p-cycle", "p2p-count")
# Two of two ranks differ: nobody can say which is wrong, and both are named.
NO_MAJORITY = ("op", "count", "dtype", "redop", "root", "order", "extra-call", "missing-call",
               "split-mismatch")
# No single call is the culprit's: it ended or left, or never had a communicator.
WITHOUT_POSITION = ("init-missing", "split-mismatch", "abort", "straggler", "stream-order",
                    "stream-block", "wait-outside", "graph-replay",
                    "graph-kept", "none")
# These jobs do what they should, and these end by themselves.
HEALTHY = ("none", "straggler", "stream-order")
ENDING = (*HEALTHY, "abort")
# A rank that was stopped when everything was killed: the files show a rank that fell silent before
# the others, and only the process itself could have told why.
AFTER_SIGKILL = {"stop": "RC-RANK-DEAD"}
STATUS = {"RC-IN-LOCKSTEP": 0, "RC-INSUFFICIENT": 3}
# A job that runs may be busy with something else: a risk.
STATUS_OF_LIVE = {"RC-STUCK-OUTSIDE": 4}
# What only the GPUs tell apart, and the verdict where nobody watches them. They are judged with
# every operation timed, however slow the machine is.
UNWATCHED = {"stream-block": "RC-INSUFFICIENT", "wait-outside": "RC-INSUFFICIENT",
             "graph-capture": "RC-MISSING-CALL", "graph-replay": "RC-INSUFFICIENT"}
EVERY_OPERATION = {"ROLLCALL_OVERHEAD_BUDGET": "100"}

# What the profiler plugin alone makes of a fault that it hears nothing of: reductions are in no
# event, and neither creations nor ends have one. The ranks that hang in a creation look silent.
HEARD_OTHERWISE = {"redop": "RC-IN-LOCKSTEP", "abort": "RC-MISSING-CALL",
                   "split-mismatch": "RC-MISSING-CALL", "graph-kept": "RC-INSUFFICIENT"}
# From version 5 on NCCL tells it which calls are captured; the shim hears that with GPU timing.
HEARD_OF_CAPTURES = {"graph-capture": "RC-GRAPH-DIVERGED"}
KNOWS_CAPTURES = job.WATCHES_GPUS or job.WAY.version >= 5
# A rank that waits for its peers to join a communicator has not reached the plugin yet.
UNSEEN = ("init-missing",)
# How sure a verdict from the plugin alone may be at the most.
CONFIDENCE = ("certain", "likely", "open")
SILENCE = ("RC-MISSING-CALL", "RC-P2P-UNMATCHED", "RC-INIT-INCOMPLETE")
ORDER = ("RC-ORDER-MISMATCH", "RC-OP-MISMATCH", "RC-DEADLOCK-COMMS", "RC-DEADLOCK-P2P")
PLUGIN_ALONE = job.WAY.plugin and not job.WAY.shim


def heard(kind, verdict):
    """What becomes of the verdict on this fault in the way that this job is recorded."""
    if not job.WATCHES_GPUS:
        verdict = UNWATCHED.get(kind, verdict)
    if KNOWS_CAPTURES:
        verdict = HEARD_OF_CAPTURES.get(kind, verdict)
    return HEARD_OTHERWISE.get(kind, verdict) if PLUGIN_ALONE else verdict


def expected_verdicts():
    done = subprocess.run([job.MINI_TRAIN, "--list-faults"], text=True, capture_output=True,
                          check=False, env=job.clean_environment({"LD_LIBRARY_PATH": job.EMULATOR}))
    expect_equal(done.returncode, 0, f"exit status of --list-faults ({done.stderr})")
    return {line.split("\t")[0]: line.split("\t")[1] for line in done.stdout.splitlines()}


class Case:
    """One fault in a job of one size."""

    def __init__(self, kind, ranks, verdict):
        self.kind = kind
        self.ranks = ranks
        self.verdict = verdict
        self.shapes = job.PIPELINE_SHAPES if kind in P2P else job.SHAPES
        # With two ranks only the first is in a stage that sends forwards.
        self.culprit = 0 if ranks == 2 and kind in P2P else CULPRIT[ranks]

    def arguments(self):
        fault = "none" if self.kind == "none" else f"{self.kind}@{self.culprit}:{STEP}"
        return ["--steps", "3", "--bucket-elements", "256", "--fault", fault,
                *job.shape_arguments(self.ranks, self.shapes)]

    def check(self, run, report, when):
        """Raises Failure with the whole report where it is not what the fault deserves."""
        try:
            self.check_report(run, report, is_live="while" in when)
        except Failure as failure:
            planted = run.planted_fault(self.culprit)
            raise Failure(f"{self.kind} at {self.ranks} ranks, judged {when}: {failure}\n"
                          f"planted: {planted}\n{run.diff_text()}") from None

    def check_report(self, run, report, is_live):
        leading = report["findings"][0]
        expect_equal(leading["code"], self.verdict, "the leading verdict")
        status = STATUS.get(self.verdict, 1)
        expect_equal(report["status"], STATUS_OF_LIVE.get(self.verdict, status) if is_live else
                     status, "the exit status")
        expect_equal(len(report["findings"]), 1, "findings that stand beside each other")
        expect(leading["summary"], "the summary is empty")
        if PLUGIN_ALONE:
            self.check_modesty(leading)
        if self.verdict == "RC-STUCK-IN-CALL":
            expect_equal("captured into CUDA graphs" in leading["summary"], KNOWS_CAPTURES,
                         f"a word of what NCCL waits for: {leading}")
        if self.verdict in (*STATUS, *STATUS_OF_LIVE) or (
                PLUGIN_ALONE and self.kind == "split-mismatch"):
            return
        self.check_culprit(run, leading)

    def check_modesty(self, leading):
        """The plugin alone is not certain of what it has not heard, and says so."""
        code = leading["code"]
        if code == "RC-IN-LOCKSTEP":
            expect("reductions" in leading["summary"], f"no word of reductions: {leading}")
            # Two splits of a parent by one colour: one identifier in NCCL 2.23.
            mistakable = self.ranks == 4 and job.WAY.version == 1
            expect(mistakable == ("NCCL 2.23" in leading["summary"]), f"not compared: {leading}")
        elif code in SILENCE or code == "RC-GRAPH-DIVERGED" or (
                code in ORDER and not job.WAY.calls):
            expect("the profiler plugin" in leading["summary"], f"no word of the plugin: {leading}")
            quoted = [evidence["text"] for evidence in leading["evidence"]]
            expect("recorded by the profiler plugin alone" in quoted, f"the evidence is {quoted}")
        else:
            return
        # All but a few ranks "silent": it is not for them to be blamed with any confidence.
        least = "open" if self.kind == "split-mismatch" else "likely"
        expect(CONFIDENCE.index(leading["confidence"]) >= CONFIDENCE.index(least),
               f"confidence {leading['confidence']} of {leading}")

    def check_culprit(self, run, leading):
        culprits = {culprit["rank"]: culprit for culprit in leading["culprits"]}
        expect(self.culprit in culprits, f"rank {self.culprit} is not among {sorted(culprits)}")
        alone = not (self.kind in ("comm-order", "p2p-cycle", "p2p-count")
                     or (self.kind in NO_MAJORITY and self.ranks == 2))
        if alone:
            expect_equal(sorted(culprits), [self.culprit], "the culprits")
        if self.kind not in WITHOUT_POSITION:
            self.check_position(run, culprits[self.culprit])

    def check_position(self, run, culprit):
        planted = run.planted_fault(self.culprit)
        keys = run.communicator_keys()[self.culprit]
        expect_equal(culprit["comm"], keys[planted["comm"]],
                     f"the communicator ({planted['comm']} of {keys})")
        if self.kind in ("comm-order", "p2p-cycle"):
            return  # the cycle has several positions; the analysis may begin anywhere
        if planted["peer"] is None:
            expect_equal(culprit["seq"], planted["seq"], "seq")
        else:
            expect_equal(culprit["p2p_seq"], planted["p2p_seq"], "p2p seq")
            expect_equal(culprit["peer"], planted["peer"], "peer")


def expect_no_recording(run):
    done = run.rollcall("diff", run.run_directory)
    expect_equal(done.returncode, 2, f"exit status of diff\n{done.stdout}{done.stderr}")
    expect("no recording" in done.stderr, f"what it says: {done.stderr}")


def judge(case):
    environment = EVERY_OPERATION if case.kind in UNWATCHED else None
    with Job(case.ranks, case.arguments(), environment=environment) as run:
        run.start()
        if case.kind not in ("none", "straggler"):
            run.wait_until(lambda: run.planted_fault(case.culprit) or not run.running(),
                           "the planted fault")
            expect(run.planted_fault(case.culprit),
                   f"the job ended before the fault was planted\n{run.describe()}")
        ended = run.wait_for_end_or_hang()
        if PLUGIN_ALONE and case.kind in UNSEEN:
            run.kill()
            return expect_no_recording(run)
        if not ended:
            expect(case.kind not in ENDING, f"the job hangs\n{run.describe()}")
            case.check(run, run.diff("--stalled-after", "1"), "while it hangs")
        run.kill()
        case.verdict = AFTER_SIGKILL.get(case.kind, case.verdict)
        case.check(run, run.diff(), "after its end" if ended else "after SIGKILL")
        if case.kind in HEALTHY:
            expect_equal(run.process.returncode, 0, f"the job's status ({run.describe()})")
        expect_equal(run.own_pids(), [], "ranks that are still there")
        return None


def main():
    kind = sys.argv[1]
    sizes = [int(word) for word in sys.argv[2:]] or [2, 8, 16]
    verdicts = expected_verdicts()
    expect(kind in verdicts, f"mini_train has no fault {kind}")
    verdict = heard(kind, verdicts[kind])
    tests = [(f"the fault {kind} among {ranks} ranks, recorded by {job.WAY.text}, is {verdict}",
              lambda ranks=ranks: judge(Case(kind, ranks, verdict))) for ranks in sizes]
    sys.argv[1:] = []
    return job.main(tests)


if __name__ == "__main__":
    sys.exit(main())
