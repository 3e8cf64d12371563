"""Imports PyTorch once, then forks a rank for each line on stdin.

Half a minute of processor time goes into importing PyTorch for a job of four ranks; a fork of a
process that has imported it costs nothing. Nothing has touched CUDA before the fork, so that each
rank is what `python train.py` would have been.

  {"environment": {…}, "arguments": […], "output": PATH}   starts a rank; answers its pid
  {"ended": true}                                          answers [[pid, status], …]
"""
import json
import os
import sys


def serve(answer):
    """Returns in a forked rank, with its arguments; None in the zygote, at the end of stdin."""
    for line in sys.stdin:
        request = json.loads(line)
        if "ended" in request:
            print(json.dumps(reap()), file=answer, flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            become_rank(request)
            return request["arguments"]
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
    import train

    answer = os.fdopen(os.dup(1), "w")
    print("ready", file=answer, flush=True)
    arguments = serve(answer)
    if arguments is None:
        return 0
    answer.close()
    return train.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
