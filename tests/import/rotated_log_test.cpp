// Logs that were rotated while the job wrote them.
#include "trace/import/rotated_log.h"

#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "analysis/analysis.h"
#include "tests/catch.h"
#include "tests/import/damage.h"
#include "trace/loader.h"

using namespace rollcall;
using namespace rollcall::trace;

namespace {

// A folder of logs.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "rollcall_logs_XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string at(const std::string& name) const { return path_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(at(name), std::ios::binary) << text;
  }
  void pack(const std::string& name, const std::string& text) const {
    gzFile file = ::gzopen(at(name).c_str(), "wb");
    REQUIRE(::gzwrite(file, text.data(), static_cast<unsigned>(text.size())) ==
            static_cast<int>(text.size()));
    ::gzclose(file);
  }
  Run load() const {
    LoadOptions options;
    options.probe_processes = false;
    options.threads = 1;
    return load_run(path_, options);
  }

 private:
  std::string path_;
};

std::string created() {
  std::string text;
  for (const char* rank : {"0", "1"}) {
    text += std::string("n:1") + rank + ":1 [0] NCCL INFO ncclCommInitRank comm 0x" + rank +
            "a rank " + rank + " nranks 2 cudaDev 0 commId 0x5 - Init COMPLETE\n";
  }
  return text;
}

std::string calls(int first, int last) {
  std::string text;
  for (int step = first; step < last; ++step) {
    for (const char* rank : {"0", "1"}) {
      text += std::string("n:1") + rank + ":1 [0] NCCL INFO AllReduce: opCount " +
              std::to_string(step) + " sendbuff 0x1 recvbuff 0x1 count " +
              std::to_string(100 + step) + " datatype 7 op 0 root 0 comm 0x" + rank +
              "a [nranks=2] stream 0x1\n";
    }
  }
  return text;
}

constexpr const char* kTimeout =
    "[rank0]:[E816 01:45:40.1 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=108, NumelOut=108, "
    "Timeout(ms)=600000) ran for 600026 milliseconds before timing out.\n";

bool says(const Run& run, const std::string& text) {
  for (const Issue& issue : run.issues) {
    if (issue.text.find(text) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a rotated log is one log, its oldest part first, whatever packed a part") {
  Folder folder;
  folder.pack("job.log.2.gz", created() + calls(0, 3));
  folder.write("job.log.1", calls(3, 6));
  folder.write("job.log", calls(6, 9) + kTimeout);
  const Run run = folder.load();
  REQUIRE(run.processes.size() == 2);
  for (const Process& process : run.processes) {
    REQUIRE(process.ops.size() == 9);
    for (size_t i = 0; i < 9; ++i) CHECK(process.ops[i].count == 100 + i);
    CHECK(process.comms[0].nranks == 2);
  }
  REQUIRE(run.logs.size() == 1);
  CHECK(run.logs[0].lines == 2 + 18 + 1);
  CHECK(says(run, "with its older parts, in this order: job.log.2.gz, job.log.1; "));
}

TEST_CASE("parts that are named by their dates are in the order of these") {
  Folder folder;
  folder.write("job.log-20260802", calls(3, 6));
  folder.write("job.log-20260801", created() + calls(0, 3));
  folder.write("job.log", calls(6, 9));
  const Run run = folder.load();
  REQUIRE(run.processes.size() == 2);
  CHECK(run.processes[0].ops.size() == 9);
  CHECK(run.processes[0].ops.back().count == 108);
}

TEST_CASE("a part that was cut within a line does not run into the next") {
  Folder folder;
  folder.write("job.log.1", created() + "a progress bar");
  folder.write("job.log", calls(0, 3));
  const Run run = folder.load();
  REQUIRE(run.processes.size() == 2);
  CHECK(run.processes[0].ops.size() == 3);
}

TEST_CASE("lines of a part that the next one begins with count once") {
  Folder folder;
  folder.write("job.log.1", created() + calls(0, 4));
  folder.write("job.log", created() + calls(0, 9) + kTimeout);
  const Run run = folder.load();
  REQUIRE(run.processes.size() == 2);
  CHECK(run.processes[0].ops.size() == 9);
  REQUIRE(run.logs.size() == 1);
  CHECK(run.logs[0].sayings.size() == 1);
  CHECK(says(run, "was not read: job.log begins with all of it"));
}

TEST_CASE("a log has one verdict, whether it was rotated or not") {
  const auto judged = [](const Folder& folder) {
    const Run run = folder.load();
    CHECK(run.processes.size() == 2);
    for (const Process& process : run.processes) CHECK(process.written_ns != 0);
    const analysis::Report report = analysis::analyse(run);
    return report.findings.front().verdict;
  };
  // Rank 1 has not made its last call yet, and the log is being written.
  const std::string newest = calls(3, 6) + calls(6, 7).substr(0, calls(6, 7).find('\n') + 1);
  Folder whole;
  whole.write("job.log", created() + calls(0, 3) + newest);
  Folder rotated;
  rotated.write("job.log.1", created() + calls(0, 3));
  rotated.write("job.log", newest);
  CHECK(judged(rotated) == judged(whole));
}

TEST_CASE("a file that is named after a part of a rotated log is read alone") {
  using Logs = std::vector<std::vector<std::string>>;
  CHECK(gather_rotated({"d/job.log", "d/job.log.1", "d/job.log.1.1"}) ==
        Logs{{"d/job.log.1", "d/job.log"}, {"d/job.log.1.1"}});
}

TEST_CASE("an empty older part is not said to be a copy") {
  Folder folder;
  folder.write("job.log.1", "");
  folder.write("job.log", created() + calls(0, 3));
  const Run run = folder.load();
  REQUIRE(run.processes.size() == 2);
  CHECK(run.processes[0].ops.size() == 3);
  CHECK_FALSE(says(run, "begins with all of it"));
}

TEST_CASE("a part that is packed with bzip2 is named, and what is older is left out with it") {
  Folder folder;
  folder.write("job.log.3", created() + calls(0, 2));
  folder.write("job.log.2.bz2", "BZh9");
  folder.write("job.log.1", created() + calls(0, 2));
  folder.write("job.log", calls(2, 4));
  const Run run = folder.load();
  REQUIRE(run.processes.size() == 2);
  CHECK(run.processes[0].ops.size() == 4);
  CHECK(says(run, "was not read: job.log.2.bz2, which follows it, is not unpacked here"));
  CHECK(says(run, "parts are unpacked that gzip, zstd or xz packed"));
}

TEST_CASE("files of ranks that count from 1 are read side by side, as their times show") {
  const auto log_of = [](const std::string& hour, const std::string& text) {
    std::string stamped;
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at) + 1;
      stamped +=
          "2026-08-01 " + hour + ":00:0" + (at == 0 ? "1" : "7") + " " + text.substr(at, end - at);
      at = end;
    }
    return stamped;
  };
  Folder ranks;
  ranks.write("out", log_of("12", created() + calls(0, 3)));
  ranks.write("out.1", log_of("12", created() + calls(0, 4)));
  CHECK_FALSE(says(ranks.load(), "with its older part"));
  Folder rotated;
  rotated.write("out", log_of("12", calls(3, 6)));
  rotated.write("out.1", log_of("11", created() + calls(0, 3)));
  CHECK(says(rotated.load(), "with its older part"));
}

TEST_CASE("files that count ranks, or have no newest part, are no rotated log") {
  const auto alone = [](const std::vector<std::string>& paths) {
    return gather_rotated(paths).size() == paths.size();
  };
  CHECK(alone({"d/out", "d/out.0", "d/out.1"}));
  CHECK(alone({"d/out", "d/out.0.gz", "d/out.1.gz"}));
  CHECK(alone({"d/nccl.log", "d/nccl.log.20.113.10.34"}));
  CHECK(alone({"d/job.log.1", "d/job.log.2"}));
  CHECK(alone({"d/job.log", "e/job.log.1"}));
  CHECK(alone({"d/nccl.log", "d/nccl.log.4711"}));
  CHECK(alone({"d/job.log", "d/job.log.1", "d/job.log-20260801"}));
  CHECK(alone({"d/1", "d/1.2x"}));
  CHECK_FALSE(alone({"d/job.log", "d/job.log.1"}));
}

TEST_CASE("damaged parts of a rotated log of a healthy job accuse nobody") {
  const std::vector<std::string> healthy = {created() + calls(1, 12), calls(12, 23), calls(23, 34)};
  constexpr const char* kNames[] = {"job.log.2", "job.log.1", "job.log"};
  for (uint32_t seed = 0; seed < 120; ++seed) {
    Folder folder;
    for (uint32_t part = 0; part < 3; ++part) {
      const std::string& text = healthy[part];
      const bool is_lost = seed % 10 == 7 && seed / 10 % 3 == part;
      if (is_lost) continue;
      const bool is_harmed = (seed >> part & 1) != 0;
      folder.write(kNames[part], is_harmed
                                     ? damaged(lines_of(text), seed, 1 + static_cast<int>(seed % 3))
                                     : text);
    }
    for (const analysis::Finding& finding : analysis::analyse(folder.load()).findings) {
      INFO("seed " << seed << ": " << finding.summary);
      CHECK_FALSE((is_defect(finding) && finding.confidence != analysis::Confidence::open));
    }
  }
}
