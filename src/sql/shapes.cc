#include "sql/shapes.h"

namespace sluice::sql {

std::shared_ptr<Shape> Shapes::find(std::string_view text) {
  const auto found = by_text_.find(text);
  if (found == by_text_.end()) return nullptr;
  used_.splice(used_.begin(), used_, found->second);
  return used_.front();
}

std::shared_ptr<Shape> Shapes::add(Shape shape) {
  while (used_.size() >= most_) {
    by_text_.erase(used_.back()->statement.text);
    used_.pop_back();
    ++evicted_;
  }
  ids_->give(shape.statement);
  used_.push_front(std::make_shared<Shape>(std::move(shape)));
  by_text_.emplace(used_.front()->statement.text, used_.begin());
  return used_.front();
}

Shapes& Database::shapes() {
  if (!shapes_) shapes_ = std::make_shared<Shapes>(ids_);
  return *shapes_;
}

}  // namespace sluice::sql
