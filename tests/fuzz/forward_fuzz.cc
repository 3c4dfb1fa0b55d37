#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzzing.h"
#include "gateway/proxy/fields.h"
#include "http/h1/parser.h"
#include "http/target.h"

namespace {

using namespace sluice;
using sluice::fuzz::require;

using Change = std::unique_ptr<const gateway::PathChange>;

Change strip(std::string prefix) {
  gateway::RouteOptions options;
  options.strip.emplace(std::move(prefix));
  return std::move(*gateway::PathChange::make(options));
}

Change rewrite(std::string match, std::string to) {
  require(gateway::RewriteOptions::check_to(to).empty());
  gateway::RouteOptions options;
  options.rewrite.emplace();
  options.rewrite->match = {std::move(match)};
  options.rewrite->to = {std::move(to)};
  return std::move(*gateway::PathChange::make(options));
}

// Decoded, as Request::segments.
std::string segments_of(std::string_view target) {
  const std::string_view path = target.substr(0, target.find('?'));
  std::string segments(path.size(), '\0');
  const http::DecodedPath decoded = http::decode_path(path, segments.data());
  require(decoded.fault == http::DecodedPath::Fault::none, "no valid path");
  segments.resize(decoded.size);
  return segments;
}

void check_answer(const gateway::PathChange& change, std::string_view text) {
  http::Request request;
  request.authority = "a";
  http::FieldList fields;
  for (const char* name : {"Location", "Set-Cookie"}) fields.add(name, text);
  gateway::restore_references({.prefix_of = &change}, request, fields);
  std::vector<std::string> once;
  for (const http::Field& field : fields.items()) {
    require(field.value == text || field.value.contains(change.prefix()), "changed in another way");
    once.emplace_back(field.value);
  }
  gateway::restore_references({.prefix_of = &change}, request, fields);
  for (std::size_t i = 0; i < once.size(); ++i) require(fields.items()[i].value == once[i], "the prefix comes twice");
}

}  // namespace

// A byte that chooses how the path is changed, and a request's target. The target that the server gets is an absolute
// path without dot segments. If no expression rewrites it, its segments are those that the route has matched, without
// the prefix that is stripped. The same bytes as fields of an answer: the prefix is added at most once.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Change changes[] = {nullptr,
                                   strip("/a"),
                                   strip("/@a+b/\u00fc"),
                                   rewrite("^/a(.*)$", "/\\1"),
                                   rewrite("(.)(.)(.*)$", "\\2/\\3%2\\1"),
                                   rewrite("([^/]*)/([^/]*)$", "/\\2/\\1")};
  if (size == 0) return 0;
  const auto& change = changes[data[0] % std::size(changes)];
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool strips = change != nullptr && !change->prefix().empty();
  if (strips) check_answer(*change, text);

  http::Request request;
  http::h1::RequestParser parser(request);
  const std::string head = "GET " + std::string(text) + " HTTP/1.1\r\nHost: a\r\n\r\n";
  if (parser.parse(head).state != http::h1::Parsed::State::done) return 0;
  gateway::ForwardedRequest forwarded;
  const auto* const made = forwarded.make(request, "server:1", {.change = change.get()});
  if (made == nullptr) return 0;
  const std::string_view target = made->target;
  require(target.starts_with('/') && !target.starts_with("//"), "no absolute path");
  for (const char c : target) require(c > ' ' && c < '\x7f', "a character that is not visible");
  require(!http::has_dot_segment(target), "a dot segment");
  const std::string segments = segments_of(target);
  if (change == nullptr) require(segments == request.segments, "another path");
  if (strips && segments != request.segments) {
    const std::string whole = segments_of(change->prefix()) + segments;
    require(whole == request.segments || whole == std::string(request.segments) + "/", "another path");
  }
  return 0;
}
