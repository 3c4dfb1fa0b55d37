#include "http/entity_tag.h"

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

}  // namespace sluice::http
