#include "analysis/slips/alike_ranks.h"

#include "analysis/alignment/expectation.h"
#include "analysis/slips/order_vote.h"

namespace rollcall::analysis {
namespace {

using trace::Op;
using trace::Process;

constexpr size_t kCallsMax = 2048;
constexpr size_t kAskedMax = 64;
constexpr size_t kOthersMin = 3;

bool is_whole(const Process& process) {
  return process.knowledge.head && process.knowledge.calls_in_order &&
         process.first_complete_ticket <= 1 && process.ops.size() <= kCallsMax;
}

}  // namespace

const Beside::Calls& Beside::calls_of(uint32_t p) {
  const auto [found, is_new] = calls_.try_emplace(p);
  const Process& process = facts_.process(p);
  if (!is_new || !is_whole(process)) return found->second;
  for (uint32_t i = 0; i < process.ops.size(); ++i) {
    const Op& op = process.ops[i];
    if (is_mark(op.kind)) continue;
    Signature signature = usual_signature(facts_.sizes, p, op);
    signature.place = op.comm;
    found->second.push_back({signature, i});
  }
  return found->second;
}

std::optional<Beside::Omission> Beside::compare(uint32_t p, uint32_t other) {
  Omission omission;
  const Calls& calls = calls_of(p);
  const Calls& expected = calls_of(other);
  const auto comm_of_expected = [&](size_t i) {
    return facts_.index.op(other, expected[i].op).comm;
  };
  uint32_t comm = kCommUnknown;
  Signature left_out;
  size_t at = 0;
  for (size_t usual = 0; at < calls.size() && usual < expected.size();) {
    if (agree(calls[at].signature, expected[usual].signature)) {
      const bool is_behind = omission.length != 0 && comm_of_expected(usual) != comm;
      omission.behind += is_behind;
      ++at;
      ++usual;
      continue;
    }
    if (omission.length == 0) {
      comm = comm_of_expected(usual);
      if (facts_.index.seat(other, comm).group == kNone) return std::nullopt;
      omission.op = calls[at].op;
      omission.left_out = {other, expected[usual].op};
      left_out = expected[usual].signature;
    }
    if (comm_of_expected(usual) != comm) return std::nullopt;
    ++omission.length;
    ++usual;
  }
  if (omission.length == 0) return std::nullopt;
  // It has made that call behind all that the other one called: it left nothing out.
  const bool is_only_later = at < calls.size() && agree(calls[at].signature, left_out);
  return is_only_later ? std::nullopt : std::optional(omission);
}

bool Beside::is_usual(uint32_t p, uint32_t op) {
  std::vector<Signature> before;
  for (const Call& call : calls_of(p)) {
    if (call.op == op) {
      const std::optional<Signature> usual = expected_next(before);
      return usual && agree(*usual, call.signature);
    }
    before.push_back(call.signature);
  }
  return false;
}

std::optional<Beside::Omission> Beside::omission_of(uint32_t p) {
  if (known_.size() == kAskedMax && known_.count(p) == 0) return std::nullopt;
  const auto [known, is_new] = known_.try_emplace(p);
  if (!is_new) return known->second;
  size_t others = 0;
  std::optional<Omission> omission;
  for (const uint32_t q : facts_.index.active()) {
    if (others == kAskedMax) break;
    if (q == p || !has_same_comms(facts_, p, q)) continue;
    const std::optional<Omission> found = compare(p, q);
    // Several that do not agree may all be wrong.
    if (!found || (omission && !is_same(*found, *omission))) return std::nullopt;
    if (!omission || found->behind > omission->behind) omission = found;
    ++others;
  }
  // Few may have made a call more.
  if (others >= kOthersMin && !is_usual(p, omission->op)) known->second = omission;
  return known->second;
}

bool Beside::is_same(const Omission& a, const Omission& b) const {
  const auto comm_of = [&](const Omission& one) {
    return facts_.index.op(one.left_out.process, one.left_out.op).comm;
  };
  return a.op == b.op && comm_of(a) == comm_of(b);
}

}  // namespace rollcall::analysis
