#include "tools/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "report/terms.h"
#include "tools/zip_archive.h"
#include "trace/import/byte_stream.h"
#include "trace/regular_file.h"

namespace rollcall::tools {
namespace {

constexpr const char* kRunMember = "rollcall.pftrace";

// The file's own name where an archive can hold it.
std::string member_of(const std::string& path, size_t number) {
  const std::string name = path.substr(path.rfind('/') + 1);
  const bool is_plain = std::all_of(
      name.begin(), name.end(), [](char one) { return one > 0x20 && one < 0x7f && one != '\\'; });
  return is_plain ? "kineto/" + name : fmt::format("kineto/{}.pt.trace.json", number);
}

// Each file is a machine, for process ids of GPUs are the same in all.
std::string machine_of(const KinetoFile& file, size_t number) {
  std::string name = file.trace.rank >= 0 ? fmt::format("PyTorch, rank {}", file.trace.rank)
                                          : fmt::format("PyTorch, file {}", number);
  if (!file.trace.host.empty()) name += fmt::format(" ({})", report::printable(file.trace.host));
  return name;
}

std::string manifest_of(const KinetoFiles& files, const trace::Run& run) {
  using Json = nlohmann::ordered_json;
  Json members = Json::array({{{"path", kRunMember}}});
  Json attributes{{"rollcall.version", ROLLCALL_VERSION}};
  for (size_t at = 0; at < files.files().size(); ++at) {
    const KinetoFile& file = files.files()[at];
    members.push_back({{"path", member_of(file.path, at)},
                       {"machine", {{"name", machine_of(file, at)}}},
                       {"clocks",
                        {{"sync_to", {{"file", kRunMember}, {"clock", "REALTIME"}}},
                         {"offset_ns", offset_of(file, run)}}}});
    if (!file.process) continue;
    const std::string key = fmt::format("rollcall.rank_{}", file.trace.rank);
    if (file.join.bound_ns >= 0) attributes[key + ".clock_bound_ns"] = file.join.bound_ns;
    const int64_t host_ns = run.processes[*file.process].clock_bound_ns;
    if (host_ns >= 0) attributes[key + ".host_clock_bound_ns"] = host_ns;
  }
  const Json manifest{{"perfetto_manifest",
                       {{"version", 1},
                        {"trace_time", {{"clock", "REALTIME"}, {"file", kRunMember}}},
                        {"files", members},
                        {"attributes", attributes}}}};
  // As a string begins, so is it known: without a space.
  return manifest.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool add_file(const std::string& path, ZipArchive& archive) {
  constexpr size_t kPieceBytes = 1 << 20;
  const int descriptor = trace::open_regular(path);
  if (descriptor < 0) return false;
  trace::DescriptorStream stream(descriptor, true);
  std::string piece(kPieceBytes, '\0');
  for (size_t got = kPieceBytes; got == kPieceBytes && !archive.failed();) {
    got = stream.read(piece.data(), piece.size());
    archive.add(std::string_view(piece).substr(0, got));
  }
  return stream.complaint().empty();
}

}  // namespace

uint64_t write_archive(const PerfettoRun& run, const KinetoFiles& files, OutputFile& file,
                       std::string& error) {
  ZipArchive archive(file);
  archive.begin(kRunMember);
  const uint64_t slices = run.write([&](const std::string& piece) {
    archive.add(piece);
    return !archive.failed();
  });
  archive.end();
  for (size_t at = 0; at < files.files().size() && error.empty(); ++at) {
    const std::string& path = files.files()[at].path;
    archive.begin(member_of(path, at));
    if (!add_file(path, archive)) error = fmt::format("{} could not be read any more", path);
    archive.end();
  }
  archive.begin("perfetto_manifest.json");
  archive.add(manifest_of(files, run.run()));
  archive.end();
  archive.finish();
  if (archive.is_too_long()) {
    error = "it would be longer than 4 GiB, which no reader of Perfetto opens; merge fewer files";
  }
  if (archive.has_too_many()) {
    error = "an archive holds 65,533 files of PyTorch's profiler at most; merge fewer";
  }
  return slices;
}

}  // namespace rollcall::tools
