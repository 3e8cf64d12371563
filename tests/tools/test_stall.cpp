// When a communicator stands still: positions in, decisions out, by a clock of the test's own.
#include "tests/catch.h"
#include "tools/stall.h"

namespace rollcall::tools {
namespace test_stall {

constexpr int64_t kSecond = 1'000'000'000;
constexpr CommKey kWorld{1, 1};
constexpr CommKey kSide{2, 2};

// Two ranks on each of two communicators, looked at four times a second.
class Job {
 public:
  explicit Job(int64_t patience_s) : watch_(patience_s * kSecond) {}

  // Both ranks call once on the communicator, and are through with it.
  void step(const CommKey& comm) {
    for (Standing& standing : ranks(comm)) ++standing.position;
  }
  std::vector<Standing>& ranks(const CommKey& comm) { return comm == kWorld ? world_ : side_; }

  Decision look() {
    now_ns_ += kSecond / 4;
    Look look{.now_ns = now_ns_, .standings = world_};
    look.standings.insert(look.standings.end(), side_.begin(), side_.end());
    return watch_.look(look);
  }
  // Looks for so long, and takes a step on `busy` at each. What came first, if anything.
  Decision look_for(double seconds, const CommKey* busy = nullptr) {
    for (int at = 0; at < static_cast<int>(seconds * 4); ++at) {
      if (busy != nullptr) step(*busy);
      const Decision decision = look();
      if (decision.act != Act::nothing) return decision;
    }
    return {};
  }
  // Past its first steps, which need more patience.
  void warm_up() {
    for (int second = 0; second < 40; ++second) {
      step(kWorld);
      step(kSide);
      REQUIRE(look_for(1).act == Act::nothing);
    }
  }
  // Until it asks; warnings are passed over.
  Decision look_until_asked(double seconds, const CommKey* busy = nullptr) {
    for (int at = 0; at < static_cast<int>(seconds * 4); ++at) {
      if (busy != nullptr) step(*busy);
      const Decision decision = look();
      if (decision.act != Act::nothing && decision.act != Act::warn) return decision;
    }
    return {};
  }
  StallWatch& watch() { return watch_; }

 private:
  static std::vector<Standing> two(const CommKey& comm) {
    return {{.comm = comm, .process = 1}, {.comm = comm, .process = 2}};
  }

  StallWatch watch_;
  int64_t now_ns_ = kSecond;
  std::vector<Standing> world_ = two(kWorld);
  std::vector<Standing> side_ = two(kSide);
};

// Rank 1 is inside a call that rank 2 does not make.
void hang(Job& job, const CommKey& comm) {
  ++job.ranks(comm)[0].position;
  job.ranks(comm)[0].progress = Progress::inside;
}

TEST_CASE("a communicator that hangs is found while another goes on") {
  Job job(60);
  job.warm_up();
  hang(job, kSide);
  const Decision decision = job.look_until_asked(20, &kWorld);
  REQUIRE(decision.act == Act::ask);
  CHECK(decision.comm == kSide);
  CHECK(decision.patience_ns == 10 * kSecond);
  CHECK(decision.quiet_ns >= 10 * kSecond);
  CHECK(decision.quiet_ns < 11 * kSecond);
}

TEST_CASE("ranks that are quiet alike are no alarm, however long") {
  for (const Progress progress : {Progress::through, Progress::returned}) {
    Job job(60);
    job.warm_up();
    for (Standing& standing : job.ranks(kWorld)) standing.progress = progress;
    CHECK(job.look_for(24 * 3600).act == Act::nothing);
    // And a hang behind that is one.
    job.step(kWorld);
    REQUIRE(job.look().act == Act::nothing);
    hang(job, kWorld);
    CHECK(job.look_until_asked(61).act == Act::ask);
  }
}

TEST_CASE("the first steps get all the patience that the user set, and later ones as they were") {
  Job job(60);
  hang(job, kWorld);
  CHECK(job.look_until_asked(59).act == Act::nothing);
  CHECK(job.look_until_asked(2).act == Act::ask);

  Job slow(60);
  slow.warm_up();
  slow.look_for(4);  // a step that takes five seconds
  slow.step(kWorld);
  slow.look();
  hang(slow, kWorld);
  const Decision decision = slow.look_until_asked(60);
  REQUIRE(decision.act == Act::ask);
  CHECK(decision.patience_ns >= 20 * kSecond);
  CHECK(decision.patience_ns <= 31 * kSecond);

  Job pausing(60);
  pausing.warm_up();
  pausing.look_for(600);  // an evaluation
  pausing.step(kWorld);
  pausing.look();
  hang(pausing, kWorld);
  CHECK(pausing.look_until_asked(59).act == Act::nothing);
  CHECK(pausing.look_until_asked(2).patience_ns == 60 * kSecond);
}

TEST_CASE("nobody is more patient than the user asked for") {
  Job job(1);
  hang(job, kWorld);
  CHECK(job.look_for(2).act == Act::ask);
}

TEST_CASE("half of the patience is told of once, and a step takes it back") {
  Job job(60);
  job.warm_up();
  hang(job, kWorld);
  const Decision warning = job.look_for(8, &kSide);
  REQUIRE(warning.act == Act::warn);
  CHECK(warning.quiet_ns >= 5 * kSecond);
  CHECK(job.look_for(3, &kSide).act == Act::nothing);
  job.ranks(kWorld)[0].progress = Progress::through;
  job.ranks(kWorld)[1].position = job.ranks(kWorld)[0].position;
  CHECK(job.look_for(100, &kSide).act == Act::nothing);
}

TEST_CASE("what is no hang is asked about more and more rarely, and what is one no more") {
  Job job(60);
  job.warm_up();
  hang(job, kWorld);
  std::vector<int64_t> asked_s;
  for (int i = 0; i < 4; ++i) {
    const Decision decision = job.look_until_asked(1000, &kSide);
    REQUIRE(decision.act == Act::ask);
    asked_s.push_back(decision.quiet_ns / kSecond);
    job.watch().answered(false);
  }
  CHECK(asked_s == std::vector<int64_t>{10, 60, 120, 240});
  REQUIRE(job.look_until_asked(1000, &kSide).act == Act::ask);
  job.watch().answered(true);
  CHECK(job.look_until_asked(1, &kSide).act == Act::confirm);
  CHECK(job.look_for(5000, &kSide).act == Act::nothing);
}

TEST_CASE("a hang that was told of is confirmed after the user's time, and taken back by a step") {
  Job job(60);
  job.warm_up();
  hang(job, kWorld);
  REQUIRE(job.look_until_asked(20).act == Act::ask);
  job.watch().answered(true);
  CHECK(job.watch().is_open());
  const Decision confirmed = job.look_for(60);
  REQUIRE(confirmed.act == Act::confirm);
  CHECK(confirmed.quiet_ns >= 60 * kSecond);
  CHECK(job.look_for(23).act == Act::nothing);
  job.ranks(kWorld)[1].position = job.ranks(kWorld)[0].position;
  const Decision resumed = job.look();
  CHECK(resumed.act == Act::resumed);
  CHECK(resumed.quiet_ns / kSecond == 83);
  CHECK(!job.watch().is_open());
}

TEST_CASE("a rank that died is asked about within seconds, where somebody waits for it") {
  Job job(60);
  job.warm_up();
  job.ranks(kWorld)[1].life = Life::dead;
  CHECK(job.look_for(60).act == Act::nothing);  // nobody waits
  hang(job, kWorld);
  const Decision decision = job.look_until_asked(4);
  CHECK(decision.act == Act::ask);
  CHECK(decision.patience_ns == 3 * kSecond);

  // A launcher that ends the others with it.
  Job ended(60);
  ended.warm_up();
  hang(ended, kWorld);
  REQUIRE(ended.look_for(1).act == Act::nothing);
  ended.ranks(kWorld)[1].life = Life::dead;
  REQUIRE(ended.look_for(2).act == Act::nothing);
  ended.ranks(kWorld)[0].life = Life::dead;
  CHECK(ended.look_for(3600).act == Act::nothing);
}

TEST_CASE("who is ahead of the others waits for them, unless its GPU is through with it") {
  for (const Progress progress : {Progress::returned, Progress::through}) {
    Job job(60);
    job.warm_up();
    ++job.ranks(kWorld)[0].position;
    job.ranks(kWorld)[0].progress = progress;
    const Act act = job.look_until_asked(30).act;
    CHECK(act == (progress == Progress::returned ? Act::ask : Act::nothing));
  }
}

TEST_CASE("transfers and the creation of a communicator are watched apart from its collectives") {
  Job job(60);
  job.warm_up();
  std::vector<Standing>& ranks = job.ranks(kSide);
  // Transfers: positions differ as a matter of course.
  ranks.push_back({.comm = kSide, .lane = Lane::transfers, .process = 1, .position = 7});
  ranks.push_back({.comm = kSide, .lane = Lane::transfers, .process = 2, .position = 3});
  CHECK(job.look_for(100, &kSide).act == Act::nothing);
  ranks[2].progress = Progress::inside;
  const Decision decision = job.look_until_asked(61, &kWorld);
  CHECK(decision.act == Act::ask);
  CHECK(decision.lane == Lane::transfers);
  job.watch().answered(false);
  ranks.resize(2);
  // One that has not come to the creation yet.
  ranks.push_back(
      {.comm = {3, 3}, .lane = Lane::creation, .process = 1, .progress = Progress::inside});
  const Decision creation = job.look_until_asked(61, &kWorld);
  CHECK(creation.act == Act::ask);
  CHECK(creation.lane == Lane::creation);
  job.watch().answered(true);
  ranks.resize(2);  // all came
  CHECK(job.look().act == Act::resumed);
}

}  // namespace test_stall
}  // namespace rollcall::tools
