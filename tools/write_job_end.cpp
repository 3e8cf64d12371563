#include "tools/write_job_end.h"

#include <unistd.h>

#include <cstring>

#include "core/base/limits.h"
#include "core/base/text.h"
#include "core/format/file_name.h"
#include "tools/output_file.h"
#include "tools/process_table.h"
#include "trace/job_end.h"

namespace rollcall::tools {
namespace {

std::string host_name() {
  char name[kHostNameBytes] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return "unknown";
  return name;
}

// No two commands have one.
std::string own_stem(const std::string& host) {
  const std::optional<ProcessFacts> own = read_process(::getpid());
  TextBuffer<kFileNameBytes> stem;
  write_stem(stem, {.host = host,
                    .pid = static_cast<uint32_t>(::getpid()),
                    .start_time_ticks = own ? own->start_ticks : 0});
  return std::string(stem.view());
}

}  // namespace

bool write_job_end(const std::string& directory, trace::JobEnd end, std::string& error) {
  end.host = host_name();
  const OpenDirectory place(directory);
  if (place.error() != 0) {
    error = std::strerror(place.error());
    return false;
  }
  OutputFile file(place, own_stem(end.host) + std::string(trace::kJobEndEnding), Privacy::own);
  file.write(trace::text_of(end));
  if (file.put_in_place()) return true;
  error = file.why();
  return false;
}

}  // namespace rollcall::tools
