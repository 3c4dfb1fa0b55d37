#include "http/claims.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>

#include <simdjson.h>

namespace sluice::http {

class Claims::Builder {
 public:
  explicit Builder(Claims& claims) : claims_(claims) {}

  // Returns false if a name occurs twice or a limit is exceeded.
  bool add_members(const simdjson::dom::object& object, std::string_view path, std::size_t depth) {
    if (depth > max_depth) return false;
    std::vector<std::string_view> names;
    for (const auto member : object) {
      names.push_back(member.key);
      const auto name = depth == 1 ? keep(member.key) : keep(path, member.key);
      if (!name) return false;
      const std::size_t index = claims_.claims_.size();
      if (!take(sizeof(Claim))) return false;
      Claim claim;
      claim.path = *name;
      claim.depth = static_cast<std::uint8_t>(depth);
      claims_.claims_.push_back(claim);
      if (!fill(claim, member.value, depth)) return false;
      claims_.claims_[index] = claim;
      simdjson::dom::object inner;
      if (claim.kind == Claim::Kind::object && member.value.get(inner) == simdjson::SUCCESS &&
          !add_members(inner, *name, depth + 1)) {
        return false;
      }
    }
    std::ranges::sort(names);
    return std::ranges::adjacent_find(names) == names.end();
  }

  void finish() {
    auto& all = claims_.claims_;
    std::ranges::sort(
        all, [](const Claim& a, const Claim& b) { return std::tie(a.path, a.depth) < std::tie(b.path, b.depth); });
    const auto deeper = std::ranges::unique(all, {}, &Claim::path);
    all.erase(deeper.begin(), deeper.end());
  }

 private:
  bool take(std::size_t bytes) {
    claims_.bytes_ += bytes;
    return claims_.bytes_ <= max_bytes;
  }
  std::optional<std::string_view> keep(std::string_view text) {
    if (!take(text.size())) return std::nullopt;
    return copy({}, {}, text);
  }
  std::optional<std::string_view> keep(std::string_view path, std::string_view name) {
    if (!take(path.size() + 1 + name.size())) return std::nullopt;
    return copy(path, ".", name);
  }
  std::string_view copy(std::string_view a, std::string_view b, std::string_view c) {
    const std::size_t size = a.size() + b.size() + c.size();
    char* const bytes = static_cast<char*>(claims_.memory_.allocate(std::max<std::size_t>(size, 1), 1));
    char* to = bytes;
    for (const std::string_view part : {a, b, c}) to = std::ranges::copy(part, to).out;
    return {bytes, size};
  }

  bool fill(Claim& claim, const simdjson::dom::element& value, std::size_t depth) {
    using Type = simdjson::dom::element_type;
    std::string_view text;
    std::string written;
    if (value.type() == Type::STRING) {
      claim.kind = Claim::Kind::string;
      text = value.get_string().value_unsafe();
    } else {
      written = simdjson::minify(value);
      text = written;
    }
    const auto kept = keep(text);
    if (!kept) return false;
    claim.text = *kept;
    switch (value.type()) {
      case Type::STRING:
        return true;
      case Type::NULL_VALUE:
        claim.kind = Claim::Kind::null;
        return true;
      case Type::BOOL:
        claim.kind = Claim::Kind::boolean;
        return true;
      case Type::INT64:
      case Type::UINT64:
      case Type::DOUBLE:
        claim.kind = Claim::Kind::number;
        return true;
      case Type::OBJECT:
        claim.kind = Claim::Kind::object;
        return true;
      case Type::ARRAY:
        claim.kind = Claim::Kind::array;
        return fill_items(claim, value.get_array().value_unsafe(), depth + 1);
    }
    return false;
  }

  bool fill_items(Claim& claim, const simdjson::dom::array& array, std::size_t depth) {
    if (depth > max_depth) return false;
    std::size_t count = 0;
    for ([[maybe_unused]] const auto item : array) ++count;
    if (!take(count * sizeof(Claim))) return false;
    if (count == 0) return true;
    auto* const items = static_cast<Claim*>(claims_.memory_.allocate(count * sizeof(Claim), alignof(Claim)));
    std::uninitialized_default_construct_n(items, count);
    claim.items = {items, count};
    for (std::size_t i = 0; const auto item : array) {
      items[i].depth = static_cast<std::uint8_t>(depth);
      if (!fill(items[i], item, depth) || !is_sound(item, depth)) return false;
      ++i;
    }
    return true;
  }

  // Objects in arrays are stored only as text, but the same rules apply to them.
  static bool is_sound(const simdjson::dom::element& value, std::size_t depth) {
    simdjson::dom::object object;
    if (value.get(object) != simdjson::SUCCESS) return true;
    if (depth + 1 > max_depth) return false;
    std::vector<std::string_view> names;
    for (const auto member : object) {
      names.push_back(member.key);
      if (!are_sound(member.value, depth + 1)) return false;
    }
    std::ranges::sort(names);
    return std::ranges::adjacent_find(names) == names.end();
  }
  static bool are_sound(const simdjson::dom::element& value, std::size_t depth) {
    simdjson::dom::array array;
    if (value.get(array) != simdjson::SUCCESS) return is_sound(value, depth);
    if (depth + 1 > max_depth) return false;
    return std::ranges::all_of(array, [&](const auto& item) { return are_sound(item, depth + 1); });
  }

  Claims& claims_;
};

std::shared_ptr<const Claims> Claims::parse(std::string_view json) {
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  if (parser.parse(json.data(), json.size()).get(object) != simdjson::SUCCESS) return nullptr;
  const std::shared_ptr<Claims> claims(new Claims);
  Builder builder(*claims);
  if (!builder.add_members(object, {}, 1)) return nullptr;
  builder.finish();
  return claims;
}

const Claim* Claims::find(std::string_view path) const {
  const auto found = std::ranges::lower_bound(claims_, path, {}, &Claim::path);
  return found != claims_.end() && found->path == path ? &*found : nullptr;
}

}  // namespace sluice::http
