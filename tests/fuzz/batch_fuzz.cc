// Batches as clients write them: nothing is read past the end, and accepted calls can be resolved against any answers.
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
    // The target becomes part of a request line, so a value from an answer must not contain a space or a line end.
    if (target) {
      for (const char c : *target) {
        if (c <= 0x20 || c >= 0x7F) std::abort();
      }
    }
    const auto body = resolve(call.body, Resolution::Form::json);
    (void)resolve(call.text, Resolution::Form::text);
    // A body without references is not changed.
    if (body && !call.body.contains("${") && *body != call.body) std::abort();
    results.add(call.body);
  }
  return 0;
}
