// The file that says how a job ended: written, read back, and read with suspicion.
#include "trace/job_end.h"

#include "tests/catch.h"
#include "tests/trace/files.h"
#include "trace/loader.h"

namespace rollcall::trace {
namespace job_end_test {

JobEnd killed() {
  JobEnd end;
  end.host = "node0";
  end.run_id = 0xfeedface12345678;
  end.ended_ns = 1'764'000'000'000'000'000;
  end.rank = 3;
  end.pid = 4711;
  end.by_signal = true;
  end.number = 9;
  return end;
}

TEST_CASE("what is written of a job's end is read back") {
  const auto same = [](const JobEnd& a, const JobEnd& b) {
    return a.host == b.host && a.run_id == b.run_id && a.ended_ns == b.ended_ns &&
           a.rank == b.rank && a.pid == b.pid && a.by_signal == b.by_signal &&
           a.number == b.number && a.reason == b.reason;
  };
  for (const EndReason reason :
       {EndReason::job, EndReason::signal, EndReason::hang, EndReason::time_limit}) {
    JobEnd end = killed();
    end.reason = reason;
    const auto read = parse_job_end(text_of(end));
    REQUIRE(read);
    CHECK(same(*read, end));
  }
  JobEnd whole = killed();
  whole.rank = -1;
  whole.by_signal = false;
  whole.number = 1;
  const auto read = parse_job_end(text_of(whole));
  REQUIRE(read);
  CHECK(same(*read, whole));
}

TEST_CASE("a text that is no whole account of an end is none") {
  const std::string good = text_of(killed());
  CHECK(!parse_job_end(""));
  CHECK(!parse_job_end("status=1\n"));
  CHECK(!parse_job_end(good.substr(0, good.size() - 1)));  // "by=" was cut off
  const auto with = [&](std::string_view old_line, std::string_view line) {
    std::string text = good;
    return text.replace(text.find(old_line), old_line.size(), line);
  };
  CHECK(!parse_job_end(with("rollcall_ended=1", "rollcall_ended=2")));
  CHECK(!parse_job_end(with("signal=9", "signal=0")));
  CHECK(!parse_job_end(with("signal=9", "signal=-9")));
  CHECK(!parse_job_end(with("signal=9", "signal=99999999999999999999")));
  CHECK(!parse_job_end(with("by=job", "by=somebody")));
  REQUIRE(parse_job_end(with("rank=3", "rank=-7")));
  CHECK(parse_job_end(with("rank=3", "rank=-7"))->rank == -1);
}

TEST_CASE("the ends of a directory are read with its rings, and what is none of them is an issue") {
  test::Directory directory;
  test::RingBytes ring;
  ring.add(test::make_op(1));
  directory.write("node0.4711.4d.ring", ring.bytes);
  const auto write = [&](const std::string& name, const std::string& text) {
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    directory.write(name, std::vector<std::byte>(bytes, bytes + text.size()));
  };
  write("node0.1.2.ended", text_of(killed()));
  write("node1.1.2.ended", "nonsense");
  const Run run = load_run(directory.path(), {.probe_processes = false});
  REQUIRE(run.ends.size() == 1);
  CHECK(run.ends[0].number == 9);
  CHECK(run.ends[0].file.ends_with("node0.1.2.ended"));
  REQUIRE(run.issues.size() == 1);
  CHECK(run.issues[0].file.ends_with("node1.1.2.ended"));
  CHECK(run.processes.size() == 1);
}

}  // namespace job_end_test
}  // namespace rollcall::trace
