// Batches as clients write them: nothing is read past its end, and what was taken can be resolved against any answers.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/batch/call.h"
#include "api/batch/references.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice::api::batch;
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto calls = parse_calls(json, {.calls = 8});
  if (!calls) return 0;
  Results results(*calls);
  const auto resolve = [&](std::string_view text, Resolution::Form form) {
    Resolution resolution(results, text, form, SIZE_MAX);
    while (resolution.advance() != 0) {
    }
    return resolution.take();
  };
  for (const Call& call : *calls) {
    while (results.advance() != 0) {
    }
    const auto target = resolve(call.target, Resolution::Form::target);
    // It goes where a request line would have been: nothing of an answer may come out of its place.
    if (target) {
      for (const char c : *target) {
        if (c <= 0x20 || c >= 0x7F) std::abort();
      }
    }
    const auto body = resolve(call.body, Resolution::Form::json);
    (void)resolve(call.text, Resolution::Form::text);
    // A body without references is left as it is.
    if (body && !call.body.contains("${") && *body != call.body) std::abort();
    results.add(call.body);
  }
  return 0;
}
