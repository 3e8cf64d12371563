#!/usr/bin/env python3
"""`mpirun -np N rollcall diff` says byte for byte what one process says.

    mpi.py ROLLCALL built|absent SAMPLES
"""
import os
import shutil
import subprocess
import sys
import tempfile

ROLLCALL, HELPER, SAMPLES = sys.argv[1:4]
SKIPPED = 77
PATIENCE_S = 120


def environment(**changes):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("OMPI_", "PMI", "PRTE_"))}
    return {**kept, "NO_COLOR": "1", **changes}


def run(command, **changes):
    return subprocess.run(command, env=environment(**changes), text=True, capture_output=True,
                          timeout=PATIENCE_S, check=False)


def mpirun(processes, *arguments, **changes):
    # Messages through shared memory need none of the networks that mpirun would try.
    launcher = ["mpirun", "--oversubscribe", "--mca", "btl", "self,vader", "-np", str(processes)]
    if os.geteuid() == 0:
        launcher.append("--allow-run-as-root")
    return run([*launcher, ROLLCALL, *arguments], **changes)


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def expect_same(processes, *arguments):
    alone = run([ROLLCALL, *arguments])
    together = mpirun(processes, *arguments)
    case = f"{processes} processes, {' '.join(arguments)}"
    expect(together.stdout == alone.stdout,
           f"{case}: the output differs\n--- alone\n{alone.stdout}{alone.stderr}\n"
           f"--- together\n{together.stdout}{together.stderr}")
    expect(together.returncode == alone.returncode,
           f"{case}: status {together.returncode}, not {alone.returncode}\n{together.stderr}")
    return alone


def synthesise(folder, name, *arguments):
    directory = os.path.join(folder, name)
    done = run([ROLLCALL, "synth", "-o", directory, *arguments])
    expect(done.returncode == 0, done.stderr)
    return directory


def output_is_the_same_whatever_is_read(folder):
    faulty = synthesise(folder, "faulty", "--ranks", "24", "--ops", "3000", "--layout",
                        "tp=2,pp=2", "--fault", "missing-call@9")
    clean = synthesise(folder, "clean", "--ranks", "24", "--ops", "3000", "--layout", "tp=2,pp=2")
    said = expect_same(4, "diff", faulty, "--json")
    expect('"RC-MISSING-CALL"' in said.stdout, said.stdout)
    # Larger than what may be held: equal calls are left on disk, by all processes alike.
    expect_same(3, "diff", faulty, "--held", "3000", "--all")
    expect_same(2, "diff", faulty, clean, "--window", "500")
    expect_same(2, "diff", faulty, "--ranks", "3,9")
    # More processes than files.
    few = synthesise(folder, "few", "--ranks", "2", "--ops", "60", "--fault", "missing-call@1")
    expect_same(4, "diff", few)
    ring = next(name for name in sorted(os.listdir(few)) if name.endswith(".ring"))
    expect_same(3, "diff", os.path.join(few, ring))


def damage_is_reported_alike(folder):
    damaged = synthesise(folder, "damaged", "--ranks", "6", "--ops", "3000")
    names = sorted(os.listdir(damaged))
    rings = [name for name in names if name.endswith(".ring")]
    segments = [name for name in names if name.endswith(".segment")]
    os.remove(os.path.join(damaged, rings[1]))
    os.truncate(os.path.join(damaged, rings[2]), 100)
    os.truncate(os.path.join(damaged, segments[3]), 2000)
    expect_same(4, "diff", damaged, "--json", "--all")
    expect_same(3, "diff", damaged, "--held", "1000", "--all")


def other_recorders_files_are_shared_out_too(folder):
    # Files of all recorders in one directory, which is allowed.
    mixed = os.path.join(folder, "mixed")
    os.mkdir(mixed)
    number = 0
    for path, _, files in sorted(os.walk(SAMPLES)):
        for name in sorted(files):
            number += 1
            shutil.copy(os.path.join(path, name), os.path.join(mixed, f"{number:04}-{name}"))
    said = expect_same(3, "diff", mixed, "--json", "--all")
    expect(said.returncode != 2 and number > 10, f"{number} samples: {said.stderr}")


def what_cannot_be_read_is_said_once(folder):
    nowhere = os.path.join(folder, "nowhere")
    together = mpirun(3, "diff", nowhere)
    expect(together.stdout == "", together.stdout)
    expect(together.stderr.count("does not exist") == 1, together.stderr)
    expect_same(3, "diff", nowhere)


def without_the_library_one_process_answers(folder):
    directory = synthesise(folder, "alone", "--ranks", "4", "--ops", "60")
    alone = run([ROLLCALL, "diff", directory])
    for rank, expected in ((0, alone.stdout), (1, "")):
        said = run([ROLLCALL, "diff", directory], OMPI_COMM_WORLD_SIZE="2",
                   OMPI_COMM_WORLD_RANK=str(rank), ROLLCALL_LIB_DIR=folder)
        expect(said.returncode == 0, said.stderr)
        expect(said.stdout == expected, f"process {rank}: {said.stdout}")
        expect(("librollcall-mpi.so was found in none of" in said.stderr) == (rank == 0),
               f"process {rank}: {said.stderr}")


def main():
    tests = [without_the_library_one_process_answers]
    reason = ""
    if HELPER != "built":
        reason = "rollcall was built without MPI"
    elif not shutil.which("mpirun"):
        reason = "there is no mpirun"
    else:
        tests += [output_is_the_same_whatever_is_read, damage_is_reported_alike,
                  other_recorders_files_are_shared_out_too, what_cannot_be_read_is_said_once]
    for test in tests:
        with tempfile.TemporaryDirectory(prefix="rollcall-mpi-") as folder:
            test(folder)
        print(f"passed: {test.__name__.replace('_', ' ')}")
    if reason:
        print(f"skipped: the tests under mpirun: {reason}")
        return SKIPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
