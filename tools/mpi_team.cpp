// A team by MPI: librollcall-mpi.so, the only part that links an MPI library. The command opens it
// where it finds itself under mpirun (tools/team.h).
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <exception>

#include "tools/team.h"

namespace rollcall::tools {
namespace {

using trace::Team;

// Counts of MPI are ints: longer messages go in pieces.
constexpr uint64_t kPieceBytes = 1ull << 30;

template <typename Call>
void for_each_piece(Team::Bytes& bytes, const Call& call) {
  for (uint64_t at = 0; at < bytes.size(); at += kPieceBytes) {
    call(bytes.data() + at, static_cast<int>(std::min<uint64_t>(kPieceBytes, bytes.size() - at)));
  }
}

// Errors of MPI end the job, which is its default.
class MpiTeam final : public Team {
 public:
  MpiTeam() {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm here = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &here);
    MPI_Comm_size(here, &local_size_);
    MPI_Comm_free(&here);
  }
  ~MpiTeam() override {
    // The others wait for a message that will not come.
    if (std::uncaught_exceptions() > 0) {
      std::fputs("rollcall: a process of the team failed, probably for want of memory.\n", stderr);
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Finalize();
  }
  MpiTeam(const MpiTeam&) = delete;
  MpiTeam& operator=(const MpiTeam&) = delete;

  uint32_t rank() const override { return static_cast<uint32_t>(rank_); }
  uint32_t size() const override { return static_cast<uint32_t>(size_); }
  uint32_t local_size() const override { return static_cast<uint32_t>(local_size_); }

  std::vector<Bytes> gather(const Bytes& mine) override {
    const uint64_t bytes = mine.size();
    std::vector<uint64_t> sizes(rank_ == 0 ? size() : 0);
    MPI_Gather(&bytes, 1, MPI_UINT64_T, sizes.data(), 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (rank_ != 0) {
      Bytes sent = mine;
      for_each_piece(sent, [](std::byte* at, int count) {
        MPI_Send(at, count, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
      });
      return {};
    }
    std::vector<Bytes> all(size());
    all[0] = mine;
    for (int from = 1; from < size_; ++from) {
      all[from].resize(sizes[from]);
      for_each_piece(all[from], [from](std::byte* at, int count) {
        MPI_Recv(at, count, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      });
    }
    return all;
  }

  void broadcast(Bytes& bytes) override {
    uint64_t count = bytes.size();
    MPI_Bcast(&count, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    bytes.resize(count);
    for_each_piece(
        bytes, [](std::byte* at, int piece) { MPI_Bcast(at, piece, MPI_BYTE, 0, MPI_COMM_WORLD); });
  }

 private:
  int rank_ = 0;
  int size_ = 1;
  int local_size_ = 1;
};

}  // namespace
}  // namespace rollcall::tools

extern "C" __attribute__((visibility("default"))) rollcall::trace::Team* rollcall_join_team() {
  return new rollcall::tools::MpiTeam;
}
