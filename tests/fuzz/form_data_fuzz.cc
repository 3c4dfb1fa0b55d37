// multipart/form-data: whatever comes, and however it is cut, the same parts come out, and nothing is made up.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/body/form_data.h"

namespace {

using sluice::api::FormDataReader;
using Next = FormDataReader::Next;

std::string read(std::string_view body, std::size_t step) {
  FormDataReader reader("bo");
  std::string out;
  std::size_t data = 0;
  for (std::string_view rest = body;;) {
    switch (reader.next()) {
      case Next::part:
        out += "\n[" + reader.part().name + "|" + reader.part().file_name.value_or("-") + "|" +
               reader.part().media_type + "]";
        break;
      case Next::data:
        if (reader.data().empty()) std::abort();
        data += reader.data().size();
        if (data > body.size()) std::abort();
        out += reader.data();
        break;
      case Next::need_more: {
        const std::string_view piece = rest.substr(0, step);
        rest.remove_prefix(piece.size());
        if (piece.empty()) {
          reader.finish();
        } else {
          reader.feed(piece);
        }
        break;
      }
      case Next::end:
        return out + "\nend";
      case Next::broken:
        return out + "\nbroken: " + reader.fault();
    }
  }
}

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
