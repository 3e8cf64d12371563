#include "profiler_plugin/chained_plugin.h"

#include <type_traits>

#include "core/base/text.h"
#include "profiler_plugin/fields.h"

namespace rollcall::profiler {
namespace {

template <class Profiler, class Descriptor>
struct Chained {
  static Profiler& of(void* interface) { return *static_cast<Profiler*>(interface); }

  static int init(void* interface, void** context, int* mask, const ContextOpening& opening,
                  const ChainedInit& more) {
    auto init = of(interface).init;
    if constexpr (std::is_same_v<decltype(init), InitOfV1>) {
      return init(context, mask);
    } else if constexpr (std::is_same_v<decltype(init), InitOfV4>) {
      return init(context, mask, opening.name, opening.comm_hash, more.nodes, opening.nranks,
                  opening.rank, more.logger);
    } else {
      return init(context, opening.comm_hash, mask, opening.name, more.nodes, opening.nranks,
                  opening.rank, more.logger);
    }
  }
  static int start(void* interface, void* context, void** handle, const Event& event) {
    Descriptor descriptor = descriptor_of<Descriptor>(event);
    return of(interface).start_event(context, handle, &descriptor);
  }
  static int stop(void* interface, void* handle) { return of(interface).stop_event(handle); }
  static int record(void* interface, void* handle, int state, void* arguments) {
    using Arguments = decltype(arguments_of(of(interface).record_event_state));
    return of(interface).record_event_state(handle, state, static_cast<Arguments>(arguments));
  }
  static int finalize(void* interface, void* context) { return of(interface).finalize(context); }

 private:
  template <class StateArgs>
  static StateArgs* arguments_of(int (*)(void*, int, StateArgs*));
};

template <class Profiler, class Descriptor>
ChainedPlugin make(unsigned version, void* interface) {
  using Behind = Chained<Profiler, Descriptor>;
  return {version,      interface,      Behind::init,    Behind::start,
          Behind::stop, Behind::record, Behind::finalize};
}

}  // namespace

ChainedPlugin chained_plugin_of(void* (*find)(void* library, const char* name), void* library,
                                unsigned newest) noexcept {
  constexpr ChainedPlugin (*kMakers[])(unsigned, void*) = {
      make<v1::Profiler, v1::Descriptor>, make<v2::Profiler, v2::Descriptor>,
      make<v3::Profiler, v3::Descriptor>, make<v4::Profiler, v4::Descriptor>,
      make<v5::Profiler, v5::Descriptor>, make<v6::Profiler, v6::Descriptor>,
      make<v7::Profiler, v7::Descriptor>};
  for (unsigned version = newest; version >= 1; --version) {
    TextBuffer<32> name;
    name.text("ncclProfiler_v").number(version);
    void* interface = find(library, name.c_str());
    if (interface != nullptr) return kMakers[version - 1](version, interface);
  }
  return {};
}

}  // namespace rollcall::profiler
