#include "api/version.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>

#include <openssl/evp.h>

#include "http/accept.h"

namespace sluice::api {
namespace {

constexpr std::size_t longest_state = 128;  // of a column's text in a tag; longer texts are hashed
constexpr std::size_t hash_bytes = 16;      // of SHA-256; enough to distinguish states of one row
constexpr std::string_view digits = "0123456789ABCDEF";

// Fails only if there is no memory.
void done(int result) {
  if (result != 1) throw std::bad_alloc();
}

class Hash {
 public:
  Hash() { done(context_ != nullptr ? EVP_DigestInit_ex(context_.get(), sha256(), nullptr) : 0); }
  // Includes the length, so that different lists of texts never give the same bytes.
  void add(std::string_view text) {
    const std::uint64_t size = text.size();
    add(&size, sizeof size);
    add(text.data(), text.size());
  }
  void add(std::uint8_t byte) { add(&byte, 1); }
  [[nodiscard]] std::string hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    done(EVP_DigestFinal_ex(context_.get(), digest, nullptr));
    std::string text;
    for (std::size_t i = 0; i < hash_bytes; ++i) {
      text += digits[digest[i] >> 4];
      text += digits[digest[i] & 15];
    }
    return text;
  }

 private:
  // Kept, because the lookup by name would take most of the time for a short row.
  static const EVP_MD* sha256() {
    static const EVP_MD* const algorithm = [] {
      const EVP_MD* const fetched = EVP_MD_fetch(nullptr, "SHA256", nullptr);
      return fetched != nullptr ? fetched : EVP_sha256();
    }();
    return algorithm;
  }
  void add(const void* data, std::size_t size) { done(EVP_DigestUpdate(context_.get(), data, size)); }

  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_{EVP_MD_CTX_new(), EVP_MD_CTX_free};
};

// Characters that need no escape in a tag. The comma is escaped because careless clients split lists at it.
bool is_plain(char c) { return c > ' ' && c <= '~' && c != '"' && c != ';' && c != '%' && c != ',' && c != '\\'; }

std::string state_of(std::string_view text) {
  std::string state;
  for (const char c : text) {
    if (is_plain(c)) {
      state += c;
    } else {
      const auto code = static_cast<unsigned char>(c);
      state += '%';
      state += digits[code >> 4];
      state += digits[code & 15];
    }
    if (state.size() <= longest_state) continue;
    Hash hash;
    hash.add(text);
    return "%~" + hash.hex();  // an escaped text never begins like this
  }
  return state;
}

}  // namespace

std::optional<Version> Version::of(std::string_view column, std::span<const sql::Column> columns) {
  Version version;
  version.name_ = column;
  if (column == whole_row) return version;
  const auto found = std::ranges::find(columns, column, &sql::Column::name);
  if (found == columns.end()) return std::nullopt;
  version.column_ = static_cast<std::size_t>(found - columns.begin());
  return version;
}

std::optional<std::string> Version::state(const sql::Block& block) const {
  const auto row = block.row(0);
  if (is_whole_row()) {
    Hash hash;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const sql::Column& column = block.columns[i];
      hash.add(column.name);
      const bool dynamic = column.type != nullptr && column.type->form == sql::Form::dynamic;
      // Distinguishes 1 from '1', whose texts are the same.
      hash.add(row[i].is_null() ? std::uint8_t{0xFF}
               : dynamic        ? static_cast<std::uint8_t>(row[i].form)
                                : std::uint8_t{0});
      hash.add(row[i].view());
    }
    return hash.hex();
  }
  std::size_t index = column_;
  if (index >= row.size() || block.columns[index].name != name_) {  // the table has changed since the start
    const auto found = std::ranges::find(block.columns, name_, &sql::Column::name);
    if (found == block.columns.end()) return std::nullopt;
    index = static_cast<std::size_t>(found - block.columns.begin());
  }
  if (row[index].is_null()) return std::nullopt;
  return state_of(row[index].view());
}

std::string tag_of(std::string_view state, sql::Format format, sql::Header header) {
  std::string tag = "\"";
  tag += state;
  if (format != sql::Format::json) {
    tag += ';';
    tag += sql::extension(format);
    if (header == sql::Header::absent) tag += "-bare";
  }
  tag += '"';
  return tag;
}

Conditions::Conditions(const http::Request& request) : request_(request) {
  for (const http::Field& field : request.fields) {
    if (field.name.size() == 8 && http::same_name(field.name, "if-match")) {
      match_ = true;
      wants_anything_ |= field.value == "*";
    } else if (field.name.size() == 13 && http::same_name(field.name, "if-none-match")) {
      none_match_ = true;
      wants_nothing_ |= field.value == "*";
    }
  }
  malformed_ = (match_ && http::mixes_any(request.fields, "if-match")) ||
               (none_match_ && http::mixes_any(request.fields, "if-none-match"));
}

bool Conditions::lists(std::string_view name, std::string_view state, bool strongly) const {
  for (const http::Field& field : request_.fields) {
    if (!http::same_name(field.name, name)) continue;
    std::string_view list = field.value;
    for (auto tag = http::next_entity_tag(list); !tag.empty(); tag = http::next_entity_tag(list)) {
      const bool weak = tag.starts_with("W/");
      if (weak && strongly) continue;
      const std::string_view inside = tag.substr(weak ? 3 : 1);
      if (inside.substr(0, inside.find_first_of(";\"")) == state) return true;
    }
  }
  return false;
}

std::string_view Conditions::known_tag(std::string_view tag) const {
  const std::string_view wanted = tag.substr(0, tag.size() - 1);  // without its closing quote
  for (const http::Field& field : request_.fields) {
    if (!http::same_name(field.name, "if-none-match")) continue;
    std::string_view list = field.value;
    for (auto one = http::next_entity_tag(list); !one.empty(); one = http::next_entity_tag(list)) {
      if (one.starts_with("W/")) one.remove_prefix(2);
      if (!one.starts_with(wanted)) continue;
      std::string_view coding = one.substr(wanted.size(), one.size() - wanted.size() - 1);
      if (coding.empty()) return one;
      if (!coding.starts_with(';')) continue;
      coding.remove_prefix(1);
      if (http::lists_token(request_.field("accept-encoding"), coding)) return one;
    }
  }
  return {};
}

bool Conditions::match_fails(const std::optional<std::string>& state) const {
  return match_ && !wants_anything_ && !(state && lists("if-match", *state, true));
}

Conditions::Verdict Conditions::judge(const std::optional<std::string>& state) const {
  if (malformed_) return Verdict::malformed;
  if (match_fails(state)) return Verdict::stale;
  if (none_match_ && (wants_nothing_ || (state && lists("if-none-match", *state, false)))) return Verdict::known;
  return Verdict::proceed;
}

Conditions::Verdict Conditions::judge(const std::optional<std::string>& state, std::string_view tag) const {
  if (malformed_) return Verdict::malformed;
  if (match_fails(state)) return Verdict::stale;
  if (none_match_ && (wants_nothing_ || (!tag.empty() && !known_tag(tag).empty()))) return Verdict::known;
  return Verdict::proceed;
}

// The line end closes a comment in the last line. FOR UPDATE locks a join's rows in all of its tables.
std::string locking_statement(std::string_view get) {
  const auto last = get.find_last_not_of(" \t\r\n;");
  return "SELECT 1 FROM (" + std::string(get.substr(0, last == get.npos ? 0 : last + 1)) +
         "\n) AS sluice_current FOR UPDATE";
}

std::optional<Version> returned_version(const Version& version, std::string_view name, std::span<const sql::Column> got,
                                        std::span<const sql::Column> returned) {
  if (!version.is_whole_row()) return Version::of(name, returned);
  const bool same = std::ranges::equal(got, returned, [](const sql::Column& a, const sql::Column& b) {
    return a.name == b.name && a.type_id == b.type_id && a.declared_type == b.declared_type;
  });
  return same ? std::optional(version) : std::nullopt;
}

http::Response refuse_stale() { return http::problem(412, "It has changed since it was read."); }
http::Response refuse_existing() { return http::problem(412, "There is one already, or it is still what it was."); }
http::Response refuse_unconditional() {
  return http::problem(428, "Say with If-Match which state is to be changed: the ETag of GET.");
}

}  // namespace sluice::api
