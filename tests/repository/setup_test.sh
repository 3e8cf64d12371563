#!/usr/bin/env bash
# scripts/setup.sh on machines made of stand-ins: a folder with fake programs is its whole PATH.
#   setup_test.sh PATH_OF_SETUP_SH
set -euo pipefail
setup=$1
world=$(mktemp -d)
trap 'rm -rf "$world"' EXIT
bash=$(command -v bash)
failures=0

# new_machine: only what every system has.
new_machine() {
  rm -rf "${world:?}/bin" "$world/calls" "$world/output"
  mkdir "$world/bin"
  : >"$world/calls"
  local program
  for program in bash cut sed grep cat mktemp rm tail env sh; do
    ln -s "$(command -v "$program")" "$world/bin/$program"
  done
}
# fake NAME BODY: a program that notes its arguments, then runs BODY.
fake() {
  printf '#!%s\necho "%s $*" >>%q\n%s\n' "$bash" "$1" "$world/calls" "$2" >"$world/bin/$1"
  chmod +x "$world/bin/$1"
}
with_apt() { # $1: what dpkg-query prints
  fake dpkg-query "$1"
  fake apt-get "${2:-exit 0}"
}
run_setup() {
  status=0
  env -i PATH="$world/bin" HOME="$world" TMPDIR="$world" "$@" >"$world/output" 2>&1 </dev/null ||
    status=$?
}
check() { # check SENTENCE CONDITION...
  local sentence=$1
  shift
  if "$@"; then return; fi
  echo "not so: $sentence (status $status)"
  sed 's/^/  output: /' "$world/output"
  sed 's/^/  called: /' "$world/calls"
  failures=$((failures + 1))
}
says() { grep -qF -- "$1" "$world/output"; }
not_says() { ! says "$1"; }
silent() { [ ! -s "$world/output" ]; }
called() { grep -qE -- "$1" "$world/calls"; }
not_called() { ! called "$1"; }

# The list itself comes from the script, so that the test does not repeat it.
new_machine
run_setup bash "$setup" --list
packages=$(sed -n 's/^  \([^ ]*\) .*/\1/p' "$world/output")
check "--list names the packages and succeeds" [ "$status" = 0 ]
check "--list names the compiler" says g++
all_installed="printf 'installed %s\n' $(tr '\n' ' ' <<<"$packages")"

new_machine
with_apt "$all_installed"
run_setup bash "$setup"
check "nothing missing: succeeds" [ "$status" = 0 ]
check "nothing missing: says nothing" silent
check "nothing missing: apt-get is not called" not_called '^apt-get'

# new_machine_of_jammy STATUS: what looking for Ubuntu 22.04's name in /etc/os-release exits with.
new_machine_of_jammy() {
  new_machine
  rm "$world/bin/grep" # a link, which fake would write through
  fake grep "case \"\$*\" in *jammy*) exit $1 ;; esac; exec $(command -v grep) \"\$@\""
}
new_machine_of_jammy 1
run_setup bash "$setup" --lint --list
check "the fuzzer has a package of its own" says libclang-rt-14-dev

new_machine_of_jammy 0
run_setup bash "$setup" --lint --list
check "Ubuntu 22.04: the fuzzer is in another package" says libclang-common-14-dev
check "Ubuntu 22.04: a package unknown there is not named" not_says libclang-rt-14-dev

new_machine
with_apt "$(sed 's/ catch2//' <<<"$all_installed")"
fake id 'echo 0'
run_setup bash "$setup"
check "root, one missing: succeeds" [ "$status" = 0 ]
check "root, one missing: says which and why" says "missing catch2"
check "root, one missing: installs it" called '^apt-get .*install .*catch2'
check "root, one missing: installs nothing else" not_called '^apt-get .*libfmt-dev'

new_machine
with_apt "$(sed 's/ cmake//' <<<"$all_installed")"
fake cmake 'exit 0'
run_setup bash "$setup"
check "a program from elsewhere counts as installed" [ "$status" = 0 ]
check "a program from elsewhere is not installed again" not_called '^apt-get'

new_machine
with_apt 'exit 1'
fake id 'echo 1000'
fake sudo 'while [ "$1" = -n ]; do shift; done; exec "$@"'
run_setup bash "$setup"
check "a user with sudo, all missing: succeeds" [ "$status" = 0 ]
check "a user with sudo never waits for a password" called '^sudo -n '
check "a user with sudo: installs through it" called '^apt-get .*install'

new_machine
with_apt 'exit 1'
fake id 'echo 1000'
run_setup bash "$setup"
check "a user without sudo: fails" [ "$status" = 1 ]
check "a user without sudo: says what root has to run" says "apt-get install"
check "a user without sudo: apt-get is not called" not_called '^apt-get'

new_machine
run_setup bash "$setup"
check "no apt: fails" [ "$status" = 1 ]
check "no apt: names the packages" says libcli11-dev
check "no apt: says how to go on" says ROLLCALL_SKIP_SETUP=1
run_setup env ROLLCALL_SKIP_SETUP=1 bash "$setup"
check "skipped: succeeds" [ "$status" = 0 ]
check "skipped: says nothing" silent

new_machine
with_apt 'exit 1' 'case "$*" in *install*) echo "E: no such package"; exit 100;; esac'
fake id 'echo 0'
run_setup bash "$setup"
check "apt-get fails: fails" [ "$status" = 1 ]
check "apt-get fails: shows its words" says "E: no such package"

# What attacks want, and can do without.
new_machine
with_apt "$all_installed"
fake id 'echo 0'
run_setup bash "$setup" --attack
check "root, attacks: succeeds" [ "$status" = 0 ]
check "root, attacks: installs what they want" called '^apt-get .*install .*python3-fusepy'
check "root, attacks: installs nothing else" not_called '^apt-get .*libfmt-dev'

new_machine
with_apt "$all_installed" 'exit 100'
fake id 'echo 0'
run_setup bash "$setup" --attack
check "attacks, apt-get fails: succeeds" [ "$status" = 0 ]
check "attacks, apt-get fails: says what is left out" says "goes on without python3-fusepy"

new_machine
with_apt "$all_installed"
fake id 'echo 1000'
run_setup bash "$setup" --attack
check "attacks, a user without sudo: succeeds" [ "$status" = 0 ]
check "attacks, a user without sudo: apt-get is not called" not_called '^apt-get'

new_machine
with_apt "$all_installed"
run_setup bash "$setup" --packages --list
check "packages: names what packs them" says g++-aarch64-linux-gnu
run_setup bash "$setup" --list
check "without packages: does not" not_says g++-aarch64-linux-gnu

new_machine
with_apt "$all_installed"
run_setup bash "$setup" --nonsense
check "an unknown argument is refused" [ "$status" = 2 ]

[ "$failures" = 0 ] || exit 1
echo "setup_test: all hold"
