#!/usr/bin/env python3
"""What of others is inside the packages: their licences, and a list for machines (SPDX 2.3).

  scripts/third_party.py notices       the licence of each, as its package has it
  scripts/third_party.py sbom          the list, as JSON
  scripts/third_party.py --self-test   holds the table against scripts/build_portable.sh

One table, THIRD_PARTY, is the source of both. Versions and texts are those of the Debian packages
that the command is built from; LLVM's run-time libraries come with the compiler, from PyPI, and
their licence lies in packaging/licences, as musl's does, which comes with it, too.
"""
import json
import re
import subprocess
import sys
import time

import pack

DEBIAN = "/usr/share/doc/{}/copyright"
COMPILER = "ziglang"
# Name, package, licence (SPDX), home, what scripts/build_portable.sh takes of it.
THIRD_PARTY = (
    ("CLI11", "libcli11-dev", "BSD-3-Clause", "https://github.com/CLIUtils/CLI11", ("CLI",)),
    ("fmt", "libfmt-dev", "MIT", "https://github.com/fmtlib/fmt", ("fmt",)),
    ("JSON for Modern C++", "nlohmann-json3-dev", "MIT", "https://github.com/nlohmann/json",
     ("nlohmann",)),
    ("liblzma", "liblzma-dev", "LicenseRef-public-domain", "https://tukaani.org/xz/",
     ("lzma.h", "lzma", "liblzma.a")),
    ("musl (in the image's /install)", COMPILER, "MIT", "https://musl.libc.org", ()),
    ("LLVM run-time libraries (libc++, libc++abi, libunwind)", COMPILER,
     "Apache-2.0 WITH LLVM-exception", "https://llvm.org", ()),
    ("moodycamel::ConcurrentQueue", "libconcurrentqueue-dev", "BSD-2-Clause",
     "https://github.com/cameron314/concurrentqueue", ("concurrentqueue",)),
    ("zlib", "zlib1g-dev", "Zlib", "https://zlib.net", ("zlib.h", "zconf.h", "libz.a")),
    ("Zstandard", "libzstd-dev", "BSD-3-Clause", "https://github.com/facebook/zstd",
     ("zstd.h", "zstd_errors.h", "libzstd.a")),
)
TESTS_ONLY = {"catch2"}  # which build_portable.sh takes, and no package holds


def build_script():
    return pack.read(pack.ROOT, "scripts", "build_portable.sh").decode()


def version_of(package):
    if package == COMPILER:
        return re.search(r"zig_version=\W*([0-9.]+)", build_script()).group(1)
    found = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], check=False,
                           capture_output=True, text=True)
    if found.returncode != 0:
        sys.exit(f"third_party: dpkg knows no version of {package}: {found.stderr.strip()}")
    return found.stdout


def licence_of(name, package):
    if package != COMPILER:
        return pack.read(DEBIAN.format(package)).decode()
    text = "musl.txt" if name.startswith("musl") else "llvm.txt"
    return pack.read(pack.PACKAGING, "licences", text).decode()


def parts_of(arch):
    """What is in the packages of `arch`; a build of this machine links its own run-time library."""
    return [part for part in THIRD_PARTY if arch != "native" or part[1] != COMPILER]


def notices(arch):
    text = ("The command `rollcall` holds parts of these works of others, but for what is said to\n"
            "be in the image's /install. The libraries that are loaded into jobs hold none.\n")
    for name, package, licence, home, _ in parts_of(arch):
        text += (f"\n{'=' * 80}\n{name} {version_of(package)}\n{home}\n{licence}\n{'-' * 80}\n"
                 f"{licence_of(name, package).strip()}\n")
    return text.encode()


def spdx_id(name):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-")


def package_entry(name, version, licence, home):
    return {"SPDXID": spdx_id(name), "name": name, "versionInfo": version,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "homepage": home,
            "licenseConcluded": licence, "licenseDeclared": licence,
            "copyrightText": "NOASSERTION"}


def sbom():
    ours = package_entry("rollcall-nccl", pack.version(), "MIT", "NOASSERTION")
    ours.pop("homepage")
    others = [package_entry(name, version_of(package), licence, home)
              for name, package, licence, home, _ in THIRD_PARTY]
    name = f"rollcall-nccl-{pack.version()}"
    relations = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
                  "relatedSpdxElement": ours["SPDXID"]}]
    relations += [{"spdxElementId": ours["SPDXID"], "relationshipType": "CONTAINS",
                   "relatedSpdxElement": other["SPDXID"]} for other in others]
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": name, "documentNamespace": f"urn:spdx:{name}-{pack.source_time()}",
        "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ",
                                                  time.gmtime(pack.source_time())),
                         "creators": ["Tool: scripts/third_party.py"]},
        "packages": [ours] + others, "relationships": relations,
        "hasExtractedLicensingInfos": [
            {"licenseId": "LicenseRef-public-domain", "name": "Public domain",
             "extractedText": "liblzma 5.4 and older are in the public domain."}]}


def self_test():
    script = build_script()
    taken = set()
    for name in ("headers", "archives"):
        taken |= set(re.search(rf"^{name}=\((.*?)\)", script, re.MULTILINE).group(1).split())
    known = {item for part in THIRD_PARTY for item in part[4]}
    assert taken - TESTS_ONLY == known, (taken - TESTS_ONLY) ^ known
    assert version_of(COMPILER)[0].isdigit()
    ids = [spdx_id(part[0]) for part in THIRD_PARTY]
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", one)
                                             for one in ids)
    print("third_party: self-test passed")


def main(words):
    if words == ["notices"]:
        sys.stdout.buffer.write(notices("x86_64"))
    elif words == ["sbom"]:
        print(json.dumps(sbom(), indent=1))
    elif words == ["--self-test"]:
        self_test()
    else:
        print(__doc__)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
