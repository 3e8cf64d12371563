#include "bench/record_bench.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <thread>

#include "bench/floor.h"
#include "bench/measure.h"
#include "bench/ring_file.h"
#include "core/capture/communicators.h"
#include "core/capture/operations.h"
#include "core/capture/process.h"
#include "core/format/op_codec.h"

namespace rollcall::bench {
namespace {

// The "real function": the least a call can cost, so that what is added is all we see.
__attribute__((noinline)) int null_call(const void* send, void* recv, uint64_t count) {
  asm volatile("" : : "r"(send), "r"(recv), "r"(count) : "memory");
  return 0;
}

char comm_cookies[64];
char buffers[4096];

void announce_comm(int number) {
  capture::CommOpening opening;
  opening.origin = CommOrigin::init;
  opening.key = {0x1111, static_cast<uint64_t>(number) + 1};
  opening.nranks = 2;
  opening.rank = 0;
  const uint32_t index = capture::open_comm(opening);
  capture::bind_comm(index, &comm_cookies[number]);
  capture::comm_ready(index, 2, 0, 0, 0);
}

inline int recorded_call(int comm, uint64_t count) {
  capture::OpCall call;
  call.kind = OpKind::AllReduce;
  call.datatype = 7;
  call.reduction = 0;
  call.count = count;
  call.send = buffers;
  call.recv = buffers + 2048;
  call.comm_handle = &comm_cookies[comm];
  call.caller = __builtin_return_address(0);
  const capture::OpToken token = capture::begin_op(call);
  const int result = null_call(call.send, buffers + 2048, count);
  capture::end_op(token, result);
  return result;
}

// Calls per batch: well within the ring, so that the flusher can keep up between batches as it does
// in a job, and the cost of a record is not the cost of overrunning a reader.
constexpr int kBatch = 4096;

uint64_t batch_ns(void (*body)(int), int calls) {
  const uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
  body(calls);
  return clock_ns(CLOCK_MONOTONIC) - start_ns;
}

Floor* floor_instance = nullptr;
void floor_batch(int calls) {
  for (int i = 0; i < calls; ++i) floor_instance->once();
}
void plain_batch(int calls) {
  for (int i = 0; i < calls; ++i) null_call(buffers, buffers + 2048, static_cast<uint64_t>(i));
}
void recorded_batch(int calls) {
  for (int i = 0; i < calls; ++i) recorded_call(0, static_cast<uint64_t>(i & 7) * 1024);
}

// As a step with tensor, pipeline, expert and data parallelism calls them.
constexpr int kCommsInTurn = 4;
void recorded_batch_in_turn(int calls) {
  for (int i = 0; i < calls; ++i) {
    recorded_call(i % kCommsInTurn, static_cast<uint64_t>(i & 7) * 1024);
  }
}

void measure_record(double* values, const std::string& directory) {
  Floor floor(directory);
  if (!floor.usable()) _exit(1);
  floor_instance = &floor;
  for (int comm = 0; comm < kCommsInTurn; ++comm) announce_comm(comm);
  recorded_batch(2 * static_cast<int>(kRingSlotsDefault));  // first calls and page faults are over
  std::vector<double> floors, added, ratios, added_in_turn, ratios_in_turn;
  const int pairs = static_cast<int>(values[0]);
  for (int pair = 0; pair < pairs; ++pair) {
    usleep(5000);  // the flusher catches up
    const double floor_ns = static_cast<double>(batch_ns(floor_batch, kBatch)) / kBatch;
    const double plain_ns = static_cast<double>(batch_ns(plain_batch, kBatch)) / kBatch;
    const double recorded_ns = static_cast<double>(batch_ns(recorded_batch, kBatch)) / kBatch;
    usleep(5000);
    const double in_turn_ns =
        static_cast<double>(batch_ns(recorded_batch_in_turn, kBatch)) / kBatch;
    floors.push_back(floor_ns);
    added.push_back(recorded_ns - plain_ns);
    ratios.push_back((recorded_ns - plain_ns) / floor_ns);
    added_in_turn.push_back(in_turn_ns - plain_ns);
    ratios_in_turn.push_back((in_turn_ns - plain_ns) / floor_ns);
  }
  values[0] = median(floors);
  values[1] = median(added);
  values[2] = median(ratios);
  values[3] = median(added_in_turn);
  values[4] = median(ratios_in_turn);
}

constexpr int kThreads = 8;

void measure_threads(double* values, const std::string& directory) {
  Floor floor(directory);
  if (!floor.usable()) _exit(1);
  floor_instance = &floor;
  for (int comm = 0; comm < kThreads; ++comm) announce_comm(comm);
  const int batches = static_cast<int>(values[0]);
  std::vector<std::vector<double>> cost_ns(kThreads);
  std::vector<double> floors;
  for (int i = 0; i < 50; ++i) {
    floors.push_back(static_cast<double>(batch_ns(floor_batch, kBatch)) / kBatch);
  }
  std::vector<std::thread> threads;
  for (int comm = 0; comm < kThreads; ++comm) {
    threads.emplace_back([comm, batches, &cost_ns] {
      for (int i = 0; i < kBatch; ++i) recorded_call(comm, 1);
      for (int batch = 0; batch < batches; ++batch) {
        const uint64_t start_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        for (int i = 0; i < kBatch; ++i) recorded_call(comm, static_cast<uint64_t>(i));
        const uint64_t spent_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns;
        cost_ns[static_cast<size_t>(comm)].push_back(static_cast<double>(spent_ns) / kBatch);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<double> all;
  for (const auto& costs : cost_ns) all.insert(all.end(), costs.begin(), costs.end());
  values[0] = median(all);
  values[1] = median(all) / median(floors);
}

void measure_sustained(double* values, const std::string& directory) {
  const double seconds = values[0];
  announce_comm(0);
  recorded_call(0, 1);
  const ClockAnchor first = read_anchor();
  usleep(50000);
  const TickConversion conversion(clock_kind(), first, read_anchor());
  const double ticks_per_call = 1000 * conversion.ticks_per_ns();
  const auto calls = static_cast<uint64_t>(seconds * 1e6);
  const uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
  const uint64_t start_ticks = ticks_now();
  for (uint64_t i = 0; i < calls; ++i) {
    const uint64_t due =
        start_ticks + static_cast<uint64_t>(static_cast<double>(i) * ticks_per_call);
    while (ticks_now() < due) {
    }
    recorded_call(0, (i % 13) * 1024);
  }
  const double elapsed_s = static_cast<double>(clock_ns(CLOCK_MONOTONIC) - start_ns) * 1e-9;
  capture::flush_at_exit();
  const RingSummary summary = summarise_directory(directory);
  const SelfStatistics& statistics = summary.statistics;
  values[0] = static_cast<double>(calls) / elapsed_s;
  values[1] = summary.found
                  ? static_cast<double>(statistics.history_lost + statistics.dropped_pinned +
                                        statistics.dropped_off + statistics.history_errors)
                  : -1;
  values[2] = static_cast<double>(statistics.flush_ns) * 1e-9 / elapsed_s * 100;
  values[3] = static_cast<double>(statistics.history_records);
  values[4] = static_cast<double>(summary.ring_bytes) / (1 << 20);
}

OpRecord training_op(uint64_t ticket, std::mt19937_64& random, uint64_t& now_ticks,
                     double ticks_per_us) {
  // A step of 24 buckets on one communicator and 4 calls on another, about 1 ms apart, the host
  // inside NCCL for 5 us, both jittered as a real host jitters.
  const uint64_t position = (ticket - 1) % 28;
  std::exponential_distribution<double> gap_us(1.0 / 300), stay_us(1.0 / 1.5);
  now_ticks += static_cast<uint64_t>((700 + gap_us(random)) * ticks_per_us);
  OpRecord op{};
  op.publish = publish_word(ticket, Phase::settled);
  op.called_ticks = now_ticks;
  op.returned_ticks = now_ticks + static_cast<uint64_t>((3.5 + stay_us(random)) * ticks_per_us);
  op.count = position < 24 ? 6553600 + 1024 * position : 4096;
  op.send_address = op.recv_address = 0x7f0000000000 + position * (32 << 20);
  op.stream = position < 24 ? 0x55d0c0ffee00 : 0x55d0c0ffef00;
  op.seq =
      (ticket - 1) / 28 * (position < 24 ? 24 : 4) + (position < 24 ? position : position - 24);
  op.caller = 0x7f8000001000 + position % 3 * 64;
  op.comm_index = position < 24 ? 0 : 1;
  op.root_or_peer = -1;
  op.result = kResultSuccess;
  op.kind = position < 24 ? OpKind::AllReduce : OpKind::AllGather;
  op.datatype = 9;
  op.reduction = position < 24 ? 0 : kUnknown8;
  return op;
}

// What the history keeps beside the operations.
uint64_t digest_bytes(const std::vector<OpRecord>& ops) {
  const auto digests = std::count_if(ops.begin(), ops.end(), [](const OpRecord& op) {
    return is_collective(op.kind) && op.seq != 0 && op.seq % kDigestPeriod == 0;
  });
  return digests == 0 ? 0
                      : sizeof(BlockHeader) + static_cast<uint64_t>(digests) * sizeof(DigestRecord);
}

OpRecord random_op(uint64_t ticket, std::mt19937_64& random, uint64_t& now_ticks,
                   double ticks_per_us, uint64_t* next_seq) {
  std::exponential_distribution<double> gap_us(1.0 / 1000), stay_us(1.0 / 5);
  now_ticks += 1 + static_cast<uint64_t>(gap_us(random) * ticks_per_us);
  OpRecord op{};
  op.publish = publish_word(ticket, Phase::settled);
  op.called_ticks = now_ticks;
  op.returned_ticks = now_ticks + 1 + static_cast<uint64_t>(stay_us(random) * ticks_per_us);
  op.kind = static_cast<OpKind>(random() % 8);
  op.count = 1 + random() % (1u << 28);
  op.send_address = 0x7f0000000000 + random() % (80ull << 30) / 512 * 512;
  op.recv_address = 0x7f0000000000 + random() % (80ull << 30) / 512 * 512;
  op.stream = 0x55d0c0ffee00 + random() % 4 * 256;
  op.comm_index = static_cast<uint32_t>(random() % 8);
  op.seq = next_seq[op.comm_index]++;
  op.caller = 0x7f8000001000 + random() % 16 * 64;
  op.root_or_peer = traits_of(op.kind).rooted ? static_cast<int32_t>(random() % 1024) : -1;
  op.result = kResultSuccess;
  op.datatype = static_cast<uint8_t>(random() % kDatatypeCount);
  op.reduction = traits_of(op.kind).reduces ? static_cast<uint8_t>(random() % 5) : kUnknown8;
  return op;
}

}  // namespace

void bench_record(ResultTable& table, bool quick) {
  static int pairs;
  pairs = quick ? 101 : 1001;
  const auto values = measure_in_child(
      [](double* out, const std::string& directory) {
        out[0] = pairs;
        measure_record(out, directory);
      },
      {});
  if (values.empty()) return table.add({"record a collective", -1, "failed", 0, true});
  table.add({"floor of a record", values[0], "ns", 0, false, false});
  table.add({"record a collective: time added", values[1], "ns", 0, false, false});
  table.add({"record a collective: ratio to floor", values[2], "x floor", 2.0});
  table.add({"4 communicators in turn: time added", values[3], "ns", 0, false, false});
  table.add({"4 communicators in turn: ratio to floor", values[4], "x floor", 2.0});
}

void bench_threads(ResultTable& table, bool quick) {
  static int batches;
  batches = quick ? 20 : 200;
  const auto values = measure_in_child(
      [](double* out, const std::string& directory) {
        out[0] = batches;
        measure_threads(out, directory);
      },
      {});
  if (values.empty()) return table.add({"8 threads", -1, "failed", 0, true});
  table.add({"8 threads, 8 communicators: CPU per call", values[0], "ns", 0, false, false});
  table.add({"8 threads, 8 communicators: ratio to floor", values[1], "x floor", 3.0});
}

void bench_sustained(ResultTable& table, bool quick) {
  static double seconds;
  seconds = quick ? 2 : 10;
  const auto values = measure_in_child(
      [](double* out, const std::string& directory) {
        out[0] = seconds;
        measure_sustained(out, directory);
      },
      {});
  if (values.empty()) return table.add({"sustained", -1, "failed", 0, true});
  table.add({"sustained rate", values[0], "calls/s", 0.98e6, true});
  table.add({"sustained rate: calls lost", values[1], "calls", 0});
  table.add({"sustained rate: flusher", values[2], "% of one core", 0, false, false});
  table.add({"memory of the injected part (ring file)", values[4], "MiB", 16});
}

void bench_history_bytes(ResultTable& table, bool quick) {
  const uint64_t records = quick ? 10 * kBlockRecordsMax : 100 * kBlockRecordsMax;
  constexpr double kTicksPerUs = 2500;  // a 2.5 GHz TSC
  std::vector<std::byte> storage(kOpCodecStateBytes + 64);
  auto* aligned = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(storage.data()) + 63) &
                                               ~static_cast<uintptr_t>(63));
  for (const bool repetitive : {true, false}) {
    OpEncoder encoder({aligned, kOpCodecStateBytes}, 4);
    std::mt19937_64 random(7);
    uint64_t now_ticks = 1'000'000'000, bytes = 0, spent_ns = 0;
    uint64_t next_seq[8] = {};
    std::vector<OpRecord> ops(kBlockRecordsMax);
    for (uint64_t first = 1; first <= records; first += kBlockRecordsMax) {
      for (uint32_t i = 0; i < kBlockRecordsMax; ++i) {
        ops[i] = repetitive ? training_op(first + i, random, now_ticks, kTicksPerUs)
                            : random_op(first + i, random, now_ticks, kTicksPerUs, next_seq);
      }
      uint8_t out[kOpCodedBytesMax];
      const uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
      encoder.begin_block();
      for (const OpRecord& op : ops) bytes += encoder.encode(op, out);
      spent_ns += clock_ns(CLOCK_MONOTONIC) - start_ns;
      bytes += sizeof(BlockHeader) + digest_bytes(ops);
    }
    const auto per_record = static_cast<double>(bytes) / static_cast<double>(records);
    const auto cost_ns = static_cast<double>(spent_ns) / static_cast<double>(records);
    const char* kind = repetitive ? "training loop" : "random arguments";
    table.add(
        {std::string("history, ") + kind, per_record, "bytes/collective", repetitive ? 8.0 : 24.0});
    table.add({std::string("history, ") + kind + ": coding", cost_ns, "ns/collective", 200});
  }
}

}  // namespace rollcall::bench
