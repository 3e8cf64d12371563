#!/usr/bin/env bash
# Builds what runs on every Linux from glibc 2.28 on (RHEL 8, Ubuntu 20.04, Debian 11), whatever
# this machine has, and lays it out as an installation, stripped:
#
#   scripts/build_portable.sh ARCH        x86_64 or aarch64; into build/portable-ARCH/stage
#   scripts/build_portable.sh ARCH TARGET...    builds these targets of the command's build instead
#
# The injected libraries are plain C underneath and are built by GCC, which they are measured with;
# cmake/glibc_compat.h binds them to old symbols. The command and the emulator are C++ and would
# need the libstdc++ of this system: zig's clang builds them, with its own C++ library in them,
# against the symbols of glibc 2.28.
set -euo pipefail
cd "$(dirname "$0")/.."

arch=${1:-x86_64}
shift || true
targets=("$@")
jobs=${JOBS:-$(nproc)}
glibc=2.28
# A release of zig is a compiler: another one makes other bytes.
zig_version=0.17.1
case $arch in
  x86_64) debian_arch=amd64 gnu_prefix= ;;
  aarch64) debian_arch=arm64 gnu_prefix=aarch64-linux-gnu- ;;
  *)
    echo "build_portable: unknown architecture '$arch'; x86_64 and aarch64 can be built" >&2
    exit 2
    ;;
esac
root=build/portable-$arch
tools=$PWD/build/package-tools
mkdir -p "$root"

install_zig() {
  [ -x "$tools/bin/python3" ] || python3 -m venv "$tools"
  [ "$(cat "$tools/zig-version" 2>/dev/null || true)" = "$zig_version" ] && return
  echo "build_portable: installing zig $zig_version with pip into build/package-tools"
  "$tools/bin/python3" -m pip install --quiet --disable-pip-version-check "ziglang==$zig_version"
  echo "$zig_version" >"$tools/zig-version"
}

# ccache and CMake want compilers with a name and no arguments.
write_compilers() {
  local zig name
  zig=$("$tools/bin/python3" -c 'import os, ziglang
print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')
  for name in cc c++; do
    printf '#!/bin/sh\nexec "%s" %s -target %s-linux-gnu.%s "$@"\n' "$zig" "$name" "$arch" \
      "$glibc" >"$root/zig-$name.new"
  done
  for name in ar ranlib; do
    printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$zig" "$name" >"$root/zig-$name.new"
  done
  for name in cc c++ ar ranlib; do
    chmod +x "$root/zig-$name.new"
    # An unchanged file keeps its time, and what was built with it stays built.
    if cmp -s "$root/zig-$name.new" "$root/zig-$name"; then
      rm "$root/zig-$name.new"
    else
      mv "$root/zig-$name.new" "$root/zig-$name"
    fi
  done
}

# What the command links, from Debian's development packages. Those for another processor are
# unpacked and not installed.
archives=(libzstd.a libz.a liblzma.a)
archive_packages=(libzstd-dev zlib1g-dev liblzma-dev)
copy_archives() {
  local root_folder=/ apt=$PWD/$root/apt name
  if [ "$debian_arch" != "$(dpkg --print-architecture)" ]; then
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    local options=(-q -q -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache"
      -o Dir::State::status=/dev/null -o "APT::Architecture=$debian_arch"
      -o "APT::Architectures=$debian_arch" -o APT::Sandbox::User=)
    apt-get "${options[@]}" update
    (cd "$apt" && apt-get "${options[@]}" download "${archive_packages[@]/%/:$debian_arch}")
    for name in "$apt"/*.deb; do dpkg-deb -x "$name" "$apt/unpacked"; done
    root_folder=$apt/unpacked/
  fi
  for name in "${archives[@]}"; do
    cp "$root_folder"usr/lib/"$arch-linux-gnu/$name" "$1/$name"
  done
}

# Links to what is used and nothing else: another header of /usr/include would hide zig's own.
headers=(fmt CLI nlohmann catch2 concurrentqueue zstd.h zstd_errors.h zlib.h zconf.h lzma.h lzma)
collect_third_party() {
  local folder=$root/third_party name
  [ "$(cat "$folder/complete" 2>/dev/null)" = "${headers[*]} ${archives[*]}" ] && return
  rm -rf "$folder"
  mkdir -p "$folder/include" "$folder/lib"
  for name in "${headers[@]}"; do
    # Debian has had some of them in the folder of the architecture.
    ln -s "$(ls -d "/usr/include/$name" "/usr/include/$(uname -m)-linux-gnu/$name" 2>/dev/null |
      head -n 1)" "$folder/include/$name"
  done
  copy_archives "$folder/lib"
  echo "${headers[*]} ${archives[*]}" >"$folder/complete"
}

# CUPTI's declarations, which say what ROLLCALL_GPU_TIMING=cupti asks for, and cuda.h with them.
# From NVIDIA's packages, so that what is packed does not depend on what this machine has.
cupti_packages=(nvidia-cuda-cupti==13.0.85 nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88)
fetch_cuda_headers() {
  local folder=$PWD/build/package-tools/cuda
  if [ ! -f "$folder/complete" ]; then
    rm -rf "$folder"
    mkdir -p "$folder"
    echo "build_portable: fetching NVIDIA's headers with pip: ${cupti_packages[*]}"
    "$tools/bin/python3" -m pip download --quiet --disable-pip-version-check --no-deps \
      --dest "$folder" "${cupti_packages[@]}"
    "$tools/bin/python3" - "$folder" <<'END'
import glob, sys, zipfile
for path in glob.glob(sys.argv[1] + "/*.whl"):
    with zipfile.ZipFile(path) as wheel:
        wheel.extractall(sys.argv[1], [name for name in wheel.namelist() if "/include/" in name])
END
    rm "$folder"/*.whl
    touch "$folder/complete"
  fi
  cuda_headers=$folder/nvidia/cu13/include
}

launcher=()
if command -v ccache >/dev/null; then
  launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  # It asks compilers that it does not know by their name.
  export CCACHE_COMPILERTYPE=clang CCACHE_COMPILERCHECK="string:zig $zig_version $arch $glibc"
  # Rewritten paths would be in messages, and differ from those of a build without ccache.
  export CCACHE_BASEDIR=
fi
common=(-G Ninja -DROLLCALL_WERROR=OFF -DCMAKE_BUILD_TYPE=Release
  "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG" "-DCMAKE_C_FLAGS_RELEASE=-O2 -DNDEBUG"
  -DROLLCALL_THIRD_PARTY="$PWD/$root/third_party"
  -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON "${launcher[@]}")
cross=()
if [ "$arch" != "$(uname -m)" ]; then
  cross=(-DCMAKE_SYSTEM_NAME=Linux "-DCMAKE_SYSTEM_PROCESSOR=$arch"
    "-DCMAKE_CROSSCOMPILING_EMULATOR=$(command -v "qemu-$arch" || true)")
fi

configure() {
  local folder=$1
  shift
  [ -f "$folder/build.ninja" ] && return
  cmake -S . -B "$folder" "${common[@]}" "${cross[@]}" "$@" >"$folder.log" 2>&1 ||
    { cat "$folder.log" >&2 && exit 1; }
}

build_command() {
  # Assertions and messages name files as the sources do, wherever they were built.
  local flags="-ffile-prefix-map=$PWD/= -ffile-prefix-map=$PWD/$root/="
  configure "$root/command" -DCMAKE_C_COMPILER="$PWD/$root/zig-cc" \
    -DCMAKE_CXX_COMPILER="$PWD/$root/zig-c++" -DCMAKE_AR="$PWD/$root/zig-ar" \
    -DCMAKE_RANLIB="$PWD/$root/zig-ranlib" -DCMAKE_EXE_LINKER_FLAGS=-pie \
    -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags"
  cmake --build "$root/command" -j "$jobs" --target "$@"
}

build_injected() {
  unset CCACHE_COMPILERTYPE CCACHE_COMPILERCHECK
  configure "$root/injected" -DCMAKE_C_COMPILER="${gnu_prefix}gcc" \
    -DCMAKE_CXX_COMPILER="${gnu_prefix}g++" -DROLLCALL_FOLDERS="core;shim;profiler_plugin" \
    -DROLLCALL_CUPTI_INCLUDE="$cuda_headers" -DROLLCALL_CUDA_INCLUDE="$cuda_headers" \
    "-DCMAKE_C_FLAGS=-ffile-prefix-map=$PWD/=" "-DCMAKE_CXX_FLAGS=-ffile-prefix-map=$PWD/=" \
    "-DCMAKE_ASM_FLAGS=-ffile-prefix-map=$PWD/="
  cmake --build "$root/injected" -j "$jobs" --target rollcall_shim rollcall_plugin
}

emulator_targets=(rollcall_emu_cuda rollcall_emu_nccl rollcall_emu_nvml rollcall_emu_cudart11
  rollcall_emu_cudart12 rollcall_emu_cudart13)
for release in 11 12 13; do
  emulator_targets+=("rollcall_emu_libcublas$release" "rollcall_emu_libcublasLt$release")
done

install_zig
write_compilers
collect_third_party
if [ ${#targets[@]} != 0 ]; then
  build_command "${targets[@]}"
  exit
fi
build_command rollcall "${emulator_targets[@]}"
fetch_cuda_headers
build_injected
scripts/pack.py stage "$arch" "$root/command" "$root/injected"
