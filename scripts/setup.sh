#!/usr/bin/env bash
# Installs what the build needs and is missing, with apt (Debian 12, Ubuntu 22.04 and later).
#
#   scripts/setup.sh          what `make hang`, `make test` and `make bench` need
#   scripts/setup.sh --api    also what `make check-api` needs (fetches NCCL wheels with pip)
#   scripts/setup.sh --lint   also what `make check`, `make asan` and `make fuzz` need (clang 14
#                             and its tools)
#   scripts/setup.sh --attack also what some attacks of `make test` need; where it cannot
#                             be installed, that part skips itself, and this goes on
#   scripts/setup.sh --browser also what the tests of the page need, as --attack
#   scripts/setup.sh --packages  also what `make packages` and `make test-packages` need
#   scripts/setup.sh --slurm  also what `make test-slurm` needs
#   scripts/setup.sh --ci     all of it but --packages and --slurm
#   scripts/setup.sh --list   prints the packages and what each is for, installs nothing
#
# Does nothing, in one dpkg-query, when nothing is missing. ROLLCALL_SKIP_SETUP=1 skips it, for
# systems where the same things come from elsewhere: CMake then says what it cannot find.
set -euo pipefail

# package|what for
base_packages='g++|compiler, C++20 (GCC 11 or newer)
cmake|build system, 3.22 or newer
ninja-build|runs the build
pkg-config|finds MPI
libfmt-dev|text output of the tools
libcli11-dev|command line of the tools
nlohmann-json3-dev|JSON output and its tests
libzstd-dev|compressed segments, and logs
zlib1g-dev|logs that gzip packed
liblzma-dev|logs that xz packed
libsqlite3-0|exports of Nsight Systems, opened when one is read
libconcurrentqueue-dev|queue between threads, headers only
catch2|unit tests
libopenmpi-dev|reading a run with several processes, and the MPI example
openmpi-bin|mpirun, for both
python3|end-to-end tests and checks
git|names the commit in rollcall --version, and lists the files to check'
api_packages='python3-pip|fetches the NCCL wheels that make check-api reads
python3-venv|keeps pip apart from the system'
lint_packages='clang-14|address sanitizer, fuzz targets
libclang-rt-14-dev|their runtimes
clang-format-14|layout of the sources
clang-tidy-14|static analysis
binutils|lists exported symbols'
package_packages='g++-aarch64-linux-gnu|libraries for 64-bit ARM
qemu-user|runs the ARM command, which prints its own manual
lintian|judges the deb
rpm|installs the rpm, in a folder
skopeo|reads the image
umoci|unpacks it
debootstrap|an older Debian to install the deb in
environment-modules|EasyBuild installs a module'
slurm_packages='slurmctld|a Slurm of one node, to run jobs under
slurmd|starts its jobs
slurm-client|srun and sbatch
munge|tells the daemons who asks
libslurm-dev|the header that the SPANK plugin is built against'
attack_packages='python3-fusepy|file systems that are slow or fail, for attacks
fuse3|mounts them'
browser_packages='chromium|shows the page of rollcall report, in its tests
chromium-driver|drives it
python3-selenium|speaks with the driver'
# The fuzzer got a package of its own after Ubuntu 22.04.
if grep -q 'CODENAME=jammy$' /etc/os-release 2>/dev/null; then
  lint_packages=${lint_packages/libclang-rt-14-dev/libclang-common-14-dev}
fi

packages=$base_packages
optional_packages=
list_only=0
for argument in "$@"; do
  case $argument in
    --api) packages+=$'\n'$api_packages ;;
    --packages) packages+=$'\n'$api_packages$'\n'$package_packages ;;
    --slurm) packages+=$'\n'$slurm_packages ;;
    --lint) packages+=$'\n'$lint_packages ;;
    --attack) optional_packages+=${optional_packages:+$'\n'}$attack_packages ;;
    --browser) optional_packages+=${optional_packages:+$'\n'}$browser_packages ;;
    --ci)
      packages+=$'\n'$api_packages$'\n'$lint_packages
      optional_packages=$attack_packages$'\n'$browser_packages
      ;;
    --list) list_only=1 ;;
    *)
      echo "setup: unknown argument '$argument'; see the first lines of $0" >&2
      exit 2
      ;;
  esac
done

if [ "$list_only" = 1 ]; then
  while IFS='|' read -r package reason; do
    printf '  %-24s %s\n' "$package" "$reason"
  done <<<"$packages${optional_packages:+$'\n'}$optional_packages"
  exit 0
fi
[ "${ROLLCALL_SKIP_SETUP:-0}" = 1 ] && exit 0

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  {
    echo "setup: this system has no apt, so nothing was installed. Needed is what Debian calls:"
    while IFS='|' read -r package reason; do
      printf '  %-24s %s\n' "$package" "$reason"
    done <<<"$packages"
    echo "Install them with your package manager, then run make again with ROLLCALL_SKIP_SETUP=1."
  } >&2
  exit 1
fi

# A program that is already on the PATH counts as installed, whoever installed it.
program_of() {
  case $1 in
    cmake | git | python3 | g++ | pkg-config) echo "$1" ;;
    ninja-build) echo ninja ;;
  esac
}

# Sets `missing` to what a list of packages has and this system has not.
find_missing() {
  local package reason program installed names
  missing=()
  names=$(cut -d'|' -f1 <<<"$1")
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $names 2>/dev/null |
    sed -n 's/^installed //p' || true)
  while IFS='|' read -r package reason; do
    [ -n "$package" ] || continue
    grep -qxF -- "$package" <<<"$installed" && continue
    program=$(program_of "$package")
    if [ -n "$program" ] && command -v "$program" >/dev/null; then continue; fi
    missing+=("$package")
    printf 'setup: missing %-24s %s\n' "$package" "$reason"
  done <<<"$1"
}

as_root=()
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -q -o DPkg::Lock::Timeout=120 "$@" </dev/null
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install_missing() {
  echo "setup: installing ${#missing[@]} packages with apt-get; this happens once"
  # A failed update matters only if the install then fails too: one broken third-party source in
  # sources.list is common, and none of our packages comes from it.
  apt update >"$log" 2>&1 || true
  apt install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1
}

find_missing "$packages"
if [ ${#missing[@]} != 0 ]; then
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "setup: installing needs root, and there is no sudo. As root, run:" >&2
      echo "  apt-get update && apt-get install --no-install-recommends ${missing[*]}" >&2
      exit 1
    fi
    as_root=(sudo)
    # A script without a terminal must fail here, not wait for a password.
    if [ ! -t 0 ]; then as_root=(sudo -n); fi
  fi
  if ! install_missing; then
    tail -n 25 "$log" >&2
    echo "setup: apt-get could not install: ${missing[*]}" >&2
    echo "setup: the lines above are its last words. Mend that, or install them another way and" \
      "set ROLLCALL_SKIP_SETUP=1." >&2
    exit 1
  fi
  echo "setup: done"
fi

[ -n "$optional_packages" ] || exit 0
# Nobody is asked for a password for what can be done without.
if [ "$(id -u)" != 0 ]; then as_root=(sudo -n); fi
# Each kind by itself: a system may have one of them and no package of another.
for kind in "$attack_packages" "$browser_packages"; do
  [[ $optional_packages == *"$kind"* ]] || continue
  find_missing "$kind"
  [ ${#missing[@]} = 0 ] && continue
  if install_missing; then
    echo "setup: done"
  else
    echo "setup: goes on without ${missing[*]}; the tests that need them are skipped"
  fi
done
