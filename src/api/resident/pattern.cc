#include "api/resident/pattern.h"

#include <span>

namespace sluice::api::resident {

Pattern::Pattern(std::string_view text) : pieces_(1) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escapes = text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == '*' || text[i + 1] == '\\');
    if (text[i] == '*') {
      pieces_.emplace_back();
    } else {
      pieces_.back().push_back(escapes ? text[++i] : text[i]);
    }
  }
}

bool Pattern::matches(std::string_view text) const {
  if (pieces_.size() == 1) return text == beginning();
  if (!text.starts_with(beginning())) return false;
  text.remove_prefix(beginning().size());
  // The first place for each piece leaves the most for the next one.
  for (const std::string& piece : std::span(pieces_).subspan(1, pieces_.size() - 2)) {
    const std::size_t at = text.find(piece);
    if (at == text.npos) return false;
    text.remove_prefix(at + piece.size());
  }
  return text.ends_with(pieces_.back());
}

}  // namespace sluice::api::resident
