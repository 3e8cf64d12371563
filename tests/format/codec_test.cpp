// The operation codec: both ends agree on everything, and the decoder trusts nothing.
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "core/format/op_codec.h"
#include "tests/catch.h"

namespace rollcall {
namespace {

struct CodecMemory {
  alignas(64) std::byte bytes[kOpCodecStateBytes];
};

constexpr uint32_t kShift = 4;

// What comes back of a record: times lose their low bits but never become "not observed".
OpRecord as_coded(OpRecord op) {
  const auto coarse = [](uint64_t ticks) -> uint64_t {
    if (ticks == 0) return 0;
    const uint64_t kept = ticks >> kShift << kShift;
    return kept == 0 ? 1 : kept;
  };
  op.publish = publish_word(ticket_of(op.publish), Phase::settled);
  op.called_ticks = coarse(op.called_ticks == 0 ? 1 : op.called_ticks);
  op.returned_ticks = coarse(op.returned_ticks);
  op.launched_ticks = coarse(op.launched_ticks);
  op.started_ticks = coarse(op.started_ticks);
  op.finished_ticks = coarse(op.finished_ticks);
  return op;
}

struct Coded {
  std::vector<uint8_t> bytes;
  std::vector<size_t> lengths;
};

Coded encode_all(const std::vector<OpRecord>& records) {
  const auto memory = std::make_unique<CodecMemory>();
  OpEncoder encoder(memory->bytes, kShift);
  encoder.begin_block();
  Coded coded;
  for (const OpRecord& record : records) {
    uint8_t out[kOpCodedBytesMax];
    const size_t length = encoder.encode(record, out);
    REQUIRE(length > 0);
    REQUIRE(length <= kOpCodedBytesMax);
    coded.bytes.insert(coded.bytes.end(), out, out + length);
    coded.lengths.push_back(length);
  }
  return coded;
}

void require_round_trip(const std::vector<OpRecord>& records) {
  const Coded coded = encode_all(records);
  const auto memory = std::make_unique<CodecMemory>();
  OpDecoder decoder(memory->bytes, kShift);
  decoder.begin_block();
  std::span<const uint8_t> body(coded.bytes);
  const auto timeless_memory = std::make_unique<CodecMemory>();
  OpDecoder timeless(timeless_memory->bytes, kShift);
  timeless.begin_block();
  for (size_t i = 0; i < records.size(); ++i) {
    OpRecord without_times{};
    REQUIRE(timeless.decode_timeless(body, without_times) == coded.lengths[i]);
    OpRecord decoded;
    const size_t taken = decoder.decode(body, decoded);
    REQUIRE(taken == coded.lengths[i]);
    const OpRecord expected = as_coded(records[i]);
    REQUIRE(std::memcmp(&decoded, &expected, sizeof(OpRecord)) == 0);
    for (uint64_t OpRecord::*time :
         {&OpRecord::called_ticks, &OpRecord::returned_ticks, &OpRecord::launched_ticks,
          &OpRecord::started_ticks, &OpRecord::finished_ticks}) {
      REQUIRE(without_times.*time == 0);
      decoded.*time = 0;
    }
    REQUIRE(std::memcmp(&decoded, &without_times, sizeof(OpRecord)) == 0);
    body = body.subspan(taken);
  }
  REQUIRE(body.empty());
}

// One of 64 shapes, as a training loop has them, with some life around it.
OpRecord loop_record(std::mt19937_64& random, uint64_t ticket) {
  OpRecord op{};
  const uint64_t place = ticket % 64;
  op.publish = publish_word(ticket, Phase::settled);
  op.called_ticks = 1'000'000 + ticket * 2'500'000 + random() % 10000;
  op.returned_ticks = op.called_ticks + 12500 + random() % 3000;
  op.count = 4096 + place;
  op.send_address = op.recv_address = 0x7f0000000000 + place * 512;
  op.seq = ticket / 2;
  op.comm_index = static_cast<uint32_t>(place % 2);
  op.root_or_peer = -1;
  op.group = place % 8 < 4 ? static_cast<uint32_t>(ticket / 8 + 1) : 0;
  op.datatype = 7;
  op.kind = place == 63 ? OpKind::GroupEnd : OpKind::AllReduce;
  return op;
}

// Words of every size, biased to the edges, in every field.
uint64_t edgy(std::mt19937_64& random) {
  switch (random() % 5) {
    case 0:
      return 0;
    case 1:
      return ~uint64_t{0};
    case 2:
      return uint64_t{1} << random() % 64;
    case 3:
      return random() % 16;
    default:
      return random() >> random() % 64;
  }
}

OpRecord adversarial_record(std::mt19937_64& random, uint64_t ticket) {
  uint64_t words[sizeof(OpRecord) / 8];
  for (uint64_t& word : words) word = edgy(random);
  OpRecord op;
  std::memcpy(&op, words, sizeof(op));
  op.publish = publish_word(ticket, Phase::settled);
  return op;
}

TEST_CASE("a training loop comes back as it was recorded") {
  std::mt19937_64 random(1);
  std::vector<OpRecord> records;
  for (uint64_t ticket = 1; ticket <= kBlockRecordsMax; ++ticket) {
    records.push_back(loop_record(random, ticket));
  }
  require_round_trip(records);
}

TEST_CASE("records with arbitrary bits in every field come back, with gaps between tickets") {
  std::mt19937_64 random(2);
  std::vector<OpRecord> records;
  uint64_t ticket = 0;
  for (int i = 0; i < 8000; ++i) {
    ticket += 1 + (random() % 4 == 0 ? edgy(random) >> 24 : 0);
    records.push_back(adversarial_record(random, ticket));
  }
  require_round_trip(records);
}

TEST_CASE("more shapes than the codec remembers, seen again and again, come back") {
  std::mt19937_64 random(3);
  std::vector<OpRecord> records;
  for (uint64_t ticket = 1; ticket <= 12000; ++ticket) {
    OpRecord op = loop_record(random, ticket);
    op.count = random() % 3 == 0 ? random() % 5000 : ticket % 1500;
    op.caller = 0x400000 + random() % 100 * 16;
    op.stream = random() % 20 * 64;
    records.push_back(op);
  }
  require_round_trip(records);
}

TEST_CASE("a repetitive loop needs at most 8 bytes per record") {
  std::mt19937_64 random(4);
  std::vector<OpRecord> records;
  for (uint64_t ticket = 1; ticket <= kBlockRecordsMax; ++ticket) {
    records.push_back(loop_record(random, ticket));
  }
  REQUIRE(encode_all(records).bytes.size() <= 8 * records.size());
}

TEST_CASE("the worst record fits the bound of one record") {
  std::mt19937_64 random(5);
  size_t longest = 0;
  uint64_t ticket = 0;
  std::vector<OpRecord> records;
  for (int i = 0; i < 2000; ++i) {
    ticket += uint64_t{1} << 44;
    uint64_t words[sizeof(OpRecord) / 8];
    for (uint64_t& word : words) word = random() | uint64_t{1} << 63;
    OpRecord op;
    std::memcpy(&op, words, sizeof(op));
    op.publish = publish_word(ticket, Phase::settled);
    records.push_back(op);
  }
  for (const size_t length : encode_all(records).lengths) longest = std::max(longest, length);
  REQUIRE(longest > 100);  // the test means something
  REQUIRE(longest <= kOpCodedBytesMax - 8);
}

TEST_CASE("every prefix of a record is refused and leaves the caller's record alone") {
  std::mt19937_64 random(6);
  for (int round = 0; round < 50; ++round) {
    const Coded coded = encode_all({adversarial_record(random, 1 + random() % 1000)});
    for (size_t length = 0; length < coded.bytes.size(); ++length) {
      const auto memory = std::make_unique<CodecMemory>();
      OpDecoder decoder(memory->bytes, kShift);
      // Copied to the heap at its exact size, so that a sanitizer sees any step outside.
      const std::vector<uint8_t> prefix(coded.bytes.begin(),
                                        coded.bytes.begin() + static_cast<ptrdiff_t>(length));
      OpRecord untouched{};
      untouched.count = 77;
      REQUIRE(decoder.decode(prefix, untouched) == 0);
      REQUIRE(untouched.count == 77);
    }
  }
}

TEST_CASE("hostile bytes decode to something or nothing, within their bounds") {
  std::mt19937_64 random(7);
  const auto memory = std::make_unique<CodecMemory>();
  OpDecoder decoder(memory->bytes, kShift);
  uint64_t decoded_records = 0;
  for (int round = 0; round < 3000; ++round) {
    decoder.begin_block();
    std::vector<uint8_t> bytes(random() % 400);
    const uint64_t mask = round % 3 == 0 ? 0xff : random();  // dense and sparse noise
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() & mask);
    std::span<const uint8_t> body(bytes);
    uint64_t last_ticket = 0;
    OpRecord op{};
    while (const size_t taken = decoder.decode(body, op)) {
      REQUIRE(taken <= body.size());
      REQUIRE(ticket_of(op.publish) > last_ticket);
      last_ticket = ticket_of(op.publish);
      body = body.subspan(taken);
      ++decoded_records;
    }
  }
  REQUIRE(decoded_records > 100);
}

TEST_CASE("damage to a coded block never makes the decoder go backwards or stand still") {
  std::mt19937_64 random(8);
  std::vector<OpRecord> records;
  for (uint64_t ticket = 1; ticket <= 500; ++ticket) records.push_back(loop_record(random, ticket));
  const Coded coded = encode_all(records);
  const auto memory = std::make_unique<CodecMemory>();
  for (int round = 0; round < 500; ++round) {
    std::vector<uint8_t> bytes = coded.bytes;
    for (int flips = 0; flips < 3; ++flips) {
      bytes[random() % bytes.size()] ^= static_cast<uint8_t>(1 + random() % 255);
    }
    OpDecoder decoder(memory->bytes, kShift);
    std::span<const uint8_t> body(bytes);
    uint64_t last_ticket = 0;
    OpRecord op{};
    while (const size_t taken = decoder.decode(body, op)) {
      REQUIRE(ticket_of(op.publish) > last_ticket);
      last_ticket = ticket_of(op.publish);
      body = body.subspan(taken);
    }
  }
}

TEST_CASE("a buffer below the bound of one record is refused before anything is written") {
  const auto memory = std::make_unique<CodecMemory>();
  OpEncoder encoder(memory->bytes, kShift);
  std::vector<uint8_t> small(kOpCodedBytesMax - 1, 0xee);
  std::mt19937_64 random(9);
  REQUIRE(encoder.encode(loop_record(random, 1), small) == 0);
  REQUIRE(small == std::vector<uint8_t>(kOpCodedBytesMax - 1, 0xee));
}

}  // namespace
}  // namespace rollcall
