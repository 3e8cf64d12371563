#include "core/ring/ring_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/base/limits.h"
#include "core/base/open_file.h"
#include "core/base/small_file.h"
#include "core/format/ring_copy.h"
#include "core/ring/memory_room.h"
#include "core/ring/quiet_signals.h"

#if !defined(MADV_POPULATE_WRITE)
#define MADV_POPULATE_WRITE 23
#endif

namespace rollcall::ring {

namespace {

constexpr uint32_t kNameAttempts = 1000;

// A thread of the job may have little stack. One thread at a time makes a file in the run
// directory, and one in the local place; they may be two (core/capture/ring_opening.h).
constinit char path_room[kPathBytes]{};
constinit char local_path_room[kPathBytes]{};

// Field 22 of /proc/self/stat. The command in field 2 may contain anything, so the count starts
// behind its last parenthesis.
uint64_t read_start_time() noexcept {
  char text[1024];
  const std::string_view all(text, read_small_file("/proc/self/stat", text));
  size_t at = all.rfind(')');
  if (at == std::string_view::npos) return 0;
  for (int field = 2; field < 22; ++field) {
    at = all.find(' ', at + 1);
    if (at == std::string_view::npos) return 0;
  }
  const size_t end = all.find(' ', at + 1);
  uint64_t value = 0;
  if (!parse_decimal(part_of(all, at + 1, end - at - 1), value)) return 0;
  return value;
}

// The link reads "pid:[INODE]". (stat() says the same, but its symbol is newer than the glibc that
// the injected libraries may need.)
uint64_t read_pid_namespace() noexcept {
  char text[64];
  const ssize_t bytes = readlink("/proc/self/ns/pid", text, sizeof(text));
  if (bytes <= 0) return 0;
  const std::string_view all(text, static_cast<size_t>(bytes));
  const size_t open_bracket = all.find('[');
  if (open_bracket == std::string_view::npos || all.back() != ']') return 0;
  uint64_t value = 0;
  const size_t digits = all.size() - open_bracket - 2;
  return parse_decimal(part_of(all, open_bracket + 1, digits), value) ? value : 0;
}

// To the floor, or as high as the limit allows.
int move_up(int descriptor) noexcept {
  rlimit limit{};
  const bool is_known = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != 0;
  const rlim_t highest = is_known ? limit.rlim_cur - 1 : kDescriptorFloor;
  int floor = static_cast<int>(std::min<rlim_t>(highest, kDescriptorFloor));
  for (; floor > descriptor; --floor) {
    const int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, floor);
    if (moved < 0) continue;
    close(descriptor);
    return moved;
  }
  return descriptor;
}

// btrfs writes what has reached the disk once to a new place: a store into a page that was written
// back needs a block, and ends the job with SIGBUS where the disk is full by then. Files without
// data can be taken out of that. (A later copy by reflink or a snapshot takes it back.)
void write_in_place(int descriptor) noexcept {
  struct statfs where {};
  if (fstatfs(descriptor, &where) != 0 || where.f_type != BTRFS_SUPER_MAGIC) return;
  int flags = 0;
  if (ioctl(descriptor, FS_IOC_GETFLAGS, &flags) != 0) return;
  flags |= FS_NOCOW_FL;
  ioctl(descriptor, FS_IOC_SETFLAGS, &flags);
}

bool write_zeros(int descriptor, uint64_t bytes) noexcept {
  static constexpr char kZeros[64 * 1024] = {};
  for (uint64_t at = 0; at < bytes;) {
    const size_t wanted = std::min<uint64_t>(bytes - at, sizeof(kZeros));
    const ssize_t written = pwrite(descriptor, kZeros, wanted, static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += static_cast<uint64_t>(written);
  }
  return true;
}

// Every page is written to once now: a first touch in the middle of a call costs a microsecond.
// What a file system did not reserve, whatever it said, is found by a call that fails; the store
// would end the job with SIGBUS. False with errno set.
bool touch_pages(const RingFile& file) noexcept {
  if (madvise(file.memory, file.bytes, MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;
  if (!write_zeros(file.descriptor, file.bytes)) return false;  // a kernel before 5.14
  for (uint64_t at = 0; at < file.bytes; at += 4096) {
    *const_cast<volatile char*>(file.memory + at) = 0;
  }
  return true;
}

void fill_incarnation(FileHeader& header, const Incarnation& incarnation) noexcept {
  header.pid = incarnation.pid;
  header.parent_pid = incarnation.parent_pid;
  header.start_time_ticks = incarnation.start_time_ticks;
  header.pid_namespace = incarnation.pid_namespace;
  memcpy(header.boot_id, incarnation.boot_id, sizeof(header.boot_id));
  memcpy(header.host, incarnation.host, sizeof(header.host));
  header.run_id = incarnation.run_id;
}

template <class T>
T* at_area(const RingFile& file, const FileArea& area) noexcept {
  return reinterpret_cast<T*>(file.memory + area.offset);
}

void point_into_areas(RingFile& file) noexcept {
  file.header = reinterpret_cast<FileHeader*>(file.memory);
  const FileHeader& header = *file.header;
  file.stats = at_area<SelfStatistics>(file, header.stats);
  file.meta = at_area<char>(file, header.meta);
  file.threads = at_area<ThreadEntry>(file, header.threads);
  file.comms = at_area<CommEntry>(file, header.comms);
  file.events = at_area<EventRecord>(file, header.events);
  file.ops = at_area<OpRecord>(file, header.ops);
  file.channels = at_area<ChannelEntry>(file, header.channels);
  file.kernel_phases = at_area<KernelPhasesEntry>(file, header.kernel_phases);
  file.graphs = at_area<GraphEntry>(file, header.graphs);
  file.progress = at_area<uint64_t>(file, header.progress);
}

// tmpfs of older kernels gives up where a signal waits, and the C library does not try again. A
// second attempt might be no luckier, against a timer of the job: all signals wait until it is
// done.
int reserve(int descriptor, uint64_t bytes) noexcept {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

// The write lock that says "this process lives".
bool take_lock(int descriptor) noexcept {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return fcntl(descriptor, F_SETLK, &lock) == 0;
}

void fill_header(RingFile& file, const Incarnation& incarnation,
                 const RingGeometry& geometry) noexcept {
  auto& header = *reinterpret_cast<FileHeader*>(file.memory);
  fill_layout(header, geometry);
  fill_incarnation(header, incarnation);
  header.is_unlocked = file.descriptor >= 0 && take_lock(file.descriptor) ? 0 : 1;
  header.clock_kind = clock_kind();
  header.first_anchor = read_anchor();
  header.latest_anchor[0] = header.first_anchor;
  header.latest_anchor[1] = header.first_anchor;
  header.capture_state = static_cast<uint32_t>(CaptureState::recording);
  point_into_areas(file);
  file.incarnation = incarnation;
}

bool map_file(RingFile& file, const Incarnation& incarnation, const RingGeometry& geometry,
              RingError& error) noexcept {
  file.bytes = areas_of(geometry).file_bytes;
  if (!leaves_room(file.descriptor, file.bytes, kDiskKeptBesideRing)) {
    error = {"leave enough space to the job in", errno};
    return false;
  }
  const int reserved = reserve(file.descriptor, file.bytes);
  if (reserved != 0) {
    error = {"reserve space for", reserved};
    return false;
  }
  void* memory = mmap(nullptr, file.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor, 0);
  if (memory == MAP_FAILED) {
    error = {"map", errno};
    return false;
  }
  file.memory = static_cast<char*>(memory);
  if (!touch_pages(file)) {
    error = {"reserve memory of", errno};
    return false;
  }
  fill_header(file, incarnation, geometry);
  return true;
}

// Seen by nobody but this process and its thread; a child must not write to it, as to a file.
bool map_memory(RingFile& file, const Incarnation& incarnation, const RingGeometry& geometry,
                RingError& error) noexcept {
  file = RingFile{};
  file.bytes = areas_of(geometry).file_bytes;
  file.is_in_memory = true;
  if (!memory_leaves_room(file.bytes, kDiskKeptBesideRing)) {
    error = {"leave enough memory to the job beside a ring for", errno};
    return false;
  }
  void* memory = mmap(nullptr, file.bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) {
    error = {"get memory for a ring for", errno};
    file = RingFile{};
    return false;
  }
  file.memory = static_cast<char*>(memory);
  fill_header(file, incarnation, geometry);
  return true;
}

// Of a file that was just made: its descriptor and what follows from it.
void take_descriptor(RingFile& file, int descriptor) noexcept {
  file.descriptor = move_up(descriptor);
  file.identity = identity_of(file.descriptor);
  file.is_in_memory = is_in_memory(file.descriptor);
}

void drop_file(RingFile& file, const char* path) noexcept {
  if (file.memory != nullptr) munmap(file.memory, file.bytes);
  if (file.descriptor >= 0) close(file.descriptor);
  unlink(path);
  file = RingFile{};
}

}  // namespace

Incarnation read_incarnation() noexcept {
  Incarnation incarnation;
  incarnation.pid = static_cast<uint32_t>(getpid());
  incarnation.parent_pid = static_cast<uint32_t>(getppid());
  incarnation.start_time_ticks = read_start_time();
  incarnation.pid_namespace = read_pid_namespace();
  char boot_id[64];
  std::string_view text(boot_id, read_small_file("/proc/sys/kernel/random/boot_id", boot_id));
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  copy_padded(incarnation.boot_id, text);
  char host[kHostNameBytes + 1] = {};  // HOST_NAME_MAX and its end
  if (gethostname(host, sizeof(host)) == 0) copy_padded(incarnation.host, host);
  incarnation.host[kHostNameBytes - 1] = '\0';
  return incarnation;
}

bool make_directories(const char* path) noexcept {
  TextWriter partial{std::span<char>(path_room)};
  const std::string_view all(path);
  for (size_t at = 0; at <= all.size(); ++at) {
    const bool at_end = at == all.size();
    if (at == 0 || (!at_end && all[at] != '/')) continue;
    partial.clear();
    partial.text(part_of(all, 0, at));
    const char* name = partial.c_str();
    if (partial.cut_bytes() != 0) {
      errno = ENAMETOOLONG;
      return false;
    }
    if (mkdir(name, S_IRWXU) != 0 && errno != EEXIST) {
      // A parent may exist and not be ours to write; only the last one must work.
      const int error = errno;
      if (access(name, F_OK) == 0) continue;
      errno = error;
      return false;
    }
  }
  // Only a directory has a "."; of anything else this says ENOTDIR.
  partial.clear();
  partial.text(path).text("/.");
  const char* inside = partial.c_str();
  if (partial.cut_bytes() != 0) {
    errno = ENAMETOOLONG;
    return false;
  }
  return access(inside, F_OK) == 0;
}

FileIdentity identity_of(int descriptor) noexcept {
  struct statx status {};
  if (statx(descriptor, "", AT_EMPTY_PATH, STATX_INO, &status) != 0) return {};
  return {status.stx_dev_major, status.stx_dev_minor, status.stx_ino};
}

int create_file(const char* directory, std::string_view prefix, const Incarnation& incarnation,
                TextWriter& stem, TextWriter& path) noexcept {
  for (uint32_t number = 0; number < kNameAttempts; ++number) {
    stem.clear();
    write_stem(stem, {.host = padded_view(incarnation.host),
                      .pid = incarnation.pid,
                      .start_time_ticks = incarnation.start_time_ticks,
                      .number = number});
    path.clear();
    path.text(directory).character('/').text(prefix).text(stem.view()).text(kRingEnding);
    const char* name = path.c_str();
    if (path.cut_bytes() != 0) {
      errno = ENAMETOOLONG;
      return -1;
    }
    const int descriptor =
        open_file(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, S_IRUSR | S_IWUSR);
    if (descriptor >= 0 || errno != EEXIST) return descriptor;
  }
  return -1;
}

bool is_on_local_file_system(int descriptor) noexcept {
  // The kernel's headers do not name all of them.
  constexpr uint32_t kLocal[] = {
      EXT4_SUPER_MAGIC,  BTRFS_SUPER_MAGIC,     TMPFS_MAGIC,
      RAMFS_MAGIC,       OVERLAYFS_SUPER_MAGIC, REISERFS_SUPER_MAGIC,
      NILFS_SUPER_MAGIC, MSDOS_SUPER_MAGIC,
      0x58465342,  // XFS
      0xf2f52010,  // F2FS
      0x2fc12fc1,  // ZFS
      0x3153464a,  // JFS
      0xca451a4e,  // bcachefs
      0x7366746e,  // NTFS of the kernel
      0x2011bab0,  // exFAT
  };
  struct statfs where {};
  if (fstatfs(descriptor, &where) != 0) return false;
  const auto type = static_cast<uint32_t>(where.f_type);
  return std::find(std::begin(kLocal), std::end(kLocal), type) != std::end(kLocal);
}

bool is_in_memory(int descriptor) noexcept {
  struct statfs where {};
  return fstatfs(descriptor, &where) == 0 &&
         (where.f_type == TMPFS_MAGIC || where.f_type == RAMFS_MAGIC);
}

bool memory_leaves_room(uint64_t bytes, uint64_t kept_max) noexcept {
  const MemoryRoom room = read_memory_room();
  if (room.available_bytes == kMemoryUnknown) return true;
  const uint64_t kept = std::min(room.limit_bytes / 2, kept_max);
  if (room.available_bytes >= kept && room.available_bytes - kept >= bytes) return true;
  errno = ENOMEM;
  return false;
}

bool leaves_room(int descriptor, uint64_t bytes, uint64_t kept_max) noexcept {
  struct statvfs disk {};
  if (fstatvfs(descriptor, &disk) == 0 && disk.f_blocks != 0) {
    const uint64_t kept = std::min(disk.f_blocks * disk.f_frsize / 2, kept_max);
    if (disk.f_bavail * disk.f_frsize < kept + bytes) {
      errno = ENOSPC;
      return false;
    }
  }
  return !is_in_memory(descriptor) || memory_leaves_room(bytes, kept_max);
}

bool create_ring_file(const char* directory, const Incarnation& incarnation,
                      const RingGeometry& geometry, RingFile& file, TextWriter& stem,
                      RingError& error) noexcept {
  // Reserving past RLIMIT_FSIZE raises SIGXFSZ, whose default ends the job.
  const QuietSignals quiet;
  if (!make_directories(directory)) {
    error = {"create the directory", errno};
    return false;
  }
  TextWriter path{std::span<char>(path_room)};
  const int descriptor = create_file(directory, {}, incarnation, stem, path);
  if (descriptor < 0) {
    error = {"create a file in", errno};
    return false;
  }
  take_descriptor(file, descriptor);
  write_in_place(file.descriptor);
  if (map_file(file, incarnation, geometry, error)) return true;
  drop_file(file, path.c_str());
  return false;
}

bool create_live_ring(const char* local_directory, const Incarnation& incarnation,
                      const RingGeometry& geometry, RingFile& file, TextWriter& path,
                      RingError& error) noexcept {
  const QuietSignals quiet;
  TextBuffer<96> prefix;
  prefix.text(kLiveRingPrefix).number(geteuid()).character('.');
  prefix.hex(incarnation.run_id, 16).character('.');
  TextBuffer<kFileNameBytes> stem;
  TextWriter name{std::span<char>(local_path_room)};
  const int descriptor = create_file(local_directory, prefix.view(), incarnation, stem, name);
  if (descriptor >= 0) {
    take_descriptor(file, descriptor);
    write_in_place(file.descriptor);
    if (name.bytes() < sizeof(RingCopyNote::live_path) &&
        is_on_local_file_system(file.descriptor) && map_file(file, incarnation, geometry, error)) {
      auto& note = *reinterpret_cast<RingCopyNote*>(file.memory + kRingCopyNoteOffset);
      copy_padded(note.live_path, name.view());
      path.text(name.view());
      return true;
    }
    drop_file(file, name.c_str());
  }
  return map_memory(file, incarnation, geometry, error);
}

void remove_ring_file(RingFile& file, const char* directory, std::string_view stem) noexcept {
  TextWriter path{std::span<char>(path_room)};
  drop_file(file, path.text(directory).character('/').text(stem).text(kRingEnding).c_str());
}

void finish_ring_file(RingFile& file) noexcept {
  if (!ROLLCALL_CHECK(file.header != nullptr)) return;
  __atomic_store_n(&file.header->magic, kRingMagic, __ATOMIC_RELEASE);
}

void abandon_ring_file(RingFile& file) noexcept {
  if (file.memory != nullptr) {
    // Where it fails the old mapping stays: the parent's file is then written into.
    static_cast<void>(mmap(file.memory, file.bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0));
  }
  if (file.descriptor >= 0 && file.identity.inode != 0 &&
      identity_of(file.descriptor) == file.identity) {
    close(file.descriptor);
  }
  file = RingFile{};
}

}  // namespace rollcall::ring
