#include "files/conditions.h"

#include "files/http_date.h"
#include "http/entity_tag.h"

namespace sluice::files {

void Conditions::take(Single& single, Seen bit, std::string_view value) {
  single.is_void = (seen_ & bit) != 0;
  single.value = value;
  seen_ |= bit;
}

void Conditions::gather(const http::Field& field) {
  const auto& [name, value] = field;
  if (http::same_name(name, "range")) {
    take(range_, range_field, value);
  } else if (http::same_name(name, "if-range")) {
    take(if_range_, if_range, value);
  } else if (http::same_name(name, "if-match")) {
    seen_ |= match;
  } else if (http::same_name(name, "if-none-match")) {
    seen_ |= none_match;
  } else if (http::same_name(name, "if-modified-since")) {
    take(modified_since_, modified_since, value);
  } else if (http::same_name(name, "if-unmodified-since")) {
    take(unmodified_since_, unmodified_since, value);
  }
}

bool Conditions::lists(std::string_view name, std::string_view tag, bool strongly) const {
  for (const http::Field& field : fields_) {
    if (!http::same_name(field.name, name)) continue;
    std::string_view list = field.value;
    if (list == "*") return true;
    while (!list.empty()) {
      std::string_view item = http::next_entity_tag(list);
      if (!strongly && item.starts_with("W/")) item.remove_prefix(2);
      if (item == tag) return true;
    }
  }
  return false;
}

Conditions::Verdict Conditions::judge(const Validators& current, std::int64_t now_s) const {
  const auto date_of = [&](const Single& single) {
    return single.is_void || !current.is_dated ? std::nullopt : parse_http_date(single.value, now_s);
  };
  if (((seen_ & match) != 0 && http::mixes_any(fields_, "if-match")) ||
      ((seen_ & none_match) != 0 && http::mixes_any(fields_, "if-none-match"))) {
    return Verdict::malformed;
  }
  if ((seen_ & match) != 0) {
    if (!lists("if-match", current.tag, true)) return Verdict::failed;
  } else if ((seen_ & unmodified_since) != 0) {
    const auto date = date_of(unmodified_since_);
    if (date && current.modified_s > *date) return Verdict::failed;
  }
  if ((seen_ & none_match) != 0) {
    if (lists("if-none-match", current.tag, false)) return Verdict::not_modified;
  } else if ((seen_ & modified_since) != 0) {
    const auto date = date_of(modified_since_);
    if (date && current.modified_s <= *date) return Verdict::not_modified;
  }
  return Verdict::proceed;
}

std::string_view Conditions::range(const Validators& current, std::int64_t now_s) const {
  if ((seen_ & range_field) == 0 || range_.is_void) return {};
  if ((seen_ & if_range) == 0) return range_.value;
  const std::string_view validator = if_range_.value;
  if (if_range_.is_void) return {};
  if (validator == current.tag) return range_.value;
  // A date is a strong validator only if it cannot stand for two versions (RFC 9110, 8.8.2.2): a file may change twice
  // within one second.
  const auto date = parse_http_date(validator, now_s);
  if (date && current.is_dated && *date == current.modified_s && current.modified_s < now_s) return range_.value;
  return {};
}

}  // namespace sluice::files
