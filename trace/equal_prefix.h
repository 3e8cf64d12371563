// Which records of a large run are worth holding in memory.
//
// Most calls of most ranks are alike. A digest of a communicator's calls up to some position that
// is the same on all its ranks proves that they called the same up to there (2^-64), so those
// records can stay on disk. Wanted are: the newest calls of every rank, since whatever hangs is
// among them, and a stretch around the first position of every communicator where the digests part.
//
// Segments hold a digest every kDigestPeriod calls; behind a rank's newest one its records are
// decoded once, without being kept, for digests every kFinePeriod. Ranks that do not agree on their
// newest ones are read again, from the last one on which they do.
//
// What is given up: sends and receives, and the order between communicators, are seen only in what
// is held.
//
// The processes of a team read the digests of their shares, tell each other, and plan alike.
//
// Threads: reads with several threads of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/model.h"
#include "trace/team.h"

namespace rollcall::trace {

// A ring and its segments, as paths.
struct RingFiles {
  std::string ring;
  std::vector<std::string> segments;
};

struct TicketRange {
  uint64_t begin = 0;
  uint64_t end = UINT64_MAX;  // one behind the last
};

struct ReadingPlan {
  // By ring, rising and disjoint; an empty list: read everything. Empty as a whole: the run is
  // small enough.
  std::vector<std::vector<TicketRange>> wanted;
  // By ring and index of the communicator: the digest at its last call, or where its records end.
  std::vector<std::vector<PrefixDigest>> ends;
  uint64_t calls = 0;    // of all ranks
  uint64_t skipped = 0;  // of these: equal, and left on disk
};

// Plans for about `records_max` records in memory. What cannot be read is wanted as a whole, so
// that the reader behind says why.
ReadingPlan plan_reading(const std::vector<RingFiles>& rings, uint64_t records_max,
                         unsigned threads, Team* team = nullptr);

}  // namespace rollcall::trace
