"""Runs to make pages of: synthetic ones of any size, and dumps whose every name is hostile."""
import json
import os
import subprocess

BUILD = os.environ.get("ROLLCALL_E2E_BUILD", "build/release")
ROLLCALL = os.path.join(BUILD, "tools", "rollcall")

# Markup that would run if it ever were markup, quotes, the end of a script element, characters that
# turn a line around, and line separators of JavaScript.
HOSTILE = ("</script><img src=x onerror=\"document.title='run'\">"
           "<script>document.title='run'</script>'\"`${document.title='run'}"
           "\u202egnp.exe\u2028\u2029{{script}}&amp;&lt;")
LONG = "n" * (1 << 20)


def make_run(directory, ranks, calls, *more):
    subprocess.run([ROLLCALL, "synth", "-o", directory, "--ranks", str(ranks), "--ops", str(calls),
                    *more], check=True, stdout=subprocess.DEVNULL)
    return directory


def make_timed_run(directory, steps=60):
    """A job of four ranks on emulated GPUs, whose calls have GPU times and groups of their own."""
    program = os.path.join(BUILD, "examples", "mini_train")
    subprocess.run([ROLLCALL, "run", "-q", "-n", "4", "--emulate", "-d", directory, "--", program,
                    "--dp", "2", "--tp", "2", "--pp", "1", "--steps", str(steps),
                    "--bucket-elements", "256"], check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   env={**os.environ, "ROLLCALL_OVERHEAD_BUDGET": "100"})
    return directory


def make_page(paths, page, *more):
    subprocess.run([ROLLCALL, "report", *paths, "-o", page, *more], check=True,
                   stderr=subprocess.DEVNULL)
    return page


def keep_stacks(directory, incident, text):
    """What `rollcall run` keeps of the stacks beside a verdict."""
    folder = os.path.join(directory, "incidents", incident)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "stacks.txt"), "w", encoding="utf-8") as file:
        file.write(text)


def hostile_dumps(directory, name, ranks=4, calls=6):
    """Dumps of PyTorch's flight recorder in which rank 2 does not make the last call."""
    folder = os.path.join(directory, "".join(one for one in name[:40] if one not in "/\0"))
    os.makedirs(folder)
    paths = []
    for rank in range(ranks):
        made = calls - 1 if rank == 2 else calls
        entries = [{
            "collective_seq_id": seq, "input_dtypes": ["Float"], "input_sizes": [[1024]],
            "is_p2p": False, "op_id": seq, "output_dtypes": ["Float"], "output_sizes": [[1024]],
            "p2p_seq_id": 0, "pg_id": 0, "process_group": ["0", name],
            "profiling_name": "nccl:all_reduce", "record_id": seq - 1,
            "retired": seq < calls, "state": "completed" if seq < calls else "started",
            "frames": [{"name": name, "filename": "lib/" + name, "line": 7}],
            "time_created_ns": 1750000000000000000 + seq * 1000000 + rank * 1000,
            "time_discovered_completed_ns": 0, "time_discovered_started_ns": 0,
            "timeout_ms": 600000} for seq in range(1, made + 1)]
        ranks_text = "[" + ", ".join(str(one) for one in range(ranks)) + "]"
        dump = {"version": "2.9", "entries": entries,
                "pg_config": {"0": {"name": "0", "desc": name, "ranks": ranks_text}},
                "pg_status": {"0": {"last_enqueued_collective": made,
                                    "last_started_collective": made,
                                    "last_completed_collective": calls - 1}}}
        paths.append(os.path.join(folder, f"trace_rank_{rank}.json"))
        with open(paths[-1], "w", encoding="utf-8") as file:
            json.dump(dump, file, ensure_ascii=False)
    return folder
