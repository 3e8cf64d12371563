// The log of a job, all its ranks mixed: what PyTorch's watchdog, NCCL, the launcher and the kernel
// say in it. The table of what is read is job_log_formats.h.
//
// What becomes what
//   * a line of the table is a Saying (trace/testimony.h), wherever it stands in the file.
//   * the rank of a line is what its launcher says, else "[rank3]:" of PyTorch 2.2 and later, else
//     Ray's "rank=3", else mpirun's "[1,3]<stderr>:", else, where nothing of this is in the whole
//     log, PyTorch's "[Rank 3]", which is the rank in the group.
//   * a time-out does not name its group before PyTorch 2.6: it is that of the next line of the
//     same rank that tells the position in the same call.
//
// A log that holds several attempts of its job is taken apart (job_attempts.h).
//
// What it lacks: everything that went well. A rank that says nothing may be the culprit, dead, or
// in a log that was not collected.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trace/import/announced.h"
#include "trace/import/job_attempts.h"
#include "trace/import/job_endings.h"
#include "trace/import/job_sayings.h"
#include "trace/import/line_parser.h"
#include "trace/import/traceback.h"
#include "trace/import/wrapped_opening.h"
#include "trace/model.h"

namespace rollcall::trace {

class JobLogReader final : public LineParser {
 public:
  explicit JobLogReader(const std::string& path);
  std::span<const std::string_view> marks() const override;
  std::span<const std::string_view> short_marks() const override;
  void read_line(const TextLine& line) override;
  bool wants_next() const override {
    return follows_ != nullptr || warned_ != kNone || unfinished_ != nullptr ||
           opening_.is_begun() || tracebacks_.are_open() || actor_.is_open();
  }
  bool is_unfinished(std::string_view text) const override;
  void finish(std::vector<Process>& processes, std::vector<JobLog>& logs,
              std::vector<Issue>& issues) override;

 private:
  static constexpr size_t kNone = SIZE_MAX;

  // A line that ends before its form does.
  struct Begun {
    std::string text;
    std::string whole;
    uint64_t line = 0;
    LinePrefix prefix;
    int parts = 0;
  };

  void read_whole(const TextLine& line);
  bool read_formats(const TextLine& line);
  void read_traceback(const TextLine& line, bool is_told);
  bool take(const struct LogFormat& format, const TextLine& given);
  void take_ranks(const struct LogFormat& format, const TextLine& given,
                  const class LogValues& values);
  Saying saying_of(const struct LogFormat& format, const TextLine& given,
                   const class LogValues& values);
  bool is_untenable(Saying& saying, const struct LogFormat& format, const class LogValues& values,
                    const TextLine& given);
  void keep(Saying&& saying, const struct LogFormat& format, const TextLine& given,
            const class LogValues& values);
  bool is_full() const;
  void read_following(const TextLine& line);
  void read_warned(const TextLine& line);
  bool read_end(const TextLine& line);
  void drop_unfinished();
  void take_torn_wait(const TextLine& begun);
  void read_announced(const TextLine& line, const class LogValues& values);
  void mark_place(const TextLine& line, const class LogValues& values);
  void mark_attempt(const struct LogFormat& format, const TextLine& line,
                    const class LogValues& values);
  bool is_repeated(const Saying& saying) const;
  void weigh_chain(Saying& next);
  void take_late_tasks();
  bool explains_another(const Saying& saying) const;
  void inherit_rank(Saying& saying) const;
  JobLog log_;
  std::vector<AttemptMark> marks_;
  std::set<size_t> restarts_;  // sayings in front of which the launcher started the job again
  const struct LogFormat* follows_ = nullptr;     // whose lines come now
  size_t warned_ = kNone;                         // index of the saying whose text comes next
  const struct LogFormat* unfinished_ = nullptr;  // of which `begun_` is the begin
  Begun begun_;
  WrappedOpening opening_;
  Tracebacks tracebacks_;
  EndedRank ended_;
  Announced raiser_;  // of a traceback
  Announced gpu_;
  RayActor actor_;
  Places places_;
  std::map<uint32_t, uint64_t> waiting_;  // by process: a line in which it gave up a call
  std::set<int32_t> chained_;             // ranks whose next error is about the one before
  bool is_rest_ended_ = false;      // the launcher ends what still runs: that is nobody's fault
  std::vector<Saying> late_tasks_;  // told behind that: one may be why, if the step's end follows
};

}  // namespace rollcall::trace
