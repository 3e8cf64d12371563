// Every collective, datatype and reduction against a reference written from the definitions.
#include <cuda.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tests/catch.h"
#include "tests/emulator/nccl_world.h"

using namespace nccl_world;

namespace {

struct Type {
  ncclDataType_t type;
  size_t bytes;
};
constexpr Type kTypes[] = {{ncclInt8, 1},     {ncclUint8, 1},      {ncclInt32, 4},
                           {ncclUint32, 4},   {ncclInt64, 8},      {ncclUint64, 8},
                           {ncclFloat16, 2},  {ncclFloat32, 4},    {ncclFloat64, 8},
                           {ncclBfloat16, 2}, {ncclFloat8e4m3, 1}, {ncclFloat8e5m2, 1}};
constexpr ncclRedOp_t kOps[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg};

// Sign, exponent and mantissa widths of the floating-point types, decoded bit by bit.
double decode_float(uint64_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const double mantissa = static_cast<double>(bits & ((1ull << mantissa_bits) - 1));
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                         : std::ldexp(mantissa + std::ldexp(1.0, mantissa_bits),
                                                      exponent - bias - mantissa_bits);
  return (bits >> (exponent_bits + mantissa_bits)) != 0 ? -magnitude : magnitude;
}

double decode(ncclDataType_t type, const uint8_t* at) {
  const auto as = [at](auto value) {
    std::memcpy(&value, at, sizeof(value));
    return value;
  };
  switch (static_cast<int>(type)) {
    case ncclInt8:
      return as(int8_t{});
    case ncclUint8:
      return as(uint8_t{});
    case ncclInt32:
      return as(int32_t{});
    case ncclUint32:
      return as(uint32_t{});
    case ncclInt64:
      return static_cast<double>(as(int64_t{}));
    case ncclUint64:
      return static_cast<double>(as(uint64_t{}));
    case ncclFloat16:
      return decode_float(as(uint16_t{}), 5, 10);
    case ncclFloat32:
      return as(float{});
    case ncclFloat64:
      return as(double{});
    case ncclBfloat16:
      return decode_float(as(uint16_t{}), 8, 7);
    case ncclFloat8e4m3:
      return decode_float(as(uint8_t{}), 4, 3);
    case ncclFloat8e5m2:
      return decode_float(as(uint8_t{}), 5, 2);
  }
  return 0;
}

// Small numbers that every type holds exactly: 0.5, 1, 1.5, 2 (floating point) or 1, 2, 3
// (integers).
void encode(ncclDataType_t type, int choice, uint8_t* at) {
  const auto put = [at](auto value) { std::memcpy(at, &value, sizeof(value)); };
  const int whole = choice % 3 + 1;
  constexpr uint8_t kE4m3[] = {0x30, 0x38, 0x3c, 0x40};
  constexpr uint8_t kE5m2[] = {0x38, 0x3c, 0x3e, 0x40};
  constexpr uint16_t kHalf[] = {0x3800, 0x3c00, 0x3e00, 0x4000};
  constexpr uint16_t kBfloat[] = {0x3f00, 0x3f80, 0x3fc0, 0x4000};
  constexpr float kFloat[] = {0.5f, 1.0f, 1.5f, 2.0f};
  switch (static_cast<int>(type)) {
    case ncclInt8:
      return put(static_cast<int8_t>(choice % 2 != 0 ? whole : -whole));
    case ncclUint8:
      return put(static_cast<uint8_t>(whole));
    case ncclInt32:
      return put(static_cast<int32_t>(choice % 2 != 0 ? whole : -whole));
    case ncclUint32:
      return put(static_cast<uint32_t>(whole));
    case ncclInt64:
      return put(static_cast<int64_t>(choice % 2 != 0 ? whole : -whole));
    case ncclUint64:
      return put(static_cast<uint64_t>(whole));
    case ncclFloat16:
      return put(kHalf[choice % 4]);
    case ncclFloat32:
      return put(kFloat[choice % 4]);
    case ncclFloat64:
      return put(static_cast<double>(kFloat[choice % 4]));
    case ncclBfloat16:
      return put(kBfloat[choice % 4]);
    case ncclFloat8e4m3:
      return put(kE4m3[choice % 4]);
    case ncclFloat8e5m2:
      return put(kE5m2[choice % 4]);
  }
}

int choice_of(int rank, size_t i) {
  return static_cast<int>((i * 5 + static_cast<size_t>(rank) * 3 + i / 7) % 12);
}

std::vector<uint8_t> input_of(ncclDataType_t type, size_t bytes, int rank, size_t count) {
  std::vector<uint8_t> values(count * bytes);
  for (size_t i = 0; i < count; ++i) encode(type, choice_of(rank, i), &values[i * bytes]);
  return values;
}

bool is_integer(ncclDataType_t type) { return type <= ncclUint64; }

// Half a unit in the last place of the result, relative.
double tolerance(ncclDataType_t type) {
  switch (static_cast<int>(type)) {
    case ncclFloat8e4m3:
      return 1.0 / 16;
    case ncclFloat8e5m2:
      return 1.0 / 8;
    case ncclBfloat16:
      return 1.0 / 256;
    case ncclFloat16:
      return 1.0 / 2048;
    case ncclFloat32:
      return 1e-6;
    case ncclFloat64:
      return 1e-15;
    default:
      return 0;
  }
}

double expected_value(const Type& type, ncclRedOp_t op, int ranks, size_t i) {
  double result = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    uint8_t bytes[8] = {};
    encode(type.type, choice_of(rank, i), bytes);
    const double value = decode(type.type, bytes);
    if (rank == 0)
      result = value;
    else if (op == ncclProd)
      result *= value;
    else if (op == ncclMax)
      result = std::max(result, value);
    else if (op == ncclMin)
      result = std::min(result, value);
    else
      result += value;
  }
  if (op == ncclAvg) result = is_integer(type.type) ? std::trunc(result / ranks) : result / ranks;
  return result;
}

struct Memory {
  uint8_t* data = nullptr;
  explicit Memory(size_t bytes) {
    EXPECT_CUDA(cudaMalloc(reinterpret_cast<void**>(&data), bytes == 0 ? 1 : bytes));
  }
  ~Memory() { cudaFree(data); }
  Memory(const Memory&) = delete;
  void put(const std::vector<uint8_t>& values, size_t offset = 0) {
    EXPECT_CUDA(cudaMemcpy(data + offset, values.data(), values.size(), cudaMemcpyHostToDevice));
  }
  std::vector<uint8_t> get(size_t offset, size_t bytes) {
    std::vector<uint8_t> values(bytes);
    EXPECT_CUDA(cudaMemcpy(values.data(), data + offset, bytes, cudaMemcpyDeviceToHost));
    return values;
  }
};

void expect_reduced(const Type& type, ncclRedOp_t op, int ranks, size_t first,
                    const std::vector<uint8_t>& values) {
  for (size_t i = 0; i < values.size() / type.bytes; ++i) {
    const double got = decode(type.type, &values[i * type.bytes]);
    const double wanted = expected_value(type, op, ranks, first + i);
    const double allowed =
        std::abs(wanted) * tolerance(type.type) + (is_integer(type.type) ? 0 : 1e-7);
    if (!(std::abs(got - wanted) <= allowed)) {
      throw std::runtime_error("type " + std::to_string(type.type) + " op " + std::to_string(op) +
                               " element " + std::to_string(first + i) + ": " +
                               std::to_string(got) + " instead of " + std::to_string(wanted));
    }
  }
}

void check_reductions(const Rank& self, ncclComm_t comm, const Type& type, ncclRedOp_t op,
                      size_t count, bool in_place) {
  const size_t bytes = count * type.bytes;
  const size_t n = static_cast<size_t>(self.ranks);
  const std::vector<uint8_t> input = input_of(type.type, type.bytes, self.rank, count * n);
  {
    Memory send(bytes), receive(bytes);
    uint8_t* const out = in_place ? send.data : receive.data;
    send.put({input.begin(), input.begin() + static_cast<ptrdiff_t>(bytes)});
    EXPECT_NCCL(ncclAllReduce(send.data, out, count, type.type, op, comm, nullptr));
    EXPECT_CUDA(cudaStreamSynchronize(nullptr));
    expect_reduced(type, op, self.ranks, 0, (in_place ? send : receive).get(0, bytes));
  }
  {
    const int root = self.ranks - 1;
    Memory send(bytes), receive(bytes);
    uint8_t* const out = in_place ? send.data : receive.data;
    send.put({input.begin(), input.begin() + static_cast<ptrdiff_t>(bytes)});
    EXPECT_NCCL(ncclReduce(send.data, out, count, type.type, op, root, comm, nullptr));
    EXPECT_CUDA(cudaStreamSynchronize(nullptr));
    if (self.rank == root)
      expect_reduced(type, op, self.ranks, 0, (in_place ? send : receive).get(0, bytes));
  }
  {
    Memory send(bytes * n), receive(bytes);
    const size_t own = static_cast<size_t>(self.rank) * bytes;
    send.put(input);
    EXPECT_NCCL(ncclReduceScatter(send.data, in_place ? send.data + own : receive.data, count,
                                  type.type, op, comm, nullptr));
    EXPECT_CUDA(cudaStreamSynchronize(nullptr));
    expect_reduced(type, op, self.ranks, static_cast<size_t>(self.rank) * count,
                   in_place ? send.get(own, bytes) : receive.get(0, bytes));
  }
}

std::vector<uint8_t> pattern(int rank, size_t bytes, int salt = 0) {
  std::vector<uint8_t> values(bytes);
  for (size_t i = 0; i < bytes; ++i)
    values[i] =
        static_cast<uint8_t>(i * 13 + (i >> 9) + static_cast<size_t>(rank * 17 + salt * 5 + 1));
  return values;
}

void check_moves(const Rank& self, ncclComm_t comm, size_t bytes, bool in_place) {
  const size_t n = static_cast<size_t>(self.ranks);
  const size_t own = static_cast<size_t>(self.rank) * bytes;
  for (int root = 0; root < self.ranks; root += std::max(1, self.ranks - 1)) {
    Memory send(bytes), receive(bytes);
    uint8_t* const out = in_place ? send.data : receive.data;
    send.put(pattern(self.rank, bytes));
    EXPECT_NCCL(ncclBroadcast(send.data, out, bytes, ncclUint8, root, comm, nullptr));
    EXPECT_CUDA(cudaStreamSynchronize(nullptr));
    EXPECT((in_place ? send : receive).get(0, bytes) == pattern(root, bytes));
    Memory blocks(bytes * n), mine(bytes);
    mine.put(pattern(self.rank, bytes));
    EXPECT_NCCL(ncclGather(mine.data, blocks.data, bytes, ncclUint8, root, comm, nullptr));
    EXPECT_CUDA(cudaStreamSynchronize(nullptr));
    for (int rank = 0; self.rank == root && rank < self.ranks; ++rank) {
      EXPECT(blocks.get(static_cast<size_t>(rank) * bytes, bytes) == pattern(rank, bytes));
    }
    for (int rank = 0; rank < self.ranks; ++rank)
      blocks.put(pattern(root, bytes, rank), static_cast<size_t>(rank) * bytes);
    EXPECT_NCCL(ncclScatter(blocks.data, mine.data, bytes, ncclUint8, root, comm, nullptr));
    EXPECT_CUDA(cudaStreamSynchronize(nullptr));
    EXPECT(mine.get(0, bytes) == pattern(root, bytes, self.rank));
  }
  Memory send(bytes), receive(bytes * n);
  send.put(pattern(self.rank, bytes));
  receive.put(pattern(self.rank, bytes), own);
  EXPECT_NCCL(ncclAllGather(in_place ? receive.data + own : send.data, receive.data, bytes,
                            ncclUint8, comm, nullptr));
  EXPECT_CUDA(cudaStreamSynchronize(nullptr));
  for (int rank = 0; rank < self.ranks; ++rank) {
    EXPECT(receive.get(static_cast<size_t>(rank) * bytes, bytes) == pattern(rank, bytes));
  }
  Memory all(bytes * n), exchanged(bytes * n);
  for (int rank = 0; rank < self.ranks; ++rank)
    all.put(pattern(self.rank, bytes, rank), static_cast<size_t>(rank) * bytes);
  EXPECT_NCCL(ncclAlltoAll(all.data, exchanged.data, bytes, ncclUint8, comm, nullptr));
  EXPECT_CUDA(cudaStreamSynchronize(nullptr));
  for (int rank = 0; rank < self.ranks; ++rank) {
    EXPECT(exchanged.get(static_cast<size_t>(rank) * bytes, bytes) ==
           pattern(rank, bytes, self.rank));
  }
}

}  // namespace

TEST_CASE("every reduction of every datatype is what the definitions say", "[nccl]") {
  for (const int ranks : {1, 2, 3, 8}) {
    CHECK(run(ranks, 120, [](const Rank& self) {
            const ncclComm_t comm = self.join();
            for (const Type& type : kTypes) {
              for (const ncclRedOp_t op : kOps) {
                // Products of eight small integers stay within int8; beyond that they would wrap,
                // which is tested apart.
                for (const size_t count : {size_t{1}, size_t{37}}) {
                  if (op == ncclProd && type.bytes == 1 && self.ranks > 3) continue;
                  check_reductions(self, comm, type, op, count, count == 37);
                }
              }
            }
            for (const Type& type : kTypes)
              check_reductions(self, comm, type, ncclSum, 20'011, false);
          }) == kAllWell);
  }
}

TEST_CASE("integers wrap and float8 saturates", "[nccl]") {
  CHECK(run(2, 60, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          Memory memory(8);
          memory.put({200, 100, 0x7e, 0x7b, 0, 0, 0, 0});
          EXPECT_NCCL(
              ncclAllReduce(memory.data, memory.data, 1, ncclUint8, ncclSum, comm, nullptr));
          EXPECT_NCCL(
              ncclAllReduce(memory.data + 1, memory.data + 1, 1, ncclInt8, ncclSum, comm, nullptr));
          EXPECT_NCCL(ncclAllReduce(memory.data + 2, memory.data + 2, 1, ncclFloat8e4m3, ncclSum,
                                    comm, nullptr));
          EXPECT_NCCL(ncclAllReduce(memory.data + 3, memory.data + 3, 1, ncclFloat8e5m2, ncclProd,
                                    comm, nullptr));
          EXPECT_CUDA(cudaStreamSynchronize(nullptr));
          const std::vector<uint8_t> got = memory.get(0, 4);
          EXPECT(got == (std::vector<uint8_t>{144, 200, 0x7e, 0x7b}));
        }) == kAllWell);
}

TEST_CASE("a custom operation multiplies each rank's part by its own scalar", "[nccl]") {
  CHECK(run(3, 60, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          float scalar = static_cast<float>(self.rank + 1);
          ncclRedOp_t host_op, device_op;
          Memory memory(3 * sizeof(float));
          std::vector<uint8_t> values(8);
          const float two = 2;
          std::memcpy(values.data(), &two, 4);
          std::memcpy(values.data() + 4, &scalar, 4);
          memory.put(values);
          EXPECT_NCCL(ncclRedOpCreatePreMulSum(&host_op, &scalar, ncclFloat32,
                                               ncclScalarHostImmediate, comm));
          EXPECT_NCCL(ncclRedOpCreatePreMulSum(&device_op, memory.data + 4, ncclFloat32,
                                               ncclScalarDevice, comm));
          EXPECT(host_op != device_op);
          for (const ncclRedOp_t op : {host_op, device_op}) {
            EXPECT_NCCL(
                ncclAllReduce(memory.data, memory.data + 8, 1, ncclFloat32, op, comm, nullptr));
            EXPECT_CUDA(cudaStreamSynchronize(nullptr));
            float got = 0;
            std::memcpy(&got, memory.get(8, 4).data(), 4);
            EXPECT(got == 12.0f);
          }
          EXPECT(ncclAllReduce(memory.data, memory.data, 1, ncclInt32, host_op, comm, nullptr) ==
                 ncclInvalidArgument);
          EXPECT_NCCL(ncclRedOpDestroy(host_op, comm));
          EXPECT(ncclRedOpDestroy(host_op, comm) == ncclInvalidArgument);
          EXPECT(ncclRedOpDestroy(ncclSum, comm) == ncclInvalidArgument);
          EXPECT(ncclAllReduce(memory.data, memory.data, 1, ncclFloat32, host_op, comm, nullptr) ==
                 ncclInvalidArgument);
        }) == kAllWell);
}

TEST_CASE("a communicator of one rank copies at the call, and launches a kernel for a factor only",
          "[nccl]") {
  CHECK(run(1, 60, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          const float three = 3;
          ncclRedOp_t factor;
          EXPECT_NCCL(ncclRedOpCreatePreMulSum(&factor, const_cast<float*>(&three), ncclFloat32,
                                               ncclScalarHostImmediate, comm));
          Memory memory(2 * sizeof(float));
          uint8_t* const to = memory.data + sizeof(float);
          cudaStream_t stream;
          EXPECT_CUDA(cudaStreamCreate(&stream));
          const auto nodes = [&](const void* from, ncclRedOp_t op) {
            EXPECT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
            EXPECT_NCCL(ncclGroupStart());
            EXPECT_NCCL(ncclAllReduce(from, to, 1, ncclFloat32, op, comm, stream));
            cudaGraph_t graph;
            EXPECT_CUDA(cudaStreamEndCapture(stream, &graph));
            EXPECT_NCCL(ncclGroupEnd());
            CUgraphNode node = nullptr;
            size_t count = 1;
            EXPECT_CUDA(cudaGraphGetNodes(graph, &node, &count));
            std::vector<CUgraphNodeType> types(count);
            if (count == 1) EXPECT(cuGraphNodeGetType(node, types.data()) == CUDA_SUCCESS);
            EXPECT_CUDA(cudaGraphDestroy(graph));
            return types;
          };
          using Types = std::vector<CUgraphNodeType>;
          EXPECT(nodes(to, ncclSum).empty());
          EXPECT(nodes(memory.data, ncclSum) == Types{CU_GRAPH_NODE_TYPE_MEMCPY});
          EXPECT(nodes(to, factor) == Types{CU_GRAPH_NODE_TYPE_KERNEL});
          EXPECT_NCCL(ncclCommDestroy(comm));
        }) == kAllWell);
}

TEST_CASE("what only moves arrives unchanged, in place or not, for even and odd sizes", "[nccl]") {
  for (const int ranks : {1, 2, 3, 8}) {
    CHECK(run(ranks, 120, [](const Rank& self) {
            const ncclComm_t comm = self.join();
            for (const size_t bytes : {size_t{1}, size_t{1000}, size_t{262'144}, size_t{300'001}}) {
              check_moves(self, comm, bytes, false);
              check_moves(self, comm, bytes, true);
            }
          }) == kAllWell);
  }
}

TEST_CASE("64 MiB are reduced by four processes within two minutes", "[nccl]") {
  CHECK(run(4, 120, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          constexpr size_t kCount = 16 * 1024 * 1024;
          Memory memory(kCount * 4);
          std::vector<uint8_t> host(kCount * 4);
          for (size_t i = 0; i < kCount; ++i) {
            const float value = static_cast<float>(i % 1000 + static_cast<size_t>(self.rank));
            std::memcpy(&host[i * 4], &value, 4);
          }
          memory.put(host);
          self.barrier();
          EXPECT_NCCL(
              ncclAllReduce(memory.data, memory.data, kCount, ncclFloat32, ncclSum, comm, nullptr));
          EXPECT_CUDA(cudaStreamSynchronize(nullptr));
          const std::vector<uint8_t> got = memory.get(0, kCount * 4);
          for (size_t i = 0; i < kCount; ++i) {
            float value = 0;
            std::memcpy(&value, &got[i * 4], 4);
            EXPECT(value == static_cast<float>(i % 1000 * 4 + 6));
          }
        }) == kAllWell);
}

TEST_CASE("memory that nobody ever wrote is reduced without being moved", "[nccl]") {
  CHECK(run(4, 60, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          constexpr size_t kBytes = size_t{2} << 30;  // would take seconds and 8 GiB
          Memory memory(kBytes);
          EXPECT_NCCL(ncclAllReduce(memory.data, memory.data, kBytes / 4, ncclFloat32, ncclSum,
                                    comm, nullptr));
          EXPECT_CUDA(cudaStreamSynchronize(nullptr));
          EXPECT(memory.get(kBytes - 4, 4) == std::vector<uint8_t>(4));
        }) == kAllWell);
}

TEST_CASE("a null buffer is a fault of the GPU, not a crash", "[nccl]") {
  CHECK(run(2, 60, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          EXPECT_NCCL(ncclAllReduce(nullptr, nullptr, 1, ncclFloat32, ncclSum, comm, nullptr));
          EXPECT(cudaStreamSynchronize(nullptr) == cudaErrorIllegalAddress);
        }) == kAllWell);
}

TEST_CASE("arguments are checked as NCCL checks them", "[nccl]") {
  CHECK(run(1, 60, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          float value = 0;
          const auto reduce = [&](ncclDataType_t type, int op, int root) {
            return ncclReduce(&value, &value, 1, type, static_cast<ncclRedOp_t>(op), root, comm,
                              nullptr);
          };
          EXPECT(reduce(ncclNumTypes, ncclSum, 0) == ncclInvalidArgument);
          EXPECT(reduce(ncclFloat32, 77, 0) == ncclInvalidArgument);
          EXPECT(reduce(ncclFloat32, ncclSum, 1) == ncclInvalidArgument);
          EXPECT(reduce(ncclFloat32, ncclSum, -1) == ncclInvalidArgument);
          EXPECT(std::strstr(ncclGetLastError(comm), "root") != nullptr);
          EXPECT(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, nullptr, nullptr) ==
                 ncclInvalidArgument);
          EXPECT(ncclPutSignal(&value, 1, ncclFloat32, 0, nullptr, 0, 0, 0, 0, comm, nullptr) ==
                 ncclInvalidUsage);
          EXPECT(std::strstr(ncclGetLastError(comm), "ncclPutSignal") != nullptr);
        }) == kAllWell);
}
