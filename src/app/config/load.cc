#include "app/config/load.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <tuple>

#include <fmt/format.h>

#include "app/config/check.h"
#include "app/config/defaults.h"
#include "app/config/include.h"
#include "app/config/listen.h"
#include "app/config/paths.h"
#include "app/config/reader.h"
#include "core/address.h"
#include "core/whole_file.h"

namespace sluice::app::config {
namespace {

constexpr std::size_t largest_page = 256 << 10;

// "sqlite:films.db?mode=ro" has a relative path; "sqlite::memory:" and "sqlite:file:..." are left unchanged.
void resolve_database(Located<std::string>& url, const Paths& paths) {
  constexpr std::string_view scheme = "sqlite:";
  std::string_view rest = std::string_view(url.value).substr(scheme.size());
  if (rest.starts_with(':') || rest.starts_with("file:")) return;
  url.value = std::string(scheme) + paths.of(rest, url.position);
}

void resolve_listen(Located<std::string>& listen, const Paths& paths) {
  constexpr std::string_view scheme = "unix:";
  const std::string_view written = Listen::parse(listen.value).address;
  if (!written.starts_with(scheme) || written.size() == scheme.size()) return;
  const std::string path = paths.of(written.substr(scheme.size()), listen.position);
  const std::string address = std::string(scheme) + path;
  listen.value.replace(listen.value.size() - written.size(), written.size(), address);
  if (core::Address::parse(address)) return;
  paths.errors.push_back(
      {listen.position, "the path of a unix socket has at most 107 bytes", fmt::format("it would be {}", path)});
}

void read_users(gateway::basic::Options& basic, const Paths& paths) {
  const std::string path = paths.of(*basic.file);
  const auto text = core::read_whole_file(path, largest_file);
  const std::string wrong = text ? basic.add_users(*text) : text.error();
  if (!wrong.empty()) paths.errors.push_back({basic.file->position, fmt::format("{}: {}", basic.file->value, wrong)});
}

// 404.html is for a status, 4xx.html for its class.
int status_of_page(std::string_view name) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (name.size() != 8 || !name.ends_with(".html") || (name[0] != '4' && name[0] != '5')) return 0;
  const int first = name[0] - '0';
  if (name[1] == 'x' && name[2] == 'x') return first;
  return digit(name[1]) && digit(name[2]) ? first * 100 + (name[1] - '0') * 10 + (name[2] - '0') : 0;
}

void read_error_pages(ServerOptions& server, const Paths& paths) {
  const Located<std::string>& pages = *server.error_pages;
  const std::string path = paths.of(pages);
  std::error_code error;
  for (std::filesystem::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    const int status = status_of_page(at->path().filename().string());
    if (status == 0) continue;
    auto text = core::read_whole_file(at->path().string(), largest_page);
    if (!text) return paths.errors.push_back({pages.position, text.error()});
    server.own_error_pages.push_back({.of = status, .html = std::move(*text)});
  }
  if (error) {
    paths.errors.push_back({pages.position, fmt::format("the error pages cannot be read: {}", error.message()),
                            fmt::format("the folder would be {}", path)});
  } else if (server.own_error_pages.empty()) {
    paths.errors.push_back({pages.position, "the folder has no page", "name pages 404.html, 4xx.html or 5xx.html"});
  }
}

void resolve_policy(gateway::PolicyOptions& policy, const Paths& paths) {
  if (auto& basic = policy.of<gateway::basic::Options>(); basic.file) read_users(basic, paths);
  gateway::jwt::Options& jwt = policy.of<gateway::jwt::Options>();
  for (auto* path : {&jwt.secret_file, &jwt.public_key, &jwt.jwks, &jwt.revocations}) {
    if (*path) paths.resolve(**path);
  }
  // Policies with the same file share it, also if they write its path in different ways.
  if (jwt.revocations) {
    std::string& path = jwt.revocations->value;
    path = std::filesystem::path(path).lexically_normal().string();
  }
  paths.resolve(jwt.jwks_ca);
}

void resolve_paths(Options& options, const Paths& paths) {
  for (auto& listen : options.server.listen) resolve_listen(listen, paths);
  resolve_listen(options.admin.listen, paths);
  if (!options.server.access_log_file().empty()) paths.resolve(options.server.access_log);
  if (!options.server.error_log_file().empty()) paths.resolve(options.server.error_log);
  if (options.server.error_pages) read_error_pages(options.server, paths);
  if (options.server.tls) {
    TlsOptions& tls = *options.server.tls;
    for (auto* path : {&tls.cert, &tls.key, &tls.client_ca}) paths.resolve(*path);
    for (CertificateOptions& one : tls.certificates) {
      paths.resolve(one.cert);
      paths.resolve(one.key);
    }
  }
  for (auto& policy : options.policies) resolve_policy(policy.value, paths);
  for (auto& database : options.databases) {
    if (database.value.is_sqlite()) resolve_database(database.value.url, paths);
    database.value.folder = paths.folder(database.value.url.position).string();
  }
  const auto resolve = [&]<class Kind> {
    if constexpr (requires { Kind::resolve(options, paths); }) Kind::resolve(options, paths);
  };
  for_each_kind<ComponentKinds>(resolve);
  for_each_kind<RouteKinds>(resolve);
}

constexpr std::size_t largest_secret = 64 << 10;

// Reads the files of secrets, and warns of files that every user of the machine may read.
class SecretFiles {
 public:
  SecretFiles(const Source& source, std::vector<std::string>& warnings) : source_(source), warnings_(warnings) {}

  std::expected<std::string, std::string> operator()(std::string_view written, Position position) const {
    const FileNames& files = source_.files();
    const std::string path = (std::filesystem::path(files.of(position)).parent_path() / written).string();
    auto text = core::read_whole_file(path, largest_secret);
    if (!text) return text;
    if (text->ends_with('\n')) text->pop_back();
    std::error_code error;
    const auto may = std::filesystem::status(path, error).permissions();
    if (!error && (may & std::filesystem::perms::others_read) != std::filesystem::perms::none) {
      warnings_.push_back(
          fmt::format("{}: every user may read the secret in {}; chmod o-r helps", files.place(position), path));
    }
    return text;
  }

 private:
  const Source& source_;
  std::vector<std::string>& warnings_;
};

// Reads the first file of the source and those that it includes. `may_include`: whether the source does not have these
// yet.
std::optional<Value> read_document(Source& source, const Environment& environment, const ReadSecret& read_secret,
                                   bool may_include, std::vector<Diagnostic>& errors) {
  auto document = parse_document(source, errors);
  if (!document) return {};
  substitute(*document, environment, read_secret, source, errors);
  bool is_whole = !may_include || read_included(*document, source, errors);
  for (std::uint32_t file = 1; file < source.count(); ++file) {
    if (auto included = parse_document(source, errors, file)) {
      substitute(*included, environment, read_secret, source, errors);
      join(*document, std::move(*included), source.files(), errors);
    } else {
      is_whole = false;
    }
  }
  // Without one of the files, most further errors would only follow from that.
  return is_whole ? std::move(document) : std::nullopt;
}

// Fills a configuration that has its source.
void read(Config& config, const std::optional<Value>& document, const Environment& environment,
          std::string_view database_url, std::vector<Diagnostic>& errors) {
  config.options.sources = config.source.files();
  if (!document) return;
  Reader(errors).read(*document, config.options);
  apply_defaults(config.options, errors);
  for (auto& database : config.options.databases) {
    if (!database_url.empty()) database.value.url.value = database_url;
  }
  check(config.options, config.source, environment, errors);
}

}  // namespace

std::expected<Config, Errors> outcome(Examined examined) {
  auto& [config, errors] = examined;
  if (errors.empty()) return std::move(config);
  const auto identity = [](const Diagnostic& one) { return std::tie(one.position, one.message); };
  std::ranges::sort(errors, {}, identity);
  // An error in [defaults] was found again for each table.
  const auto repeated = std::ranges::unique(errors, {}, identity);
  errors.erase(repeated.begin(), repeated.end());
  return std::unexpected(Errors{std::move(config.source), std::move(errors)});
}

std::optional<std::string> process_environment(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

std::expected<Config, Errors> parse(Source source, const Environment& environment, const ReadSecret& read_secret) {
  Examined examined{.config = {.source = std::move(source), .options = {}}, .errors = {}};
  auto& [config, errors] = examined;
  const auto document = read_document(config.source, environment, read_secret, false, errors);
  read(config, document, environment, {}, errors);
  return outcome(std::move(examined));
}

std::expected<std::string, std::string> no_secrets(std::string_view, Position) {
  return std::unexpected("secrets are not read here");
}

std::expected<Source, Errors> read_source(const std::string& path) {
  auto text = core::read_whole_file(path, largest_file);
  if (!text) return std::unexpected(Errors{Source(path, ""), {{{}, text.error()}}});
  return Source(path, std::move(*text));
}

Examined examine(const std::string& path, const Environment& environment, std::string_view database_url) {
  auto source = read_source(path);
  if (!source) {
    Examined failed{.config = {.source = std::move(source.error().source), .options = {}},
                    .errors = std::move(source.error().list)};
    failed.config.options.sources = failed.config.source.files();
    return failed;
  }
  Examined examined{.config = {.source = std::move(*source), .options = {}}, .errors = {}};
  auto& [config, errors] = examined;
  const SecretFiles secrets(config.source, config.warnings);
  const auto document = read_document(config.source, environment, secrets, true, errors);
  read(config, document, environment, database_url, errors);
  resolve_paths(config.options, {config.options.sources, errors});
  return examined;
}

std::expected<Config, Errors> load(const std::string& path, const Environment& environment,
                                   std::string_view database_url) {
  return outcome(examine(path, environment, database_url));
}

}  // namespace sluice::app::config
