#include "api/batch/call.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include <simdjson.h>

#include "base/ascii.h"
#include "base/json.h"
#include "http/router.h"
#include "http/target.h"

namespace sluice::api::batch {
namespace {

namespace ondemand = simdjson::ondemand;

constexpr std::size_t longest_id = 64;
constexpr std::size_t most_fields = 50;
constexpr std::size_t deepest = 64;  // of objects and arrays, as for the rows of a body

// What the request itself says, and what belongs to its connection.
constexpr std::array<std::string_view, 17> not_a_calls{"authorization",
                                                       "connection",
                                                       "content-encoding",
                                                       "content-length",
                                                       "cookie",
                                                       "date",
                                                       "expect",
                                                       "host",
                                                       "keep-alive",
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

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  }
  return result;
}

std::optional<std::size_t> parse_index(std::string_view text) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  if (!whole || (text.size() > 1 && text.front() == '0')) return std::nullopt;
  return index;
}

// Cuts "a${film.id}b$${c" into what is text and what is a reference: `on_text` and `on_reference` say whether to go on.
// False: one of them has said no, or a reference has no end, which `fault` then says.
template <class OnText, class OnReference>
bool cut(std::string_view text, std::string& fault, OnText on_text, OnReference on_reference) {
  for (;;) {
    const auto at = text.find("${");
    if (at == text.npos) return on_text(text);
    if (at != 0 && text[at - 1] == '$') {
      if (!on_text(text.substr(0, at)) || !on_text("{")) return false;
      text.remove_prefix(at + 2);
      continue;
    }
    const auto end = text.find('}', at);
    if (end == text.npos) {
      fault = "a \"${\" without its \"}\"";
      return false;
    }
    if (!on_text(text.substr(0, at)) || !on_reference(text.substr(at + 2, end - at - 2))) return false;
    text.remove_prefix(end + 1);
  }
}

// The string tokens of a JSON text that are values, with their quotes, and what lies between them.
template <class OnOther, class OnString>
bool cut_json(std::string_view json, OnOther on_other, OnString on_string) {
  std::size_t done = 0;
  for (std::size_t at = json.find('"'); at != json.npos; at = json.find('"', at)) {
    std::size_t end = at + 1;
    while (end < json.size() && json[end] != '"') end += json[end] == '\\' ? 2 : 1;
    end = std::min(end + 1, json.size());
    const auto next = json.find_first_not_of(" \t\r\n", end);
    const bool is_key = next != json.npos && json[next] == ':';
    const std::string_view token = json.substr(at, end - at);
    if (!is_key && token.contains("${")) {
      on_other(json.substr(done, at - done));
      if (!on_string(token)) return false;
      done = end;
    }
    at = end;
  }
  on_other(json.substr(done));
  return true;
}

std::string_view first_of(std::string_view reference) { return reference.substr(0, reference.find('.')); }

std::string escaped(std::string_view text) {
  Buffer out;
  append_json_escaped(out, text);
  return std::string(out.view());
}

class Parser {
 public:
  Parser(const CallLimits& limits, std::span<const std::string> own) : limits_(limits), own_(own) {}

  std::expected<std::vector<Call>, CallFault> parse(std::string_view json) {
    const simdjson::padded_string padded(json);
    simdjson::dom::parser checking;
    if (checking.allocate(std::max<std::size_t>(json.size(), 1), deepest) != simdjson::SUCCESS)
      return refuse("", "it is too long");
    // Nothing is taken from what is not JSON to its end.
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
      ids_.push_back(call.id);
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
        // Of the text as it stands: numbers keep their digits.
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

  // A string is the body of another type itself.
  bool take_body(Call& call) {
    const auto type = std::ranges::find(call.fields, "content-type", &std::pair<std::string, std::string>::first);
    const std::string named = type == call.fields.end() ? "application/json" : lower(type->second);
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
      std::string small = lower(name);
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
    if (!call.id.empty() && std::ranges::find(ids_, call.id) != ids_.end())
      return wrong("/id", "an earlier call has it");
    if (!check_references(call.target, "/path")) return false;
    if (!check_references(call.text, "/body")) return false;
    return cut_json(
        call.body, [](std::string_view) {},
        [&](std::string_view token) { return check_references(token.substr(1, token.size() - 2), "/body"); });
  }

  bool check_references(std::string_view text, std::string_view where) {
    std::string fault;
    const bool good = cut(
        text, fault, [](std::string_view) { return true; },
        [&](std::string_view reference) {
          const std::string_view name = first_of(reference);
          const auto index = parse_index(name);
          const bool earlier =
              index ? *index < calls_.size() : !name.empty() && std::ranges::find(ids_, name) != ids_.end();
          if (!earlier)
            fault = "${" + std::string(reference) + "}: no earlier call is \"" + std::string(name) +
                    "\"; \"$${\" is a \"${\" that refers to nothing";
          return earlier;
        });
    return good || wrong(where, std::move(fault));
  }

  // A name as part of a JSON pointer.
  static std::string pointer_of(std::string_view name) {
    std::string pointer;
    append_pointer_escaped(pointer, name.substr(0, 200));
    return pointer;
  }

  const CallLimits& limits_;
  const std::span<const std::string> own_;
  std::vector<Call> calls_;
  std::vector<std::string> ids_;
  std::string at_;
  bool is_string_ = false;
  CallFault fault_;
};

constexpr std::string_view long_target = "with its references it is longer than a target may be";
constexpr std::string_view too_long = "with its references it is longer than a batch may be";

}  // namespace

std::expected<std::vector<Call>, CallFault> parse_calls(std::string_view json, const CallLimits& limits,
                                                        std::span<const std::string> own) {
  return Parser(limits, own).parse(json);
}

void Results::add(std::string_view id, std::string body) {
  const std::size_t size = body.size();
  body.reserve(size + simdjson::SIMDJSON_PADDING);
  results_.push_back({.id = std::string(id), .body = std::move(body), .size = size});
}

std::expected<std::string, std::string> Results::find(std::string_view reference) const {
  const auto missing = [&](std::string_view why) {
    return std::unexpected("${" + std::string(reference) + "}: " + std::string(why));
  };
  const std::string_view name = first_of(reference);
  const auto index = parse_index(name);
  const auto result =
      index ? (*index < results_.size() ? results_.begin() + static_cast<std::ptrdiff_t>(*index) : results_.end())
            : std::ranges::find(results_, name, &Result::id);
  if (result == results_.end()) return missing("there is no such call");
  if (result->size == 0) return missing("the call's answer has no JSON");
  ondemand::parser parser;
  ondemand::document document;
  ondemand::value value;
  const simdjson::padded_string_view json(result->body.data(), result->size, result->body.capacity());
  std::string_view rest = reference.substr(name.size());
  if (parser.iterate(json).get(document) != simdjson::SUCCESS) return missing("the call's answer has no JSON");
  if (rest.empty()) return result->body;
  if (document.get_value().get(value) != simdjson::SUCCESS)
    return missing("the answer is neither an object nor an array");
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::string_view step = rest.substr(0, rest.find('.'));
    rest.remove_prefix(step.size());
    ondemand::array array;
    ondemand::object object;
    ondemand::value inner;
    if (value.get_object().get(object) == simdjson::SUCCESS) {
      if (object.find_field_unordered(step).get(inner) != simdjson::SUCCESS)
        return missing("there is no \"" + std::string(step) + "\"");
    } else if (value.get_array().get(array) == simdjson::SUCCESS) {
      const auto place = parse_index(step);
      if (!place || array.at(*place).get(inner) != simdjson::SUCCESS)
        return missing("there is no \"" + std::string(step) + "\"");
    } else {
      return missing("there is nothing in which \"" + std::string(step) + "\" could be");
    }
    value = inner;
  }
  std::string_view text;
  if (simdjson::to_json_string(value).get(text) != simdjson::SUCCESS) return missing("it cannot be read");
  return std::string(text.substr(0, text.find_last_not_of(" \t\r\n") + 1));
}

std::expected<std::string, std::string> Results::text_of(std::string_view reference) const {
  auto found = find(reference);
  if (!found) return found;
  const auto no_text = [&](std::string_view what) {
    return std::unexpected("${" + std::string(reference) + "}: " + std::string(what) + " cannot stand in a text");
  };
  if (found->starts_with('{') || found->starts_with('[')) return no_text("an object or an array");
  if (*found == "null") return no_text("null");
  if (!found->starts_with('"')) return found;
  const simdjson::padded_string padded(*found);
  ondemand::parser parser;
  ondemand::document document;
  std::string_view text;
  if (parser.iterate(padded).get(document) != simdjson::SUCCESS ||
      document.get_string().get(text) != simdjson::SUCCESS) {
    return no_text("what cannot be read");
  }
  return std::string(text);
}

template <class Write>
bool Results::splice(std::string_view text, std::string& out, std::string& fault, Write write) const {
  const auto add = [&](std::string_view literal) {
    out += literal;
    return true;
  };
  return cut(text, fault, add, [&](std::string_view reference) {
    const auto value = text_of(reference);
    fault = value ? write(reference, *value) : value.error();
    return fault.empty();
  });
}

std::expected<std::string, std::string> Results::resolve_target(std::string_view target, std::size_t most) const {
  std::string out;
  std::string fault;
  const auto write = [&](std::string_view reference, std::string_view value) {
    if (value.size() > most - std::min(out.size(), most)) return std::string(long_target);
    http::append_escaped(out, value);
    return value.empty() ? "${" + std::string(reference) + "}: it is empty" : std::string{};
  };
  if (!splice(target, out, fault, write)) return std::unexpected(std::move(fault));
  if (out.size() > most) return std::unexpected(std::string(long_target));
  // A value is part of one segment: it must not lead to another route, nor choose a format.
  const std::string_view path = target.substr(0, target.find('?'));
  if (path.contains("${") && http::has_dot_segment(out)) {
    return std::unexpected("with its references it has a segment \".\" or \"..\"");
  }
  if (path.contains("${") && http::gains_format(out, target)) {
    return std::unexpected("with its references it ends in an extension, which would choose a format");
  }
  return out;
}

std::expected<std::string, std::string> Results::resolve_text(std::string_view written, std::size_t most) const {
  std::string out;
  std::string fault;
  const auto write = [&](std::string_view, std::string_view value) {
    if (value.size() > most - std::min(out.size(), most)) return std::string(too_long);
    out += value;
    return std::string{};
  };
  if (!splice(written, out, fault, write)) return std::unexpected(std::move(fault));
  return out;
}

std::expected<std::string, std::string> Results::resolve_json(std::string_view json, std::size_t most) const {
  std::string out;
  std::string fault;
  const auto add = [&](std::string_view text) {
    out += text;
    return true;
  };
  const auto has_room = [&](std::string_view value) { return value.size() <= most - std::min(out.size(), most); };
  const auto write = [&](std::string_view, std::string_view value) {
    if (!has_room(value)) return std::string(too_long);
    out += escaped(value);
    return std::string{};
  };
  const bool good = cut_json(json, add, [&](std::string_view token) {
    const std::string_view inside = token.substr(1, token.size() - 2);
    const bool whole = inside.starts_with("${") && inside.find('}') == inside.size() - 1;
    if (whole) {
      const auto value = find(inside.substr(2, inside.size() - 3));
      if (!value) {
        fault = value.error();
      } else if (!has_room(*value)) {
        fault = too_long;
      } else {
        out += *value;
      }
      return fault.empty();
    }
    out += '"';
    if (!splice(inside, out, fault, write)) return false;
    out += '"';
    return true;
  });
  if (!good) return std::unexpected(std::move(fault));
  return out;
}

}  // namespace sluice::api::batch
