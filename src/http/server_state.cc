#include "http/server_state.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "base/buffer.h"
#include "http/h1/response.h"
#include "http/h1/workspace.h"
#include "http/h2/engine.h"

namespace sluice::http {
namespace {

constexpr std::size_t most_spare_workspaces = 128;
constexpr std::size_t spare_buffer_bytes = 128 * 1024;  // a larger buffer is freed after its request

}  // namespace

struct ServerState::Date {
  h1::DateCache cache;
  Instant turn = never;
  std::int64_t second = -1;
  std::string_view text;
};

ServerState::ServerState(core::Reactor& reactor, Handler& dispatcher, ServerOptions options, Observer* observer,
                         ConnectionRunner& runner)
    : reactor(reactor),
      dispatcher(dispatcher),
      options(std::move(options)),
      observer(observer),
      runner(runner),
      bodies(reactor, this->options.body_memory, counters.bodies),
      date_(std::make_unique<Date>()) {
  spare_workspaces_.reserve(most_spare_workspaces);
}

ServerState::~ServerState() = default;

void ServerState::set_options(ServerOptions changed, bool new_limits) {
  changed.most_body = std::max({changed.most_body, options.most_body, options.body_limit});
  options = std::move(changed);
  bodies.set_limit(options.body_memory);
  if (http2_) http2_->follow_options();
  if (new_limits) spare_workspaces_.clear();
}

std::unique_ptr<h1::Workspace> ServerState::take_workspace() {
  if (spare_workspaces_.empty()) {
    return std::make_unique<h1::Workspace>(h1::RequestLimits{
        .head_size = options.header_limit, .target_size = options.target_limit, .field_count = options.field_limit});
  }
  auto workspace = std::move(spare_workspaces_.back());
  spare_workspaces_.pop_back();
  return workspace;
}

void ServerState::give_back(std::unique_ptr<h1::Workspace> workspace) {
  if (workspace->outdated || spare_workspaces_.size() >= most_spare_workspaces) return;
  for (Buffer* buffer : {&workspace->input, &workspace->body, &workspace->output}) {
    if (buffer->capacity() > spare_buffer_bytes) buffer->release();
    buffer->clear();
  }
  workspace->forget_request();
  spare_workspaces_.push_back(std::move(workspace));
}

h1::ResponseHead ServerState::start_head(const Exchange& exchange, const Response& response, bool secure) {
  if (date_->turn != reactor.now()) {
    date_->turn = reactor.now();
    const std::int64_t wall_clock = reactor.wall_clock_ns();
    date_->second = wall_clock / 1'000'000'000;
    date_->text = date_->cache.at(wall_clock);
  }
  AnswerFields* const own = exchange.pin.answer_fields();
  AnswerFields& fields = own != nullptr ? *own : *options.answer_fields;
  const AnswerFields::Lines lines = fields.lines(secure, date_->text, date_->second);
  return {.status = response.status,
          .version = exchange.request.version,
          .date = date_->text,
          .server = fields.server_name(),
          .fields = response.fields.items(),
          .trusted = response.fields.trusted(),
          .common = lines.all,
          .always = lines.configured};
}

h2::Engine& ServerState::http2() {
  if (!http2_) http2_ = std::make_unique<h2::Engine>(reactor, dispatcher, options, observer, counters, bodies);
  return *http2_;
}

}  // namespace sluice::http
