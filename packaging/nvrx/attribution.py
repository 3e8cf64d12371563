#!/usr/bin/env python3
"""Tells the launcher of NVIDIA's Resiliency Extension whether to start a job again.

  attribution.py RUN [--port 50051] [--rollcall COMMAND] [--stop-when likely]

RUN is the directory of `rollcall run -d RUN -- ft_launcher ...`. The launcher asks here, on the
host of its rendezvous:

  ft_launcher --ft-attribution-endpoint http://127.0.0.1:50051 \\
    --ft-attribution-stop-action no-restart --ft-per-cycle-applog-prefix /logs/job.log ...

When an attempt has failed it sends POST /logs. The newest attempt on file at that moment is judged,
by `rollcall diff`, whatever begins meanwhile. From then on GET /logs answers, by the class of what
leads:

  STOP     the program is at fault, for certain: a restart repeats it
  RESTART  a node, the fabric or something outside is
  UNKNOWN  that is not known, or nothing hangs; the reason says so

Nothing that the launcher sends is opened or run. Only this host can ask: the socket is bound to
127.0.0.1. Tested with version 0.7 of the Extension, whose routes and fields these are.
"""
import argparse
import http.server
import json
import os
import subprocess
import sys
import threading
import urllib.parse

BODY_BYTES_MAX = 65536
JUDGED_MAX = 1024
JUDGING_S = 60
CONFIDENCES = ("certain", "likely")


def recommendation_of(report, stop_when):
    """The action and its reason, for the report of `rollcall diff --json`."""
    findings = report.get("findings") or []
    leading = findings[0] if findings else {}
    reason = f"{leading.get('code', 'no verdict')}: {leading.get('summary', 'nothing was found')}"
    if leading.get("severity") not in ("hang", "corruption"):
        return "UNKNOWN", reason
    origin = leading.get("class", "unknown")
    confidence = leading.get("confidence", "open")
    if origin == "program":
        is_sure = confidence == "certain" or confidence == stop_when
        return ("STOP" if is_sure else "UNKNOWN"), f"{reason} ({confidence}, class program)"
    if origin in ("node", "fabric", "outside"):
        return "RESTART", f"{reason} ({confidence}, class {origin})"
    return "UNKNOWN", f"{reason} ({confidence}, class {origin})"


def newest_attempt(run):
    """The folder of the attempt that began last; the run itself where there is one attempt only."""
    try:
        names = os.listdir(run)
    except OSError:
        return run
    numbers = [int(name[len("attempt-"):]) for name in names
               if name.startswith("attempt-") and name[len("attempt-"):].isdigit()]
    return os.path.join(run, f"attempt-{max(numbers)}") if numbers else run


class Judge:
    """Judges an attempt for each log that the launcher names. Any thread may ask."""

    def __init__(self, run, rollcall, stop_when):
        self.run = run
        self.rollcall = rollcall
        self.stop_when = stop_when
        self.answers = {}  # by log; None: not there yet
        self.lock = threading.Lock()

    def begin(self, log_path):
        """False: too many logs were named."""
        with self.lock:
            if log_path not in self.answers and len(self.answers) >= JUDGED_MAX:
                return False
            self.answers[log_path] = None
        threading.Thread(target=self.judge, args=(log_path, newest_attempt(self.run)),
                         daemon=True).start()
        return True

    def judge(self, log_path, folder):
        said = ""
        try:
            done = subprocess.run([self.rollcall, "diff", folder, "--json"], encoding="utf-8",
                                  errors="replace", stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, check=False, timeout=JUDGING_S)
            said = (done.stderr.strip().splitlines() or ["it said nothing"])[0]
            action, reason = recommendation_of(json.loads(done.stdout), self.stop_when)
        except (OSError, subprocess.SubprocessError) as error:
            action, reason = "UNKNOWN", f"{self.rollcall} diff {folder} did not end well: {error}"
        except (ValueError, AttributeError, TypeError):
            action, reason = "UNKNOWN", f"{folder} could not be judged: {said}"
        print(f"attribution.py: {log_path}: {action}: {reason}", flush=True)
        with self.lock:
            self.answers[log_path] = {"action": action, "reason": reason, "source": "rollcall"}

    def answer(self, log_path):
        with self.lock:
            answer = self.answers.get(log_path)
        if answer is None:
            return {"status": "pending", "result": None}
        return {"status": "completed", "mode": "single", "recommendation": answer,
                "result": {"module": "rollcall", "result": answer["reason"]}}


class Handler(http.server.BaseHTTPRequestHandler):
    judge = None

    def reply(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        if url.path == "/healthz":
            return self.reply(200, {"status": "ok"})
        log_path = urllib.parse.parse_qs(url.query).get("log_path", [""])[0]
        if url.path != "/logs" or not log_path:
            return self.reply(404, {"detail": "GET /logs?log_path=... or GET /healthz"})
        return self.reply(200, self.judge.answer(log_path))

    def do_POST(self):
        try:
            size = int(self.headers.get("Content-Length", "0"))
            body = json.loads(self.rfile.read(size)) if 0 < size <= BODY_BYTES_MAX else None
        except ValueError:
            body = None
        log_path = body.get("log_path") if isinstance(body, dict) else None
        if self.path != "/logs" or not isinstance(log_path, str) or not log_path:
            return self.reply(400, {"detail": "POST /logs wants a JSON object with log_path"})
        # An attempt that has just begun is named, too: there is nothing to judge yet.
        is_over = body.get("analysis_intent") == "terminal"
        if is_over and not self.judge.begin(log_path):
            return self.reply(429, {"detail": f"{JUDGED_MAX} logs were named already"})
        return self.reply(200, {"submitted": True})

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--port", type=int, default=50051)
    parser.add_argument("--rollcall", metavar="COMMAND", default="rollcall")
    parser.add_argument("--stop-when", choices=CONFIDENCES, default="certain")
    options = parser.parse_args()
    Handler.judge = Judge(options.run, options.rollcall, options.stop_when)
    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    except (OSError, OverflowError) as error:
        print(f"attribution.py: port {options.port} cannot be used: {error}; give another one with "
              "--port", file=sys.stderr)
        return 2
    print(f"attribution.py: answers for {options.run} on http://127.0.0.1:{server.server_port}",
          flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
