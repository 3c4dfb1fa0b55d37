// Batches as clients write them: nothing is read past its end, and what was taken can be resolved against any answers.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/batch/call.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice::api::batch;
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto calls = parse_calls(json, {.calls = 8});
  if (!calls) return 0;
  Results results;
  for (const Call& call : *calls) {
    const auto target = results.resolve_target(call.target);
    // It goes where a request line would have been: nothing of an answer may come out of its place.
    if (target) {
      for (const char c : *target) {
        if (c <= 0x20 || c >= 0x7F) std::abort();
      }
    }
    const auto body = results.resolve_json(call.body);
    (void)results.resolve_text(call.text);
    // A body without references is left as it is.
    if (body && !call.body.contains("${") && *body != call.body) std::abort();
    results.add(call.id, call.body);
  }
  return 0;
}
