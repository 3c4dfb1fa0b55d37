#include "sql/postgres/listener.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/sleep.h"
#include "sql/postgres/server_error.h"
#include "sql/postgres/session_start.h"
#include "sql/set/table.h"

namespace sluice::sql::postgres {
namespace {

constexpr std::size_t read_size = 64 << 10;

Options for_listening(Options options) {
  options.application_name += " (changes)";
  return options;
}

}  // namespace

Listener::Listener(std::string name, core::Reactor& reactor, Options options, std::vector<Topic> topics,
                   ChangeSink& sink, ListenerOptions timing)
    : ChangeListener(std::move(topics)),
      name_(std::move(name)),
      reactor_(reactor),
      options_(for_listening(std::move(options))),
      sink_(sink),
      timing_(timing),
      trouble_("database " + name_ + ": listening for changes", "answers again", "attempts failed"),
      stream_(reactor),
      answer_(reactor) {}

std::string Listener::catch_up() {
  std::set<std::string> wanted;
  for (const Topic& topic : topics()) {
    if (!topic.channel.empty()) wanted.insert(topic.channel);
  }
  std::string sql;
  for (const std::string& channel : listened_) {
    if (!wanted.contains(channel)) sql += "UNLISTEN " + quoted_identifier(channel) + ";";
  }
  for (const std::string& channel : wanted) {
    if (!listened_.contains(channel)) sql += "LISTEN " + quoted_identifier(channel) + ";";
  }
  listened_ = std::move(wanted);
  has_dropped_ = false;
  return sql;
}

core::Task<void> Listener::run() {
  Duration pause = timing_.first_pause;
  for (;;) {
    const std::uint64_t before = counters_.connections;
    co_await attempt();
    counters_.listening = false;
    answer_.ring();
    stream_.close();
    in_.clear();
    changes_.clear();
    trouble_.met(why_);
    if (counters_.connections != before) pause = timing_.first_pause;
    co_await core::Sleep(reactor_, reactor_.now() + pause);
    pause = std::min(2 * pause, timing_.longest_pause);
  }
}

core::Task<void> Listener::attempt() {
  SessionStart session(options_, tls_, stream_, in_);
  if (!co_await session.run(0)) {
    why_ = session.failure().message;
    co_return;
  }
  why_.clear();
  asked_ = answered_ = 0;
  listened_.clear();
  // It is idle most of the time. PostgreSQL 14 and later have the setting.
  if (!co_await send("SELECT set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name = "
                     "'idle_session_timeout'") ||
      !co_await read(false)) {
    co_return;
  }
  why_.clear();
  for (std::uint64_t taken = topics_made_ + 1; taken != topics_made_;) {
    taken = topics_made_;
    if (!co_await send(catch_up()) || !co_await read(false)) co_return;
    if (!why_.empty()) co_return;  // refused
  }
  ++counters_.connections;
  counters_.listening = true;
  co_await sink_.resumed();
  (void)co_await read(true);
}

core::Task<bool> Listener::send(std::string_view sql) {
  Buffer out;
  write_query(out, sql);
  iovec part{out.data(), out.size()};
  is_sending_ = true;
  ++asked_;
  const auto written = co_await stream_.write({&part, 1}, std::chrono::milliseconds(options_.connect_timeout_ms));
  is_sending_ = false;
  if (!written) why_ = "the connection broke: " + written.error().text();
  co_return written.has_value();
}

core::Task<bool> Listener::read(bool forever) {
  const Duration patience = std::chrono::milliseconds(options_.connect_timeout_ms);
  bool asked = !forever;  // an answer is expected
  for (std::size_t at = 0;;) {
    Message message;
    const Framing framing = frame(in_.data() + at, in_.size() - at, message_limit, message);
    if (framing == Framing::complete) {
      at += message.size;
      asked = !forever;
      // Notifications before resumed() are ignored: a client that reads after resumed() sees those changes.
      if (message.type == 'A' && forever) {
        const auto notification = parse_notification(message.payload);
        if (!notification) {
          why_ = "the server sent a malformed message";
          co_return false;
        }
        take(*notification);
        if (changes_.size() >= most_changes) co_await tell();
        continue;
      }
      if (message.type == 'E') {
        const auto notice = parse_notice(message.payload);
        why_ = notice ? ServerError(*notice).message : "the server sent a malformed message";
        listened_.clear();  // the failed LISTEN may have been rolled back
      }
      if (message.type == 'Z') {
        ++answered_;
        answer_.ring();
      }
      if (message.type == 'Z' && !forever) {
        in_.consume(at);
        co_return true;
      }
      continue;
    }
    if (framing != Framing::need_more) {
      why_ = "the server sent a malformed message";
      co_return false;
    }
    co_await tell();
    in_.consume(std::exchange(at, 0));
    if (forever) trouble_.got_through();
    if (forever && has_dropped_ && asked_ == answered_) {
      if (!co_await send(catch_up())) co_return false;
      asked = true;
    }
    const auto got = co_await stream_.read(in_, read_size, reactor_.now() + (asked ? patience : timing_.silence));
    if (got && *got != 0) continue;
    if (!got && got.error().code == Errc::timed_out && !asked) {
      // Usually an empty query: the cheapest one that the server answers.
      if (asked_ == answered_ && !co_await send(catch_up())) co_return false;
      asked = true;
      continue;
    }
    if (why_.empty()) why_ = "the connection broke: " + (got ? "the server closed it" : got.error().text());
    co_return false;
  }
}

core::Task<void> Listener::settle() {
  const std::uint64_t life = counters_.connections;
  const auto lives = [&] { return counters_.listening && counters_.connections == life; };
  while (lives() && is_sending_) (void)co_await answer_.wait(never);
  if (!lives()) co_return;
  const std::uint64_t mine = asked_ + 1;
  if (!co_await send(catch_up())) co_return;
  while (lives() && answered_ < mine) (void)co_await answer_.wait(never);
}

void Listener::take(const Notification& notification) {
  for (std::size_t i = 0; i < topics().size(); ++i) {
    if (topics()[i].channel == notification.channel) changes_.push_back({.topic = i, .text = notification.payload});
  }
}

core::Task<void> Listener::tell() {
  if (changes_.empty()) co_return;
  co_await sink_.changed(changes_);
  changes_.clear();
}

}  // namespace sluice::sql::postgres
