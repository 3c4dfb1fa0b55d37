#include "login/keys.h"

#include <utility>

#include <fmt/format.h>

#include "base/contains.h"
#include "core/whole_file.h"
#include "gateway/digest.h"

namespace sluice::login {
namespace {

namespace jwt = gateway::jwt;

constexpr std::size_t largest_file = 64 << 10;

std::expected<jwt::SigningKey, std::string> parse(std::string_view text) {
  auto key = jwt::SigningKey::parse(text);
  if (!text.contains("-----BEGIN")) return std::unexpected("it is no private key in PEM; `sluice keys` makes one");
  return key;
}

}  // namespace

std::expected<std::shared_ptr<const Keys>, jwt::KeyProblem> Keys::load(const Options& options) {
  struct Text {
    Position position;
    std::string name;
    std::string text;
  };
  std::vector<Text> texts;
  if (options.signing_key) {
    texts.push_back({options.signing_key->position, "\"signing_key\"", options.signing_key->value});
  }
  for (const auto& [path, position] : options.signing_keys) {
    auto text = core::read_whole_file(path, largest_file);
    if (!text) return std::unexpected(jwt::KeyProblem{position, path + ": " + text.error()});
    texts.push_back({position, path, std::move(*text)});
  }
  std::shared_ptr<Keys> made(new Keys);
  jwt::KeySet set;
  std::vector<std::string> ids;
  std::string members;
  for (const auto& [position, name, text] : texts) {
    const auto wrong = [&](const std::string& why) {
      return std::unexpected(jwt::KeyProblem{position, name + ": " + why});
    };
    auto key = parse(text);
    if (!key) return wrong(key.error());
    jwt::Algorithm algorithm = key->default_algorithm();
    if (options.algorithm && made->keys_.empty()) {
      algorithm = options.algorithm->value;
      if (const std::string misfit = key->check(algorithm); !misfit.empty()) {
        return std::unexpected(jwt::KeyProblem{options.algorithm->position, misfit});
      }
    } else if (options.algorithm && key->check(options.algorithm->value).empty()) {
      algorithm = options.algorithm->value;  // an older key of the same kind
    }
    const std::string id = key->short_thumbprint();
    if (contains(ids, id)) return wrong("it is there twice");
    auto verifying = jwt::Key::from_pem(key->public_pem(), id);
    if (verifying) verifying = (*verifying)->with(algorithm);
    if (!verifying) return wrong(verifying.error());
    set.keys.push_back(std::move(*verifying));
    members += fmt::format(R"({}{{{},"kid":"{}","alg":"{}","use":"sig"}})", members.empty() ? "" : ",", key->members(),
                           id, jwt::name_of(algorithm));
    if (made->keys_.empty()) {
      made->algorithm_ = algorithm;
      made->id_ = id;
    }
    ids.push_back(id);
    made->keys_.push_back(std::move(*key));
  }
  made->verifying_ = std::make_shared<const jwt::KeySet>(std::move(set));
  made->jwks_ = "{\"keys\":[" + members + "]}";
  return made;
}

std::string Keys::sign(std::string_view payload) const { return keys_.front().sign(algorithm_, id_, payload); }

std::string Keys::pepper() const { return gateway::Sha256().of("refresh tokens", keys_.front().text()).hex(); }

bool Keys::is_same(const Keys& other) const { return jwks_ == other.jwks_; }

}  // namespace sluice::login
