#include "api/query_names.h"

#include <algorithm>

#include "base/buffer.h"
#include "base/json.h"
#include "base/utf8.h"
#include "http/query_string.h"

namespace sluice::api {
namespace {

constexpr std::size_t most_echoed = 64;  // bytes of a parameter's name in an answer

}  // namespace

void QueryNames::add(std::span<const Source> sources) {
  for (const Source& source : sources) {
    if (source.from == From::query) add(source.key, sql::is_list(source.type));
  }
}

void QueryNames::add(std::string_view name, bool list) {
  const auto known = std::ranges::find(names_, name, &Name::text);
  if (known == names_.end()) {
    names_.push_back({std::string(name), list});
  } else {
    known->list |= list;
  }
}

std::optional<http::Response> QueryNames::refuse(std::string_view query) const {
  for (http::QueryPairs pairs(query); !pairs.done();) {
    const std::string_view written = pairs.next().name;
    const auto known =
        std::ranges::find_if(names_, [&](const Name& name) { return http::equals_decoded(written, name.text); });
    if (known == names_.end()) {
      if (any_) continue;
      std::string name;
      if (!http::append_decoded(written, name)) return refuse_parameter(written, "its name has a broken escape");
      std::string possible;
      for (const Name& one : names_) possible += (possible.empty() ? "" : ", ") + one.text;
      return refuse_parameter(name, "unknown parameter; possible are: " + (possible.empty() ? "none" : possible));
    }
    // Runs at most once per known name, because a repetition is refused.
    if (!known->list && pairs.has(known->text)) return refuse_parameter(known->text, "it comes more than once");
  }
  return std::nullopt;
}

http::Response refuse_parameter(std::string_view name, std::string_view detail) {
  std::string_view echoed = name.substr(0, most_echoed);
  while (!is_utf8(echoed)) echoed.remove_suffix(1);
  Buffer members;
  members.append(R"("parameter":")");
  append_json_escaped(members, echoed);
  members.push_back('"');
  const std::string_view shown = echoed.empty() ? "a parameter without a name" : echoed;
  return http::problem(400, std::string(shown) + ": " + std::string(detail), members.view());
}

}  // namespace sluice::api
