#include "api/batch/call.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include <simdjson.h>

#include "api/batch/references.h"
#include "base/ascii.h"
#include "base/json.h"
#include "http/router.h"

namespace sluice::api::batch {
namespace {

namespace ondemand = simdjson::ondemand;

constexpr std::size_t longest_id = 64;
constexpr std::size_t most_fields = 50;
constexpr std::size_t deepest = 64;  // nesting of objects and arrays, as in the rows of a body

// Fields that belong to the batch's request or to its connection.
constexpr std::array<std::string_view, 18> not_a_calls{"authorization",
                                                       "connection",
                                                       "content-encoding",
                                                       "content-length",
                                                       "cookie",
                                                       "date",
                                                       "expect",
                                                       "host",
                                                       "keep-alive",
                                                       "origin",
                                                       "proxy-authorization",
                                                       "proxy-connection",
                                                       "range",
                                                       "te",
                                                       "trailer",
                                                       "transfer-encoding",
                                                       "upgrade",
                                                       "via"};

bool is_name_character(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '-'; }

bool is_field_value(std::string_view text) {
  return std::ranges::all_of(text,
                             [](char c) { return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F); });
}

class Parser {
 public:
  Parser(const CallLimits& limits, std::span<const std::string> own) : limits_(limits), own_(own) {}

  std::expected<std::vector<Call>, CallFault> parse(std::string_view json) {
    const simdjson::padded_string padded(json);
    simdjson::dom::parser checking;
    if (checking.allocate(std::max<std::size_t>(json.size(), 1), deepest) != simdjson::SUCCESS)
      return refuse("", "it is too long");
    // The whole text must be valid JSON before any call is taken from it.
    if (const auto whole = checking.parse(padded); whole.error() != simdjson::SUCCESS) {
      return refuse("", whole.error() == simdjson::DEPTH_ERROR ? "it is nested too deeply" : "it is no JSON");
    } else if (!whole.is_array()) {
      return refuse("", "it is no array of calls");
    }
    ondemand::parser parser;
    ondemand::document document;
    ondemand::array array;
    if (parser.iterate(padded).get(document) != simdjson::SUCCESS ||
        document.get_array().get(array) != simdjson::SUCCESS) {
      return refuse("", "it is no array of calls");
    }
    for (auto element : array) {
      const std::size_t index = calls_.size();
      if (index == limits_.calls) {
        return refuse("", "it has more calls than the " + std::to_string(limits_.calls) + " that are taken");
      }
      at_ = "/" + std::to_string(index);
      ondemand::object object;
      if (element.get_object().get(object) != simdjson::SUCCESS) return refuse(at_, "it is no object");
      Call call;
      if (!take(object, call)) return std::unexpected(std::move(fault_));
      if (!check(call)) return std::unexpected(std::move(fault_));
      if (!call.id.empty()) ids_.insert(call.id);
      calls_.push_back(std::move(call));
    }
    return std::move(calls_);
  }

 private:
  std::unexpected<CallFault> refuse(std::string pointer, std::string reason) {
    return std::unexpected(CallFault{std::move(pointer), std::move(reason)});
  }
  bool wrong(std::string_view member, std::string reason) {
    fault_ = {at_ + std::string(member), std::move(reason)};
    return false;
  }

  bool take(ondemand::object& object, Call& call) {
    enum Member : std::uint8_t { method = 1, path = 2, id = 4, headers = 8, body = 16 };
    std::uint8_t seen = 0;
    for (auto field : object) {
      std::string_view name;
      ondemand::value value;
      if (field.unescaped_key().get(name) != simdjson::SUCCESS || field.value().get(value) != simdjson::SUCCESS) {
        return wrong("", "it cannot be read");
      }
      const Member member = name == "method"    ? method
                            : name == "path"    ? path
                            : name == "id"      ? id
                            : name == "headers" ? headers
                            : name == "body"    ? body
                                                : Member{};
      if (member == Member{}) {
        return wrong("/" + pointer_of(name), "there is no such member: a call has method, path, id, headers and body");
      }
      if ((seen & member) != 0) return wrong("/" + std::string(name), "it is there twice");
      seen |= member;
      if (member == body) {
        // The original text, so that numbers keep their digits.
        std::string_view text;
        if (simdjson::to_json_string(value).get(text) != simdjson::SUCCESS) return wrong("/body", "it cannot be read");
        call.body = text;
        is_string_ = text.starts_with('"');
      } else if (member == headers) {
        if (!take_fields(value, call)) return false;
      } else {
        std::string_view text;
        if (value.get_string().get(text) != simdjson::SUCCESS) return wrong("/" + std::string(name), "it is no string");
        if (member == method) {
          call.method = http::parse_method(text);
        } else if (member == path) {
          call.target = text;
        } else {
          call.id = text;
        }
      }
    }
    if ((seen & method) == 0) return wrong("", "it has no method");
    if ((seen & path) == 0) return wrong("", "it has no path");
    if ((seen & id) != 0 && call.id.empty()) return wrong("/id", "it is empty");
    return (seen & body) == 0 || take_body(call);
  }

  // If the Content-Type is not JSON, the body is a string with the actual content.
  bool take_body(Call& call) {
    const auto type = std::ranges::find(call.fields, "content-type", &std::pair<std::string, std::string>::first);
    const std::string named = type == call.fields.end() ? "application/json" : to_lower(type->second);
    const bool is_json = named.starts_with("application/json") || named.contains("+json");
    if (is_json) {
      if (type == call.fields.end()) call.fields.emplace_back("content-type", "application/json");
      return true;
    }
    if (!is_string_) return wrong("/body", "with this Content-Type it is a string");
    const simdjson::padded_string padded(call.body);
    ondemand::parser parser;
    ondemand::document document;
    std::string_view text;
    if (parser.iterate(padded).get(document) != simdjson::SUCCESS ||
        document.get_string().get(text) != simdjson::SUCCESS) {
      return wrong("/body", "it cannot be read");
    }
    call.text = text;
    call.body.clear();
    return true;
  }

  bool take_fields(ondemand::value& value, Call& call) {
    ondemand::object object;
    if (value.get_object().get(object) != simdjson::SUCCESS) return wrong("/headers", "it is no object");
    for (auto field : object) {
      std::string_view name;
      std::string_view text;
      if (field.unescaped_key().get(name) != simdjson::SUCCESS) return wrong("/headers", "it cannot be read");
      const std::string pointer = "/headers/" + pointer_of(name);
      std::string small = to_lower(name);
      if (!http::is_token(small)) return wrong(pointer, "it is no name of a header");
      if (field.value().get_string().get(text) != simdjson::SUCCESS) return wrong(pointer, "it is no string");
      if (!is_field_value(text)) return wrong(pointer, "it has characters that no header may have");
      if (std::ranges::find(not_a_calls, small) != not_a_calls.end() || std::ranges::find(own_, small) != own_.end()) {
        return wrong(pointer, "it belongs to the batch, not to one of its calls");
      }
      if (call.fields.size() == most_fields) return wrong("/headers", "they are too many");
      if (std::ranges::find(call.fields, small, &std::pair<std::string, std::string>::first) != call.fields.end()) {
        return wrong(pointer, "it is there twice");
      }
      call.fields.emplace_back(std::move(small), text);
    }
    return true;
  }

  bool check(const Call& call) {
    using http::Method;
    constexpr std::array methods{Method::get, Method::post, Method::put, Method::patch, Method::delete_};
    if (std::ranges::find(methods, call.method) == methods.end()) {
      return wrong("/method", "it is not GET, POST, PUT, PATCH or DELETE");
    }
    if (!call.target.starts_with('/')) return wrong("/path", "it does not begin with \"/\"");
    if (call.target.size() > limits_.target) return wrong("/path", "it is too long");
    std::size_t header = call.target.size();
    for (const auto& [name, value] : call.fields) header += name.size() + value.size();
    if (header > limits_.headers) return wrong("/headers", "they are too long");
    if (!std::ranges::all_of(call.target, [](char c) { return c > 0x20 && c < 0x7F && c != '#'; })) {
      return wrong("/path", "it has characters that are not escaped as a URL's are");
    }
    if (call.id.size() > longest_id || !std::ranges::all_of(call.id, is_name_character)) {
      return wrong("/id", "it has other characters than letters, digits, _ and -, or too many");
    }
    if (!call.id.empty() && parse_index(call.id)) return wrong("/id", "a number is the call of that index");
    if (ids_.contains(call.id)) return wrong("/id", "an earlier call has it");
    return check_references(call.target, false, "/path") && check_references(call.text, false, "/body") &&
           check_references(call.body, true, "/body");
  }

  bool check_references(std::string_view text, bool is_json, std::string_view where) {
    Cutter cutter(text, is_json);
    while (const auto piece = cutter.next()) {
      if (!piece->reference) continue;
      const std::string_view name = first_of(*piece->reference);
      const auto index = parse_index(name);
      const bool earlier = index ? *index < calls_.size() : !name.empty() && ids_.contains(name);
      if (!earlier) {
        return wrong(where, "${" + std::string(*piece->reference) + "}: no earlier call is \"" + std::string(name) +
                                "\"; \"$${\" is a \"${\" that refers to nothing");
      }
    }
    return !cutter.broken() || wrong(where, std::string(unended_reference));
  }

  // A name as a step of a JSON pointer.
  static std::string pointer_of(std::string_view name) {
    std::string pointer;
    append_pointer_escaped(pointer, name.substr(0, 200));
    return pointer;
  }

  const CallLimits& limits_;
  const std::span<const std::string> own_;
  std::vector<Call> calls_;
  std::set<std::string, std::less<>> ids_;
  std::string at_;
  bool is_string_ = false;
  CallFault fault_;
};

}  // namespace

std::expected<std::vector<Call>, CallFault> parse_calls(std::string_view json, const CallLimits& limits,
                                                        std::span<const std::string> own) {
  return Parser(limits, own).parse(json);
}

}  // namespace sluice::api::batch
