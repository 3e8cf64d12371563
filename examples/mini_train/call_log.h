// The job's own account of its NCCL calls: one JSON line per call, written before the call is made,
// with the position that a recorder should give it. The end-to-end tests compare the two accounts.
#pragma once

#include <cstdint>
#include <string>

#include "fault.h"

namespace mini_train {

struct LoggedCall {
  const char* comm = "";
  const char* op = "";
  uint64_t count = 0;
  const char* dtype = "";
  const char* redop = nullptr;
  int root = -1;          // -1: has none
  int peer = -1;          // -1: a collective
  uint64_t position = 0;  // seq of a collective, p2p seq of a send or receive
};

// Lines go straight to the kernel, so that the log of a killed rank is complete. A log that was
// not opened swallows everything.
class CallLog {
 public:
  CallLog() = default;
  CallLog(const CallLog&) = delete;
  CallLog& operator=(const CallLog&) = delete;
  ~CallLog();

  // Throws std::runtime_error where the file cannot be made.
  void open(const std::string& prefix, int rank);

  void start(int rank, int world_size);
  // A communicator is ready; they are numbered in the order in which this rank created them.
  void communicator(const char* name, int rank, int nranks);
  void call(const LoggedCall& call);
  // The planted fault is about to happen at `position` of `comm` (null: not tied to one).
  void fault(const Fault& fault, const char* comm, const char* op, int peer, uint64_t position);
  void event(const char* name, const char* comm);
  void end(int status);

 private:
  void write(const std::string& line);

  int fd_ = -1;
};

}  // namespace mini_train
