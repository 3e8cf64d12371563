#include "core/ring/mirror.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "core/base/atomic_word.h"
#include "core/base/open_file.h"
#include "core/format/record_check.h"
#include "core/format/ring_copy.h"

namespace rollcall::ring {

namespace {

constexpr int kSlotAttempts = 100;  // a slot is copied in nanoseconds, and written in as few

bool write_at(int descriptor, const char* from, size_t bytes, uint64_t offset) noexcept {
  while (bytes != 0) {
    const ssize_t written = pwrite(descriptor, from, bytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    from += written;
    offset += static_cast<uint64_t>(written);
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

// In the order of the addresses: of the header, next_ticket before the counts of the tables that
// records refer to.
//
// What stands there others write as they like, in words, bytes and structures, and it may be copied
// in the middle of that, as a reader of the file would see it: ThreadSanitizer is not asked.
__attribute__((no_sanitize("thread"))) void copy_words(const char* from, size_t bytes,
                                                       char* to) noexcept {
  for (size_t at = 0; at < bytes; at += sizeof(RecordWord)) {
    const auto* word = reinterpret_cast<const RecordWord*>(from + at);
    const uint64_t value = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    memcpy(to + at, &value, sizeof(value));
  }
}

template <class Record>
void copy_slots(const char* from, uint64_t bytes, uint64_t next_ticket, char* to) noexcept {
  const auto* records = reinterpret_cast<const Record*>(from);
  for (uint64_t i = 0; i < bytes / sizeof(Record); ++i) {
    auto copy = copy_record(records[i]);
    for (int attempt = 1; attempt < kSlotAttempts; ++attempt) {
      if (copy.publish_before_untrusted == copy.publish_after_untrusted) break;
      copy = copy_record(records[i]);
    }
    const uint64_t word = copy.publish_after_untrusted;
    const bool is_whole = copy.publish_before_untrusted == word;
    Record record = copy.record;
    record.publish = is_whole ? word : publish_word(ticket_of(word), Phase::writing);
    if (ticket_of(word) >= next_ticket) record = Record{};
    memcpy(to + i * sizeof(Record), &record, sizeof(record));
  }
}

// Four sums side by side: the processor multiplies them at once.
uint64_t digest_of(const char* page, size_t bytes) noexcept {
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;
  uint64_t sums[4] = {1, 2, 3, 4};
  for (size_t at = 0; at < bytes; at += 32) {
    uint64_t words[4];
    memcpy(words, page + at, sizeof(words));
    for (int i = 0; i < 4; ++i) {
      sums[i] = (sums[i] ^ words[i]) * kFactor;
      sums[i] ^= sums[i] >> 29;
    }
  }
  uint64_t digest = 0;
  for (const uint64_t sum : sums) digest = (digest ^ sum) * kFactor + (digest >> 31);
  return digest;
}

}  // namespace

bool Mirror::begin(const RingFile& live) noexcept {
  pages_ = live.bytes / kPageBytes;
  void* memory = mmap(nullptr, pages_ * sizeof(*digests_), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  live_ = live;
  digests_ = static_cast<uint64_t*>(memory);
  // A file that has just been made is zeros, as the ring was.
  std::fill(digests_, digests_ + pages_, digest_of(run_, kPageBytes));
  return true;
}

bool Mirror::create(const char* directory, const Incarnation& incarnation,
                    TextWriter& stem) noexcept {
  TextWriter path{std::span<char>(path_)};
  const int descriptor = create_file(directory, {}, incarnation, stem, path);
  if (descriptor < 0) {
    path_[0] = '\0';
    return false;
  }
  identity_ = identity_of(descriptor);
  if (ftruncate(descriptor, static_cast<off_t>(live_.bytes)) != 0) {
    const int error = errno;
    close(descriptor);
    unlink(path_);
    path_[0] = '\0';
    errno = error;
    return false;
  }
  close(descriptor);
  return true;
}

int Mirror::open_file() const noexcept {
  const int descriptor = rollcall::open_file(path_, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0 || identity_of(descriptor) == identity_) return descriptor;
  close(descriptor);
  errno = ESTALE;
  return -1;
}

bool Mirror::copy(uint64_t now_ticks) noexcept {
  const int descriptor = open_file();
  if (descriptor < 0) return false;
  const bool is_copied = copy_into(descriptor, now_ticks);
  const int error = errno;
  // Some file systems write when a file is closed, and say then what they could not.
  if (close(descriptor) == 0 || errno == EINTR) {
    errno = error;
    return is_copied;
  }
  // Which of the pages are there nobody knows: none counts as written.
  std::fill(digests_, digests_ + pages_, 0);
  return false;
}

bool Mirror::copy_into(int descriptor, uint64_t now_ticks) noexcept {
  take_switch(descriptor);
  copy_words(live_.memory, kPageBytes, header_);
  FileHeader moment;
  memcpy(&moment, header_, sizeof(moment));
  return copy_pages(descriptor, moment) && write_header(descriptor, now_ticks);
}

void Mirror::take_switch(int descriptor) noexcept {
  uint32_t value = 0;
  if (!is_whole_ || pread(descriptor, &value, sizeof(value),
                          offsetof(FileHeader, capture_switch)) != sizeof(value)) {
    return;
  }
  if (value == switch_seen_) return;
  switch_seen_ = value;
  store_relaxed(live_.header->capture_switch, value);
}

bool Mirror::copy_pages(int descriptor, const FileHeader& moment) noexcept {
  uint64_t run = 0;  // pages in run_
  for (uint64_t page = 1; page < pages_; ++page) {
    char* to = run_ + run * kPageBytes;
    read_page(page, moment, to);
    const uint64_t digest = digest_of(to, kPageBytes);
    if (digest != digests_[page]) {
      run_digests_[run++] = digest;
      if (run < kRunPagesMax) continue;
      if (!write_run(descriptor, page + 1 - run, run)) return false;
    } else if (run != 0 && !write_run(descriptor, page - run, run)) {
      return false;
    }
    run = 0;
  }
  return run == 0 || write_run(descriptor, pages_ - run, run);
}

void Mirror::read_page(uint64_t page, const FileHeader& moment, char* to) const noexcept {
  const char* from = live_.memory + page * kPageBytes;
  const auto* events = reinterpret_cast<const char*>(live_.events);
  const auto* ops = reinterpret_cast<const char*>(live_.ops);
  const auto* behind_ops = reinterpret_cast<const char*>(live_.channels);
  if (from >= ops && from < behind_ops) {
    copy_slots<OpRecord>(from, kPageBytes, moment.next_ticket, to);
  } else if (from >= events && from < ops) {
    copy_slots<EventRecord>(from, kPageBytes, moment.next_event_ticket, to);
  } else {
    copy_words(from, kPageBytes, to);
  }
}

bool Mirror::write_run(int descriptor, uint64_t first_page, uint64_t pages) noexcept {
  if (!write_at(descriptor, run_, pages * kPageBytes, first_page * kPageBytes)) return false;
  std::copy(run_digests_, run_digests_ + pages, digests_ + first_page);
  return true;
}

// In two parts, around the word that is not ours; the one with the magic comes last.
bool Mirror::write_header(int descriptor, uint64_t now_ticks) noexcept {
  FileHeader header;
  memcpy(&header, header_, sizeof(header));
  header.is_unlocked = 1;  // nobody holds a lock on a copy
  memcpy(header_, &header, sizeof(header));
  RingCopyNote note;
  memcpy(&note, header_ + kRingCopyNoteOffset, sizeof(note));
  note.is_copy = 1;
  note.copied_ticks = now_ticks;
  memcpy(header_ + kRingCopyNoteOffset, &note, sizeof(note));
  constexpr size_t kSwitch = offsetof(FileHeader, capture_switch);
  constexpr size_t kBehind = kSwitch + sizeof(header.capture_switch);
  is_whole_ = write_at(descriptor, header_ + kBehind, kPageBytes - kBehind, kBehind) &&
              write_at(descriptor, header_, kSwitch, 0);
  return is_whole_;
}

}  // namespace rollcall::ring
