// A disk that does not answer: who asks how full it is hangs (hung_disk_test.cpp).
#pragma once

namespace rollcall::test {

// Called by whoever stands in for the system call; comes back once the disk answers.
void ask_disk() noexcept;

}  // namespace rollcall::test
