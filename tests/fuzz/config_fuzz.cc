#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>

#include "app/config/load.h"
#include "app/config/statement.h"
#include "fuzzing.h"

// The whole loader without the file system. Any texts of files gives a configuration or a list of errors that can be
// rendered, and every character of a statement has a position in the file.
namespace {

using namespace sluice;
using namespace sluice::app::config;
using sluice::fuzz::require;

std::optional<std::string> environment(std::string_view name) {
  if (name == "A") return "a";
  if (name == "LONG") return std::string(300, 'x');
  if (name == "EMPTY") return "";
  return {};
}

std::expected<std::string, std::string> read_secret(std::string_view path, Position) {
  if (path == "a") return "a secret\n";
  return std::unexpected("cannot be read");
}

// The bytes \x1e separate the main file from those that it includes.
Source source_of(std::string_view text) {
  const auto take = [&] {
    const std::string file(text.substr(0, text.find('\x1e')));
    text.remove_prefix(std::min(file.size() + 1, text.size()));
    return file;
  };
  Source source("fuzz.toml", take());
  while (!text.empty()) source.include("fuzz.toml:included", take());
  return source;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  auto config = parse(source_of(text), environment, read_secret);
  if (!config) {
    require(!config.error().list.empty());
    require(config.error().text().starts_with("fuzz.toml:"));
    return 0;
  }
  for (const auto& endpoint : config->options.endpoints) {
    require(!endpoint.path.value.empty() && !endpoint.database.value.empty());
    require(!endpoint.get.value.empty() || !endpoint.writing_methods().empty());
    std::uint32_t characters = count_characters(endpoint.get.value);
    Position before = endpoint.get.position;
    for (std::uint32_t i = 1; i <= characters && i < 1000; ++i) {
      Position at = config->source.locate(endpoint.get.position, i);
      require(at >= before);
      before = at;
    }
    sql::Error error{.failure = sql::Failure::statement, .sqlstate = {}, .message = "no", .position = characters};
    require(!config->source.render(statement_refused("endpoint", endpoint.get, error, config->source)).empty());
    std::vector<Diagnostic> unused;
    check_parameters(endpoint, {}, sluice::sql::PlaceholderStyle::dollar, config->source, unused);
    std::vector<std::string> warnings;
    (void)check_quoted(endpoint, endpoint.get, sluice::sql::PlaceholderStyle::question, config->source, unused,
                       warnings);
    for (const Diagnostic& one : unused) require(!config->source.render(one).empty());
  }
  return 0;
}
