#include "sql/sqlite/commit_listener.h"

#include <algorithm>
#include <utility>

#include "base/ascii.h"
#include "base/buffer.h"
#include "base/json.h"

namespace sluice::sql {
namespace {

struct Place {
  std::size_t topic = 0;
  std::size_t table = 0;
};

}  // namespace

// Passes changes from the writers' threads to the core. The letter is on its way while `posted_` is true.
class CommitListener::Post final : public CommitObserver,
                                   core::Letter,
                                   public std::enable_shared_from_this<CommitListener::Post> {
 public:
  explicit Post(core::Mailbox& mailbox) : Letter(delivered), mailbox_(mailbox) {}

  // Called on the core.
  void listen_for(std::size_t index, const Topic& topic) {
    const std::lock_guard lock(mutex_);
    std::erase_if(tables_, [&](const auto& one) { return one.second.topic == index; });
    if (pending_.size() <= index) pending_.resize(index + 1);
    pending_[index].assign(topic.tables.size(), false);
    for (std::size_t i = 0; i < topic.tables.size(); ++i) {
      tables_.emplace_back(topic.tables[i], Place{.topic = index, .table = i});
    }
  }

  // Called on a writer's thread.
  void committed(std::span<const std::string> tables) noexcept override {
    const std::lock_guard lock(mutex_);
    bool found = false;
    for (const std::string& changed : tables) {
      for (const auto& [name, place] : tables_) {
        if (!equal_ignoring_case(name, changed)) continue;
        pending_[place.topic][place.table] = true;
        found = true;
      }
    }
    if (!found || posted_) return;
    posted_ = mailbox_.post(*this);
    if (posted_) on_its_way_ = shared_from_this();
  }

  // Called on the core. Returns, for each topic, which of its tables have changed since the last call.
  [[nodiscard]] std::vector<std::vector<bool>> take() {
    const std::lock_guard lock(mutex_);
    auto taken = pending_;
    for (auto& topic : pending_) topic.assign(topic.size(), false);
    return taken;
  }
  std::coroutine_handle<> waiting;  // used on the core
  bool told = false;                // used on the core: a letter has arrived since the last wait

 private:
  static void delivered(core::Letter& letter) noexcept {
    auto& self = static_cast<Post&>(letter);
    std::shared_ptr<Post> last;
    {
      const std::lock_guard lock(self.mutex_);
      self.posted_ = false;
      last = std::move(self.on_its_way_);
    }
    self.told = true;
    if (const auto caller = std::exchange(self.waiting, nullptr)) caller.resume();
  }

  core::Mailbox& mailbox_;
  std::mutex mutex_;  // guards the members below
  std::vector<std::pair<std::string, Place>> tables_;
  std::vector<std::vector<bool>> pending_;
  bool posted_ = false;
  std::shared_ptr<Post> on_its_way_;  // this object, while `posted_`
};

class CommitListener::Wait {
 public:
  explicit Wait(Post& post) : post_(post) {}
  Wait(const Wait&) = delete;
  ~Wait() { post_.waiting = nullptr; }
  bool await_ready() const noexcept { return post_.told; }
  void await_suspend(std::coroutine_handle<> caller) noexcept { post_.waiting = caller; }
  void await_resume() noexcept { post_.told = false; }

 private:
  Post& post_;
};

CommitListener::CommitListener(SqliteWriter& writer, core::Mailbox& mailbox, std::vector<Topic> topics,
                               ChangeSink& sink)
    : ChangeListener(std::move(topics)),
      sink_(sink),
      observers_(writer.observers()),
      post_(std::make_shared<Post>(mailbox)) {
  for (std::size_t i = 0; i < this->topics().size(); ++i) post_->listen_for(i, this->topics()[i]);
  observers_->add(post_);
}

void CommitListener::replace(std::size_t index, Topic topic) {
  post_->listen_for(index, topic);
  ChangeListener::replace(index, std::move(topic));
}

CommitListener::~CommitListener() { observers_->remove(post_.get()); }

core::Task<void> CommitListener::run() {
  for (;;) {
    {
      Wait wait(*post_);
      co_await wait;
    }
    const auto changed = post_->take();
    std::vector<std::string> texts(changed.size());
    std::vector<Change> changes;
    for (std::size_t topic = 0; topic < changed.size(); ++topic) {
      Buffer text;
      for (std::size_t i = 0; i < changed[topic].size(); ++i) {
        if (!changed[topic][i]) continue;
        text.append(text.empty() ? "{\"tables\":[\"" : ",\"");
        append_json_escaped(text, topics()[topic].tables[i]);
        text.push_back('"');
      }
      if (text.empty()) continue;
      text.append("]}");
      texts[topic] = text.view();
      changes.push_back({.topic = topic, .text = texts[topic]});
    }
    if (!changes.empty()) co_await sink_.changed(changes);
  }
}

}  // namespace sluice::sql
