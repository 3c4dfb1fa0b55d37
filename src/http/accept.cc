#include "http/accept.h"

#include <algorithm>

#include "base/ascii.h"

namespace sluice::http {
namespace {

// Removes the part before the separator, and the separator, from `rest` and returns the part.
std::string_view next_part(std::string_view& rest, char separator) {
  const auto end = rest.find(separator);
  const std::string_view part = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  return trim_blanks(part);
}

// "0.85" gives 850. An invalid weight counts as 1000, as if it were missing.
std::uint16_t weight(std::string_view text) {
  if (text.empty() || text.size() > 5 || (text[0] != '0' && text[0] != '1')) return 1000;
  if (text.size() > 1 && text[1] != '.') return 1000;
  unsigned value = 0;
  unsigned unit = 100;
  for (const char digit : text.substr(text.size() > 1 ? 2 : 1)) {
    if (digit < '0' || digit > '9') return 1000;
    value += static_cast<unsigned>(digit - '0') * unit;
    unit /= 10;
  }
  return static_cast<std::uint16_t>(text[0] == '1' ? 1000 : value);
}

std::string_view unquoted(std::string_view text) {
  return text.size() >= 2 && text.starts_with('"') && text.ends_with('"') ? text.substr(1, text.size() - 2) : text;
}

// The parameters of a range. `matched` is the number of matching parameters; -1 if the media type lacks one of them.
struct Parameters {
  std::uint16_t weight = 1000;
  int matched = 0;
};

Parameters read_parameters(std::string_view text, std::span<const Field> own) {
  Parameters read;
  while (!text.empty()) {
    const std::string_view parameter = next_part(text, ';');
    if (parameter.empty()) continue;
    const auto equals = parameter.find('=');
    const std::string_view name = parameter.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? std::string_view{} : parameter.substr(equals + 1);
    if (same_name(name, "q")) {
      read.weight = weight(value);
    } else if (read.matched >= 0) {
      const bool has = std::ranges::any_of(own, [&](const Field& field) {
        return same_name(field.name, name) && same_name(field.value, unquoted(value));
      });
      read.matched = has ? read.matched + 1 : -1;
    }
  }
  return read;
}

}  // namespace

std::uint16_t quality_of(std::span<const Field> fields, std::string_view type, std::string_view subtype,
                         std::span<const Field> own) {
  constexpr int kind = 1 << 16;  // greater than any number of parameters
  std::uint16_t best = 1000;
  int best_rank = 0;  // kind * (1 for */*, 2 for type/*, 3 for type/subtype) + number of parameters
  bool any = false;
  for (const Field& field : fields) {
    if (field.name.size() != 6 || !same_name(field.name, "accept")) continue;
    for (std::string_view rest = field.value; !rest.empty();) {
      std::string_view range = next_part(rest, ',');
      if (range.empty()) continue;
      const std::string_view media = next_part(range, ';');
      const auto slash = media.find('/');
      if (slash == std::string_view::npos) continue;
      any = true;
      const std::string_view major = media.substr(0, slash);
      const std::string_view minor = media.substr(slash + 1);
      int rank = 0;
      if (same_name(major, type) && same_name(minor, subtype)) {
        rank = 3 * kind;
      } else if (same_name(major, type) && minor == "*") {
        rank = 2 * kind;
      } else if (media == "*/*") {
        rank = kind;
      }
      if (rank == 0) continue;
      const Parameters parameters = read_parameters(range, own);
      rank += parameters.matched;
      if (parameters.matched < 0 || rank <= best_rank) continue;
      best_rank = rank;
      best = parameters.weight;
    }
  }
  return any && best_rank == 0 ? 0 : best;
}

bool lists_token(std::string_view list, std::string_view token) {
  while (!list.empty()) {
    std::string_view item = next_part(list, ',');
    if (same_name(next_part(item, ';'), token)) return true;
  }
  return false;
}

}  // namespace sluice::http
