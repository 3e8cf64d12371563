// Work that stays unfinished until a test opens its gate.
#pragma once

#include <atomic>
#include <cstdint>
#include <stdexcept>

#include "emulator/device/device.h"

struct Gate {
  std::atomic<bool> open{false};
  std::atomic<int> released{0};
  std::atomic<int> polls{0};

  emu_work work(int answer = 1) {
    answer_ = answer;
    emu_work made = {};
    made.poll = [](void* argument) {
      auto* gate = static_cast<Gate*>(argument);
      ++gate->polls;
      return gate->open ? gate->answer_ : 0;
    };
    made.release = [](void* argument) { ++static_cast<Gate*>(argument)->released; };
    made.argument = this;
    made.name = "gate";
    return made;
  }

  void put_on(void* stream, int answer = 1) {
    const emu_work gated = work(answer);
    if (emu_stream_enqueue(stream, &gated, nullptr) != 0) throw std::runtime_error("not enqueued");
  }

 private:
  int answer_ = 1;
};
