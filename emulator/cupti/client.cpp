// The stand-in for libcupti.so.13: the part of the callback and activity APIs that a recorder of
// launches needs. Everything else is not exported.
#include <cupti.h>

#include "emulator/cupti/activity.h"

using emu_cupti::Activity;

namespace {

std::mutex subscriber_mutex;
bool is_subscribed = false;
// What a subscriber gets to hold; never looked at.
char subscription;

bool is_kind(CUpti_ExternalCorrelationKind kind) {
  return kind > CUPTI_EXTERNAL_CORRELATION_KIND_INVALID &&
         kind < CUPTI_EXTERNAL_CORRELATION_KIND_SIZE;
}

}  // namespace

extern "C" {

CUptiResult cuptiGetVersion(uint32_t* version) {
  if (version == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  if (text == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  switch (result) {
    case CUPTI_SUCCESS:
      *text = "CUPTI_SUCCESS";
      return CUPTI_SUCCESS;
    case CUPTI_ERROR_INVALID_KIND:
      *text = "CUPTI_ERROR_INVALID_KIND";
      return CUPTI_SUCCESS;
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      *text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
      return CUPTI_SUCCESS;
    default:
      *text = "CUPTI_ERROR_UNKNOWN";
      return CUPTI_SUCCESS;
  }
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc, void*) {
  if (subscriber == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard<std::mutex> guard(subscriber_mutex);
  if (is_subscribed || emu_cupti::settings().has_subscriber) {
    return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  }
  is_subscribed = true;
  *subscriber = reinterpret_cast<CUpti_SubscriberHandle>(&subscription);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  const std::lock_guard<std::mutex> guard(subscriber_mutex);
  if (!is_subscribed || subscriber != reinterpret_cast<CUpti_SubscriberHandle>(&subscription)) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  is_subscribed = false;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  return Activity::get().enable(kind, true) ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_KIND;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  return Activity::get().enable(kind, false) ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_KIND;
}

CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId call, uint8_t enable) {
  Activity::get().enable_driver_call(call, enable != 0);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId, uint8_t) { return CUPTI_SUCCESS; }

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  if (request == nullptr || complete == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  Activity::get().set_callbacks(request, complete);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock) {
  if (clock == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  Activity::get().set_clock(clock);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute, size_t* bytes, void* value) {
  return bytes == nullptr || value == nullptr ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  if (!Activity::get().has_callbacks()) return CUPTI_ERROR_INVALID_OPERATION;
  Activity::get().flush((flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != 0);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid_bytes,
                                       CUpti_Activity** record) {
  if (buffer == nullptr || record == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  auto* next = reinterpret_cast<uint8_t*>(*record);
  next = next == nullptr ? buffer : next + emu_cupti::record_bytes((*record)->kind);
  if (next >= buffer + valid_bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  auto* found = reinterpret_cast<CUpti_Activity*>(next);
  if (emu_cupti::record_bytes(found->kind) == 0) return CUPTI_ERROR_INVALID_KIND;
  *record = found;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  if (dropped == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *dropped = Activity::get().take_dropped();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                   uint64_t id) {
  if (!is_kind(kind)) return CUPTI_ERROR_INVALID_PARAMETER;
  Activity::external(kind).push_back(id);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                  uint64_t* last) {
  if (!is_kind(kind)) return CUPTI_ERROR_INVALID_PARAMETER;
  std::vector<uint64_t>& ids = Activity::external(kind);
  if (ids.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  if (last != nullptr) *last = ids.back();
  ids.pop_back();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t* timestamp) {
  if (timestamp == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *timestamp = Activity::get().now_ns();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetStreamIdEx(CUcontext, CUstream stream, uint8_t, uint32_t* number) {
  unsigned long long id = 0;
  if (number == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (cuStreamGetId(stream, &id) != CUDA_SUCCESS) return CUPTI_ERROR_INVALID_STREAM;
  *number = static_cast<uint32_t>(id);
  return CUPTI_SUCCESS;
}

}  // extern "C"
