#!/usr/bin/env python3
"""Jobs that other launchers start, and programs that load NCCL in other ways."""
import glob
import os
import shutil
import subprocess
import sys

import job
from job import Job, clean_environment, expect, expect_equal

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def recorded_runs(run):
    return [line for line in run.dump() if line["type"] == "run"]


def mpi_ranks_are_recorded():
    if not os.path.exists(job.MPI_ALLREDUCE) or not shutil.which("mpirun"):
        return "MPI is not installed"
    mpirun = ["mpirun", "-np", "4", "--oversubscribe"]
    if os.geteuid() == 0:
        mpirun.append("--allow-run-as-root")
    with Job(4, program=[job.MPI_ALLREDUCE]) as run:
        plain_environment = clean_environment({"LD_LIBRARY_PATH": job.EMULATOR,
                                               "ROLLCALL_EMULATE_GPUS": "4"})
        plain = subprocess.run([*mpirun, job.MPI_ALLREDUCE, "7"], env=plain_environment, text=True,
                               capture_output=True, timeout=job.PATIENCE_S, check=False)
        expect_equal(plain.returncode, 0, f"mpirun without Rollcall ({plain.stderr})")
        run.command = [*mpirun, job.ROLLCALL, "run", "--emulate=4", "-d", run.run_directory, "--",
                       job.MPI_ALLREDUCE, "7"]
        expect_equal(run.run(), 0, f"mpirun with Rollcall ({run.describe()})")
        expect_equal(sorted(line for line in run.stdout().splitlines() if line.startswith("rank ")),
                     sorted(plain.stdout.splitlines()), "what the job printed")
        expect_equal(sorted(line["job_rank"] for line in recorded_runs(run)), [0, 1, 2, 3],
                     "job ranks, from OMPI_COMM_WORLD_RANK")
        report = run.diff()
        expect_equal([finding["code"] for finding in report["findings"]], ["RC-IN-LOCKSTEP"],
                     "the verdict")
        expect_equal(report["run"]["ranks"], 4, "ranks of the run")
    return None


def dlopen_is_covered():
    with Job(1, program=[job.DLOPEN_USER, "6"]) as run:
        run.command = [job.ROLLCALL, "run", "--emulate=3", "-d", run.run_directory, "--",
                       job.DLOPEN_USER, "6"]
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        lines = run.dump()
        runs = [line for line in lines if line["type"] == "run"]
        expect_equal(len(runs), 1, "recorded processes")
        expect("dlsym" in runs[0]["coverage"], f"coverage is {runs[0]['coverage']}")
        comms = [line for line in lines if line["type"] == "comm"]
        expect_equal([(line["rank"], line["nranks"], line["how"]) for line in comms],
                     [(rank, 3, "init_all") for rank in range(3)], "communicators")
        expect_equal(len({line["key"] for line in comms}), 1, "communicator keys")
        calls = [line for line in lines if line["type"] == "op" and line["op"] == "AllReduce"]
        expect_equal(len(calls), 3 * 6, "recorded AllReduce calls")
        codes = [finding["code"] for finding in run.diff()["findings"]]
        expect_equal(codes, ["RC-IN-LOCKSTEP"], "the verdict")


def hosts_started_by_hand_are_one_run():
    """Two commands that share nothing but ROLLCALL_RUN_ID and the directory, one rank each."""
    port = job.free_port()
    with Job(2) as first, Job(2) as second:
        for rank, run in enumerate((first, second)):
            run.command = [job.ROLLCALL, "run", "--emulate=2", "-d", first.run_directory, "--",
                           job.MINI_TRAIN, "--steps", "2"]
            run.environment = clean_environment({
                "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                "ROLLCALL_RUN_ID": "hosts of run/7"})
            run.start()
        for run in (first, second):
            expect_equal(run.wait(), 0, f"the job's status ({run.describe()})")
        expect_equal(len({line["run_id"] for line in recorded_runs(first)}), 1, "run ids")
        report = first.diff()
        expect_equal([finding["code"] for finding in report["findings"]], ["RC-IN-LOCKSTEP"],
                     "the verdict")
        expect_equal(report["run"]["ranks"], 2, "ranks of the run")


def restarts_have_a_directory_each():
    attempts = [f"TORCHELASTIC_RESTART_COUNT={number} {job.DLOPEN_USER} {calls}"
                for number, calls in enumerate((3, 5))]
    with Job(1) as run:
        run.command = [job.ROLLCALL, "run", "--emulate=2", "-d", run.run_directory, "--", "sh",
                       "-c", " && ".join(attempts)]
        run.environment = clean_environment({"RANK": "0", "TORCHELASTIC_MAX_RESTARTS": "1"})
        expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
        # The shell is not among them: a process that never calls NCCL leaves nothing behind.
        expect_equal(sorted(os.listdir(run.run_directory)), ["attempt-0", "attempt-1"],
                     "directories of the attempts")
        whole = run.rollcall("diff", run.run_directory)
        expect_equal(whole.returncode, 0, f"status of diff ({whole.stdout}{whole.stderr})")
        expect("seq is 4" in whole.stdout, f"the newest attempt is compared: {whole.stdout}")
        expect("attempt-0" in whole.stdout, f"the older one is named: {whole.stdout}")
        older = run.rollcall("diff", os.path.join(run.run_directory, "attempt-0"))
        expect_equal(older.returncode, 0, f"status of diff ({older.stdout}{older.stderr})")
        expect("seq is 2" in older.stdout, f"the older attempt by itself: {older.stdout}")


def secrets_of_the_command_line_are_on_no_file():
    with Job(1) as run:
        run.command = [job.ROLLCALL, "run", "--emulate=2", "-d", run.run_directory, "--", "bash",
                       "-c", f"exec -a 'train --hf-token=hf_planted --lr=5' {job.DLOPEN_USER} 3"]
        expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
        lines = [line["meta"]["cmdline"] for line in recorded_runs(run)]
        expect_equal(lines, ["train --hf-token=… --lr=5 3"], "the recorded command line")
        names = [os.path.join(folder, name) for folder, _, names in os.walk(run.run_directory)
                 for name in names]
        expect(names, "there are files")
        for name in names:
            with open(name, "rb") as file:
                content = file.read()
            expect(b"hf_planted" not in content, f"{name} holds the token")
            expect(b"ROLLCALL_JOB_TOKEN" not in content, f"{name} holds the run's own token")


def a_second_run_in_a_directory_is_an_attempt_in_it():
    with Job(1) as run:
        for calls, restarts in ((3, 0), (5, 0), (7, 1)):
            run.command = [job.ROLLCALL, "run", "--emulate=2", "-d", run.run_directory, "--",
                           job.DLOPEN_USER, str(calls)]
            elastic = {"TORCHELASTIC_MAX_RESTARTS": "1", "TORCHELASTIC_RESTART_COUNT": "0"}
            run.environment = clean_environment({"RANK": "0", **(elastic if restarts else {})})
            expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
            whole = run.rollcall("diff", run.run_directory)
            expect_equal(whole.returncode, 0, f"status of diff ({whole.stdout}{whole.stderr})")
            expect(f"seq is {calls - 1}" in whole.stdout, f"the newest is compared: {whole.stdout}")
        for older in (run.run_directory + ":", "attempt-1"):
            expect(older in whole.stdout, f"{older} is named: {whole.stdout}")
        # The launcher's own attempt lies within the one of the whole job.
        expect_equal(os.listdir(os.path.join(run.run_directory, "attempt-2")), ["attempt-0"],
                     "what the third run holds")
        older = run.rollcall("diff", os.path.join(run.run_directory, "attempt-1"))
        expect("seq is 4" in older.stdout, f"the older one by itself: {older.stdout}")


def ctypes_is_covered():
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ctypes_client.py")
    with Job(3, program=[sys.executable, script]) as run:
        run.command += [run.folder, "4"]
        expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
        expect_equal(sorted(line for line in run.stdout().splitlines() if " sum " in line),
                     [f"rank {rank} sum 6.0" for rank in range(3)], "what the job printed")
        calls = [line for line in run.dump() if line["type"] == "op" and line["op"] == "AllReduce"]
        expect_equal(len(calls), 3 * 4, "recorded AllReduce calls")
        codes = [finding["code"] for finding in run.diff()["findings"]]
        expect_equal(codes, ["RC-IN-LOCKSTEP"], "the verdict")


def expect_ranks_by(variable):
    """Two ranks that a launcher started with `variable`, or with nothing that names a rank."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ctypes_client.py")
    with Job(2) as run:
        ranks = [f"{variable}={rank} {sys.executable} {script} {run.folder} 3 {rank} 2"
                 for rank in range(2)]
        run.command = [job.ROLLCALL, "run", "--emulate=2", "-d", run.run_directory, "--", "sh",
                       "-c", " & ".join(ranks) + " & wait"]
        expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
        known = [0, 1] if variable != "NOTHING" else [None, None]
        expect_equal(sorted((line["job_rank"] for line in recorded_runs(run)), key=str), known,
                     f"job ranks by {variable}")
        # NCCL's own: what is matched never rests on a variable.
        comms = [line["rank"] for line in run.dump() if line["type"] == "comm"]
        expect_equal(sorted(comms), [0, 1], f"ranks of the communicator by {variable}")
        report = run.diff()
        expect_equal([finding["code"] for finding in report["findings"]], ["RC-IN-LOCKSTEP"],
                     "the verdict")
        expect("all 2 processes" in report["findings"][0]["summary"],
               f"what {variable} gives: {report['findings'][0]['summary']}")


def ranks_are_known_by_any_launcher():
    for variable in ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID",
                     "NOTHING"):
        expect_ranks_by(variable)


def the_doctor_finds_the_ranks_recorded():
    with Job(2, ["--fault", "missing-call@1:2"]) as run:
        run.start()
        run.wait_until(lambda: "calls are recorded" in
                       run.rollcall("doctor", run.run_directory).stdout, "calls of the ranks")
        for subject in (str(run.process.pid), run.run_directory):
            seen = run.rollcall("doctor", subject)
            expect_equal(seen.returncode, 0, f"status of doctor ({seen.stdout}{seen.stderr})")
            expect("good  covered" in seen.stdout and "2 processes" in seen.stdout,
                   f"both ranks are covered: {seen.stdout}")
    with Job(2, ["--fault", "missing-call@1:2"], environment={"ROLLCALL_ENABLE": "0"}) as run:
        run.start()
        run.wait_until(lambda: "nothing is recorded yet" in
                       run.rollcall("doctor", str(run.process.pid)).stdout,
                       "the doctor's word on ranks that record nothing")


def prolog_settings(folder, extra):
    """What Slurm would set for a task after packaging/slurm/task_prolog.sh."""
    script = os.path.join(folder, "task_prolog.sh")
    if not os.path.exists(script):
        shutil.copy(os.path.join(REPOSITORY, "packaging", "slurm", "task_prolog.sh"), script)
        os.symlink(os.path.abspath(job.SHIM), os.path.join(folder, "librollcall.so"))
    done = subprocess.run([script], text=True, capture_output=True, check=True,
                          env=clean_environment(extra))
    return dict(line[len("export "):].split("=", 1) for line in done.stdout.splitlines())


def slurm_prolog_records_a_step():
    with Job(2) as run:
        slurm = {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "1", "SLURM_SUBMIT_DIR": run.folder}
        settings = prolog_settings(run.folder, slurm)
        run.run_directory = settings["ROLLCALL_DIR"]
        expect_equal(run.run_directory, os.path.join(run.folder, "rollcall-runs", "77.1"),
                     "the run directory")
        port = job.free_port()
        # The emulator where a cluster has NCCL: found by the dynamic linker, not preloaded.
        ranks = [subprocess.Popen(
            [job.MINI_TRAIN, "--steps", "2"], stdout=subprocess.DEVNULL, env=clean_environment({
                **slurm, **settings, "SLURM_PROCID": str(rank), "RANK": str(rank),
                "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port), "LD_LIBRARY_PATH": job.EMULATOR,
                "ROLLCALL_EMULATE_GPUS": "2", "ROLLCALL_EMULATE_SESSION": f"prolog{port}"}))
            for rank in range(2)]
        for rank in ranks:
            expect_equal(rank.wait(job.PATIENCE_S), 0, "a rank's status")
        report = run.diff()
        expect_equal([finding["code"] for finding in report["findings"]], ["RC-IN-LOCKSTEP"],
                     "the verdict")
        expect_equal(report["run"]["ranks"], 2, "ranks of the run")
        again = prolog_settings(run.folder, {**slurm, "SLURM_RESTART_COUNT": "2"})
        expect(again["ROLLCALL_DIR"].endswith("/77.1.restart-2"), "a requeued job's directory")
        expect(again["ROLLCALL_RUN_ID"] != settings["ROLLCALL_RUN_ID"], "a requeued job's id")
        beside = prolog_settings(run.folder, {**slurm, "LD_PRELOAD": "/other.so",
                                              "ROLLCALL_DIR": "/chosen"})
        expect(beside["LD_PRELOAD"].startswith("/other.so:"), "what is preloaded stays in front")
        expect("ROLLCALL_DIR" not in beside, "the directory that the job has chosen stays")
        for leave in ({"ROLLCALL_ENABLE": "0"}, {"LD_PRELOAD": "/x/librollcall.so"},
                      {"SLURM_JOB_ID": ""}):
            expect_equal(prolog_settings(run.folder, {**slurm, **leave}), {}, f"with {leave}")


# (major, minor, free-threaded)
READ_VERSIONS = [(3, minor, False) for minor in range(9, 15)]


def interpreters():
    """The one that runs the tests, and those of other versions that are installed beside it."""
    found = {}
    names = [os.path.join(prefix, "bin", "python3") for prefix in sorted(
        glob.glob(os.path.join(os.environ.get("PYENV_ROOT", ""), "versions", "3.*")))]
    names += [f"python3.{minor}" for _, minor, _ in READ_VERSIONS]
    for name in [sys.executable, *names]:
        asked = subprocess.run([shutil.which(name) or "false", "-c",
                                "import ctypes, sys; print(*sys.version_info[:2], "
                                "int('free-threading' in sys.version))"], text=True,
                               stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if asked.returncode == 0:
            major, minor, is_free_threaded = map(int, asked.stdout.split())
            found.setdefault((major, minor, bool(is_free_threaded)), name)
    return found


def read_interpreters():
    """Those whose frames are read; says which versions are not installed."""
    found = interpreters()
    absent = [f"3.{version[1]}" for version in READ_VERSIONS if version not in found]
    if absent:
        print(f"  not installed, so not tried: Python {', '.join(absent)}", flush=True)
    return [found[version] for version in READ_VERSIONS if version in found]


def lines_of_the_script_are_named():
    pythons = read_interpreters()
    for python in pythons:
        expect_lines_named_by(python)
    return None if pythons else "the frames of this Python are not read"


def frames_are_those_of_the_interpreter():
    pythons = read_interpreters()
    for python in pythons:
        expected, frames, _ = run_frames_client(python)
        for number, (seen, wanted) in enumerate(zip(frames, expected)):
            expect_equal(seen, wanted, f"frames of call {number}, by {python}")
        expect_equal(len(frames), len(expected), f"calls, by {python}")
    return None if pythons else "the frames of this Python are not read"


def other_interpreters_leave_a_note():
    found = interpreters()
    others = [version for version in found if version not in READ_VERSIONS]
    for version in others:
        expected, frames, notes = run_frames_client(found[version])
        expect_equal(frames, [None] * len(expected), f"frames, by {found[version]}")
        expect_equal(len(notes), 1, "runs")
        name = f"not understood: Python {version[0]}.{version[1]}."
        expect((notes[0] or "").startswith(name), f"the note begins {name!r}: {notes[0]!r}")
        expect_equal(notes[0].endswith(", free-threaded"), version[2], f"the note {notes[0]!r}")
    return None if others else "no Python whose frames are not read is installed"


def expect_lines_named_by(python):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ctypes_client.py")
    with open(script, encoding="utf-8") as file:
        lines = file.read().split("\n")
    line = 1 + next(at for at, text in enumerate(lines) if '"ncclAllReduce"' in text)
    outer = 1 + max(at for at, text in enumerate(lines) if " train(" in text)
    for setting in (None, "1", "0"):
        with Job(2, program=[python, script]) as run:
            run.command += [run.folder, "4"]
            if setting is not None:
                run.environment["ROLLCALL_PYTHON_FRAMES"] = setting
            expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
            frames = {line["frame"] for line in run.dump() if line["type"] == "op"}
            if setting == "0":
                expect_equal(frames, {None}, "frames that nobody asked for")
                continue
            expect_equal(len(frames), 1, f"call sites of {python}: {frames}")
            named = next(iter(frames)) or ""
            expect(f"{script}:{line} train < " in named,
                   f"line {line} of train is in {named!r}, by {python}")
            expect(f"{script}:{outer} main" in named,
                   f"line {outer} of main is in {named!r}, by {python}")
            expect(named.startswith(script), f"the innermost frame comes first: {named!r}")


# One rank alone that makes its calls as fast as Python can, from so many lines in turn.
FAST_CLIENT = """import ctypes
nccl, cuda = ctypes.CDLL("libnccl.so.2"), ctypes.CDLL("libcudart.so.12")
comm, buffer = ctypes.c_void_p(), ctypes.c_void_p()
assert nccl.ncclCommInitAll(ctypes.byref(comm), 1, None) == 0
assert cuda.cudaMalloc(ctypes.byref(buffer), ctypes.c_size_t(64)) == 0
arguments = (buffer, buffer, ctypes.c_size_t(16), 7, 0, comm, None)
for _ in range({times}):
"""


def frames_of_fast_calls(python, lines, times, environment):
    """The note on what was left out, and of how many calls the line is on file."""
    with Job(1, program=[python], environment=environment) as run:
        script = os.path.join(run.folder, "fast.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(FAST_CLIENT.format(times=times))
            file.write("    nccl.ncclAllReduce(*arguments)\n" * lines)
        run.command += [script]
        expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
        dump = run.dump()
        notes = [line["meta"].get("frames_left_out") for line in dump if line["type"] == "run"]
        return notes, sum(1 for line in dump if line["type"] == "op" and line["frame"])


def lines_left_out_are_noted():
    pythons = read_interpreters()
    if not pythons:
        return "the frames of this Python are not read"
    calls = 40000
    # The budget is a share of the time that passes, of which a busy machine gives each call more.
    for _ in range(8):
        notes, named = frames_of_fast_calls(pythons[0], 1, calls, {})
        if notes != [None]:
            break
    expect_equal(notes, ["to keep the overhead budget"], "the note of a job that only calls")
    expect(8192 <= named < calls, f"of {named} of {calls} calls the line is on file")
    notes, named = frames_of_fast_calls(pythons[0], 1, calls, {"ROLLCALL_OVERHEAD_BUDGET": "100"})
    expect_equal((notes, named), ([None], calls), "with as much time as it takes")
    notes, named = frames_of_fast_calls(pythons[0], 600, 2, {"ROLLCALL_PYTHON_FRAMES": "1"})
    expect_equal(notes, ["more places than there is room for"], "the note of 600 lines")
    expect(2 * 96 < named <= 2 * 512, f"of {named} of 1200 calls the line is on file")
    return None


def run_frames_client(python):
    """What the interpreter says of its frames, what was recorded of them, and the run's note."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "frames_client.py")
    with Job(1, program=[python, script]) as run:
        noted = os.path.join(run.folder, "frames")
        run.command += [noted]
        run.environment["ROLLCALL_PYTHON_FRAMES"] = "1"
        expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
        with open(noted, encoding="utf-8") as file:
            expected = file.read().splitlines()
        lines = run.dump()
        frames = [line["frame"] for line in lines
                  if line["type"] == "op" and line["op"] == "AllReduce"]
        notes = [line["meta"].get("python_frames") for line in lines if line["type"] == "run"]
        return expected, frames, notes


if __name__ == "__main__":
    sys.exit(job.main([
        ("a job that mpirun starts is recorded with MPI's ranks", mpi_ranks_are_recorded),
        ("a program that loads NCCL with dlopen is recorded", dlopen_is_covered),
        ("a Python program that loads NCCL with ctypes is recorded", ctypes_is_covered),
        ("a rank is known by its launcher's variable, and without one by NCCL's own",
         ranks_are_known_by_any_launcher),
        ("the lines of a Python script that issued a call are named",
         lines_of_the_script_are_named),
        ("lines that are left out, for want of time or room, are noted", lines_left_out_are_noted),
        ("the frames of a call are those that the interpreter itself knows",
         frames_are_those_of_the_interpreter),
        ("an interpreter whose frames are not read leaves a note and no frames",
         other_interpreters_leave_a_note),
        ("hosts that are started by hand with one ROLLCALL_RUN_ID are one run",
         hosts_started_by_hand_are_one_run),
        ("the doctor finds the ranks of a job recorded, and says where nothing is",
         the_doctor_finds_the_ranks_recorded),
        ("a step of Slurm's is recorded by the prolog, unless it asks not to be",
         slurm_prolog_records_a_step),
        ("each attempt of an elastic job has a directory of its own",
         restarts_have_a_directory_each),
        ("secrets of the command line are on no file",
         secrets_of_the_command_line_are_on_no_file),
        ("a second run in the same directory is an attempt in it, and the newest is compared",
         a_second_run_in_a_directory_is_an_attempt_in_it),
    ]))
