#include "http/h1/chunked.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/hex.h"
#include "http/h1/response.h"
#include "http/h1/scan.h"

namespace sluice::http::h1 {

ChunkedDecoder::Step ChunkedDecoder::decode(std::string_view in, Buffer* trailers) {
  SLUICE_ASSERT(phase_ != Phase::complete);
  const char* const base = in.data();
  const char* const end = base + in.size();
  const char* p = base;
  const auto step = [&](Step::State state, Reason reason = Reason::none) -> Step {
    if (state == Step::State::refused || state == Step::State::done) phase_ = Phase::complete;
    return {state, reason, static_cast<std::size_t>(p - base), {}};
  };
  const auto refuse = [&](Reason reason) { return step(Step::State::refused, reason); };
  const auto keep = [&](std::string_view bytes) {
    if (trailers != nullptr) trailers->append(bytes);
  };
  const bool tolerant = reading_ == Reading::tolerant;
  const std::size_t most_extension = tolerant ? max_tolerated_extension : max_extension_size;
  // Continues as if a CR had come before the LF at `p`.
  const auto lf_suffices = [&](Phase then) {
    if (*p != '\n' || !tolerant) return false;
    phase_ = then;
    return true;
  };

  while (p != end) {
    switch (phase_) {
      case Phase::size: {
        const int digit = hex_digit(*p);
        if (digit >= 0) {
          if (++digits_ > max_size_digits) return refuse(Reason::bad_chunk_size);
          left_ = left_ << 4 | static_cast<std::uint64_t>(digit);
          if (left_ > INT64_MAX) return refuse(Reason::bad_chunk_size);
        } else if (digits_ == 0) {
          return refuse(Reason::bad_chunk_size);
        } else if (*p == '\r') {
          phase_ = Phase::size_lf;
        } else if (lf_suffices(Phase::size_lf)) {
          break;
        } else if (*p == ';') {
          phase_ = Phase::extension;
          if (++extension_size_ > most_extension) return refuse(Reason::chunk_extension_too_long);
        } else if (is_ows(*p)) {
          phase_ = Phase::space;
          break;
        } else {
          return refuse(*p == '\n' ? Reason::bare_lf : Reason::bad_chunk_size);
        }
        ++p;
        break;
      }

      case Phase::space:
        if (*p == ';') {
          phase_ = Phase::extension;
        } else if (tolerant && *p == '\r') {
          phase_ = Phase::size_lf;
        } else if (lf_suffices(Phase::size_lf)) {
          break;
        } else if (!is_ows(*p)) {
          return refuse(Reason::bad_chunk_size);
        }
        if (++extension_size_ > most_extension) return refuse(Reason::chunk_extension_too_long);
        ++p;
        break;

      case Phase::extension:
        if (*p == '\r') {
          phase_ = Phase::size_lf;
        } else if (lf_suffices(Phase::size_lf)) {
          break;
        } else if (EndsValue::test(p)) {
          return refuse(*p == '\n' ? Reason::bare_lf : Reason::bad_chunk_size);
        } else if (++extension_size_ > most_extension) {
          return refuse(Reason::chunk_extension_too_long);
        }
        ++p;
        break;

      case Phase::size_lf:
        if (*p != '\n') return refuse(Reason::bare_cr);
        ++p;
        phase_ = left_ == 0 ? Phase::line : Phase::data;
        break;

      case Phase::data: {
        const std::size_t size = std::min<std::uint64_t>(left_, static_cast<std::uint64_t>(end - p));
        const std::string_view data{p, size};
        p += size;
        left_ -= size;
        if (left_ == 0) phase_ = Phase::data_cr;
        return {Step::State::data, Reason::none, static_cast<std::size_t>(p - base), data};
      }

      case Phase::data_cr:
        if (lf_suffices(Phase::data_lf)) break;
        if (*p != '\r') return refuse(*p == '\n' ? Reason::bare_lf : Reason::bad_chunk_end);
        ++p;
        phase_ = Phase::data_lf;
        break;

      case Phase::data_lf:
        if (*p != '\n') return refuse(Reason::bare_cr);
        ++p;
        digits_ = 0;
        extension_size_ = 0;
        phase_ = Phase::size;
        break;

      // The trailer section has fields like a head.
      case Phase::line:
        name_empty_ = true;
        if (lf_suffices(Phase::last_lf)) break;
        phase_ = *p == '\r' ? Phase::last_lf : Phase::name;
        if (phase_ == Phase::name) break;
        ++p;
        break;

      case Phase::name:
        if (is_token_char(*p)) {
          name_empty_ = false;
        } else if (*p == ':' && !name_empty_) {
          phase_ = Phase::value;
        } else {
          return refuse(*p == '\n' ? Reason::bare_lf : Reason::bad_trailer);
        }
        if (++trailer_size_ > max_trailer_size) return refuse(Reason::trailers_too_large);
        keep({p, 1});
        ++p;
        break;

      case Phase::value: {
        // Never scans past the limit, so that the result does not depend on how the bytes are split.
        const char* const window =
            p + std::min<std::ptrdiff_t>(end - p, std::ptrdiff_t{max_trailer_size} - trailer_size_);
        const char* const stop = find_first<EndsValue>(base, p, window);
        trailer_size_ = static_cast<std::uint16_t>(trailer_size_ + (stop - p));
        keep({p, static_cast<std::size_t>(stop - p)});
        p = stop;
        if (stop == end) break;
        if (stop == window && !EndsValue::test(stop)) return refuse(Reason::trailers_too_large);
        if (lf_suffices(Phase::line_lf)) break;
        if (*p != '\r') return refuse(*p == '\n' ? Reason::bare_lf : Reason::bad_trailer);
        ++p;
        phase_ = Phase::line_lf;
        break;
      }

      case Phase::line_lf:
        if (*p != '\n') return refuse(Reason::bare_cr);
        keep("\n");
        ++p;
        phase_ = Phase::line;
        break;

      case Phase::last_lf:
        if (*p != '\n') return refuse(Reason::bare_cr);
        ++p;
        return step(Step::State::done);

      case Phase::complete:
        return refuse(Reason::none);  // a caller's error, caught by the assertion above
    }
  }
  return step(Step::State::need_more);
}

std::vector<Field> trailer_fields(std::string_view lines) {
  std::vector<Field> fields;
  while (!lines.empty()) {
    const std::size_t colon = lines.find(':');
    const std::size_t end = lines.find('\n', colon);
    std::string_view value = lines.substr(colon + 1, end - colon - 1);
    while (!value.empty() && is_ows(value.front())) value.remove_prefix(1);
    while (!value.empty() && is_ows(value.back())) value.remove_suffix(1);
    fields.push_back({lines.substr(0, colon), value});
    lines.remove_prefix(end + 1);
  }
  return fields;
}

std::size_t begin_chunk(Buffer& out) {
  const std::size_t mark = out.size();
  static_cast<void>(out.reserve(chunk_prefix_size));
  out.commit(chunk_prefix_size);
  return mark;
}

void end_chunk(Buffer& out, std::size_t mark) {
  SLUICE_ASSERT(out.size() >= mark + chunk_prefix_size);
  const std::uint64_t size = out.size() - mark - chunk_prefix_size;
  if (size == 0) return out.truncate(mark);
  SLUICE_ASSERT(size <= 0xFFFFFFFF);
  out.append("\r\n");
  static constexpr char digits[] = "0123456789ABCDEF";
  char* const prefix = out.data() + mark;
  for (int i = 0; i < 8; ++i) prefix[i] = digits[size >> (28 - 4 * i) & 0xF];
  std::memcpy(prefix + 8, "\r\n", 2);
}

void append_last_chunk(Buffer& out, std::span<const Field> trailers) {
  out.append("0\r\n");
  for (const Field& field : trailers) append_field(out, field.name, field.value);
  out.append("\r\n");
}

}  // namespace sluice::http::h1
