# A package of the release's own programs, for packages/rollcall_nccl of a repository of yours.
# Start `spack install rollcall-nccl` where rollcall-@VERSION@-linux-*.tar.gz of the release is.
import os
import platform

from spack.package import *


class RollcallNccl(Package):
    """@SUMMARY@"""

    homepage = "https://example.org/rollcall"
    manual_download = True

    license("MIT")

    _sha256 = {
        "x86_64": "@SHA256_X86_64@",
        "aarch64": "@SHA256_AARCH64@",
    }

    if platform.machine() in _sha256:
        version("@VERSION@", sha256=_sha256[platform.machine()])

    requires("platform=linux")

    def url_for_version(self, version):
        return f"file://{os.getcwd()}/rollcall-{version}-linux-{platform.machine()}.tar.gz"

    def install(self, spec, prefix):
        install_tree(".", prefix)

    def setup_run_environment(self, env):
        # For LD_PRELOAD of a job, and of no shell: `rollcall run` does that by itself.
        env.set("ROLLCALL_PRELOAD", join_path(self.prefix, "lib", "rollcall", "librollcall.so"))

    @run_after("install")
    def the_command_runs(self):
        Executable(self.prefix.bin.rollcall)("--version")
