#include "api/error_map.h"

#include <algorithm>

#include "api/body/reader.h"
#include "base/buffer.h"
#include "base/json.h"

namespace sluice::api {
namespace {

constexpr std::size_t longest_message = 1000;  // bytes of the database's message that an answer shows

bool is_code_character(char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z'); }

bool is_class(std::string_view code) { return code.ends_with("xxx"); }

// Only the message, because the database's detail may contain values of other rows.
std::string_view message_of(const sql::Error& error) {
  std::string_view text = std::string_view(error.message).substr(0, error.headline);
  if (text.size() > longest_message) {
    text = text.substr(0, longest_message);
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0) == 0x80) text.remove_suffix(1);
    if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xC0) text.remove_suffix(1);
  }
  return is_text(text) ? text : std::string_view{};
}

}  // namespace

std::string check_error_code(std::string_view code) {
  const bool whole = code.size() == 5 && std::ranges::all_of(code, is_code_character) && !code.ends_with("XXX");
  const bool of_class = code.size() == 5 && is_class(code) && std::ranges::all_of(code.substr(0, 2), is_code_character);
  if (!whole && !of_class)
    return "is no SQLSTATE: five digits and capitals, or two and \"xxx\" for a class (\"23xxx\")";
  if (code.starts_with("00") || code.starts_with("01") || code.starts_with("02")) return "is of no error";
  if (sql::means_outage(code) || code == "53xxx" || code.starts_with("57P0")) {
    return "says that the database cannot be reached, which is answered 503 whatever the statement was";
  }
  return {};
}

std::shared_ptr<const ErrorMap> ErrorMap::make(std::span<const Named<ErrorOptions>> own,
                                               std::span<const Named<ErrorOptions>> common) {
  if (own.empty() && common.empty()) return nullptr;
  auto map = std::make_shared<ErrorMap>();
  map->add(own);
  map->add(common);
  return map;
}

void ErrorMap::add(std::span<const Named<ErrorOptions>> options) {
  for (const bool classes : {false, true}) {
    for (const auto& [name, one] : options) {
      if (is_class(name.value) != classes) continue;
      const auto phrase = http::reason_phrase(static_cast<int>(one.status.value));
      entries_.push_back({.code = name.value.substr(0, classes ? 2 : 5),
                          .status = static_cast<int>(one.status.value),
                          .type = one.type.value.empty() ? "about:blank" : one.type.value,
                          .title = one.title.empty() ? std::string(phrase) : one.title,
                          .detail = one.detail.value,
                          .shows_message = one.show_message});
    }
  }
}

const ErrorMap::Entry* ErrorMap::find(const sql::Error& error) const {
  if (error.failure == sql::Failure::unavailable || error.failure == sql::Failure::lost || error.sqlstate.empty()) {
    return nullptr;
  }
  const auto found =
      std::ranges::find_if(entries_, [&](const Entry& entry) { return error.sqlstate.starts_with(entry.code); });
  return found == entries_.end() ? nullptr : &*found;
}

http::Response ErrorMap::answer(const Entry& entry, const sql::Error& error, std::string_view detail,
                                std::string_view members) {
  Buffer body;
  const auto add_text = [&](std::string_view before, std::string_view text) {
    body.append(before);
    append_json_escaped(body, text);
    body.push_back('"');
  };
  add_text(R"({"type":")", entry.type);
  add_text(R"(,"title":")", entry.title);
  body.append(R"(,"status":)" + std::to_string(entry.status));
  const std::string_view own = entry.shows_message ? message_of(error) : std::string_view(entry.detail);
  if (!own.empty()) detail = own;
  if (!detail.empty()) add_text(R"(,"detail":")", detail);
  if (!members.empty()) {
    body.push_back(',');
    body.append(members);
  }
  body.push_back('}');
  http::Response response;
  response.status = entry.status;
  response.fields.add("Content-Type", "application/problem+json");
  if (entry.status == 503) response.fields.add("Retry-After", "1");
  response.body = std::move(body);
  return response;
}

std::vector<int> ErrorMap::statuses() const {
  std::vector<int> statuses;
  for (const Entry& entry : entries_) statuses.push_back(entry.status);
  return statuses;
}

}  // namespace sluice::api
