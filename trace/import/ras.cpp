// What NCCL's own monitor (RAS, client `ncclras`) reports of a job: JSON, or text.
//
// It knows no calls, only how many of five functions each rank launched on each communicator. A
// rank becomes one call per communicator: its last one, at the position that the sum of its five
// counters gives. Whose sum is lower is behind; whose sum is equal with other parts called another
// function. Which function the last call was is taken from the counter in which the ranks differ.
//
// The text names only ranks that differ from most, so the others are taken to be as most are. What
// it says of the ranks that it names stands in their own line or in the one above the list; only
// "Missing communicator data" says that a rank did not answer.
//
// What it lacks: sizes, datatypes, order, sends and receives, the functions it does not count,
// replays of graphs; and the snapshot is not taken at one moment, so a healthy busy job may look
// one call apart.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "trace/import/importer.h"
#include "trace/import/lines.h"
#include "trace/import/plain_json.h"

namespace rollcall::trace {
namespace {

constexpr OpKind kCounted[] = {OpKind::Broadcast, OpKind::Reduce, OpKind::AllGather,
                               OpKind::ReduceScatter, OpKind::AllReduce};
constexpr size_t kCounters = std::size(kCounted);
using Counts = std::array<uint64_t, kCounters>;

// RAS takes a process for unresponsive after 5 s, for dead after 60 s.
constexpr int64_t kUnresponsiveNs = 5'000'000'000;
constexpr int64_t kDeadNs = 60'000'000'000;

struct RankReport {
  int32_t rank = -1;
  std::string host;
  uint32_t pid = 0;
  Counts counts{};
  bool is_counted = true;  // false: RAS could not ask it
  bool is_told = true;     // false: RAS asked it, and the text does not say what it answered
  bool is_dead = false;
  bool is_aborted = false;
  int64_t async_error = 0;
};

struct CommReport {
  std::string hash;
  int32_t size = -1;
  std::vector<RankReport> ranks;
};

// The counters as most ranks have them; of equals the higher, because who is behind is the odd one.
Counts usual_counts(const CommReport& comm) {
  Counts usual{};
  for (size_t f = 0; f < kCounters; ++f) {
    std::map<uint64_t, size_t> votes;
    for (const RankReport& rank : comm.ranks) votes[rank.counts[f]] += rank.is_counted;
    size_t best = 0;
    for (const auto& [count, number] : votes) {
      if (number >= best) usual[f] = count;
      best = std::max(best, number);
    }
  }
  return usual;
}

uint64_t sum_of(const Counts& counts) {
  uint64_t sum = 0;
  for (const uint64_t count : counts) sum += count;
  return sum;
}

// The function whose counter is higher (`more`) or lower than usual; kCounters: none.
size_t odd_counter(const Counts& counts, const Counts& usual, bool more) {
  for (size_t f = 0; f < kCounters; ++f) {
    if (more ? counts[f] > usual[f] : counts[f] < usual[f]) return f;
  }
  return kCounters;
}

// The only function that the rank has called, as far as is known; of several the last that is
// counted.
size_t only_counter(const Counts& counts) {
  size_t only = kCounters - 1;
  size_t found = 0;
  for (size_t f = 0; f < kCounters; ++f) {
    if (counts[f] == 0) continue;
    only = f;
    ++found;
  }
  return found == 1 ? only : kCounters - 1;
}

class RasJob {
 public:
  RasJob(const std::string& path, const std::string& recorder) : path_(path), recorder_(recorder) {}

  void set_time(const std::string& text) {
    std::tm time{};
    if (::strptime(text.c_str(), "%Y-%m-%d %H:%M:%S", &time) == nullptr) return;
    // Beyond, nanoseconds do not fit 64 bits.
    if (time.tm_year < 70 || time.tm_year > 300) return;
    // Local time without a zone: of use for ordering two reports only.
    time_ns_ = static_cast<int64_t>(::timegm(&time)) * 1'000'000'000;
  }
  void set_version(const std::string& version) { version_ = version; }
  // Ranks of the widest communicator, whose ranks stand for job ranks.
  void set_size(int32_t size) { size_ = std::max(size_, size); }
  void leave_out_usual(uint64_t listed_max) { listed_max_ = listed_max; }
  void note(const std::string& text) {
    constexpr size_t kNotesMax = 2000;
    if (notes_.size() < kNotesMax) notes_ += (notes_.empty() ? "" : ", ") + text;
  }

  // A process of which RAS knows nothing but that it does not answer.
  void add_unreached(const std::string& host, uint32_t pid, bool is_dead) {
    RankReport rank;
    rank.host = host;
    rank.pid = pid;
    rank.is_dead = is_dead;
    set_unreached(process_of({}, rank), is_dead);
  }

  void add(const CommReport& comm) {
    const Counts usual = usual_counts(comm);
    // What somebody did not call is what the others' last call was.
    size_t last = kCounters;
    for (const RankReport& rank : comm.ranks) {
      if (rank.is_counted) last = std::min(last, odd_counter(rank.counts, usual, false));
    }
    for (const RankReport& rank : comm.ranks) add_rank(comm, rank, usual, last);
  }

  void finish(std::vector<Process>& processes, std::vector<Issue>& issues) {
    std::string text =
        "is a report of NCCL RAS: it has numbers of calls of five functions, without sizes, order, "
        "sends and receives, and not taken at one moment; positions are sums of these numbers";
    if (!notes_.empty()) text += "; " + notes_;
    if (listed_max_ != 0) {
      text += fmt::format(
          "; it speaks of more ranks than {}: of the others those that are as most "
          "are were left out",
          listed_max_);
    }
    issues.push_back({path_, text, 0, false});
    for (auto& [key, process] : processes_) {
      // What tells it from others here is no name of a host.
      if (process.pid == 0 && process.job_rank >= 0) process.host.clear();
      process.next_ticket = process.ops.size() + 1;
      // Nothing in front of the calls of a process that launched none.
      process.knowledge.head = process.ops.empty();
      processes.push_back(std::move(process));
    }
  }

 private:
  Process& process_of(const CommReport& comm, const RankReport& rank) {
    Process& process = processes_[{rank.host, rank.pid}];
    if (process.file.empty()) {
      process.file = path_;
      process.recorder = recorder_;
      process.host = rank.host;
      process.pid = rank.pid;
      process.started_ns = time_ns_;
      process.heartbeat_ns = time_ns_;
      process.knowledge.groups = false;
      process.knowledge.calls_in_order = false;
      process.knowledge.returns = false;
      if (!version_.empty()) process.meta["nccl_version"] = version_;
    }
    if (comm.size == size_ && rank.rank >= 0) process.job_rank = rank.rank;
    return process;
  }

  void add_rank(const CommReport& comm, const RankReport& rank, const Counts& usual, size_t last) {
    Process& process = process_of(comm, rank);
    Comm entry;
    entry.state = rank.is_aborted ? CommState::aborted : CommState::ready;
    entry.key = key_from_text("ras " + comm.hash);
    entry.name = comm.hash;
    entry.nranks = comm.size;
    entry.rank = rank.rank;
    entry.collectives = sum_of(rank.counts);
    const auto index = static_cast<uint32_t>(process.comms.size());
    process.comms.push_back(entry);
    if (!rank.is_counted) {
      set_unreached(process, rank.is_dead);
      return;
    }
    if (!rank.is_told) process.knowledge.tail = false;
    if (rank.async_error != 0) add_error(process, index, rank.async_error);
    if (!rank.is_told) return;
    note_difference(comm, rank, usual);
    if (entry.collectives == 0) return;
    const size_t more = odd_counter(rank.counts, usual, true);
    Op op;
    op.kind = kCounted[more != kCounters   ? more
                       : last != kCounters ? last
                                           : only_counter(rank.counts)];
    op.count = kCountUnknown;
    op.seq = entry.collectives - 1;
    op.comm = index;
    op.state = OpState::launched;
    op.ticket = process.ops.size() + 1;
    process.ops.push_back(op);
  }

  void set_unreached(Process& process, bool is_dead) {
    process.knowledge.tail = false;
    process.heartbeat_ns = time_ns_ - (is_dead ? kDeadNs : kUnresponsiveNs);
    process.liveness_evidence = is_dead ? "RAS considers it dead" : "it does not answer RAS";
  }

  void add_error(Process& process, uint32_t comm, int64_t code) {
    Event event{};
    event.kind = EventKind::AsyncError;
    event.called_ns = event.returned_ns = time_ns_;
    event.ticket = process.events.size() + 1;
    event.comm = comm;
    event.arguments[1] = code;
    process.events.push_back(event);
  }

  void note_difference(const CommReport& comm, const RankReport& rank, const Counts& usual) {
    for (size_t f = 0; f < kCounters; ++f) {
      if (rank.counts[f] == usual[f]) continue;
      note(fmt::format("rank {} of {} launched {} {} where most launched {}", rank.rank, comm.hash,
                       rank.counts[f], name_of(kCounted[f]), usual[f]));
    }
  }

  const std::string path_;
  const std::string recorder_;
  std::string version_;
  std::string notes_;
  int64_t time_ns_ = kDeadNs + 1;
  std::map<std::pair<std::string, uint32_t>, Process> processes_;
  int32_t size_ = 0;
  uint64_t listed_max_ = 0;  // so many were taken, and not all
};

RankReport rank_from_json(const PlainValue& entry, bool is_missing) {
  RankReport rank;
  rank.rank = static_cast<int32_t>(entry.integer_of("rank", -1));
  rank.host = entry.text_of("host");
  rank.pid = static_cast<uint32_t>(entry.integer_of("pid", 0));
  rank.is_counted = !is_missing;
  if (const PlainValue* counts = entry.find("collective_counts")) {
    for (size_t f = 0; f < kCounters; ++f) {
      const int64_t count = counts->integer_of(name_of(kCounted[f]), 0);
      rank.counts[f] = count < 0 ? 0 : static_cast<uint64_t>(count);
    }
  }
  if (const PlainValue* status = entry.find("status")) {
    const auto flag = [&](std::string_view key) {
      const PlainValue* value = status->find(key);
      return value != nullptr && value->boolean_or(false);
    };
    rank.is_dead = flag("considered_dead");
    rank.is_aborted = flag("abort_flag");
    rank.async_error = status->integer_of("async_error", 0);
  }
  return rank;
}

CommReport comm_from_json(const PlainValue& entry) {
  CommReport comm;
  comm.hash = entry.text_of("hash");
  comm.size = static_cast<int32_t>(entry.integer_of("size", -1));
  for (const char* key : {"ranks", "missing_ranks"}) {
    const PlainValue* list = entry.find(key);
    if (list == nullptr || list->list() == nullptr) continue;
    for (const PlainPointer& rank : *list->list()) {
      comm.ranks.push_back(rank_from_json(*rank, std::string_view(key) == "missing_ranks"));
    }
  }
  return comm;
}

// The text's numbers stand in fixed sentences.
uint64_t number_behind(std::string_view line, std::string_view words) {
  const size_t at = line.find(words);
  uint64_t number = 0;
  if (at == std::string_view::npos) return 0;
  const std::string_view rest = line.substr(at + words.size());
  std::from_chars(rest.data(), rest.data() + rest.size(), number);
  return number;
}

std::string word_behind(std::string_view line, std::string_view words) {
  const size_t at = line.find(words);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = line.substr(at + words.size());
  return std::string(rest.substr(0, rest.find_first_of(" \r")));
}

// What a line says of ranks: of the one that it names, or of those that the lines below it list.
struct Told {
  enum class What : uint8_t { nothing, missing, launched, status, error } what = What::nothing;
  uint64_t launched = 0;
  std::string word;  // a status or an error
};

// "2 ranks have launched up to operation 640", "Rank 3 has status ABORT -- GPU ...".
Told told_by(std::string_view line) {
  constexpr std::string_view kLaunched = " launched up to operation ";
  Told told;
  const std::string_view claim = line.substr(0, line.find(" -- "));
  const auto behind = [&](std::string_view words) -> std::optional<std::string> {
    const size_t at = claim.find(words);
    if (at == std::string_view::npos) return {};
    return std::string(claim.substr(at + words.size()));
  };
  if (behind(kLaunched)) {
    told = {Told::What::launched, number_behind(claim, kLaunched), {}};
  } else if (behind(" not launched any operations")) {
    told = {Told::What::launched, 0, {}};
  } else if (const auto status = behind(" status ")) {
    told = {Told::What::status, 0, *status};
  } else if (const auto error = behind(" reported ")) {
    told = {Told::What::error, 0, *error};
  } else if (claim.find("Missing communicator data from") != std::string_view::npos) {
    told.what = Told::What::missing;
  }
  return told;
}

// The result code behind an error's name or text; 0 where it is none that is known.
int64_t code_of_error(std::string_view text) {
  constexpr std::pair<std::string_view, int64_t> kWords[] = {
      {"CUDA", 1},    {"Cuda", 1},    {"cuda", 1}, {"ystem", 2},
      {"nternal", 3}, {"rgument", 4}, {"sage", 5}, {"emote", 6},
  };
  for (const auto& [word, code] : kWords) {
    if (text.find(word) != std::string_view::npos) return code;
  }
  return 0;
}

// "2, 5-7" behind "The missing ranks: ".
std::vector<int32_t> ranks_in(std::string_view text) {
  std::vector<int32_t> ranks;
  size_t at = 0;
  while ((at = text.find_first_of("0123456789", at)) != std::string_view::npos) {
    uint32_t first = 0;
    const char* end = text.data() + text.size();
    auto [rest, error] = std::from_chars(text.data() + at, end, first);
    uint32_t last = first;
    if (error == std::errc() && rest != end && *rest == '-') {
      rest = std::from_chars(rest + 1, end, last).ptr;
    }
    for (uint64_t rank = first; rank <= last && ranks.size() < kRanksMax; ++rank) {
      ranks.push_back(static_cast<int32_t>(rank));
    }
    at = static_cast<size_t>(rest - text.data()) + (error == std::errc() ? 0 : 1);
  }
  return ranks;
}

// One "#group-comm (hash) ERRORS" block, collected until it ends.
struct TextBlock {
  uint64_t group = 0;
  std::string hash;
  std::vector<RankReport> outliers;
  std::map<std::pair<int32_t, size_t>, uint64_t> odd;  // by rank and counter
  // What lines about several ranks say of a counter: so many launched so many, and how many of
  // these are named below.
  struct Claim {
    uint64_t ranks = 0;
    uint64_t launched = 0;
    uint64_t named = 0;
  };
  std::map<size_t, std::vector<Claim>> claims;  // by counter
  size_t counter = kCounters;                   // the function the present lines are about
  Told heading;                                 // what is said of the ranks listed from here on
};

class RasText {
 public:
  explicit RasText(RasJob& job) : job_(job) {}

  void read_line(std::string_view given) {
    // Of the two blanks in front of a detail, a prefix may have taken one with it.
    const bool lacks_blank = given.starts_with(' ') && !given.starts_with("  ");
    const std::string indented = lacks_blank ? fmt::format(" {}", given) : std::string();
    const std::string_view line = lacks_blank ? std::string_view(indented) : given;
    if (read_total(line)) return;
    if (line.starts_with("NCCL version ")) job_.set_version(word_behind(line, "NCCL version "));
    if (line.starts_with("#")) {
      begin_block(line);
    } else if (line == "DEAD" || line == "INCOMPLETE" || line == "Warnings" || line == "Errors" ||
               line == "TIMEOUT") {
      end_block();
      in_dead_ = line == "DEAD";
    } else if (line.starts_with("  Process ")) {
      unreached_.push_back({word_behind(line, " on node "),
                            static_cast<uint32_t>(number_behind(line, "  Process ")), in_dead_});
    } else if (line.starts_with("  ") && !block_.hash.empty()) {
      read_detail(line);
    } else if (line.find("No communicator data collected") != std::string_view::npos) {
      job_.note("no communicator data was collected");
    } else {
      read_table(line);
    }
  }

  void finish() {
    end_block();
    add_quiet_ranks();
    // Of these only the process is known, or that is all.
    for (const Unreached& process : unreached_) {
      if (!process.is_ranked) job_.add_unreached(process.host, process.pid, process.is_dead);
    }
  }

 private:
  struct Unreached {
    std::string host;
    uint32_t pid = 0;
    bool is_dead = false;    // else it only does not answer
    bool is_ranked = false;  // some communicator tells its rank
  };

  // Ranks that the text does not name, in all its communicators: a line of it may stand for a
  // million.
  static constexpr uint64_t kMadeUpMax = 1 << 18;

  bool may_make_up() {
    if (made_up_++ < kMadeUpMax) return true;
    job_.leave_out_usual(kMadeUpMax);
    return false;
  }

  // "(total)   per node  per process    (total)  (total)", and in the next line the numbers, of
  // which the last is that of the job's GPUs: ranks of smaller communicators are none of the job.
  bool read_total(std::string_view line) {
    const bool is_total = std::exchange(is_total_next_, line.ends_with("(total)"));
    if (!is_total || line.find_first_not_of(" 0123456789") != std::string_view::npos) return false;
    while (line.ends_with(' ')) line.remove_suffix(1);
    const size_t blank = line.find_last_of(' ');
    if (blank == std::string_view::npos) return false;
    const uint64_t gpus = number_behind(line.substr(blank), " ");
    if (gpus > 0 && gpus <= kRanksMax) job_.set_size(static_cast<int32_t>(gpus));
    return true;
  }

  // "    0         1         1         4         4         4   RUNNING      OK"
  void read_table(std::string_view line) {
    std::array<uint64_t, 6> numbers{};
    size_t found = 0;
    size_t at = 0;
    while (found < numbers.size()) {
      at = line.find_first_not_of(' ', at);
      if (at == std::string_view::npos) return;
      const char* begin = line.data() + at;
      const auto [end, error] = std::from_chars(begin, line.data() + line.size(), numbers[found]);
      if (error != std::errc()) return;
      // "8-16": ranks per node that differ.
      at = static_cast<size_t>(end - line.data());
      if (at < line.size() && line[at] == '-') at = line.find(' ', at);
      if (at == std::string_view::npos) return;
      ++found;
    }
    if (numbers[4] == 0 || numbers[4] > kRanksMax) return;
    const std::string_view rest = line.substr(at);
    groups_[numbers[0]] = {static_cast<int32_t>(numbers[4]),
                           rest.find(" OK") != std::string_view::npos};
    job_.set_size(groups_[numbers[0]].size);
  }

  void begin_block(std::string_view line) {
    // The same communicator may come with further functions: one block for all of them.
    const std::string hash = word_behind(line, "(");
    const std::string name = "0x" + hash.substr(0, hash.find(')'));
    if (name == block_.hash) return;
    end_block();
    block_.hash = name;
    block_.group = number_behind(line, "#");
  }

  void read_detail(std::string_view line) {
    for (size_t f = 0; f < kCounters; ++f) {
      const std::string words = fmt::format("different {} operation counts", name_of(kCounted[f]));
      if (line.find(words) != std::string_view::npos) block_.counter = f;
    }
    if (line.starts_with("  The missing rank")) {
      for (const int32_t rank : ranks_in(line)) {
        apply({Told::What::missing, 0, {}}, outlier(rank, line));
      }
    } else if (line.starts_with("  Rank ")) {
      const auto number = static_cast<int32_t>(number_behind(line, "  Rank "));
      const Told own = told_by(line);
      const bool is_listed = own.what == Told::What::nothing;
      const auto claims = block_.claims.find(block_.counter);
      if (is_listed && block_.heading.what == Told::What::launched &&
          claims != block_.claims.end()) {
        ++claims->second.back().named;
      }
      apply(is_listed ? block_.heading : own, outlier(number, line));
    } else {
      block_.heading = told_by(line);
      if (block_.heading.what == Told::What::launched && block_.counter != kCounters) {
        block_.claims[block_.counter].push_back(
            {number_behind(line, "  "), block_.heading.launched, 0});
      }
    }
  }

  RankReport& outlier(int32_t number, std::string_view line) {
    auto rank = std::find_if(block_.outliers.begin(), block_.outliers.end(),
                             [&](const RankReport& known) { return known.rank == number; });
    if (rank == block_.outliers.end()) {
      rank = block_.outliers.insert(block_.outliers.end(), RankReport{});
      rank->rank = number;
    }
    if (rank->pid == 0) {
      rank->host = word_behind(line, " on node ");
      rank->pid = static_cast<uint32_t>(number_behind(line, "managed by process "));
    }
    return *rank;
  }

  void apply(const Told& told, RankReport& rank) {
    if (told.what == Told::What::missing) rank.is_counted = false;
    if (told.what == Told::What::launched && block_.counter != kCounters) {
      block_.odd[{rank.rank, block_.counter}] = told.launched;
    }
    if (told.what == Told::What::status) rank.is_aborted = told.word.starts_with("ABORT");
    if (told.what == Told::What::error) {
      rank.async_error = code_of_error(told.word);
      if (rank.async_error == 0) {
        job_.note(fmt::format("rank {} of {} reported {}", rank.rank, block_.hash, told.word));
      }
    }
  }

  // What the ranks launched that no line names: the one number that is claimed of more ranks than
  // are named. Nothing where there are several: who is which is not told.
  std::optional<uint64_t> unnamed_count(size_t counter) const {
    const auto claims = block_.claims.find(counter);
    if (claims == block_.claims.end()) return 0;
    std::optional<uint64_t> usual;
    for (const TextBlock::Claim& claim : claims->second) {
      if (claim.named >= claim.ranks) continue;
      if (usual) return {};
      usual = claim.launched;
    }
    return usual.value_or(claims->second.back().launched);
  }

  void end_block() {
    if (block_.hash.empty()) return;
    CommReport comm;
    comm.hash = block_.hash;
    comm.size = groups_.contains(block_.group) ? groups_[block_.group].size : -1;
    Counts usual{};
    bool is_told = true;
    for (size_t f = 0; f < kCounters; ++f) {
      const std::optional<uint64_t> count = unnamed_count(f);
      is_told = is_told && count.has_value();
      usual[f] = count.value_or(0);
    }
    name_missing_process();
    for (RankReport& rank : block_.outliers) {
      rank.counts = usual;
      for (size_t f = 0; f < kCounters; ++f) {
        const auto odd = block_.odd.find({rank.rank, f});
        if (odd != block_.odd.end()) rank.counts[f] = odd->second;
      }
      for (Unreached& process : unreached_) {
        if (process.host != rank.host || process.pid != rank.pid) continue;
        process.is_ranked = true;
        rank.is_dead = rank.is_dead || process.is_dead;
      }
    }
    comm.ranks = std::move(block_.outliers);
    add_unnamed(usual, is_told, comm);
    ++blocks_;
    job_.add(comm);
    block_ = {};
  }

  // "The missing rank: 2", and one process that was not reached: before 2.26 nothing else says that
  // they are one.
  void name_missing_process() {
    RankReport* missing = nullptr;
    for (RankReport& rank : block_.outliers) {
      if (rank.is_counted) continue;
      if (missing != nullptr) return;
      missing = &rank;
    }
    if (missing == nullptr || missing->pid != 0 || unreached_.size() != 1) return;
    missing->host = unreached_.front().host;
    missing->pid = unreached_.front().pid;
  }

  // Nobody says which processes these are: each is one of its own, named by the rank.
  void add_unnamed(const Counts& usual, bool is_told, CommReport& comm) {
    std::set<int32_t> named;
    for (const RankReport& rank : comm.ranks) named.insert(rank.rank);
    if (!is_told) {
      job_.note(
          fmt::format("which ranks of {} launched how many is not in the text; ask ncclras "
                      "with -v, or in JSON",
                      comm.hash));
      for (RankReport& rank : comm.ranks) rank.is_told = false;
    }
    for (int32_t r = 0; r < comm.size && may_make_up(); ++r) {
      if (named.contains(r)) continue;
      RankReport unnamed;
      unnamed.rank = r;
      unnamed.host = fmt::format("rank {} of {}", r, comm.hash);
      unnamed.counts = usual;
      unnamed.is_told = is_told;
      comm.ranks.push_back(std::move(unnamed));
    }
  }

  // A report without errors still says how many ranks it speaks of.
  void add_quiet_ranks() {
    if (blocks_ != 0) return;
    for (const auto& [group, known] : groups_) {
      if (!known.is_ok) {
        job_.note(
            fmt::format("the table names an error of group {}, and no line tells more", group));
      }
      CommReport comm;
      comm.hash = fmt::format("group {}", group);
      comm.size = known.size;
      for (int32_t r = 0; r < known.size && may_make_up(); ++r) {
        RankReport rank;
        rank.rank = r;
        rank.host = fmt::format("rank {}", r);
        rank.is_told = false;
        comm.ranks.push_back(std::move(rank));
      }
      job_.add(comm);
    }
  }

  struct GroupRow {
    int32_t size = -1;
    bool is_ok = false;
  };

  RasJob& job_;
  TextBlock block_;
  bool in_dead_ = false;
  bool is_total_next_ = false;
  uint64_t blocks_ = 0;
  uint64_t made_up_ = 0;
  std::map<uint64_t, GroupRow> groups_;  // of the table, by number
  std::vector<Unreached> unreached_;
};

}  // namespace

void import_ras_json(const std::string& path, std::span<const uint8_t> bytes,
                     std::vector<Process>& processes, std::vector<Issue>& issues) {
  const PlainPointer report =
      read_plain_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  const PlainValue* comms = report ? report->find("communicators") : nullptr;
  if (comms == nullptr || comms->list() == nullptr) {
    issues.push_back({path, "is not a complete JSON report of ncclras; ask for it again", 0, true});
    return;
  }
  RasJob job(path, "ncclras");
  job.set_time(report->text_of("timestamp"));
  job.set_version(report->text_of("nccl_version"));
  std::vector<CommReport> all;
  for (const PlainPointer& comm : *comms->list()) all.push_back(comm_from_json(*comm));
  for (const CommReport& comm : all) job.set_size(comm.size);
  for (const CommReport& comm : all) job.add(comm);
  job.finish(processes, issues);
}

void import_ras_text(const std::string& path, std::span<const uint8_t> bytes,
                     std::vector<Process>& processes, std::vector<Issue>& issues) {
  RasJob job(path, "ncclras_text");
  RasText reader(job);
  for_each_line(bytes, [&](std::string_view line) { reader.read_line(line); });
  reader.finish();
  job.finish(processes, issues);
}

}  // namespace rollcall::trace
