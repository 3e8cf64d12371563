#include "analysis/slips/launch_order.h"

#include <algorithm>
#include <map>
#include <utility>

#include "analysis/alignment/expectation.h"
#include "analysis/alignment/limits.h"
#include "analysis/gpu/captured.h"
#include "analysis/gpu/fronts.h"
#include "analysis/slips/order_vote.h"

namespace rollcall::analysis {
namespace {

using trace::Op;
using trace::Process;

constexpr size_t kAgreeingMin = 2;
// Of a rank, and of all: those of thousands of ranks are held at once.
constexpr size_t kLaunchesMax = 4096;
constexpr size_t kLaunchesOfAllMax = size_t{1} << 21;

// What a graph holds of collectives, each with the place of its communicator among the rank's.
using Holds = std::vector<std::pair<uint32_t, uint64_t>>;

// The graphs of a process, in the order in which it captured them.
struct Graphs {
  std::map<uint32_t, uint64_t> places;  // by graph
  std::vector<Holds> holds;             // by place
};

Graphs graphs_of(const Process& process) {
  Graphs graphs;
  for (const Op& op : process.ops) {
    if (!is_captured(op) || is_mark(op.kind)) continue;
    const auto [found, is_new] = graphs.places.try_emplace(op.graph, graphs.holds.size());
    if (is_new) graphs.holds.emplace_back();
    if (is_collective(op.kind)) graphs.holds[found->second].emplace_back(op.comm, op.seq);
  }
  return graphs;
}

// A launch, a collective outside of graphs, or transfers of one communicator in a row, or in a
// group: of these each rank has its own, and as many as it has neighbours.
struct Token {
  Signature signature;
  uint64_t number = 0;  // of the graph's launches, or of the communicator's collectives
  uint32_t op = kNoRecord;

  bool is_launch() const { return signature.kind == OpKind::GraphLaunch; }
  bool is_of_transfers() const { return !is_launch() && !is_collective(signature.kind); }
  // The numbers of transfers are not those of other ranks.
  bool is_same_call(const Token& other) const {
    return !is_of_transfers() && agree(signature, other.signature) && number == other.number;
  }
};

// What a process called, from a place of the reference's calls on.
struct Sequence {
  uint32_t process = kNone;
  size_t first = 0;
  std::vector<Token> tokens;
  bool is_whole = true;  // from the first call on

  const Token* at(size_t place) const {
    return place < first || place - first >= tokens.size() ? nullptr : &tokens[place - first];
  }
  size_t end() const { return first + tokens.size(); }
};

// Nothing where it launches a graph of which nothing tells what it holds.
std::optional<Token> token_of(const Facts& facts, uint32_t p, uint32_t i, const Graphs& graphs) {
  const Op& op = facts.index.op(p, i);
  Token token{.signature = {.place = op.comm, .kind = OpKind::Send}, .number = op.seq, .op = i};
  if (op.kind == OpKind::GraphLaunch) {
    const auto found = graphs.places.find(op.graph);
    if (found == graphs.places.end()) return std::nullopt;
    token.signature = {.place = found->second, .kind = OpKind::GraphLaunch};
  } else if (is_collective(op.kind)) {
    token.signature = usual_signature(facts.sizes, p, op);
    token.signature.place = op.comm;
  }
  return token;
}

bool counts(const Process& process, const Op& op) {
  const bool is_call = op.kind == OpKind::GraphLaunch || !is_mark(op.kind);
  return is_call && op.ticket >= process.first_complete_ticket && !is_captured(op) &&
         op.state != trace::OpState::failed;
}

// The newest calls, as many as this.
Sequence sequence_of(const Facts& facts, uint32_t p, const Graphs& graphs, size_t calls_max) {
  const Process& process = facts.process(p);
  Sequence sequence{.process = p, .first = 0, .tokens = {}};
  std::vector<Token>& tokens = sequence.tokens;
  for (uint32_t i = 0; i < process.ops.size(); ++i) {
    if (!counts(process, process.ops[i])) continue;
    const std::optional<Token> token = token_of(facts, p, i, graphs);
    if (!token) return Sequence{};
    const bool is_more = token->is_of_transfers() && !tokens.empty() &&
                         agree(tokens.back().signature, token->signature) &&
                         process.ops[tokens.back().op].group == process.ops[i].group;
    if (!is_more) tokens.push_back(*token);
  }
  sequence.is_whole = process.first_complete_ticket <= 1 && tokens.size() <= calls_max;
  if (sequence.is_whole) return sequence;
  const size_t kept = std::min(tokens.size(), calls_max);
  tokens.erase(tokens.begin(), tokens.end() - static_cast<ptrdiff_t>(kept));
  tokens.erase(tokens.begin(), std::find_if(tokens.begin(), tokens.end(), [](const Token& token) {
                 return !token.is_of_transfers();
               }));
  return sequence;
}

// Both from the same call on. False where none is known to be the same.
bool place_beside(const Sequence& reference, Sequence& sequence) {
  if (reference.is_whole && sequence.is_whole) return true;
  const auto find = [](const std::vector<Token>& in, const Token& token) {
    return std::find_if(in.begin(), in.end(),
                        [&](const Token& other) { return other.is_same_call(token); });
  };
  std::vector<Token>& tokens = sequence.tokens;
  const auto there = find(reference.tokens, tokens.front());
  if (there != reference.tokens.end()) {
    sequence.first = static_cast<size_t>(there - reference.tokens.begin());
    return true;
  }
  const auto here = find(tokens, reference.tokens.front());
  if (here == tokens.end()) return false;
  tokens.erase(tokens.begin(), here);
  return true;
}

// Of the ranks that play one part: those whose communicators and graphs are those of the one that
// has most calls on file, which comes first.
std::vector<Sequence> sequences_of(const Facts& facts) {
  std::vector<Sequence> all;
  std::map<uint32_t, std::vector<Holds>> holds;
  const size_t calls_max =
      std::min(kLaunchesMax, kLaunchesOfAllMax / std::max<size_t>(facts.index.active().size(), 1));
  for (const uint32_t p : facts.index.active()) {
    const Process& process = facts.process(p);
    if (!process.knowledge.calls_in_order || process.torn != 0) continue;
    Graphs graphs = graphs_of(process);
    Sequence sequence = sequence_of(facts, p, graphs, calls_max);
    if (graphs.holds.empty() || sequence.tokens.empty()) continue;
    holds[p] = std::move(graphs.holds);
    all.push_back(std::move(sequence));
  }
  std::stable_sort(all.begin(), all.end(), [](const Sequence& a, const Sequence& b) {
    return a.tokens.size() > b.tokens.size();
  });
  if (all.empty()) return all;
  const Sequence reference = all.front();
  std::erase_if(all, [&](Sequence& one) {
    const bool is_alike = has_same_comms(facts, reference.process, one.process) &&
                          holds[one.process] == holds[reference.process];
    return one.process != reference.process && !(is_alike && place_beside(reference, one));
  });
  return all;
}

// Those that have another call at this place than all others.
struct Parting {
  const Sequence* odd = nullptr;
  std::vector<const Sequence*> others;
};

// Nothing where they do not part there, or more than one does.
std::optional<Parting> parting_at(const std::vector<Sequence>& sequences, size_t place) {
  std::vector<const Sequence*> camps[2];
  for (const Sequence& one : sequences) {
    const Token* token = one.at(place);
    if (token == nullptr) continue;
    const auto agrees = [&](const std::vector<const Sequence*>& camp) {
      return camp.empty() || agree(camp.front()->at(place)->signature, token->signature);
    };
    auto* const camp = std::find_if(std::begin(camps), std::end(camps), agrees);
    if (camp == std::end(camps)) return Parting{};
    camp->push_back(&one);
  }
  if (camps[1].empty()) return std::nullopt;
  if (camps[0].size() < camps[1].size()) std::swap(camps[0], camps[1]);
  if (camps[1].size() != 1 || camps[0].size() < kAgreeingMin) return Parting{};
  return Parting{camps[1].front(), std::move(camps[0])};
}

std::vector<Signature> signatures(const Sequence& sequence, size_t begin, size_t end) {
  std::vector<Signature> list;
  for (size_t place = begin; place < end; ++place) {
    const Token* token = sequence.at(place);
    if (token == nullptr) break;
    list.push_back(token->signature);
  }
  return list;
}

bool is_usual(const Sequence& odd, size_t place) {
  const std::vector<Signature> before = signatures(odd, odd.first, place);
  const std::optional<Signature> usual = expected_next(before);
  return usual && agree(*usual, odd.at(place)->signature);
}

// Nothing where it is not launches that were left out, or made more.
std::optional<Slip> slip_of(const Parting& parting, size_t place) {
  const Sequence& reference =
      **std::max_element(parting.others.begin(), parting.others.end(),
                         [](const Sequence* a, const Sequence* b) { return a->end() < b->end(); });
  const size_t end = place + kCallsBehindMax;
  const std::vector<Signature> expected = signatures(reference, place, end);
  const Alignment alignment =
      align(signatures(*parting.odd, place, end), expected, expected.size());
  const bool launched = parting.odd->at(place)->is_launch();
  const bool should_launch = reference.at(place)->is_launch();
  if (launched && should_launch) return alignment.slip;
  // All others wait behind the launch: what the odd one called in its place nobody else has made.
  if (should_launch && expected.size() == 1) return Slip::missing;
  const bool is_clear = alignment.contradicted == 0 && alignment.matched != 0;
  const bool is_of_launch = (alignment.slip == Slip::missing && should_launch) ||
                            (alignment.slip == Slip::extra && launched);
  return is_clear && is_of_launch ? std::optional(alignment.slip) : std::nullopt;
}

// Its graph holds a collective that the other process takes part in.
bool needs(const Facts& facts, const OpRef& launch, uint32_t other) {
  const Process& process = facts.process(launch.process);
  const uint32_t graph = facts.index.op(launch.process, launch.op).graph;
  return std::any_of(process.ops.begin(), process.ops.end(), [&](const Op& op) {
    const bool is_collective_of_it = is_captured(op) && op.graph == graph && is_collective(op.kind);
    if (!is_collective_of_it) return false;
    const uint32_t group = facts.index.seat(launch.process, op.comm).group;
    return group != kNone && comm_of(facts, other, group) != nullptr;
  });
}

// What was launched there stands, as far as that is on file; and nobody got through with it who
// needed the odd one.
bool is_waited_for(const Facts& facts, const LaunchSlip& slip) {
  const auto stands = [&](const OpRef& where) {
    return is_standing_replay(facts, facts.index.op(where.process, where.op));
  };
  const auto got_by = [&](const OpRef& where) {
    const Op& op = facts.index.op(where.process, where.op);
    return op.kind == OpKind::GraphLaunch && is_through(op) &&
           needs(facts, where, slip.called.process);
  };
  return (stands(slip.called) || std::any_of(slip.expected.begin(), slip.expected.end(), stands)) &&
         std::none_of(slip.expected.begin(), slip.expected.end(), got_by);
}

}  // namespace

std::optional<LaunchSlip> find_launch_slip(const Facts& facts) {
  const std::vector<Sequence> sequences = sequences_of(facts);
  if (sequences.size() <= kAgreeingMin) return std::nullopt;
  for (size_t place = 0; place < sequences.front().tokens.size(); ++place) {
    const std::optional<Parting> parting = parting_at(sequences, place);
    if (!parting) continue;
    if (parting->odd == nullptr || is_usual(*parting->odd, place)) return std::nullopt;
    const std::optional<Slip> slip = slip_of(*parting, place);
    if (!slip) return std::nullopt;
    LaunchSlip found{.slip = *slip,
                     .called = {parting->odd->process, parting->odd->at(place)->op},
                     .expected = {}};
    for (const Sequence* one : parting->others) {
      found.expected.push_back({one->process, one->at(place)->op});
    }
    return is_waited_for(facts, found) ? std::optional(std::move(found)) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace rollcall::analysis
