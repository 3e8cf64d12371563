#include "emulator/nccl/faults.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/nccl/settings.h"

namespace emu_nccl {
namespace {

struct Fault {
  std::string kind;
  uint64_t value = 0;
  int rank = 0;
  uint64_t call = 0;
};

// kind[=value]@rank:call
bool parse(const std::string& text, Fault* fault) {
  const size_t at = text.find('@');
  const size_t colon = text.find(':', at == std::string::npos ? 0 : at);
  if (at == std::string::npos || colon == std::string::npos) return false;
  const std::string what = text.substr(0, at);
  const size_t equals = what.find('=');
  fault->kind = what.substr(0, equals);
  uint64_t fallback = 1;
  if (fault->kind == "delay")
    fallback = 1000;
  else if (fault->kind == "slow")
    fallback = 10;
  else if (fault->kind != "skip" && fault->kind != "kill" && fault->kind != "stop" &&
           fault->kind != "wrong-count" && fault->kind != "ecc")
    return false;
  char* end = nullptr;
  fault->value =
      equals == std::string::npos ? fallback : std::strtoull(what.c_str() + equals + 1, &end, 10);
  if (end != nullptr && *end != '\0') return false;
  const std::string rank = text.substr(at + 1, colon - at - 1);
  fault->rank = static_cast<int>(std::strtol(rank.c_str(), &end, 10));
  if (rank.empty() || *end != '\0') return false;
  const std::string call = text.substr(colon + 1);
  fault->call = std::strtoull(call.c_str(), &end, 10);
  return !call.empty() && *end == '\0';
}

std::vector<Fault> parse_all() {
  std::vector<Fault> faults;
  const std::string& all = settings().faults;
  for (size_t start = 0; start < all.size();) {
    const size_t end = std::min(all.find(',', start), all.size());
    const std::string text = all.substr(start, end - start);
    Fault fault;
    if (parse(text, &fault)) {
      faults.push_back(fault);
    } else {
      std::fprintf(
          stderr,
          "rollcall emulator: ROLLCALL_EMULATE_FAULT: '%s' is not KIND[=VALUE]@RANK:CALL with "
          "delay, skip, kill, stop, wrong-count, ecc or slow; ignored\n",
          text.c_str());
    }
    start = end + 1;
  }
  return faults;
}

}  // namespace

FaultEffect apply_faults(int job_rank, size_t* count) {
  static const std::vector<Fault>* const faults = new std::vector<Fault>(parse_all());
  FaultEffect effect;
  if (faults->empty()) return effect;
  static std::mutex* const mutex = new std::mutex;
  static auto* const calls = new std::map<int, uint64_t>;
  uint64_t call;
  {
    std::lock_guard<std::mutex> lock(*mutex);
    call = (*calls)[job_rank]++;
  }
  for (const Fault& fault : *faults) {
    if (fault.rank != job_rank || call < fault.call) continue;
    if (fault.kind == "slow") effect.slow_factor = static_cast<uint32_t>(fault.value);
    if (call != fault.call) continue;
    if (fault.kind == "delay") {
      timespec pause = {static_cast<time_t>(fault.value / 1000),
                        static_cast<long>(fault.value % 1000) * 1'000'000};
      while (nanosleep(&pause, &pause) != 0) {
      }
    } else if (fault.kind == "skip") {
      effect.skip = true;
    } else if (fault.kind == "ecc") {
      effect.has_faulty_memory = true;
    } else if (fault.kind == "kill") {
      kill(getpid(), SIGKILL);
    } else if (fault.kind == "stop") {
      kill(getpid(), SIGSTOP);
    } else if (fault.kind == "wrong-count") {
      *count = *count > fault.value ? *count - fault.value : *count + fault.value;
    }
  }
  return effect;
}

}  // namespace emu_nccl
