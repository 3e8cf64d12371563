// The samples' expected findings rest on these models; see tests/analysis for the findings
// themselves.
#include <cstdlib>
#include <filesystem>

#include "tests/catch.h"
#include "trace/import/importer.h"

using namespace rollcall;
using namespace rollcall::trace;

namespace {

struct Imported {
  std::vector<Process> processes;
  std::vector<Issue> issues;
};

Imported import_sample(const std::string& name) {
  Imported imported;
  import_file(std::string(ROLLCALL_SAMPLES) + "/" + name, imported.processes, imported.issues);
  return imported;
}

const Op* op_at(const Process& process, const std::string& comm_name, uint64_t seq) {
  for (const Op& op : process.ops) {
    if (is_collective(op.kind) && op.seq == seq && process.comms[op.comm].name == comm_name)
      return &op;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("a dump's collectives keep their group, position, kind and count") {
  const Imported imported =
      import_sample("flight_recorder/size_mismatch_rank1/comm_lib_trace_rank_1");
  REQUIRE(imported.processes.size() == 1);
  REQUIRE(imported.issues.size() == 1);
  CHECK(imported.issues[0].text.find("no reductions, roots and streams") != std::string::npos);
  CHECK_FALSE(imported.issues[0].unusable);
  const Process& process = imported.processes[0];
  CHECK(process.job_rank == 1);
  CHECK(process.recorder == "flight_recorder");
  const Op* op = op_at(process, "default_pg", 8);
  REQUIRE(op != nullptr);
  CHECK(op->kind == OpKind::AllReduce);
  CHECK(op->count == 1024 * 1023);
  CHECK(op->datatype == 7);
  CHECK(op->reduction == kUnknown8);
}

TEST_CASE("a dump's call sites are the lines of the job's own code, innermost first") {
  const Imported imported =
      import_sample("flight_recorder/size_mismatch_rank1/comm_lib_trace_rank_1");
  const Process& process = imported.processes.at(0);
  const Op* op = op_at(process, "default_pg", 8);
  REQUIRE(op != nullptr);
  REQUIRE(op->frames != 0);
  const std::string& text = process.meta.at("frame." + std::to_string(op->frames));
  CHECK(text.starts_with("/opt/job/train.py:40 train_step"));
  CHECK(text.find("/torch/") == std::string::npos);
  CHECK_FALSE(process.meta.contains("frame.0"));
}

TEST_CASE("a dump without frames has no call sites") {
  const Imported imported = import_sample("flight_recorder/clean_no_frames/comm_lib_trace_rank_1");
  const Process& process = imported.processes.at(0);
  REQUIRE_FALSE(process.ops.empty());
  for (const Op& op : process.ops) CHECK(op.frames == 0);
  CHECK_FALSE(process.meta.contains("frame.1"));
}

TEST_CASE("both of PyTorch's backends give the same collectives for the same program") {
  for (int rank = 0; rank < 4; ++rank) {
    const std::string file = "/rank_" + std::to_string(rank);
    const Imported present = import_sample("pytorch-2.15/nccl2-ok" + file);
    const Imported former = import_sample("pytorch-2.15/legacy-ok" + file);
    REQUIRE(present.processes.size() == 1);
    REQUIRE(former.processes.size() == 1);
    for (uint64_t seq = 1; seq <= 11; ++seq) {
      CAPTURE(rank, seq);
      const Op* left = op_at(present.processes[0], "default_pg", seq);
      const Op* right = op_at(former.processes[0], "default_pg", seq);
      REQUIRE(left != nullptr);
      REQUIRE(right != nullptr);
      CHECK(left->kind == right->kind);
      // 4: the barrier, which has a tensor in the former backend only.
      CHECK(left->count == (seq == 4 ? kCountUnknown : right->count));
    }
  }
}

TEST_CASE("the rank is the last number in the name of a dump") {
  const std::string sample =
      std::string(ROLLCALL_SAMPLES) + "/flight_recorder/clean/comm_lib_trace_rank_0";
  const auto rank_of = [&](const std::string& name) {
    std::string folder = std::filesystem::temp_directory_path() / "rollcall_names_XXXXXX";
    REQUIRE(::mkdtemp(folder.data()) != nullptr);
    const std::filesystem::path path = std::filesystem::path(folder) / name;
    std::filesystem::copy_file(sample, path, std::filesystem::copy_options::overwrite_existing);
    Imported imported;
    import_file(path.string(), imported.processes, imported.issues);
    std::filesystem::remove_all(folder);
    return imported.processes.empty() ? -2 : imported.processes[0].job_rank;
  };
  CHECK(rank_of("nccl_trace_rank_0") == 0);
  CHECK(rank_of("nccl_trace_rank_0.pickle") == 0);
  CHECK(rank_of("dump.0") == 0);
  CHECK(rank_of("rank0.20301231235959") == 0);
  CHECK(rank_of("dump") == -1);
}

TEST_CASE("the rank that skipped a collective has none at that position") {
  for (const std::string backend : {"nccl2", "legacy"}) {
    CAPTURE(backend);
    const Imported lagging = import_sample("pytorch-2.15/" + backend + "-missing/rank_1");
    const Imported other = import_sample("pytorch-2.15/" + backend + "-missing/rank_0");
    CHECK(op_at(lagging.processes.at(0), "default_pg", 12) == nullptr);
    CHECK(op_at(other.processes.at(0), "default_pg", 12) != nullptr);
    CHECK(op_at(lagging.processes.at(0), "default_pg", 11) != nullptr);
  }
}

TEST_CASE("groups of one name and other ranks are different communicators") {
  const Imported low = import_sample("flight_recorder/clean/comm_lib_trace_rank_0");
  const Imported high = import_sample("flight_recorder/clean/comm_lib_trace_rank_2");
  const auto key_of_tp = [](const Imported& imported) {
    for (const Comm& comm : imported.processes.at(0).comms) {
      if (comm.name == "tp") return comm.key;
    }
    return CommKey{};
  };
  CHECK_FALSE(key_of_tp(low).is_null());
  CHECK_FALSE(key_of_tp(low) == key_of_tp(high));
}

TEST_CASE("a coalesced collective is one operation with the sum of its elements") {
  const Imported imported = import_sample("flight_recorder/coalesced_batch/comm_lib_trace_rank_1");
  const Op* op = op_at(imported.processes.at(0), "default_pg", 4);
  REQUIRE(op != nullptr);
  CHECK(op->kind == OpKind::AllGather);
  CHECK(op->count == 10 + 11 + 12 + 13);
  CHECK(op->state == OpState::finished);
}

TEST_CASE("members of a finished batch are finished, and share a group") {
  const Imported imported = import_sample("flight_recorder/coalesced_batch/comm_lib_trace_rank_1");
  std::vector<Op> messages;
  for (const Op& op : imported.processes.at(0).ops) {
    if (is_p2p(op.kind)) messages.push_back(op);
  }
  REQUIRE(messages.size() == 4);
  CHECK(messages[0].state == OpState::finished);
  CHECK(messages[0].group == messages[1].group);
  CHECK(messages[1].group != messages[2].group);
  CHECK(messages[2].seq == 1);
  // PyTorch 2.15's former backend does not mark the closing entry as a transfer.
  const Imported former = import_sample("pytorch-2.15/legacy-ok/rank_1");
  for (const Op& op : former.processes.at(0).ops) CHECK(op.state == OpState::finished);
}

TEST_CASE("a ring that lost its head says so and keeps its positions") {
  const Imported imported = import_sample("flight_recorder/ring_overwritten/comm_lib_trace_rank_0");
  const Process& process = imported.processes.at(0);
  CHECK_FALSE(process.knowledge.head);
  CHECK(op_at(process, "default_pg", 30) == nullptr);
  CHECK(op_at(process, "default_pg", 41) != nullptr);
}

TEST_CASE("JSON and pickle of one run give the same model") {
  const Imported json =
      import_sample("flight_recorder/json_missing_rank2/comm_lib_trace_rank_2.json");
  const Imported pickle =
      import_sample("flight_recorder/missing_rank2_stuck/comm_lib_trace_rank_2");
  REQUIRE(json.processes.size() == 1);
  const Process& left = json.processes[0];
  const Process& right = pickle.processes.at(0);
  REQUIRE(left.ops.size() == right.ops.size());
  for (size_t i = 0; i < left.ops.size(); ++i) {
    CHECK(left.ops[i].kind == right.ops[i].kind);
    CHECK(left.ops[i].seq == right.ops[i].seq);
    CHECK(left.ops[i].count == right.ops[i].count);
  }
}

TEST_CASE("hostile dumps are refused by name and harm nothing") {
  for (const char* name :
       {"global_reduce_rank_0", "deep_nesting_rank_0", "huge_length_rank_0", "memo_bomb_rank_0"}) {
    CAPTURE(name);
    const Imported imported = import_sample(std::string("flight_recorder/hostile/") + name);
    CHECK(imported.processes.empty());
    REQUIRE(imported.issues.size() == 1);
    CHECK(imported.issues[0].unusable);
  }
}

TEST_CASE("what a truncated dump still holds is used, and the cut is said") {
  const Imported imported = import_sample("flight_recorder/hostile/truncated_rank_0");
  REQUIRE(imported.processes.size() == 1);
  CHECK(imported.processes[0].ops.size() == 6);
  REQUIRE(imported.issues.size() == 2);
  CHECK(imported.issues[0].text.find("died while it dumped") != std::string::npos);
  CHECK_FALSE(imported.issues[0].unusable);
}

TEST_CASE("a name that is broken UTF-8 does not spoil a dump") {
  const Imported imported = import_sample("flight_recorder/hostile/bad_utf8_rank_0");
  REQUIRE(imported.processes.size() == 1);
  REQUIRE(imported.issues.size() == 1);
  CHECK_FALSE(imported.issues[0].unusable);
}
