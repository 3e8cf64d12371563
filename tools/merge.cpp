#include "tools/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "report/terms.h"
#include "tools/zip_archive.h"
#include "trace/import/byte_stream.h"
#include "trace/regular_file.h"

namespace rollcall::tools {
namespace {

constexpr const char* kRunMember = "rollcall.pftrace";

// The files' own names where an archive can hold them. Packed files are unpacked: to Perfetto they
// would be archives in an archive, whose clocks a manifest cannot set.
std::vector<std::string> members_of(const KinetoFiles& files) {
  std::vector<std::string> members;
  std::set<std::string> taken;
  for (const KinetoFile& file : files.files()) {
    std::string name = file.path.substr(file.path.rfind('/') + 1);
    for (const std::string_view ending : {".gz", ".zst", ".xz"}) {
      if (name.ends_with(ending)) name.resize(name.size() - ending.size());
    }
    const bool is_plain = std::all_of(
        name.begin(), name.end(), [](char one) { return one > 0x20 && one < 0x7f && one != '\\'; });
    size_t number = members.size();
    for (bool is_good = is_plain; !is_good || !taken.insert(name).second; is_good = true) {
      name = fmt::format("file-{}.pt.trace.json", number++);
    }
    members.push_back("kineto/" + name);
  }
  return members;
}

std::string manifest_of(const KinetoFiles& files, const std::vector<std::string>& names,
                        const trace::Run& run) {
  using Json = nlohmann::ordered_json;
  Json members = Json::array({{{"path", kRunMember}}});
  Json attributes{{"rollcall.version", ROLLCALL_VERSION}};
  for (size_t at = 0; at < files.files().size(); ++at) {
    const KinetoFile& file = files.files()[at];
    members.push_back({{"path", names[at]},
                       // For process ids of GPUs are the same in all.
                       {"machine", {{"name", title_of(file, at)}}},
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

std::unique_ptr<trace::ByteStream> open_unpacked(const std::string& path) {
  const int descriptor = trace::open_regular(path);
  if (descriptor < 0) return nullptr;
  return trace::unpacked(std::make_unique<trace::DescriptorStream>(descriptor, true));
}

// False: it was read before, and cannot be read any more.
bool add_file(const KinetoFile& file, ZipArchive& archive) {
  constexpr size_t kPieceBytes = 1 << 20;
  const std::unique_ptr<trace::ByteStream> stream = open_unpacked(file.path);
  if (!stream) return false;
  std::string piece(kPieceBytes, '\0');
  for (size_t got = kPieceBytes; got == kPieceBytes && !archive.failed();) {
    got = stream->read(piece.data(), piece.size());
    archive.add(std::string_view(piece).substr(0, got));
  }
  return stream->complaint().empty() || !file.trace.trouble.empty();
}

std::string description_of(const KinetoFile& file) {
  std::string text = fmt::format("From {}", report::printable(file.path));
  if (file.join.bound_ns >= 0) {
    text += fmt::format(". Its clock and that of the calls agree {}, as these prove",
                        within(file.join.bound_ns));
  } else if (file.process) {
    text += ". No call proves its clock; its times are taken as they are";
  } else {
    text += ". There is no recording of its process; its times are taken as they are";
  }
  return text + ".";
}

// False: the sink wants no more.
bool rewrite(KinetoFile& file, const report::perfetto::KinetoTitle& title,
             report::perfetto::TraceState& state, const report::perfetto::Sink& sink) {
  const int descriptor = trace::open_regular(file.path);
  if (descriptor < 0) {
    file.losses.trouble = "could not be read any more";
    return true;
  }
  const std::unique_ptr<trace::ByteStream> stream =
      trace::as_utf8(trace::unpacked(std::make_unique<trace::DescriptorStream>(descriptor, true)));
  return report::perfetto::write_kineto(*stream, title, state, sink, file.losses);
}

}  // namespace

void write_in_one(PerfettoRun& run, KinetoFiles& files) {
  run.write_below([&](std::optional<uint32_t> process, uint64_t track,
                      report::perfetto::TraceState& state, const report::perfetto::Sink& sink) {
    // Behind the communicators, or behind all ranks.
    constexpr uint64_t kOrder = 1u << 30;
    std::map<std::string, size_t> written;  // by name: tracks of one name are drawn as one
    for (size_t at = 0; at < files.files().size(); ++at) {
      KinetoFile& file = files.files()[at];
      if (file.process != process) continue;
      report::perfetto::KinetoTitle title;
      title.parent = track;
      title.order = kOrder + at;
      title.description = description_of(file);
      title.offset_ns = offset_of(file, run.run());
      title.name = process ? "PyTorch" : title_of(file, at);
      const size_t number = ++written[title.name];
      if (number > 1) title.name += fmt::format(", file {}", number);
      if (!rewrite(file, title, state, sink)) return false;
    }
    return true;
  });
}

uint64_t write_archive(const PerfettoRun& run, const KinetoFiles& files, OutputFile& file,
                       std::string& error) {
  ZipArchive archive(file);
  archive.begin(kRunMember);
  const uint64_t slices = run.write([&](const std::string& piece) {
    archive.add(piece);
    return !archive.failed();
  });
  archive.end();
  const std::vector<std::string> members = members_of(files);
  for (size_t at = 0; at < files.files().size() && error.empty(); ++at) {
    const KinetoFile& added = files.files()[at];
    archive.begin(members[at]);
    if (!add_file(added, archive)) error = fmt::format("{} could not be read any more", added.path);
    archive.end();
  }
  archive.begin("perfetto_manifest.json");
  archive.add(manifest_of(files, members, run.run()));
  archive.end();
  archive.finish();
  if (archive.is_too_long()) {
    error =
        "it would be longer than 4 GiB, which no reader of Perfetto opens; merge fewer files, or "
        "name one like run.pftrace, which holds them in less";
  }
  if (archive.has_too_many()) {
    error = "an archive holds 65,533 files of PyTorch's profiler at most; merge fewer";
  }
  return slices;
}

}  // namespace rollcall::tools
