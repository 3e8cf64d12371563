// What `make bench` prints and writes: one row per number, the goal it is held to, and whether it
// holds.
#pragma once

#include <string>
#include <vector>

namespace rollcall::bench {

struct Result {
  std::string name;
  double value = 0;
  std::string unit;
  double goal = 0;  // at most this, unless `at_least`
  bool at_least = false;
  bool has_goal = true;  // false: a number that other numbers are held against
  bool holds() const { return !has_goal || (at_least ? value >= goal : value <= goal); }
};

class ResultTable {
 public:
  void add(const Result& result);
  void print() const;
  // A list of {"name","value","unit","goal","holds"}; goal is null where there is none. False with
  // a message on stderr when the file cannot be written.
  bool write_json(const std::string& path) const;
  bool all_hold() const;

 private:
  std::vector<Result> results_;
};

}  // namespace rollcall::bench
