#include "examples/launch/rendezvous.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace examples {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{60};
// A caller says this first, so that a port scanner or a job on the same port is not taken for a
// rank.
constexpr char kHello[] = "rank of an example ";

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Socket& operator=(Socket&&) = delete;
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void fail(const Launch& launch, const std::string& what) {
  throw std::runtime_error("rendezvous at " + launch.master_address + ":" +
                           std::to_string(launch.master_port) + ": " + what +
                           "; is MASTER_ADDR:MASTER_PORT reachable and free?");
}

bool read_all(int fd, void* data, size_t bytes) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    pollfd wait{fd, POLLIN, 0};
    if (::poll(&wait, 1, 2000) <= 0) return false;
    const ssize_t got = ::recv(fd, at, bytes, 0);
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool write_all(int fd, const void* data, size_t bytes) {
  return ::send(fd, data, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
}

// Calls `use(socket, address)` for each address of the master until it returns true.
template <typename Use>
bool with_socket(const Launch& launch, int flags, Use use) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(launch.master_port);
  if (::getaddrinfo(launch.master_address.c_str(), port.c_str(), &hints, &found) != 0) return false;
  bool done = false;
  for (addrinfo* at = found; at && !done; at = at->ai_next) {
    Socket socket(::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol));
    if (socket.fd() >= 0) done = use(std::move(socket), *at);
  }
  ::freeaddrinfo(found);
  return done;
}

void hand_out(const Launch& launch, const ncclUniqueId& id) {
  const auto listen_on = [&](Socket socket, const addrinfo& address) {
    const int on = 1;
    ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(socket.fd(), address.ai_addr, address.ai_addrlen) != 0) return false;
    if (::listen(socket.fd(), launch.world_size) != 0) return false;
    std::vector<bool> served(static_cast<size_t>(launch.world_size), false);
    const auto deadline = Clock::now() + kPatience;
    for (int left = launch.world_size - 1; left > 0;) {
      pollfd wait{socket.fd(), POLLIN, 0};
      ::poll(&wait, 1, 1000);
      if (Clock::now() > deadline) fail(launch, std::to_string(left) + " ranks never asked");
      const Socket caller(::accept4(socket.fd(), nullptr, nullptr, SOCK_CLOEXEC));
      if (caller.fd() < 0) continue;
      char hello[sizeof kHello]{};
      int rank = -1;
      if (!read_all(caller.fd(), hello, sizeof hello)) continue;
      if (std::memcmp(hello, kHello, sizeof hello) != 0) continue;
      if (!read_all(caller.fd(), &rank, sizeof rank)) continue;
      if (rank <= 0 || rank >= launch.world_size) continue;
      if (!write_all(caller.fd(), &id, sizeof id)) continue;
      if (!served[static_cast<size_t>(rank)]) --left;
      served[static_cast<size_t>(rank)] = true;
    }
    return true;
  };
  if (!with_socket(launch, AI_PASSIVE, listen_on)) {
    fail(launch, std::string("cannot listen: ") + std::strerror(errno));
  }
}

ncclUniqueId fetch(const Launch& launch) {
  ncclUniqueId id{};
  const auto ask = [&](Socket socket, const addrinfo& address) {
    if (::connect(socket.fd(), address.ai_addr, address.ai_addrlen) != 0) return false;
    if (!write_all(socket.fd(), kHello, sizeof kHello)) return false;
    if (!write_all(socket.fd(), &launch.rank, sizeof launch.rank)) return false;
    return read_all(socket.fd(), &id, sizeof id);
  };
  const auto deadline = Clock::now() + kPatience;
  while (!with_socket(launch, 0, ask)) {
    if (Clock::now() > deadline) fail(launch, "rank 0 did not answer for a minute");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return id;
}

}  // namespace

ncclUniqueId exchange_unique_id(const Launch& launch) {
  if (launch.rank != 0) return fetch(launch);
  ncclUniqueId id{};
  if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess) {
    throw std::runtime_error(std::string("ncclGetUniqueId: ") + ncclGetErrorString(result));
  }
  hand_out(launch, id);
  return id;
}

}  // namespace examples
