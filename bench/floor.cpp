#include "bench/floor.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace rollcall::bench {

Floor::Floor(const std::string& directory) {
  const std::string path = directory + "/floor";
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return;
  if (posix_fallocate(descriptor, 0, kLines * 64) == 0) {
    void* mapped = mmap(nullptr, kLines * 64, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (mapped != MAP_FAILED) base_ = static_cast<char*>(mapped);
  }
  close(descriptor);
  if (base_ != nullptr) std::memset(base_, 0, kLines * 64);
}

Floor::~Floor() {
  if (base_ != nullptr) munmap(base_, kLines * 64);
}

}  // namespace rollcall::bench
