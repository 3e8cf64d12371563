#include "emulator/nccl/log.h"

#include <strings.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "emulator/device/device.h"
#include "emulator/nccl/conf_file.h"

namespace emu_nccl {
namespace {

enum Level { kUnread = -1, kNone = 0, kVersion, kWarn, kInfo, kAbort, kTrace };

struct Log {
  std::mutex mutex;
  int level = kUnread;
  int subsystems = 0;
  FILE* file = stdout;
  std::string host;
  bool version_printed = false;
  char last_error[1024] = "";
};

Log& log() {
  static Log* const one = new Log;  // outlives every thread
  return *one;
}

int read_level() {
  const char* const text = std::getenv("NCCL_DEBUG");
  if (text == nullptr) return kNone;
  constexpr const char* kNames[] = {"", "VERSION", "WARN", "INFO", "ABORT", "TRACE"};
  for (int level = kVersion; level <= kTrace; ++level) {
    if (strcasecmp(text, kNames[level]) == 0) return level;
  }
  return kNone;
}

int read_subsystems() {
  const char* text = std::getenv("NCCL_DEBUG_SUBSYS");
  if (text == nullptr || *text == '\0') return kLogInit | kLogEnv;
  const bool inverted = *text == '^';
  if (inverted) ++text;
  int chosen = 0;
  const std::string all = text;
  for (size_t start = 0; start <= all.size();) {
    const size_t end = std::min(all.find(',', start), all.size());
    const std::string name = all.substr(start, end - start);
    if (strcasecmp(name.c_str(), "INIT") == 0) chosen |= kLogInit;
    if (strcasecmp(name.c_str(), "COLL") == 0) chosen |= kLogColl;
    if (strcasecmp(name.c_str(), "ENV") == 0) chosen |= kLogEnv;
    if (strcasecmp(name.c_str(), "DESTROY") == 0) chosen |= kLogDestroy;
    if (strcasecmp(name.c_str(), "ALL") == 0) chosen = ~0;
    start = end + 1;
  }
  return inverted ? ~chosen : chosen;
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  if (char* const dot = std::strchr(name, '.')) *dot = '\0';
  return name;
}

FILE* open_file(const std::string& host) {
  const char* const pattern = std::getenv("NCCL_DEBUG_FILE");
  if (pattern == nullptr || *pattern == '\0') return stdout;
  std::string path;
  for (const char* at = pattern; *at != '\0'; ++at) {
    if (*at != '%' || at[1] == '\0') {
      path += *at;
      continue;
    }
    ++at;
    if (*at == 'h')
      path += host;
    else if (*at == 'p')
      path += std::to_string(getpid());
    else
      path += *at;
  }
  FILE* const file = std::fopen(path.c_str(), "we");
  if (file == nullptr) return stdout;
  setvbuf(file, nullptr, _IOLBF, 0);
  return file;
}

void read_variables(Log& the_log) {
  if (the_log.level != kUnread) return;
  read_conf_files();
  the_log.host = host_name();
  the_log.subsystems = read_subsystems();
  the_log.level = read_level();
  if (the_log.level > kVersion) the_log.file = open_file(the_log.host);
}

void write_line(Log& the_log, const char* severity, const char* text) {
  char prefix[512];
  const int device = emu_current_device();
  std::snprintf(prefix, sizeof(prefix), "%s:%d:%ld [%d] NCCL %s ", the_log.host.c_str(), getpid(),
                syscall(SYS_gettid), device, severity);
  // NVIDIA's lines end at 1023 characters.
  std::fprintf(the_log.file, "%.*s\n", 1023, (std::string(prefix) + text).c_str());
  std::fflush(the_log.file);
}

}  // namespace

void warn(const char* format, ...) {
  Log& the_log = log();
  std::lock_guard<std::mutex> lock(the_log.mutex);
  read_variables(the_log);
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(the_log.last_error, sizeof(the_log.last_error), format, arguments);
  va_end(arguments);
  if (the_log.level < kWarn) return;
  char when[64];
  const time_t now = time(nullptr);
  struct tm parts;
  localtime_r(&now, &parts);
  strftime(when, sizeof(when), "\n[%F %T] ", &parts);
  std::fputs(when, the_log.file);
  write_line(the_log, "WARN", the_log.last_error);
}

bool info_wanted(Subsystem subsystem) {
  Log& the_log = log();
  std::lock_guard<std::mutex> lock(the_log.mutex);
  read_variables(the_log);
  return the_log.level >= kInfo && (the_log.subsystems & subsystem) != 0;
}

void info(Subsystem subsystem, const char* format, ...) {
  if (!info_wanted(subsystem)) return;
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  Log& the_log = log();
  std::lock_guard<std::mutex> lock(the_log.mutex);
  write_line(the_log, "INFO", text);
}

void print_version() {
  Log& the_log = log();
  std::lock_guard<std::mutex> lock(the_log.mutex);
  read_variables(the_log);
  if (the_log.version_printed || the_log.level < kVersion) return;
  the_log.version_printed = true;
  std::fprintf(the_log.file, "NCCL version 2.30.7+cuda13.0 (emulated)\n");
  std::fflush(the_log.file);
}

const char* last_error() { return log().last_error; }

void reset_log() {
  Log& the_log = log();
  std::lock_guard<std::mutex> lock(the_log.mutex);
  the_log.level = kUnread;
}

}  // namespace emu_nccl
