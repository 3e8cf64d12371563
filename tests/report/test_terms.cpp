#include "report/terms.h"
#include "tests/catch.h"

namespace test_terms {

using namespace rollcall;
using namespace rollcall::report;

TEST_CASE("a rank list joins neighbours into ranges and forgets order and repeats") {
  CHECK(rank_list({}).empty());
  CHECK(rank_list({3}) == "3");
  CHECK(rank_list({7, 0, 2, 1, 4, 5, 6, 6}) == "0-2,4-7");
  CHECK(rank_list({4, 5}) == "4-5");
}

TEST_CASE("a long list of ranks in words says how many it leaves out") {
  std::vector<int32_t> even;
  for (int32_t rank = 0; rank < 40; rank += 2) even.push_back(rank);
  CHECK(ranks_in_words(even, 3) == "ranks 0,2,4 and 17 others");
  CHECK(ranks_in_words({5}) == "rank 5");
  CHECK(ranks_in_words({}) == "no rank");
}

TEST_CASE("durations are cut, never rounded up to a time that has not passed") {
  CHECK(duration(999) == "999 ns");
  CHECK(duration(1'999) == "1 us");
  CHECK(duration(59'999'999'999) == "59.9 s");
  CHECK(duration(250'000'000'000) == "4 min 10 s");
  CHECK(duration(7'500'000'000'000) == "2 h 5 min");
  CHECK(duration(-1'500) == "-1 us");
  CHECK(duration(INT64_MIN).front() == '-');
}

TEST_CASE("times are given in UTC with milliseconds, and an unknown time says so") {
  CHECK(utc_time(1'700'000'000'123'456'789) == "2023-11-14 22:13:20.123 UTC");
  CHECK(iso_time(1'700'000'000'123'456'789) == "2023-11-14T22:13:20.123Z");
  CHECK(utc_time(0) == "unknown");
  CHECK(iso_time(0).empty());
}

TEST_CASE("version codes of NCCL before and after 2.9 and of CUDA are spelled out") {
  CHECK(nccl_version("2804") == "2.8.4");
  CHECK(nccl_version("22907") == "2.29.7");
  CHECK(cuda_version("12040") == "12.4");
  CHECK(nccl_version("unknown").empty());
  CHECK(nccl_version("").empty());
  CHECK(cuda_version("7").empty());
}

TEST_CASE("text from a file cannot drive the terminal or break the JSON") {
  CHECK(printable("a\x1b[31mb\n") == "a?[31mb?");
  CHECK(printable("\xc2\x9b") == "?");
  CHECK(printable("h\xc3\xb6st") == "h\xc3\xb6st");
  // What turns the rest of a line around, and lines and paragraphs.
  CHECK(printable("a\xe2\x80\xae"
                  "b") == "a?b");
  CHECK(printable("a\xe2\x81\xa6"
                  "b") == "a?b");
  CHECK(printable("a\xe2\x80\xa8"
                  "b") == "a?b");
  CHECK(printable("\xe2\x80\x93") == "\xe2\x80\x93");  // a dash
  CHECK(valid_utf8("\xe2\x80\xae") == "\xe2\x80\xae");
  CHECK(valid_utf8("a\xff\xfe\nb") == "a??\nb");
  CHECK(valid_utf8("\xed\xa0\x80") == "???");  // a surrogate
  CHECK(valid_utf8("\xc3") == "?");            // cut off
}

TEST_CASE("two processes never share a label, whatever ranks their files claim") {
  trace::Run run;
  for (const int32_t rank : {1, 1, -1, 0}) {
    trace::Process process;
    process.job_rank = rank;
    run.processes.push_back(process);
  }
  CHECK(process_labels(run) == std::vector<int32_t>{1, 2, 3, 0});
}

TEST_CASE("a kernel is called by its name alone, whatever a file says of it") {
  trace::Process process;
  const auto named = [&](const std::string& symbol) {
    process.meta["kernel.3"] = symbol;
    trace::Op op;
    op.kernel = 3;
    return kernel_name(process, op);
  };
  CHECK(named("_Z22ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE") ==
        "ncclDevKernel_SendRecv");
  CHECK(named("plain_kernel") == "plain_kernel");
  CHECK(named("_ZN4cuda6kernelEv") == "_ZN4cuda6kernelEv");
  CHECK(named("_Z99short") == "_Z99short");
  CHECK(named("_Z18446744073709551617x") == "_Z18446744073709551617x");
  CHECK(named("_Z7") == "_Z7");
  CHECK(named("_Z") == "_Z");
  CHECK(named("broken \xff") == "broken ?");
  CHECK(kernel_name(process, trace::Op{}).empty());
  trace::Op unnamed;
  unnamed.kernel = 4;
  CHECK(kernel_name(process, unnamed).empty());
}

TEST_CASE("a call in words names what must agree between ranks") {
  trace::Op op;
  op.kind = OpKind::Broadcast;
  op.count = 8;
  op.datatype = 2;
  op.root_or_peer = 3;
  CHECK(call_in_words(op) == "Broadcast 8 int32 root 3");
  op.flags = kOpLegacyBcast;
  CHECK(api_name(op) == "ncclBcast");
  op.kind = OpKind::Recv;
  CHECK(call_in_words(op) == "Recv 8 int32 from 3");
  op.kind = OpKind::GroupEnd;
  CHECK(call_in_words(op) == "GroupEnd");
  op.kind = OpKind::AllReduce;
  op.datatype = 77;
  op.reduction = 4;
  CHECK(call_in_words(op) == "AllReduce 8 dtype77 avg");
}

}  // namespace test_terms
