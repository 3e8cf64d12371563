"""Imports PyTorch once, then forks a rank for each line on stdin.

Half a minute of processor time goes into importing PyTorch for a job of four ranks; a fork of a
process that has imported it costs nothing. Nothing has touched CUDA before the fork, so that each
rank is what `python train.py` would have been.

  {"environment": {…}, "script": "train", "arguments": […], "output": PATH}
                                                        starts a rank; answers its pid
  {"ended": true}                                       answers [[pid, status], …]

With "flight_recorder": PATH beside them, the rank dumps PyTorch's Flight Recorder to PATH.RANK when
a byte arrives in the pipe PATH.RANK.request, which is there before the answer, and when it ends.
"""
import gc
import importlib
import json
import os
import sys
import threading


def serve(answer):
    """Returns in a forked rank, with its request; None in the zygote, at the end of stdin."""
    for line in sys.stdin:
        request = json.loads(line)
        if "ended" in request:
            print(json.dumps(reap()), file=answer, flush=True)
            continue
        if "flight_recorder" in request:
            os.mkfifo(request_pipe(request))
        pid = os.fork()
        if pid == 0:
            become_rank(request)
            return request
        print(pid, file=answer, flush=True)
    return None


def reap():
    ended = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended.append([pid, os.waitstatus_to_exitcode(status)])


def become_rank(request):
    os.environ.update(request["environment"])
    output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)


def dump_path(request):
    return f"{request['flight_recorder']}.{request['environment']['RANK']}"


def request_pipe(request):
    return dump_path(request) + ".request"


def dump_flight_recorder(request):
    """Of the backend that recorded anything: the present one and the former have one each."""
    from torch._C import _distributed_c10d

    legacy = _distributed_c10d._dump_nccl_trace(True, True, False)
    present = _distributed_c10d._dump_fr_trace(True, True, False, "nccl2")
    path = dump_path(request)
    with open(path + ".new", "wb") as file:
        file.write(max(legacy, present, key=len))
    os.rename(path + ".new", path)


def dump_when_asked(request):
    """While the main thread hangs: it waits without the interpreter's lock."""
    with open(request_pipe(request), "rb", buffering=0) as pipe:
        pipe.read(1)
    dump_flight_recorder(request)


def train_as(request):
    script = importlib.import_module(request["script"])
    if "flight_recorder" not in request:
        return script.main(request["arguments"])
    threading.Thread(target=dump_when_asked, args=[request], daemon=True).start()
    status = script.main(request["arguments"])
    dump_flight_recorder(request)
    return status


def import_everything():
    """What the styles would import in each rank, at seconds of processor time a piece."""
    import torch._dynamo
    import torch.distributed.fsdp
    import torch.distributed.pipelining
    import torch.distributed.tensor.parallel
    import torch.nn.parallel  # noqa: F401


def main():
    sys.path.insert(0, sys.argv[1])
    import_everything()
    import large  # noqa: F401
    import torch
    import train  # noqa: F401

    # A rank that ends leaves alone what it got from here: to take it apart costs two seconds of
    # processor time and a copy.
    gc.freeze()
    answer = os.fdopen(os.dup(1), "w")
    print("ready", torch.__version__, file=answer, flush=True)
    request = serve(answer)
    if request is None:
        os._exit(0)
    answer.close()
    return train_as(request)


if __name__ == "__main__":
    sys.exit(main())
