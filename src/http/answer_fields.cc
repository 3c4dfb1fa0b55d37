#include "http/answer_fields.h"

#include <cstring>

#include "base/ascii.h"
#include "base/assert.h"
#include "http/h1/response.h"

namespace sluice::http {
namespace {

constexpr std::string_view date_name = "Date";

}  // namespace

AnswerFields::AnswerFields(std::string server_name, const List& fields, const List& secure_fields)
    : server_name_(std::move(server_name)) {
  for (Buffer& lines : lines_) {
    h1::append_field(lines, date_name, std::string(h1::DateCache::size, '-'));
    if (!server_name_.empty()) h1::append_field(lines, "Server", server_name_);
    configured_from_ = lines.size();
  }
  const auto add = [this](const List& list, std::size_t secure) {
    for (auto [name, value] : list) {
      h1::append_field(lines_[secure], name, value);
      configured_[secure].emplace_back(to_lower(name), std::move(value));
    }
  };
  add(fields, 0);
  add(fields, 1);
  add(secure_fields, 1);
}

void AnswerFields::set_date(std::string_view date, std::int64_t second) {
  SLUICE_ASSERT(date.size() == h1::DateCache::size);
  for (Buffer& lines : lines_) std::memcpy(lines.data() + date_name.size() + 2, date.data(), date.size());
  second_ = second;
}

}  // namespace sluice::http
