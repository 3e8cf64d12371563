// What is worth saying of any run, hung or not: lost records, communicators used after their end,
// versions and settings that differ. None of these spoils a clean run: an absence is not a finding.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "analysis/rules/rules.h"
#include "analysis/words/gaps.h"
#include "analysis/words/label.h"
#include "core/base/text.h"
#include "settings/variables_read.h"

namespace rollcall::analysis {
namespace {

using trace::Comm;
using trace::Process;

constexpr std::string_view kEnvironment = "env.";

void add_gaps(const Facts& facts, std::vector<Draft>& drafts) {
  std::string text = gaps_text(facts);
  if (text.empty()) return;
  Draft draft = make_draft(Verdict::record_gap, Confidence::certain);
  for (const Gap& gap : gaps_of(facts)) {
    draft.finding.culprits.push_back(culprit_of(facts, gap.process, kNone));
    draft.finding.evidence.push_back(
        {.file = facts.process(gap.process).file,
         .record = "header",
         .text = fmt::format("{}: {}", rank_text(facts.process(gap.process)), gap.text)});
  }
  draft.finding.summary = std::move(text) + "; what they called is unknown there, not nothing";
  draft.finding.next =
      "copy the missing files into the directory, or record again with a larger "
      "ROLLCALL_RING_SLOTS";
  drafts.push_back(std::move(draft));
}

void add_leaks(const Facts& facts, std::vector<Draft>& drafts) {
  std::vector<uint32_t> users;
  for (const uint32_t p : facts.index.active()) {
    const auto& events = facts.process(p).events;
    const bool used = std::any_of(events.begin(), events.end(), [](const trace::Event& event) {
      return event.kind == EventKind::UseAfterDestroy;
    });
    if (used) users.push_back(p);
  }
  if (!users.empty()) {
    Draft draft = make_draft(Verdict::comm_leak, Confidence::certain);
    for (const uint32_t p : users) draft.finding.culprits.push_back(culprit_of(facts, p, kNone));
    draft.finding.summary = fmt::format("{} used a communicator after its end",
                                        processes_text(facts.index.run(), users));
    draft.finding.next = "look for calls behind ncclCommDestroy or ncclCommAbort on that handle";
    drafts.push_back(std::move(draft));
  }
  for (uint32_t g = 0; g < facts.index.groups().size(); ++g) {
    const Group& group = facts.group(g);
    std::vector<uint32_t> kept;
    size_t ended = 0;
    for (const Member& member : group.members) {
      const Comm& comm = facts.process(member.process).comms[member.comm];
      ended += comm.state == CommState::destroyed || comm.state == CommState::aborted;
      const bool leaks =
          comm.state == CommState::ready && facts.job.processes[member.process].ended_itself;
      if (leaks) kept.push_back(member.process);
    }
    // A job that ends without destroying anything is ordinary; a rank that differs is not.
    if (kept.empty() || ended <= kept.size()) continue;
    Draft draft = make_draft(Verdict::comm_leak, Confidence::certain);
    for (const uint32_t p : kept) draft.finding.culprits.push_back(culprit_of(facts, p, g));
    draft.finding.summary =
        fmt::format("{} ended without destroying {}, which {} other ranks destroyed",
                    processes_text(facts.index.run(), kept), group.name, ended);
    draft.finding.next = "let every rank destroy its communicators before it ends";
    drafts.push_back(std::move(draft));
  }
}

// Processes by the value of a meta key; those without the key count as "(not set)".
std::map<std::string, std::vector<uint32_t>> values_of(const Facts& facts, std::string_view key) {
  std::map<std::string, std::vector<uint32_t>> values;
  for (const uint32_t p : facts.index.active()) {
    const auto found = facts.process(p).meta.find(std::string(key));
    values[found == facts.process(p).meta.end() ? "" : found->second].push_back(p);
  }
  return values;
}

void add_disagreement(const Facts& facts, std::string_view key, Verdict verdict,
                      bool absence_counts, std::vector<Draft>& drafts) {
  auto values = values_of(facts, key);
  if (!absence_counts) values.erase("");
  if (values.size() < 2) return;
  Draft draft = make_draft(verdict, Confidence::certain);
  const auto majority = std::max_element(
      values.begin(), values.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  std::string text;
  for (const auto& [value, processes] : values) {
    text += fmt::format("{}{} on {}", text.empty() ? "" : ", ", value.empty() ? "not set" : value,
                        processes_text(facts.index.run(), processes));
    if (&processes == &majority->second) continue;
    for (const uint32_t p : processes)
      draft.finding.culprits.push_back(culprit_of(facts, p, kNone));
  }
  const std::string_view name =
      key.starts_with(kEnvironment) ? key.substr(kEnvironment.size()) : key;
  draft.finding.summary = fmt::format("{} differs between ranks: {}", name, text);
  draft.finding.next = "start every rank with the same libraries and settings";
  drafts.push_back(std::move(draft));
}

// Variables that are set and that nobody reads, by name: why, and on which processes.
struct UnreadOn {
  settings::Unread unread;
  std::vector<uint32_t> processes;
};

std::map<std::string_view, UnreadOn> unread_variables(const Facts& facts) {
  std::map<std::string_view, UnreadOn> found;
  std::map<std::pair<std::string_view, uint64_t>, settings::Unread> judged;
  for (const uint32_t p : facts.index.active()) {
    const auto& meta = facts.process(p).meta;
    const auto version = meta.find("nccl_version");
    uint64_t code = 0;
    if (version != meta.end() && !parse_decimal(version->second, code)) code = 0;
    constexpr std::string_view kNccl = "env.NCCL_";
    for (auto at = meta.lower_bound(std::string(kNccl)); at != meta.end(); ++at) {
      if (!at->first.starts_with(kNccl)) break;
      const std::string_view name = std::string_view(at->first).substr(kEnvironment.size());
      const auto [known, is_new] = judged.try_emplace({name, code});
      if (is_new) known->second = settings::judge_variable(name, static_cast<uint32_t>(code));
      if (known->second.why.empty()) continue;
      UnreadOn& on = found[name];
      if (on.processes.empty()) on.unread = known->second;
      on.processes.push_back(p);
    }
  }
  return found;
}

void add_unread(const Facts& facts, std::vector<Draft>& drafts) {
  for (const auto& [name, on] : unread_variables(facts)) {
    Draft draft = make_draft(Verdict::env_mismatch,
                             on.unread.is_certain ? Confidence::certain : Confidence::likely);
    for (const uint32_t p : on.processes) {
      draft.finding.culprits.push_back(culprit_of(facts, p, kNone));
    }
    const Process& first = facts.process(on.processes.front());
    const std::string value = first.meta.at(fmt::format("{}{}", kEnvironment, name));
    draft.finding.summary =
        fmt::format("{} is set on {}, and {}", name,
                    processes_text(facts.index.run(), on.processes), on.unread.why);
    draft.finding.evidence.push_back(
        {.file = first.file, .record = "header", .text = fmt::format("{}={}", name, value)});
    draft.finding.next = on.unread.next.empty() ? "unset it, unless a plugin reads it"
                                                : fmt::format("is {} meant?", on.unread.next);
    drafts.push_back(std::move(draft));
  }
}

// The keys that not all processes have the same value of, in one pass: most of many runs agree.
std::set<std::string_view> disagreeing_keys(const Facts& facts) {
  std::map<std::string_view, std::pair<std::string_view, size_t>> first;  // value, processes
  std::set<std::string_view> keys;
  for (const uint32_t p : facts.index.active()) {
    for (const auto& [key, value] : facts.process(p).meta) {
      auto& [common, processes] = first.try_emplace(key, value, 0).first->second;
      ++processes;
      if (common != value) keys.insert(key);
    }
  }
  for (const auto& [key, entry] : first) {
    if (entry.second != facts.index.active().size()) keys.insert(key);
  }
  return keys;
}

}  // namespace

std::vector<Draft> judge_records(const Facts& facts) {
  std::vector<Draft> drafts;
  add_gaps(facts, drafts);
  add_leaks(facts, drafts);
  const std::set<std::string_view> keys = disagreeing_keys(facts);
  for (const char* key : {"nccl_version", "cuda_driver_version", "cuda_runtime_version"}) {
    if (!keys.contains(key)) continue;
    add_disagreement(facts, key, Verdict::version_mismatch, false, drafts);
  }
  for (const std::string_view key : keys) {
    if (!key.starts_with(kEnvironment) || !settings::must_agree(key.substr(kEnvironment.size())))
      continue;
    add_disagreement(facts, key, Verdict::env_mismatch, true, drafts);
  }
  add_unread(facts, drafts);
  return drafts;
}

}  // namespace rollcall::analysis
