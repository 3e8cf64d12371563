#!/usr/bin/env python3
"""Whether a job is started again, as packaging/nvrx/attribution.py answers NVIDIA's launcher."""
import http.client
import json
import os
import subprocess
import sys
import time

import job
from job import Job, expect, expect_equal

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "packaging", "nvrx", "attribution.py")


class Service:
    """`with Service(directory) as service: service.verdict("/logs/cycle0.log")`."""

    def __init__(self, directory, *options):
        self.process = subprocess.Popen(
            [sys.executable, SCRIPT, directory, "--port", "0",
             "--rollcall", os.path.abspath(job.ROLLCALL), *options],
            stdout=subprocess.PIPE, text=True)
        first = self.process.stdout.readline()
        self.port = int(first.rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=job.PATIENCE_S)
        try:
            connection.request(method, path, body)
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read())
        finally:
            connection.close()

    def post(self, log_path, intent="terminal"):
        body = json.dumps({"log_path": log_path, "analysis_intent": intent})
        return self.ask("POST", "/logs", body)[0]

    def state(self, log_path):
        status, body = self.ask("GET", f"/logs?log_path={log_path}&wait=false")
        expect_equal(status, 200, "status of an answer")
        return body

    def verdict(self, log_path):
        """What is recommended once the run is judged, and why."""
        expect_equal(self.post(log_path), 200, "status of a log that is handed in")
        deadline = time.monotonic() + job.PATIENCE_S
        while self.state(log_path)["status"] != "completed":
            expect(time.monotonic() < deadline, "no answer came")
            time.sleep(0.05)
        recommended = self.state(log_path)["recommendation"]
        return recommended["action"], recommended["reason"]


def recommended_after(fault, *options):
    with Job(4, ["--dp", "4", "--steps", "3", "--fault", fault],
             options=("--on-hang", "end", "--watch", "2")) as run, \
            Service(run.run_directory, *options) as service:
        run.start()
        run.wait()
        return service.verdict("/logs/cycle0.log")


def a_certain_fault_of_the_program_stops_the_job():
    action, reason = recommended_after("count@1:1")
    expect_equal(action, "STOP", f"recommended ({reason})")
    expect(reason.startswith("RC-COUNT-MISMATCH: "), reason)
    expect(reason.endswith("(certain, class program)"), reason)


def a_likely_fault_stops_the_job_only_where_that_is_asked_for():
    report = {"findings": [{"code": "RC-MISSING-CALL", "severity": "hang", "class": "program",
                            "confidence": "likely", "summary": "rank 1 left a call out"}]}
    sys.path.insert(0, os.path.dirname(SCRIPT))
    from attribution import recommendation_of
    expect_equal(recommendation_of(report, "certain")[0], "UNKNOWN", "by default")
    expect_equal(recommendation_of(report, "likely")[0], "STOP", "with --stop-when likely")
    for origin in ("node", "fabric", "outside"):
        report["findings"][0]["class"] = origin
        expect_equal(recommendation_of(report, "likely")[0], "RESTART", f"of class {origin}")
    report["findings"][0]["class"] = "unknown"
    expect_equal(recommendation_of(report, "likely")[0], "UNKNOWN", "of class unknown")
    report["findings"][0].update({"class": "program", "severity": "info", "confidence": "certain"})
    expect_equal(recommendation_of(report, "likely")[0], "UNKNOWN", "of what is no hang")


def nothing_is_recommended_before_the_attempt_is_over_or_without_a_record():
    with Job(2) as run, Service(run.run_directory) as service:
        expect_equal(service.post("/logs/cycle0.log", "progressive"), 200, "a log that grows")
        expect_equal(service.state("/logs/cycle0.log")["status"], "pending", "its state")
        action, reason = service.verdict("/logs/cycle0.log")
        expect_equal(action, "UNKNOWN", f"recommended without a record ({reason})")
        expect(run.run_directory in reason, reason)


def the_attempt_that_failed_is_judged_whatever_else_is_on_file():
    with Job(4, ["--dp", "4", "--steps", "3", "--fault", "count@1:1"],
             options=("--on-hang", "end", "--watch", "2")) as run:
        attempt = os.path.join(run.run_directory, "attempt-0")
        run.command[run.command.index(run.run_directory)] = attempt
        run.start()
        run.wait()
        with Service(run.run_directory) as service:
            expect_equal(service.verdict("/logs/cycle0.log")[0], "STOP", "after the first attempt")
            # One that failed before it called NCCL is not judged by the one before.
            os.mkdir(os.path.join(run.run_directory, "attempt-1"))
            action, reason = service.verdict("/logs/cycle1.log")
            expect_equal(action, "UNKNOWN", f"after the second ({reason})")
            expect_equal(service.state("/logs/cycle0.log")["recommendation"]["action"], "STOP",
                         "of the first attempt still")


def output_that_is_no_text_is_no_answer():
    with Job(2) as run:
        command = os.path.join(run.folder, "rollcall")
        with open(command, "w", encoding="utf-8") as script:
            script.write("#!/bin/sh\nprintf '\\377' >&2; printf '[\\377'\n")
        os.chmod(command, 0o755)
        with Service(run.run_directory, "--rollcall", command) as service:
            action, reason = service.verdict("/logs/cycle0.log")
            expect_equal(action, "UNKNOWN", f"recommended ({reason})")


def a_healthy_job_is_not_stopped():
    with Job(2, ["--dp", "2", "--steps", "3"]) as run, \
            Service(run.run_directory, "--stop-when", "likely") as service:
        run.start()
        expect_equal(run.wait(), 0, "status")
        action, reason = service.verdict("/logs/cycle0.log")
        expect_equal(action, "UNKNOWN", f"recommended ({reason})")


def what_is_no_request_is_refused_and_nothing_breaks():
    with Job(2) as run, Service(run.run_directory) as service:
        for body in ("", "[]", "{", '{"log_path": 7}', '{"log_path": ""}', "x" * 70000):
            expect_equal(service.ask("POST", "/logs", body)[0], 400, f"status of {body[:20]!r}")
        expect_equal(service.ask("GET", "/logs")[0], 404, "a question about no log")
        expect_equal(service.ask("GET", "/../etc/passwd")[0], 404, "another path")
        expect_equal(service.ask("GET", "/healthz")[0], 200, "health")


if __name__ == "__main__":
    sys.exit(job.main([
        ("a certain fault of the program stops the job",
         a_certain_fault_of_the_program_stops_the_job),
        ("a likely fault of the program stops the job only where that is asked for",
         a_likely_fault_stops_the_job_only_where_that_is_asked_for),
        ("nothing is recommended before the attempt is over, or without a record",
         nothing_is_recommended_before_the_attempt_is_over_or_without_a_record),
        ("the attempt that failed is judged, whatever else is on file",
         the_attempt_that_failed_is_judged_whatever_else_is_on_file),
        ("output that is no text is no answer", output_that_is_no_text_is_no_answer),
        ("a healthy job is not stopped", a_healthy_job_is_not_stopped),
        ("what is no request is refused, and nothing breaks",
         what_is_no_request_is_refused_and_nothing_breaks),
    ]))
