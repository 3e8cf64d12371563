// Makes the fake recorder write what it was told to $ROLLCALL_FAKE_LOG at exit, one line each, for
// the tests that preload the shim.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/shim/fake_recorder.h"

namespace rollcall::capture {

void flush_at_exit() noexcept {
  const char* path = getenv("ROLLCALL_FAKE_LOG");
  std::FILE* out = path != nullptr ? std::fopen(path, "a") : nullptr;
  if (out == nullptr) return;
  note_event({.kind = EventKind::ProcessExit}, kResultSuccess);
  const fake::Recorder& all = fake::recorder();
  for (const fake::Op& op : all.ops)
    std::fprintf(out, "op %s count=%llu root=%d group=%u flags=%d result=%d\n",
                 name_of(op.call.kind).data(), static_cast<unsigned long long>(op.call.count),
                 op.call.root_or_peer, op.call.group != 0, op.call.flags, op.result);
  for (const fake::Event& event : all.events)
    std::fprintf(out, "event %s result=%d %s\n", name_of(event.kind).data(), event.result,
                 event.text.c_str());
  for (const fake::CommRecord& comm : all.comms)
    std::fprintf(out, "comm %s nranks=%d rank=%d state=%s\n", name_of(comm.entry.origin).data(),
                 comm.entry.nranks, comm.entry.rank,
                 name_of(static_cast<CommState>(comm.entry.state)).data());
  for (const std::string& line : all.meta) std::fprintf(out, "meta %s\n", line.c_str());
  for (const std::string& line : all.coverage) std::fprintf(out, "coverage %s\n", line.c_str());
  std::fprintf(out, "nested %u\n", all.nested_calls);
  std::fclose(out);
}

void note_immediate_exit() noexcept {
  if (!fake::recorder().ops.empty()) flush_at_exit();
}

}  // namespace rollcall::capture
