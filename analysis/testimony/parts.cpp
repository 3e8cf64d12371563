#include "analysis/testimony/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "analysis/record/index.h"
#include "analysis/terms/numbers.h"
#include "trace/import/job_endings.h"

namespace rollcall::analysis {

using trace::JobLog;
using trace::Saying;
using trace::SayingKind;

Finding make_finding(Verdict verdict, Confidence confidence, std::optional<Misstep> misstep) {
  Finding finding;
  finding.verdict = verdict;
  finding.severity = severity_of(verdict);
  finding.confidence = confidence;
  finding.misstep = misstep ? misstep : misstep_of(verdict);
  return finding;
}

void add_evidence(const JobLog& log, const Saying& saying, Finding& finding) {
  // One line may tell of several ranks.
  if (is_evidence(log, saying, finding)) return;
  if (finding.evidence.size() >= kEvidenceMax) return;
  finding.evidence.push_back(
      {.file = log.file, .record = fmt::format("line {}", saying.line), .text = saying.quote});
}

bool is_evidence(const JobLog& log, const Saying& saying, const Finding& finding) {
  return std::any_of(finding.evidence.begin(), finding.evidence.end(), [&](const auto& shown) {
    return shown.file == log.file && shown.record == fmt::format("line {}", saying.line);
  });
}

void make_room(size_t count, Finding& finding) {
  constexpr size_t kKeptMin = 2;
  const size_t kept = std::max(kKeptMin, kEvidenceMax - std::min(count, kEvidenceMax));
  if (finding.evidence.size() > kept) finding.evidence.resize(kept);
}

Culprit culprit_named(int32_t rank, const Saying& saying) {
  Culprit culprit;
  culprit.rank = rank;
  culprit.process = kNone;
  culprit.comm_name = saying.group_text;
  if (saying.seq >= 0) culprit.seq = static_cast<uint64_t>(saying.seq);
  if (saying.kind != trace::SayingKind::exception) culprit.op = saying.op;
  return culprit;
}

std::string ranks_text(const std::vector<int32_t>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", number_list(ranks));
}

int64_t number_in(std::string_view text, std::string_view words) {
  const size_t at = text.find(words);
  if (at == std::string_view::npos) return -1;
  int64_t number = -1;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data() + at + words.size(), end, number);
  return error == std::errc() ? number : -1;
}

std::string speaker_text(const Saying& saying) {
  if (saying.rank >= 0) return fmt::format("rank {}", saying.rank);
  // Hosts number their processes each for itself.
  const bool has_host = saying.kind == trace::SayingKind::died && !saying.text.empty() &&
                        saying.writer.starts_with("pid ");
  if (has_host) {
    return fmt::format("{} on {}", saying.writer, saying.text.substr(saying.text.rfind('[') + 1));
  }
  if (!saying.writer.empty()) return saying.writer;
  if (saying.local_rank >= 0) return fmt::format("local rank {} of some host", saying.local_rank);
  // XLA numbers the devices of a job.
  const int64_t replica = number_in(saying.quote, "Execution of replica ");
  if (replica >= 0) return fmt::format("replica {}", replica);
  return std::string(kNobodyNamed);
}

bool holds(const Saying& saying, std::string_view words) {
  return saying.text.find(words) != std::string::npos ||
         saying.quote.find(words) != std::string::npos;
}

std::string spawned_text(const Saying& saying) {
  if (saying.rank >= 0 || !saying.writer.ends_with(trace::kOfSpawn)) return {};
  return fmt::format(
      "; each host counts its processes from 0, so that is rank {} only where the job has one host",
      number_in(saying.writer, "process "));
}

bool is_of_heartbeat(const Saying& saying) {
  return saying.kind == SayingKind::died && saying.code == trace::kUntold &&
         holds(saying, "/task:");
}

std::string cut_before(const std::string& text, size_t room) {
  const auto is_of_number = [](char c) { return (c >= '0' && c <= '9') || c == '.' || c == ':'; };
  size_t end = room;
  if (!is_of_number(text[room])) return text.substr(0, end);
  while (end > 0 && is_of_number(text[end - 1])) --end;
  const bool is_too_short = end < room / 2;
  return text.substr(0, is_too_short ? room : end);
}

std::string peer_of(const Saying& saying) {
  constexpr std::string_view kWords = "Got completion from peer ";
  const size_t at = saying.text.find(kWords);
  // A flush reads the memory of the host's own GPU, on a connection of the adapter to itself; NCCL
  // prints whom the channel leads to (NCCL 2.29, transport/net_ib/connect.cc).
  const bool is_flush = saying.text.find("(Flush)") != std::string::npos;
  if (at == std::string::npos || is_flush) return {};
  const std::string_view behind = std::string_view(saying.text).substr(at + kWords.size());
  const size_t end = std::min(behind.find_first_of("< "), behind.size());
  return std::string(behind.substr(0, end));
}

void weigh_heartbeat(Finding& finding) {
  if (finding.culprits.size() != 1 || finding.culprits.front().rank != 0) return;
  finding.verdict = Verdict::insufficient;
  finding.severity = severity_of(finding.verdict);
  finding.misstep.reset();
  finding.culprits.clear();
  finding.victims = {0};
  finding.summary +=
      "; the service that tells so runs in that process by itself, as a rule, so it had not ended "
      "then";
}

}  // namespace rollcall::analysis
