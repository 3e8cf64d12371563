"""Runs cells in a notebook's kernel and prints what they print.

    notebook.py COMMAND... -- CELL...

COMMAND starts a program with the arguments that follow it; the kernel's are appended, as they stand
in a kernel.json that a user writes to have notebooks recorded.
"""
import json
import os
import sys
import tempfile

PATIENCE_S = 240


def install_kernel(folder, command):
    os.makedirs(os.path.join(folder, "kernels", "recorded"))
    with open(os.path.join(folder, "kernels", "recorded", "kernel.json"), "w",
              encoding="utf-8") as file:
        json.dump({"argv": [*command, sys.executable, "-m", "ipykernel_launcher", "-f",
                            "{connection_file}"],
                   "display_name": "recorded", "language": "python"}, file)


def run_cell(client, cell):
    """Prints the cell's output; raises what it raised."""
    def show(message):
        content = message["content"]
        if message["msg_type"] == "stream":
            print(content["text"], end="", flush=True)
        elif message["msg_type"] == "error":
            raise RuntimeError("\n".join(content["traceback"]))

    client.execute_interactive(cell, timeout=PATIENCE_S, output_hook=show)


def main():
    # The command may have a -- of its own.
    end = len(sys.argv) - sys.argv[::-1].index("--") - 1
    command, cells = sys.argv[1:end], sys.argv[end + 1:]
    with tempfile.TemporaryDirectory() as folder:
        install_kernel(folder, command)
        os.environ["JUPYTER_PATH"] = folder
        os.environ["JUPYTER_RUNTIME_DIR"] = folder
        from jupyter_client.manager import start_new_kernel

        manager, client = start_new_kernel(startup_timeout=PATIENCE_S, kernel_name="recorded")
        try:
            for cell in cells:
                run_cell(client, cell)
        finally:
            client.stop_channels()
            manager.shutdown_kernel()
    return 0


if __name__ == "__main__":
    sys.exit(main())
