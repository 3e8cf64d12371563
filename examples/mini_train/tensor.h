// A buffer on the GPU together with the arithmetic that makes its contents predictable: whole
// numbers small enough that sums over any group are exact in float32, in whatever order NCCL adds.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "checks.h"

namespace mini_train {

// What rank `rank` of the world puts into element `index` of its buffer `tag` in step `step`.
inline double element_value(int tag, int rank, int step, size_t index) {
  return static_cast<double>((static_cast<size_t>(tag) * 131 + static_cast<size_t>(rank) * 17 +
                              static_cast<size_t>(step) * 7 + index * 3) %
                             101);
}

template <typename T>
class Tensor {
 public:
  // One element more than asked is there, so that a rank which passes a wrong count on purpose
  // stays inside its own memory.
  explicit Tensor(size_t count) : count_(count) {
    check(cudaMalloc(&data_, (count + 1) * sizeof(T)), "cudaMalloc");
  }
  Tensor(Tensor&& other) noexcept : data_(other.data_), count_(other.count_) {
    other.data_ = nullptr;
  }
  Tensor& operator=(Tensor&&) = delete;
  ~Tensor() {
    if (data_) cudaFree(data_);
  }

  void* data() const { return data_; }
  size_t count() const { return count_; }

  void fill(int tag, int rank, int step) {
    std::vector<T> host(count_);
    for (size_t i = 0; i < count_; ++i) {
      host[i] = static_cast<T>(element_value(tag, rank, step, i));
    }
    check(cudaMemcpy(data_, host.data(), count_ * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  std::vector<T> to_host() const {
    std::vector<T> host(count_);
    check(cudaMemcpy(host.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return host;
  }

 private:
  void* data_ = nullptr;
  size_t count_;
};

}  // namespace mini_train
