// What the results of a step must be. Part of Trainer: see trainer.h.
#include <cstdio>

#include "trainer.h"

namespace mini_train {

template <typename T>
void Trainer::expect(const char* what, const Tensor<T>& tensor, int step,
                     const std::function<double(size_t)>& expected) const {
  const std::vector<T> seen = tensor.to_host();
  for (size_t i = 0; i < seen.size(); ++i) {
    const double right = expected(i);
    if (static_cast<double>(seen[i]) == right) continue;
    throw WrongResult("step " + std::to_string(step) + ": " + what + " [" + std::to_string(i) +
                      "] is " + std::to_string(seen[i]) + ", not " + std::to_string(right));
  }
}

template <typename T>
void Trainer::expect_sum(const char* what, const Exchange<T>& exchange, const Communicator& comm,
                         int step) const {
  expect(what, exchange.out, step, [&](size_t i) {
    double sum = 0;
    for (int member : comm.members()) sum += element_value(exchange.tag, member, step, i);
    return sum;
  });
}

void Trainer::verify(int step) {
  verify_model_parallel(step);
  verify_data_parallel(step);
  expect_sum("norm", norms_.front(), groups_.model(), step);
  expect_sum("barrier", barrier_, groups_.world(), step);
  expect("flag", flag_.out, step, [&](size_t i) { return element_value(flag_.tag, 0, step, i); });
  if (launch_.rank == 0) expect_sum("loss", loss_, groups_.world(), step);
}

void Trainer::verify_model_parallel(int step) {
  for (const Floats& one : layers_forward_) {
    expect_sum("forward", one, *groups_.tensor(), step);
  }
  for (const Floats& one : layers_backward_) {
    expect_sum("backward", one, *groups_.tensor(), step);
  }
  if (!groups_.pipeline()) return;
  const int stage = groups_.stage();
  const std::vector<int>& stages = groups_.pipeline()->members();
  const auto expect_from = [&](const char* what, const Floats& one, int sender_stage) {
    const int sender = stages[static_cast<size_t>(sender_stage)];
    expect(what, one.out, step, [&](size_t i) { return element_value(one.tag, sender, step, i); });
  };
  for (const Floats& one : activations_) {
    if (stage > 0) expect_from("activation", one, stage - 1);
  }
  for (const Floats& one : gradients_) {
    if (stage < groups_.stages() - 1) expect_from("gradient", one, stage + 1);
  }
}

void Trainer::verify_data_parallel(int step) {
  Communicator* data = groups_.data();
  if (!data) return;
  for (const Floats& bucket : buckets_) expect_sum("bucket", bucket, *data, step);
  const Floats& scatter = scatters_.front();
  const size_t part = scatter.out.count();
  expect("scattered gradient", scatter.out, step, [&](size_t i) {
    const size_t position = static_cast<size_t>(data->rank()) * part + i;
    double sum = 0;
    for (int member : data->members()) sum += element_value(scatter.tag, member, step, position);
    return sum;
  });
  const Floats& gather = gathers_.front();
  expect("gathered parameter", gather.out, step, [&](size_t i) {
    const int owner = data->members()[i / part];
    return element_value(gather.tag, owner, step, i % part);
  });
}

void Trainer::print_loss(int step) const {
  if (launch_.rank != 0) return;
  double checksum = 0;
  for (const auto* list : {&layers_forward_, &layers_backward_, &buckets_, &norms_}) {
    for (const Floats& one : *list) {
      for (const float value : one.out.to_host()) checksum += static_cast<double>(value);
    }
  }
  const double loss = loss_.out.to_host().front() / (101.0 * launch_.world_size * (step + 1));
  std::printf("step %d loss %.6f checksum %.0f\n", step, loss, checksum);
  std::fflush(stdout);
}

}  // namespace mini_train
