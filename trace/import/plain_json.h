// JSON as plain values (pickle.h): one reader for every importer whose source is JSON.
#pragma once

#include <string_view>

#include "trace/import/pickle.h"

namespace rollcall::trace {

// Null when `text` is no complete JSON document. Nesting beyond kPlainDepthMax becomes None;
// integers above 2^63 come back negative.
PlainPointer read_plain_json(std::string_view text);

}  // namespace rollcall::trace
