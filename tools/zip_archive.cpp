#include "tools/zip_archive.h"

#include <zlib.h>

namespace rollcall::tools {
namespace {

constexpr uint64_t kBytesMax = UINT32_MAX;
constexpr size_t kMembersMax = UINT16_MAX;
constexpr uint32_t kMember = 0x04034b50;  // signatures
constexpr uint32_t kEntry = 0x02014b50;
constexpr uint32_t kEnd = 0x06054b50;
constexpr uint32_t kVersion = 20;      // 2.0, the oldest with directories
constexpr uint32_t kFirstDate = 0x21;  // 1980-01-01: the same members are the same archive

void append(std::string& bytes, uint64_t value, size_t size) {
  for (size_t at = 0; at < size; ++at) bytes.push_back(static_cast<char>(value >> (8 * at)));
}

// What a member's header and its entry in the directory have in common.
void append_facts(std::string& bytes, uint32_t checksum, uint64_t size, size_t name_size) {
  append(bytes, 0, 2);  // no flags: Perfetto refuses that of UTF-8
  append(bytes, 0, 2);  // stored
  append(bytes, 0, 2);  // at midnight
  append(bytes, kFirstDate, 2);
  append(bytes, checksum, 4);
  append(bytes, size, 4);
  append(bytes, size, 4);
  append(bytes, name_size, 2);
  append(bytes, 0, 2);  // nothing extra
}

std::string header_of(std::string_view name, uint32_t checksum, uint64_t size) {
  std::string header;
  append(header, kMember, 4);
  append(header, kVersion, 2);
  append_facts(header, checksum, size, name.size());
  header += name;
  return header;
}

}  // namespace

void ZipArchive::write(std::string_view bytes) {
  if (failed()) return;
  size_ += bytes.size();
  is_too_long_ = size_ > kBytesMax;
  if (!is_too_long_) file_.write(bytes);
}

void ZipArchive::begin(const std::string& name) {
  has_too_many_ = has_too_many_ || members_.size() >= kMembersMax;
  if (has_too_many_) return;
  members_.push_back({name, size_});
  write(header_of(name, 0, 0));
}

void ZipArchive::add(std::string_view bytes) {
  if (failed()) return;
  Member& member = members_.back();
  member.bytes += bytes.size();
  member.checksum = static_cast<uint32_t>(
      ::crc32_z(member.checksum, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  write(bytes);
}

void ZipArchive::end() {
  if (failed()) return;
  const Member& member = members_.back();
  const std::string header = header_of(member.name, member.checksum, member.bytes);
  file_.write_at(member.offset, header.data(), header.size());
}

void ZipArchive::finish() {
  const uint64_t begin = size_;
  std::string directory;
  for (const Member& member : members_) {
    append(directory, kEntry, 4);
    append(directory, kVersion, 2);
    append(directory, kVersion, 2);
    append_facts(directory, member.checksum, member.bytes, member.name.size());
    append(directory, 0, 2);  // no comment
    append(directory, 0, 2);  // on the first disk
    append(directory, 0, 2);  // bytes
    append(directory, 0, 4);  // with no attributes
    append(directory, member.offset, 4);
    directory += member.name;
  }
  write(directory);
  std::string end;
  append(end, kEnd, 4);
  append(end, 0, 2);
  append(end, 0, 2);
  append(end, members_.size(), 2);
  append(end, members_.size(), 2);
  append(end, directory.size(), 4);
  append(end, begin, 4);
  append(end, 0, 2);
  write(end);
}

}  // namespace rollcall::tools
