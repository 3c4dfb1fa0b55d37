// multipart/form-data: any body gives the same parts, however it is split.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/body/form_data_for_tests.h"

namespace {

std::string read(std::string_view body, std::size_t step) { return sluice::api::read_form_data(body, step, "bo"); }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  (void)sluice::api::form_data_boundary(body);
  const std::string whole = read(body, SIZE_MAX);
  if (read(body, data[0] % 32 + 1) != whole) std::abort();
  if (read(body, 1) != whole) std::abort();
  return 0;
}
