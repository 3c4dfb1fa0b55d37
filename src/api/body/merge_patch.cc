#include "api/body/merge_patch.h"

#include <cstddef>
#include <map>
#include <vector>

#include <simdjson.h>

#include "base/buffer.h"
#include "base/json.h"
#include "sql/sqlite/json_text.h"

namespace sluice::api {
namespace {

using simdjson::ondemand::json_type;

struct Member {
  std::string name;
  std::string value;  // JSON; empty: removed
};

// The members of an object, in order. If a name occurs twice, the last value applies. Empty for another value.
std::vector<Member> members_of(std::string_view json, std::map<std::string, std::size_t>& places) {
  std::vector<Member> members;
  const simdjson::padded_string padded(json);
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  simdjson::ondemand::object object;
  if (parser.iterate(padded).get(document) != simdjson::SUCCESS ||
      document.get_object().get(object) != simdjson::SUCCESS) {
    return members;
  }
  for (auto field : object) {
    std::string_view name;
    simdjson::ondemand::value value;
    json_type kind{};
    if (field.unescaped_key().get(name) != simdjson::SUCCESS || field.value().get(value) != simdjson::SUCCESS ||
        value.type().get(kind) != simdjson::SUCCESS) {
      return {};
    }
    const auto [known, is_new] = places.try_emplace(std::string(name), members.size());
    if (is_new) members.push_back({.name = std::string(name), .value = {}});
    std::string_view raw;
    simdjson::ondemand::array array;
    simdjson::ondemand::object inner;
    if (kind == json_type::object) {
      if (value.get_object().get(inner) != simdjson::SUCCESS || inner.raw_json().get(raw) != simdjson::SUCCESS)
        return {};
    } else if (kind == json_type::array) {
      if (value.get_array().get(array) != simdjson::SUCCESS || array.raw_json().get(raw) != simdjson::SUCCESS)
        return {};
    } else {
      raw = value.raw_json_token();
      raw = raw.substr(0, raw.find_last_not_of(" \t\r\n") + 1);
    }
    members[known->second].value = raw;
  }
  return members;
}

// Recurses as deep as the patch, whose depth RowLimits bounds.
std::string merged(std::string_view target, std::string_view patch) {
  std::map<std::string, std::size_t> places;
  std::vector<Member> members = members_of(target, places);
  if (members.empty()) places.clear();
  std::map<std::string, std::size_t> unused;
  for (Member& change : members_of(patch, unused)) {
    const auto [known, is_new] = places.try_emplace(change.name, members.size());
    if (is_new) members.push_back({.name = change.name, .value = {}});
    std::string& value = members[known->second].value;
    if (change.value == "null") {
      value.clear();
    } else if (change.value.starts_with('{')) {
      value = merged(value, change.value);
    } else {
      value = std::move(change.value);
    }
  }
  Buffer text;
  text.push_back('{');
  for (const Member& member : members) {
    if (member.value.empty()) continue;
    text.append(text.size() == 1 ? "\"" : ",\"");
    append_json_escaped(text, member.name);
    text.append("\":");
    text.append(member.value);
  }
  text.push_back('}');
  return std::string(text.view());
}

}  // namespace

std::string merge_patch(std::string_view target, std::string_view patch) {
  return merged(sql::sqlite::is_json(target) ? target : std::string_view{}, patch);
}

}  // namespace sluice::api
