// Ends that run no destructor, hence no flush_at_exit().
#include <sched.h>
#include <signal.h>

#include <cstdlib>

#include "core/capture/live.h"
#include "tests/capture/own_process.h"
#include "tests/catch.h"

namespace rollcall {
namespace exit_test {

using test::ended_well;
using test::in_own_process;
using test::TemporaryDirectory;

char comm;

void record(int calls) { test::record_all_reduces(&comm, calls); }

size_t exits_in(const test::RingContents& ring) {
  return static_cast<size_t>(
      std::count_if(ring.events.begin(), ring.events.end(),
                    [](const auto& entry) { return entry.second.kind == EventKind::ProcessExit; }));
}

TEST_CASE("an immediate exit is on file once, and takes no lock") {
  const TemporaryDirectory directory;
  CHECK(ended_well(in_own_process(directory.path(), [] {
    record(5);
    const capture::ColdLock held;  // by the thread that a signal handler interrupted
    capture::note_immediate_exit();
    capture::note_immediate_exit();
  })));
  REQUIRE(directory.files(".ring").size() == 1);
  const test::RingContents ring = test::read_ring(directory.files(".ring")[0]);
  CHECK(ring.ops.size() == 5);
  CHECK(ring.header.exit_state == static_cast<uint32_t>(ExitState::exited));
  CHECK(ring.header.exited_ticks != 0);
  CHECK(exits_in(ring) == 1);
  CHECK(ring.events.rbegin()->second.arguments[0] == kExitAtOnce);
}

TEST_CASE("an immediate exit of a process that recorded nothing leaves nothing") {
  const TemporaryDirectory directory;
  CHECK(ended_well(in_own_process(directory.path(), [] { capture::note_immediate_exit(); })));
  CHECK(directory.files(".ring").empty());
}

TEST_CASE("the immediate exit of a child, whatever it shares, does not end its parent's file") {
  const TemporaryDirectory directory;
  CHECK(ended_well(in_own_process(directory.path(), [] {
    record(5);
    const auto end_child = [](pid_t child) {
      if (child != 0) return;
      capture::note_immediate_exit();
      _exit(0);
    };
    for (int kind = 0; kind < 2; ++kind) {
      end_child(kind == 0 ? fork() : test::fork_unseen());
      wait(nullptr);
    }
    // As vfork does, with a stack of its own.
    alignas(16) static char stack[65536];
    const pid_t child = clone(
        [](void*) {
          capture::note_immediate_exit();
          return 0;
        },
        stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, nullptr);
    CHILD_REQUIRE(child > 0);
    wait(nullptr);
    CHILD_REQUIRE(capture::live.header->exit_state ==
                  static_cast<uint32_t>(ExitState::running_or_killed));
    record(1);
    capture::note_immediate_exit();
  })));
  REQUIRE(directory.files(".ring").size() == 1);
  const test::RingContents ring = test::read_ring(directory.files(".ring")[0]);
  CHECK(ring.ops.size() == 6);
  CHECK(ring.header.exit_state == static_cast<uint32_t>(ExitState::exited));
  CHECK(exits_in(ring) == 1);
}

TEST_CASE("quick_exit leaves an exit record, in the process that recorded and not in its child") {
  for (const bool in_child : {false, true}) {
    const TemporaryDirectory directory;
    CHECK(ended_well(in_own_process(directory.path(), [in_child] {
      record(5);
      if (!in_child || fork() == 0) std::quick_exit(0);
      wait(nullptr);
    })));
    REQUIRE(directory.files(".ring").size() == 1);
    CHECK(exits_in(test::read_ring(directory.files(".ring")[0])) == (in_child ? 0 : 1));
  }
}

}  // namespace exit_test
}  // namespace rollcall
