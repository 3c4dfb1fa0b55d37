#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "api/body/body_text.h"

namespace sluice::api {

// Cuts a text into lines, each of which is a row. Looks at each byte only once.
class LineScan {
 public:
  enum class Found : std::uint8_t { line, need_more, too_long, end };

  // line: [text.begin(), end), without the line end, which next_line() skips. too_long: returned once per line, as soon
  // as the line exceeds `longest`; the rest of the line is then skipped.
  Found run(BodyText& text, bool finished, std::size_t longest, char*& end) {
    for (;;) {
      char* const begin = text.begin();
      char* const stop = text.end();
      if (begin == stop && finished) return Found::end;
      const std::size_t size = static_cast<std::size_t>(stop - begin);
      char* found = static_cast<char*>(std::memchr(begin + scanned_, '\n', size - scanned_));
      if (found == nullptr && finished) found = stop;
      const std::size_t length = found != nullptr ? static_cast<std::size_t>(found - begin) : size;
      if (skipping_) {
        scanned_ = 0;
        text.use_to(found == nullptr || found == stop ? stop : found + 1);
        skipping_ = found == nullptr;
        if (found == nullptr) return Found::need_more;
        continue;
      }
      if (length > longest) {
        skipping_ = true;
        scanned_ = 0;
        return Found::too_long;
      }
      scanned_ = found == nullptr ? size : 0;
      end = found;
      return found == nullptr ? Found::need_more : Found::line;
    }
  }
  static void next_line(BodyText& text, const char* end) { text.use_to(end == text.end() ? end : end + 1); }

 private:
  std::size_t scanned_ = 0;
  bool skipping_ = false;
};

}  // namespace sluice::api
