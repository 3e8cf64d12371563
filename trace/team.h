// The processes that read one run together, each its share of the files, and the one among them, of
// rank 0, that judges it.
//
// Whatever is here is collective: every process calls the same members in the same order. Who is
// alone has no team (a null pointer).
//
// The implementation lies in a library of its own (tools/mpi_team.cpp), so that nothing else needs
// MPI: this header is all that the two sides share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rollcall::trace {

class Team {
 public:
  using Bytes = std::vector<std::byte>;

  virtual ~Team() = default;
  virtual uint32_t rank() const = 0;
  virtual uint32_t size() const = 0;
  // How many of them run on this host.
  virtual uint32_t local_size() const = 0;
  // On rank 0 everybody's bytes by rank, elsewhere nothing.
  virtual std::vector<Bytes> gather(const Bytes& mine) = 0;
  // Rank 0's bytes on every process.
  virtual void broadcast(Bytes& bytes) = 0;
};

inline bool is_root(const Team* team) { return team == nullptr || team->rank() == 0; }

// Elements [begin, end) of `count` are this process's share.
struct Share {
  size_t begin = 0;
  size_t end = 0;
};
inline Share share_of(size_t count, uint32_t rank, uint32_t size) {
  return {count * rank / size, count * (rank + 1) / size};
}
inline Share my_share(size_t count, const Team* team) {
  return team == nullptr ? Share{0, count} : share_of(count, team->rank(), team->size());
}

}  // namespace rollcall::trace
