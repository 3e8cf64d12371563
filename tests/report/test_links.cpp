// The table of links, as people get it.
#include "report/links.h"
#include "tests/catch.h"
#include "tests/report/world.h"

namespace rollcall {
namespace test_links {

statistics::LinkRow link_row(int32_t rank, int32_t peer, bool is_send, uint64_t network_ns) {
  statistics::LinkRow row;
  row.comm = test::kWorldKey;
  row.comm_name = "world";
  row.nranks = 64;
  row.rank = rank;
  row.peer = peer;
  row.is_send = is_send;
  row.steps = 1000;
  row.bytes = 4096;
  row.wait_ns[static_cast<size_t>(is_send ? ChannelWait::send_gpu : ChannelWait::recv_gpu)] =
      20'000'000;
  row.wait_ns[static_cast<size_t>(row.network_wait())] = network_ns;
  row.to_median = 1;
  return row;
}

TEST_CASE("a link is drawn as its data flow, with its waits per step and the longest marked") {
  statistics::LinkRow slow = link_row(2, 3, true, 412'300'000);
  slow.to_median = 8.125;
  const std::string text =
      report::links_text({slow, link_row(4, 5, true, 100'000), link_row(3, 2, false, 5'000'000)});
  INFO(text);
  const std::string head =
      "\nsends over the network, of                link      steps      bytes     send_gpu     "
      "send_peer  send_network  to median\n"
      "world                                   2 -> 3      1,000    4.0 KiB         20.0           "
      "0.0         412.3*      8.12\n"
      "world                                   4 -> 5      1,000    4.0 KiB         20.0*          "
      "0.0           0.1          -\n"
      "\nreceives over the network, of  ";
  CHECK(text.substr(0, head.size()) == head);
  const std::string receives = text.substr(text.find("receives"));
  CHECK(receives.find("2 -> 3") != std::string::npos);
  CHECK(receives.find("recv_flush") < receives.find("recv_gpu"));
  CHECK(text.find("  send_peer     for the receiver to make room\n") != std::string::npos);
  CHECK(text.find("more links") == std::string::npos);
  CHECK(report::links_text({}).empty());
}

TEST_CASE("of many links those furthest behind are shown, and the rest are counted") {
  std::vector<statistics::LinkRow> rows;
  for (int32_t rank = 0; rank < 64; ++rank) rows.push_back(link_row(rank, 5, true, 1'000'000));
  rows[40].behind_median_ns = 7e9;
  const std::string text = report::links_text(rows);
  INFO(text);
  CHECK(text.find("40 -> 5") < text.find("0 -> 5"));
  CHECK(text.find("10 -> 5") != std::string::npos);
  CHECK(text.find("11 -> 5") == std::string::npos);
  CHECK(text.find("52 more links") != std::string::npos);
}

TEST_CASE(
    "what is not known of a link is a question mark or a dash, a network that reduces is said") {
  statistics::LinkRow row = link_row(-1, 1, true, 0);
  row.steps = 0;
  row.bytes = 0;
  row.to_median = std::nullopt;
  row.comm = {};
  row.comm_name = "";
  statistics::LinkRow without_bytes = link_row(0, 64, false, 1);
  without_bytes.bytes = 0;
  const std::string text = report::links_text({row, without_bytes});
  INFO(text);
  CHECK(text.find("unknown ") != std::string::npos);
  CHECK(text.find("? -> 1 ") != std::string::npos);
  CHECK(text.find(" - ") != std::string::npos);
  CHECK(text.find("         -\n") != std::string::npos);
  CHECK(text.find("network -> 0      1,000          - ") != std::string::npos);
  CHECK(text.find("          0    0 bytes ") != std::string::npos);
}

}  // namespace test_links
}  // namespace rollcall
