#include "http/entity_tag.h"

#include <algorithm>

namespace sluice::http {

std::string_view next_entity_tag(std::string_view& list) {
  for (;;) {
    while (!list.empty() && (list[0] == ' ' || list[0] == '\t' || list[0] == ',')) list.remove_prefix(1);
    if (list.empty()) return {};
    const std::size_t quote = list.starts_with("W/") ? 2 : 0;
    std::size_t end = std::string_view::npos;
    if (list.size() > quote && list[quote] == '"') end = list.find('"', quote + 1);
    if (end != std::string_view::npos) {
      std::size_t next = end + 1;
      while (next < list.size() && (list[next] == ' ' || list[next] == '\t')) ++next;
      if (next == list.size() || list[next] == ',') {
        const std::string_view tag = list.substr(0, end + 1);
        list.remove_prefix(next);
        return tag;
      }
    }
    const auto comma = list.find(',');
    list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma);
  }
}

bool mixes_any(std::span<const Field> fields, std::string_view name) {
  std::size_t members = 0;
  bool any = false;
  for (const Field& field : fields) {
    if (!same_name(field.name, name)) continue;
    for (std::string_view list = field.value;;) {
      const auto begin = list.find_first_not_of(" \t,");
      if (begin == list.npos) break;
      list.remove_prefix(begin);
      any |= list[0] == '*';
      ++members;
      // A tag may contain commas.
      const std::size_t quote = list.starts_with("W/") ? 2 : 0;
      const std::size_t close = list.substr(quote).starts_with('"') ? list.find('"', quote + 1) : list.npos;
      list.remove_prefix(std::min(list.find(',', close == list.npos ? 0 : close), list.size()));
    }
  }
  return any && members > 1;
}

Response refuse_mixed_any() { return problem(400, "A condition is \"*\" or a list of entity-tags, not both."); }

}  // namespace sluice::http
