#include "app/commands/keys.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "app/commands/exit_code.h"
#include "app/config/text.h"
#include "gateway/jwt/signing_key.h"
#include "gateway/jwt/token.h"

namespace sluice::app {
namespace {

namespace jwt = gateway::jwt;

struct NewFile {
  std::string path;
  std::string content;
  mode_t mode;
};

// Returns an errno, or 0.
int write_new(const NewFile& file) {
  const int descriptor = ::open(file.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, file.mode);
  if (descriptor < 0) return errno;
  const auto written = ::write(descriptor, file.content.data(), file.content.size());
  const int error = written < 0 ? errno : static_cast<std::size_t>(written) < file.content.size() ? ENOSPC : 0;
  ::close(descriptor);
  if (error != 0) ::unlink(file.path.c_str());
  return error;
}

// Writes all files or none. Returns the error, or an empty text.
std::string write_all(const std::vector<NewFile>& files) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    const int error = write_new(files[i]);
    if (error == 0) continue;
    for (std::size_t done = 0; done < i; ++done) ::unlink(files[done].path.c_str());
    return files[i].path + (error == EEXIST ? ": the file exists, and is not overwritten"
                                            : ": cannot be written: " + std::string(std::strerror(error)));
  }
  return {};
}

}  // namespace

std::string check_key_id(std::string_view text) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  if (!text.empty() && text.size() <= 200 && !text.starts_with('.') && !text.starts_with('-') &&
      std::ranges::all_of(text, is_allowed)) {
    return {};
  }
  return fmt::format(
      "\"{}\" names files: it must be letters, digits, \".\", \"_\" and \"-\", and not begin with \".\" or \"-\"",
      text);
}

int make_keys(const KeysCommand& command, std::FILE* out, std::FILE* errors) {
  const jwt::SigningKey key = jwt::SigningKey::generate(command.algorithm);
  const std::string id = command.id.empty() ? key.short_thumbprint() : command.id;
  const std::string begin = (std::filesystem::path(command.folder) / id).lexically_normal();
  std::vector<NewFile> files;
  std::string policy;
  std::string more;  // an option of `sluice token`
  if (key.kind() == jwt::Key::Kind::secret) {
    files = {{begin + ".secret", key.text(), 0600}};
    policy = fmt::format("secret_file = {}\n", config::quote(files[0].path));
    if (command.algorithm != key.default_algorithm()) {
      policy += fmt::format("algorithms = [\"{}\"]\n", name_of(command.algorithm));
      more = fmt::format(" --alg {}", name_of(command.algorithm));
    }
  } else {
    const std::string set = fmt::format("{{\"keys\":[{{\"kid\":\"{}\",\"alg\":\"{}\",\"use\":\"sig\",{}}}]}}\n", id,
                                        name_of(command.algorithm), key.members());
    files = {{begin + ".key.pem", key.text(), 0600},
             {begin + ".pub.pem", key.public_pem(), 0644},
             {begin + ".jwks.json", set, 0644}};
    policy = fmt::format("jwks = {}\n", config::quote(files[2].path));
  }
  if (const std::string wrong = write_all(files); !wrong.empty()) {
    fmt::print(errors, "sluice: {}\n", wrong);
    return exit_failure;
  }
  fmt::print(out, "# A token: sluice token --key {}{}\n[policy.auth]\ntype = \"jwt\"\n{}", files[0].path, more, policy);
  return exit_ok;
}

}  // namespace sluice::app
