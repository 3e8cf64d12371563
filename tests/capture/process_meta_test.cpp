// What a file tells of its process: which variables, and which rank of the job.
#include "core/capture/process_meta.h"

#include <stdlib.h>

#include <string_view>

#include "tests/catch.h"

namespace rollcall::capture {
namespace process_meta_test {

TEST_CASE("only allow-listed variables may be recorded") {
  CHECK(may_record_variable("NCCL_DEBUG"));
  CHECK(may_record_variable("CUDA_VISIBLE_DEVICES"));
  CHECK(may_record_variable("RANK"));
  CHECK(may_record_variable("SLURM_PROCID"));
  CHECK(may_record_variable("PMI_RANK"));
  CHECK(may_record_variable("ROLLCALL_RUN_ID"));
  CHECK_FALSE(may_record_variable("ROLLCALL_JOB_TOKEN"));
  CHECK_FALSE(may_record_variable("AWS_SECRET_ACCESS_KEY"));
  CHECK_FALSE(may_record_variable("HF_TOKEN"));
  CHECK_FALSE(may_record_variable("RANKS_PASSWORD"));
  CHECK_FALSE(may_record_variable("SLURM_JWT"));
  CHECK_FALSE(may_record_variable("PMI_SHARED_SECRET"));
  CHECK_FALSE(may_record_variable("PMIX_SECURITY_MODE"));
  CHECK_FALSE(may_record_variable("OMPI_COMM_WORLD_RANK_TOKEN"));
  CHECK_FALSE(may_record_variable("PATH"));
}

TEST_CASE("the job rank comes from the first variable that holds a number") {
  unsigned rank = 0;
  std::string_view from;
  setenv("SLURM_PROCID", "7", 1);
  setenv("PMI_RANK", "6", 1);
  setenv("RANK", "not a number", 1);
  REQUIRE(find_job_rank(rank, from));
  CHECK(rank == 6);
  CHECK(from == "PMI_RANK");
  setenv("RANK", "3", 1);
  REQUIRE(find_job_rank(rank, from));
  CHECK(rank == 3);
  for (const char* name : {"SLURM_PROCID", "PMI_RANK", "RANK"}) unsetenv(name);
  CHECK_FALSE(find_job_rank(rank, from));
}

}  // namespace process_meta_test
}  // namespace rollcall::capture
