// Logs of millions of calls: what of them is held, what each takes, and what is still found.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>

#include "analysis/analysis.h"
#include "tests/catch.h"
#include "trace/import/importer.h"
#include "trace/loader.h"
#include "trace/packed_calls.h"

using namespace rollcall;
using namespace rollcall::trace;

namespace {

constexpr int kRanks = 4;

std::string created(int rank) {
  return fmt::format(
      "n:1{0}:1 [{0}] NCCL INFO ncclCommInitRankConfig comm 0xa{0} rank {0} nranks {1} cudaDev {0} "
      "nvmlDev {0} busId 0 commId 0x5 - Init COMPLETE\n",
      rank, kRanks);
}

// `end`: what stands behind the call; a blank makes a line that nobody writes so.
std::string call(int rank, int step, uint64_t count, const char* end = "\n") {
  return fmt::format(
      "n:1{0}:1 [{0}] NCCL INFO AllReduce: opCount {1:x} sendbuff 0x7f{2:x} recvbuff (nil) count "
      "{3} datatype 7 op 0 root 0 comm 0xa{0} [nranks={4}] stream 0x55{5}",
      rank, step, step * 512, count, kRanks, end);
}

std::string sent(int rank, int peer, const char* kind, int step, uint64_t count) {
  return fmt::format(
      "n:1{0}:1 [{0}] NCCL INFO {1}: opCount {2:x} sendbuff 0x7f recvbuff (nil) count {3} datatype "
      "7 op 0 root {4} comm 0xa{0} [nranks={5}] stream 0x55\n",
      rank, kind, step, count, peer, kRanks);
}

// A file that is gone when the test is.
class LogFile {
 public:
  LogFile() : path_("/tmp/rollcall_large_log_XXXXXX") {
    const int descriptor = ::mkstemp(path_.data());
    REQUIRE(descriptor >= 0);
    ::close(descriptor);
    for (int rank = 0; rank < kRanks; ++rank) add(created(rank));
  }
  ~LogFile() { ::unlink(path_.c_str()); }
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  void add(const std::string& text) { text_ += text; }
  // With so many calls held at most; 0: all.
  Run load(uint64_t calls_max) const {
    std::ofstream(path_, std::ios::binary) << text_;
    LoadOptions options;
    options.probe_processes = false;
    options.records_max = calls_max;
    return load_run(path_, options);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::string text_;
};

size_t held(const Run& run) {
  size_t calls = 0;
  for (const Process& process : run.processes) calls += process.ops.size();
  return calls;
}

bool says(const Run& run, const std::string& words) {
  return std::any_of(run.issues.begin(), run.issues.end(), [&](const Issue& issue) {
    return issue.text.find(words) != std::string::npos;
  });
}

std::vector<Process> read(const std::string& text) {
  std::vector<Process> processes;
  std::vector<Issue> issues;
  import_bytes("job.log", {reinterpret_cast<const uint8_t*>(text.data()), text.size()}, processes,
               issues);
  return processes;
}

// Lines of a log as they come, without the log: memory is then the reader's.
class MadeLines final : public ByteStream {
 public:
  explicit MadeLines(int steps) : steps_(steps) {
    for (int rank = 0; rank < kRanks; ++rank) text_ += created(rank);
  }
  size_t read(void* to, size_t bytes) override {
    while (text_.size() < bytes && step_ < steps_) {
      for (int rank = 0; rank < kRanks; ++rank) text_ += call(rank, step_, 1000 + step_ % 7);
      ++step_;
    }
    const size_t taken = text_.copy(static_cast<char*>(to), bytes);
    text_.erase(0, taken);
    return taken;
  }

 private:
  int steps_;
  int step_ = 0;
  std::string text_;
};

}  // namespace

TEST_CASE("packed calls come back as they were, whatever they are") {
  std::mt19937_64 random(GENERATE(1, 2, 3));
  PackedCalls packed;
  std::vector<std::pair<CallShape, PackedCall>> added;
  const uint64_t odd[] = {0, 1, 127, 128, UINT64_MAX, UINT64_MAX - 1};
  for (int i = 0; i < 20'000; ++i) {
    CallShape shape;
    shape.stream = random() % 3;
    shape.track = shape.comm = static_cast<uint32_t>(random() % 40);
    shape.root_or_peer = static_cast<int32_t>(random() % 9) - 1;
    shape.kind = random() % 2 == 0 ? OpKind::Send : OpKind::AllReduce;
    PackedCall call;
    call.count = odd[random() % std::size(odd)];
    call.position = random() % 4 == 0 ? odd[random() % std::size(odd)] : static_cast<uint64_t>(i);
    call.is_marked = random() % 5 == 0;
    packed.add(shape, call.count, call.position, call.is_marked);
    added.emplace_back(shape, call);
  }
  REQUIRE(packed.size() == added.size());
  PackedCalls::Reader reader(packed);
  PackedCall call;
  for (const auto& [shape, expected] : added) {
    REQUIRE(reader.next(call));
    const bool is_same = packed.shapes()[call.shape] == shape && call.count == expected.count &&
                         call.position == expected.position && call.is_marked == expected.is_marked;
    REQUIRE(is_same);
  }
  CHECK_FALSE(reader.next(call));
}

TEST_CASE(
    "a call of a log takes two bytes, and four with a count of its own, before it is wanted") {
  constexpr int kSteps = 50'000;
  std::vector<Process> processes;
  std::vector<Issue> issues;
  import_stream("job.log", std::make_unique<MadeLines>(kSteps), processes, issues, nullptr,
                LoggedAs::packed);
  REQUIRE(processes.size() == kRanks);
  for (const Process& process : processes) {
    CHECK(process.ops.empty());
    REQUIRE(process.packed != nullptr);
    REQUIRE(process.packed->size() == kSteps);
    // Chunks are half empty at worst.
    CHECK(process.packed->bytes() < 2 * 4 * kSteps);
  }
  PackedCalls alike;
  for (int i = 0; i < kSteps; ++i) alike.add({}, 1000, static_cast<uint64_t>(i));
  CHECK(alike.bytes() < 2 * 2 * kSteps);
}

TEST_CASE("of a large log the newest calls are held, and it is said how many are not") {
  LogFile log;
  for (int step = 0; step < 5000; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) log.add(call(rank, step, 1000));
  }
  const Run whole = log.load(0);
  CHECK(held(whole) == 20'000);
  CHECK_FALSE(says(whole, kReadAndLeftOut));
  const Run small_enough = log.load(20'000);
  CHECK(held(small_enough) == 20'000);
  CHECK_FALSE(says(small_enough, kReadAndLeftOut));

  const Run run = log.load(2000);
  CHECK(held(run) == 1000);
  CHECK(says(run, "19000 of 20000 calls were read and left out"));
  for (const Process& process : run.processes) {
    CHECK(process.skipped == 4750);
    CHECK(process.packed == nullptr);
    CHECK(process.comms[0].collectives == 5000);
    CHECK(process.ops.front().seq == 4750);
    CHECK(process.ops.back().ticket == 5000);
  }
  CHECK(analysis::analyse(run).status == analysis::analyse(whole).status);
  CHECK(analysis::analyse(run).findings[0].summary == analysis::analyse(whole).findings[0].summary);
}

TEST_CASE("a call that differs far in front of the newest is found in a large log") {
  LogFile log;
  for (int step = 0; step < 5000; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      log.add(call(rank, step, rank == 2 && step == 1234 ? 999 : 1000));
    }
  }
  const Run run = log.load(2000);
  CHECK(held(run) < 3000);
  const analysis::Report report = analysis::analyse(run);
  const analysis::Report of_all = analysis::analyse(log.load(0));
  CHECK(report.findings[0].verdict == analysis::Verdict::count_mismatch);
  CHECK(report.findings[0].summary == of_all.findings[0].summary);
  CHECK(report.findings[0].culprits.size() == 1);
  CHECK(report.status == of_all.status);
}

// Expects what is said of the whole log, from a part of it.
void check_as_of_all(const LogFile& log, uint64_t calls_max, analysis::Verdict verdict) {
  const Run run = log.load(calls_max);
  CHECK(says(run, kReadAndLeftOut));
  const analysis::Report report = analysis::analyse(run);
  const analysis::Report of_all = analysis::analyse(log.load(0));
  CHECK(of_all.findings[0].verdict == verdict);
  CHECK(report.findings[0].verdict == verdict);
  CHECK(report.findings[0].summary == of_all.findings[0].summary);
}

TEST_CASE("a difference is found where a rank left off long before it") {
  LogFile log;
  for (int step = 0; step < 5000; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank != 3 || step < 100) log.add(call(rank, step, rank == 1 && step == 2500 ? 9 : 1000));
    }
  }
  const Run run = log.load(4000);
  const std::vector<Op>& ops = run.processes[1].ops;
  CHECK(std::any_of(ops.begin(), ops.end(), [](const Op& op) { return op.count == 9; }));
}

TEST_CASE("counts and datatypes whose numbers would cancel each other out are told apart") {
  LogFile log;
  for (int step = 0; step < 5000; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      std::string line = call(rank, step, 1024);
      if (rank == 2 && step == 1234) {
        line = call(rank, step, 1024 ^ 7 ^ 9);
        line.replace(line.find("datatype 7"), 10, "datatype 9");
      }
      log.add(line);
    }
  }
  check_as_of_all(log, 2000, analysis::Verdict::dtype_mismatch);
}

TEST_CASE("a difference among calls between which many others come is found") {
  // 100 of another communicator for each of this one.
  const auto of_other = [](std::string line) {
    for (size_t at = line.find(" 0xa"); at != std::string::npos; at = line.find(" 0xa")) {
      line.replace(at, 4, " 0xb");
    }
    const size_t id = line.find("commId 0x5");
    return id == std::string::npos ? line : line.replace(id, 10, "commId 0x6");
  };
  LogFile log;
  for (int rank = 0; rank < kRanks; ++rank) log.add(of_other(created(rank)));
  for (int step = 0; step < 300; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      log.add(call(rank, step, rank == 2 && step == 120 ? 999 : 1000));
      for (int i = 0; i < 100; ++i) log.add(of_other(call(rank, step * 100 + i, 500)));
    }
  }
  check_as_of_all(log, 100'000, analysis::Verdict::count_mismatch);
  // What does not fit is told.
  CHECK(says(log.load(1000), "but for some behind the first that differ"));
}

TEST_CASE("a rank that leaves off early in a large log is found") {
  LogFile log;
  for (int step = 0; step < 5000; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank != 1 || step < 700) log.add(call(rank, step, 1000));
    }
  }
  const analysis::Report report = analysis::analyse(log.load(2000));
  const analysis::Report of_all = analysis::analyse(log.load(0));
  CHECK(report.findings[0].summary == of_all.findings[0].summary);
  CHECK(report.findings[0].verdict == of_all.findings[0].verdict);
  CHECK(report.status == of_all.status);
}

TEST_CASE("a rank without any call beside a large log of the others' is found") {
  LogFile log;
  for (int step = 0; step < 5000; ++step) {
    for (int rank = 1; rank < kRanks; ++rank) log.add(call(rank, step, 1000));
  }
  const analysis::Report report = analysis::analyse(log.load(2000));
  const analysis::Report of_all = analysis::analyse(log.load(0));
  CHECK(report.findings[0].summary == of_all.findings[0].summary);
  CHECK(report.status == of_all.status);
}

TEST_CASE("a receive of another size far in front of the newest calls is held with its send") {
  LogFile log;
  for (int step = 0; step < 5000; ++step) {
    log.add(sent(0, 1, "Send", step, 500));
    log.add(sent(1, 0, "Recv", step, step == 2000 ? 499 : 500));
  }
  const Run run = log.load(1000);
  CHECK(held(run) < 2000);
  const auto has = [&](size_t process, uint64_t seq) {
    return std::any_of(run.processes[process].ops.begin(), run.processes[process].ops.end(),
                       [&](const Op& op) { return op.seq == seq; });
  };
  CHECK(has(0, 2000));
  CHECK(has(1, 2000));
  CHECK_FALSE(has(0, 1000));
  const analysis::Report of_all = analysis::analyse(log.load(0));
  CHECK(analysis::analyse(run).findings[0].summary == of_all.findings[0].summary);
}

TEST_CASE("a large log with a line lost is compared in front of the loss and behind it") {
  LogFile log;
  for (int step = 0; step < 5000; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == 3 && step == 1000) continue;
      log.add(call(rank, step, rank == 0 && step == 3000 ? 7 : 1000));
    }
  }
  const analysis::Report report = analysis::analyse(log.load(6000));
  const analysis::Report of_all = analysis::analyse(log.load(0));
  REQUIRE(report.findings.size() == of_all.findings.size());
  CHECK(report.findings[0].summary == of_all.findings[0].summary);
  CHECK(report.status == of_all.status);
}

TEST_CASE("a line of a call says the same when it is read at once and when everybody looks at it") {
  std::string plain;
  std::string odd;
  for (int rank = 0; rank < kRanks; ++rank) {
    plain += created(rank);
    odd += created(rank);
  }
  for (int step = 0; step < 40; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      const int printed = step == 7 ? 6 : step;  // one line twice
      plain += call(rank, printed, 1000 + printed, rank == 1 ? "\r\n" : "\n");
      odd += call(rank, printed, 1000 + printed, rank == 1 ? " \r\n" : " \n");
    }
  }
  plain.pop_back();  // the end of the file is one of a line
  const std::vector<Process> a = read(plain);
  const std::vector<Process> b = read(odd);
  REQUIRE(a.size() == kRanks);
  REQUIRE(b.size() == kRanks);
  for (size_t p = 0; p < a.size(); ++p) {
    CHECK(a[p].ops.size() == 39);
    REQUIRE(a[p].ops.size() == b[p].ops.size());
    for (size_t i = 0; i < a[p].ops.size(); ++i) {
      const Op& one = a[p].ops[i];
      const Op& other = b[p].ops[i];
      const bool is_same = one.seq == other.seq && one.count == other.count &&
                           one.kind == other.kind && one.stream == other.stream &&
                           one.reduction == other.reduction && one.thread == other.thread;
      CHECK(is_same);
    }
  }
}

TEST_CASE("a line that is not whole is not read at once") {
  const std::string line = call(0, 5, 1000, "");
  CHECK(read(created(0) + line + "\n" + call(0, 6, 1000))[0].ops.size() == 2);
  // Each cut loses the call, or reads it from what is left; none reads another.
  for (size_t bytes = 0; bytes < line.size(); ++bytes) {
    const std::string text = created(0) + line.substr(0, bytes) + "\n" + call(0, 6, 1000);
    for (const Process& process : read(text)) {
      for (const Op& op : process.ops) {
        CHECK(op.kind == OpKind::AllReduce);
        CHECK(op.count == 1000);
      }
    }
  }
}
