#include "http/server.h"

#include <algorithm>
#include <new>
#include <utility>

#include "http/h1/connection.h"
#include "http/h1/response.h"
#include "http/h2/engine.h"

namespace sluice::http {
namespace {

constexpr std::size_t most_spare_workspaces = 128;
constexpr std::size_t spare_buffer_bytes = 128 * 1024;  // a larger buffer is freed after its request

net::AcceptorOptions acceptor_options(const ServerOptions& options) {
  return {.descriptors = options.descriptors, .trouble = options.trouble};
}

}  // namespace

std::vector<std::string> alpn_protocols(bool http1, bool http2) {
  std::vector<std::string> offered;
  if (http2) offered.emplace_back("h2");
  if (http1) offered.emplace_back("http/1.1");
  return offered;
}

struct Server::Shared {
  h1::DateCache date;
  Instant date_turn = never;
  std::int64_t second = -1;
  std::string_view date_text;
};

Server::Server(core::Reactor& reactor, Handler& dispatcher, ServerOptions options, Observer* observer)
    : reactor_(reactor),
      dispatcher_(dispatcher),
      options_(std::move(options)),
      observer_(observer),
      bodies_(reactor, options_.body_memory, counters_.bodies),
      shared_(std::make_unique<Shared>()),
      acceptor_(reactor, *this, acceptor_options(options_)) {
  spare_workspaces_.reserve(most_spare_workspaces);
}

Server::~Server() {
  acceptor_.stop();
  cut();
}

void Server::cut() {
  running_.cancel();
  while (newest_ != nullptr) close(*newest_);
}

Result<core::Address> Server::listen(const core::Address& address, bool secure) {
  SLUICE_ASSERT(!secure || tls_context_ != nullptr);
  return acceptor_.listen(address, secure);
}

Result<void> Server::listen_on(std::span<const net::Listening> wanted) {
  SLUICE_ASSERT(tls_context_ != nullptr || std::ranges::none_of(wanted, &net::Listening::secure));
  return acceptor_.listen_on(wanted);
}

core::Handle& Server::next_handle() {
  if (!prepared_) prepared_ = std::make_unique<h1::Connection>(*this);
  return prepared_->handle();
}

void Server::accepted(const core::Address& peer, bool secure) {
  ++counters_.accepted;
  if (!admit(*prepared_)) return prepared_.reset();
  prepared_->begin(peer);
  if (options_.proxy_protocol && options_.proxy_protocol->trusts(peer.ip())) prepared_->begin_with_proxy_header();
  if (secure) prepared_->begin_with_tls(tls_context_);
  open(std::move(prepared_));
}

void Server::dropped(net::Acceptor::Dropped why) noexcept {
  if (why == net::Acceptor::Dropped::no_memory) {
    ++counters_.out_of_memory;
  } else {
    ++counters_.accepted;
    ++counters_.refused;
  }
  prepared_.reset();
}

bool Server::admit(h1::Connection& connection) {
  if (counters_.open < options_.connections) return true;
  if (options_.makes_room) {
    make_room();
    return true;
  }
  ++counters_.refused;
  // A limited number of further connections get a 503; all others are closed at once.
  if (counters_.open >= options_.connections + options_.connections / 8 + 16) return false;
  connection.refuse_all();
  return true;
}

// Closes the connection at once, so that its descriptor is free for the next one.
void Server::make_room() {
  h1::Connection* goes = newest_;
  for (h1::Connection* each = newest_; each != nullptr; each = each->next_) {
    if (goes->awaits_answer() || !each->awaits_answer()) goes = each;
  }
  if (goes == nullptr) return;
  if (!goes->watching()) {
    goes->stream_.cut();
    core::TaskGroup::cancel(*goes->task_);
  }
  close(*goes);
}

void Server::open(std::unique_ptr<h1::Connection> connection) {
  ++counters_.open;
  h1::Connection& opened = *connection.release();  // the list owns it
  opened.next_ = newest_;
  if (newest_ != nullptr) newest_->previous_ = &opened;
  newest_ = &opened;
  serve(opened);
}

void Server::serve(h1::Connection& connection) {
  try {
    running_.spawn(run(connection), &connection.task_);
  } catch (const std::bad_alloc&) {
    ++counters_.out_of_memory;
    close(connection);
  }
}

core::Task<void> Server::run(h1::Connection& connection) {
  using Next = h1::Connection::Next;
  try {
    Next next = Next::idle;
    while (next == Next::idle) {
      next = co_await connection.run();
      if (next == Next::idle && connection.wait_for_request()) co_return;
    }
    if (next == Next::upgrade) co_await connection.run_upgrade();
    if (next == Next::http2) co_await connection.run_http2();
  } catch (const std::bad_alloc&) {
    ++counters_.out_of_memory;
  }
  close(connection);
}

void Server::close(h1::Connection& connection) {
  if (connection.next_ != nullptr) connection.next_->previous_ = connection.previous_;
  (connection.previous_ != nullptr ? connection.previous_->next_ : newest_) = connection.next_;
  --counters_.open;
  const std::unique_ptr<h1::Connection> last(&connection);
}

void Server::drain() {
  if (draining_) return;
  draining_ = true;
  acceptor_.stop();
  prepared_.reset();
  // drain() may close the connection and thereby remove it from the list.
  for (h1::Connection* connection = newest_; connection != nullptr;) {
    h1::Connection* next = connection->next_;
    try {
      connection->drain();
    } catch (const std::bad_alloc&) {
      ++counters_.out_of_memory;  // this connection is not drained; cut() closes it
    }
    connection = next;
  }
}

void Server::cut_answers_of(const void* owner) {
  for (h1::Connection* connection = newest_; connection != nullptr; connection = connection->next_) {
    connection->cut_answers_of(owner);
  }
}

void Server::cut_pinned(const Pinned& pinned) {
  for (h1::Connection* connection = newest_; connection != nullptr; connection = connection->next_) {
    connection->cut_pinned(pinned);
  }
}

void Server::set_options(ServerOptions options) {
  options.most_body = std::max({options.most_body, options_.most_body, options_.body_limit});
  const bool new_limits = options.header_limit != options_.header_limit ||
                          options.target_limit != options_.target_limit || options.field_limit != options_.field_limit;
  options_ = std::move(options);
  acceptor_.set_options(acceptor_options(options_));
  bodies_.set_limit(options_.body_memory);
  if (http2_) http2_->follow_options();
  if (new_limits) spare_workspaces_.clear();
  for (h1::Connection* connection = newest_; connection != nullptr; connection = connection->next_) {
    connection->follow_options(new_limits);
  }
}

std::unique_ptr<h1::Workspace> Server::take_workspace() {
  if (spare_workspaces_.empty()) {
    return std::make_unique<h1::Workspace>(h1::RequestLimits{
        .head_size = options_.header_limit, .target_size = options_.target_limit, .field_count = options_.field_limit});
  }
  auto workspace = std::move(spare_workspaces_.back());
  spare_workspaces_.pop_back();
  return workspace;
}

void Server::give_back(std::unique_ptr<h1::Workspace> workspace) {
  if (workspace->outdated || spare_workspaces_.size() >= most_spare_workspaces) return;
  for (Buffer* buffer : {&workspace->input, &workspace->body, &workspace->output}) {
    if (buffer->capacity() > spare_buffer_bytes) buffer->release();
    buffer->clear();
  }
  workspace->forget_request();
  spare_workspaces_.push_back(std::move(workspace));
}

h1::ResponseHead Server::start_head(const Exchange& exchange, const Response& response, bool secure) {
  if (shared_->date_turn != reactor_.now()) {
    shared_->date_turn = reactor_.now();
    const std::int64_t wall_clock = reactor_.wall_clock_ns();
    shared_->second = wall_clock / 1'000'000'000;
    shared_->date_text = shared_->date.at(wall_clock);
  }
  AnswerFields* const own = exchange.pin.answer_fields();
  AnswerFields& fields = own != nullptr ? *own : *options_.answer_fields;
  const AnswerFields::Lines lines = fields.lines(secure, shared_->date_text, shared_->second);
  return {.status = response.status,
          .version = exchange.request.version,
          .date = shared_->date_text,
          .server = fields.server_name(),
          .fields = response.fields.items(),
          .trusted = response.fields.trusted(),
          .common = lines.all,
          .always = lines.configured};
}

h2::Engine& Server::http2() {
  if (!http2_) http2_ = std::make_unique<h2::Engine>(reactor_, dispatcher_, options_, observer_, counters_, bodies_);
  return *http2_;
}

}  // namespace sluice::http
