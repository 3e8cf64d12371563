#include "call_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace mini_train {
namespace {

// All values are plain words and numbers of our own: no escaping is needed.
class Line {
 public:
  explicit Line(const char* type) : text_("{\"type\":\"" + std::string(type) + "\"") {}
  Line& add(const char* key, const char* value) {
    text_ += ",\"" + std::string(key) + "\":";
    text_ += value ? "\"" + std::string(value) + "\"" : "null";
    return *this;
  }
  Line& add(const char* key, uint64_t value) {
    text_ += ",\"" + std::string(key) + "\":" + std::to_string(value);
    return *this;
  }
  Line& add_rank(const char* key, int value) {
    text_ += ",\"" + std::string(key) + "\":" + (value < 0 ? "null" : std::to_string(value));
    return *this;
  }
  Line& add_position(int peer, uint64_t position) {
    const std::string number = std::to_string(position);
    text_ += ",\"seq\":" + (peer < 0 ? number : "null");
    text_ += ",\"p2p_seq\":" + (peer < 0 ? "null" : number);
    return *this;
  }
  std::string finish() const { return text_ + "}\n"; }

 private:
  std::string text_;
};

}  // namespace

CallLog::~CallLog() {
  if (fd_ >= 0) ::close(fd_);
}

void CallLog::open(const std::string& prefix, int rank) {
  const std::string path = prefix + "." + std::to_string(rank);
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) throw std::runtime_error("--log: cannot write " + path + ": " + strerror(errno));
}

void CallLog::start(int rank, int world_size) {
  write(Line("start")
            .add_rank("rank", rank)
            .add_rank("world_size", world_size)
            .add("pid", static_cast<uint64_t>(::getpid()))
            .finish());
}

void CallLog::communicator(const char* name, int rank, int nranks) {
  write(Line("comm").add("comm", name).add_rank("rank", rank).add_rank("nranks", nranks).finish());
}

void CallLog::call(const LoggedCall& call) {
  write(Line("op")
            .add("comm", call.comm)
            .add("op", call.op)
            .add("count", call.count)
            .add("dtype", call.dtype)
            .add("redop", call.redop)
            .add_rank("root", call.root)
            .add_rank("peer", call.peer)
            .add_position(call.peer, call.position)
            .finish());
}

void CallLog::fault(const Fault& fault, const char* comm, const char* op, int peer,
                    uint64_t position) {
  Line line("fault");
  line.add("kind", std::string(traits_of(fault.kind).name).c_str());
  line.add("comm", comm).add("op", op).add_rank("peer", peer);
  if (comm) line.add_position(peer, position);
  write(line.finish());
}

void CallLog::event(const char* name, const char* comm) {
  write(Line("event").add("name", name).add("comm", comm).finish());
}

void CallLog::end(int status) { write(Line("end").add_rank("status", status).finish()); }

// One write per line: lines of a rank are never torn, and none is lost when it is killed.
void CallLog::write(const std::string& line) {
  if (fd_ < 0) return;
  if (::write(fd_, line.data(), line.size()) < 0) {
    ::close(fd_);
    fd_ = -1;
  }
}

}  // namespace mini_train
