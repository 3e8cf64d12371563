// The seeds whose jobs are known to be judged wrong: a ratchet that only moves towards none.
#pragma once

#include <cstdint>
#include <istream>
#include <set>
#include <string>

namespace rollcall::sim {

class KnownWrong {
 public:
  // `list`: one seed a line; '#' begins a comment. A line that is no seed is an error: see
  // errors().
  explicit KnownWrong(std::istream& list);

  // Of each job that was judged. What this run says against the list is in errors().
  void judged(uint64_t seed, bool is_wrong);
  // The seeds of the list from `first` to `last` that were not judged: they name no job.
  void judged_all(uint64_t first, uint64_t last);

  bool contains(uint64_t seed) const { return seeds_.count(seed) != 0; }
  const std::string& errors() const { return errors_; }  // a line each; empty: the list holds

 private:
  std::set<uint64_t> seeds_;
  std::set<uint64_t> seen_;
  std::string errors_;
};

}  // namespace rollcall::sim
