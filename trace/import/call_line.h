// A line that NCCL writes for a call, read at once from left to right:
//
//     host:pid:tid [dev] NCCL INFO AllReduce: opCount 0 sendbuff 0x.. recvbuff 0x.. count 16384
//         datatype 7 op 0 root 0 comm 0x7f2e [nranks=4] stream 0x55bd      (one line)
//
// With COLL among NCCL_DEBUG_SUBSYS a log may hold little else, and millions of these. A line that
// is whole, and holds not a byte more, costs a tenth of what a line costs that everybody looks at.
// What differs in anything is nobody's fault, and is not read here.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/format/vocabulary.h"

namespace rollcall::trace {

struct CallLine {
  std::string_view host;
  uint32_t pid = 0;
  uint32_t tid = 0;
  OpKind kind = OpKind::AllReduce;
  uint64_t op_count = 0;
  uint64_t count = 0;
  int64_t datatype = 0;
  int64_t reduction = 0;
  int64_t root = 0;
  uint64_t comm = 0;    // the pointer; never 0
  uint64_t stream = 0;  // 0: "(nil)", the legacy stream
  int32_t nranks = 0;
  std::string_view said;  // from the name up to the communicator: what a repeated line has alike
  size_t bytes = 0;       // of the line, with its end
};

// The line that `text` begins with, which ends there or with `text`; nothing where it is not such a
// line.
std::optional<CallLine> read_call_line(std::string_view text);

// The kind of operation that a name stands for.
std::optional<OpKind> kind_named(std::string_view name);

}  // namespace rollcall::trace
