#include "rooms/protocol.h"

#include <utility>

#include <simdjson.h>

#include "base/buffer.h"
#include "base/json.h"

namespace sluice::rooms {
namespace {

namespace dom = simdjson::dom;

constexpr std::size_t deepest = 64;  // nesting of objects and arrays

std::string quoted(std::string_view text) {
  Buffer out;
  out.push_back('"');
  append_json_escaped(out, text);
  out.push_back('"');
  return std::string(out.view());
}

// The members that the messages of one room have in common.
std::string message(std::string_view type, std::string_view room) {
  std::string text = R"({"type":")";
  text.append(type).append(R"(","room":)").append(quoted(room));
  return text;
}

std::string members_of(const Position& position) {
  return R"("offset":)" + std::to_string(position.offset) + R"(,"epoch":")" + std::to_string(position.epoch) + '"';
}

std::string close(std::string text, std::string_view id) {
  if (!id.empty()) text.append(R"(,"id":)").append(id);
  return text + '}';
}

std::string event(std::string_view name, std::string_view room, const Position& position, std::string_view more) {
  std::string text = "event: ";
  text.append(name).append("\nid: ").append(id_of(position));
  text.append("\ndata: {\"room\":").append(quoted(room)).append(",").append(members_of(position)).append(more);
  return text + "}\n\n";
}

}  // namespace

struct CommandReader::Parser {
  dom::parser parser;
  std::string padded;
};

CommandReader::CommandReader() = default;
CommandReader::~CommandReader() = default;

std::expected<Command, std::string> CommandReader::read(std::string_view message) {
  if (parser_ == nullptr) parser_ = std::make_unique<Parser>();
  parser_->padded.reserve(message.size() + simdjson::SIMDJSON_PADDING);
  parser_->padded = message;
  if (parser_->parser.allocate(std::max<std::size_t>(message.size(), 1), deepest) != simdjson::SUCCESS) {
    return std::unexpected("it is too long");
  }
  dom::object object;
  if (parser_->parser.parse(parser_->padded).get(object) != simdjson::SUCCESS) {
    return std::unexpected("it is no JSON object");
  }
  Command command;
  int kinds = 0;
  bool has_data = false;
  std::optional<std::uint64_t> offset;
  std::optional<std::uint64_t> epoch;
  for (const auto [name, value] : object) {
    const auto room = [&](Command::Kind kind) {
      std::string_view text;
      if (value.get(text) != simdjson::SUCCESS) return false;
      command.kind = kind;
      command.room = text;
      ++kinds;
      return true;
    };
    bool fits = true;
    if (name == "subscribe") {
      fits = room(Command::Kind::subscribe);
    } else if (name == "unsubscribe") {
      fits = room(Command::Kind::unsubscribe);
    } else if (name == "publish") {
      fits = room(Command::Kind::publish);
    } else if (name == "id") {
      fits = value.is_string() || value.is_number();
      command.id = simdjson::minify(value);
      fits = fits && command.id.size() <= longest_id + (value.is_string() ? 2 : 0);
    } else if ((name == "offset" || name == "epoch") && value.is_null()) {
      continue;  // as if it were left out
    } else if (name == "offset") {
      std::uint64_t number = 0;
      fits = value.get(number) == simdjson::SUCCESS;
      offset = number;
    } else if (name == "epoch") {
      std::string_view text;
      fits = value.get(text) == simdjson::SUCCESS;
      epoch = parse_number(text);
    } else if (name == "data") {
      command.data = simdjson::minify(value);
      has_data = true;
    } else {
      fits = false;
    }
    if (!fits)
      return std::unexpected("\"" + std::string(name.substr(0, 40)) + "\" is not expected, or has a wrong type");
  }
  if (kinds != 1) return std::unexpected("it has none, or several, of \"subscribe\", \"unsubscribe\" and \"publish\"");
  if (has_data != (command.kind == Command::Kind::publish)) {
    return std::unexpected("\"data\" is the row of \"publish\"");
  }
  // An epoch that this server never had is one that it does not know.
  if (offset) command.position = Position{.epoch = epoch.value_or(0), .offset = *offset};
  return command;
}

std::string publication_head(std::string_view room, std::uint64_t offset) {
  return message("publication", room) + R"(,"offset":)" + std::to_string(offset) + R"(,"data":)";
}

std::string subscribed(std::string_view room, const Position& position, bool recovered, std::string_view id) {
  return close(
      message("subscribed", room) + ',' + members_of(position) + R"(,"recovered":)" + (recovered ? "true" : "false"),
      id);
}

std::string reset(std::string_view room, const Position& position, std::string_view reason) {
  return close(message("reset", room) + ',' + members_of(position) + R"(,"reason":)" + quoted(reason), {});
}

std::string unsubscribed(std::string_view room, int status, std::string_view detail, std::string_view id) {
  std::string text = message("unsubscribed", room) + R"(,"status":)" + std::to_string(status);
  if (!detail.empty()) text += R"(,"detail":)" + quoted(detail);
  return close(std::move(text), id);
}

std::string published(std::string_view room, int status, std::string_view id) {
  return close(message("published", room) + R"(,"status":)" + std::to_string(status), id);
}

std::string refused(std::string_view room, int status, std::string_view problem, std::string_view retry_after,
                    std::string_view id) {
  std::string text = message("error", room);
  // The problem may have a type of its own, which must not hide that of the message.
  dom::parser parser;
  dom::object object;
  bool has_status = false;
  if (parser.parse(problem.data(), problem.size()).get(object) == simdjson::SUCCESS) {
    for (const auto [name, value] : object) {
      if (name == "type" || name == "room" || name == "id") continue;
      has_status = has_status || name == "status";
      text.append(",").append(quoted(name)).append(":").append(simdjson::minify(value));
    }
  }
  if (!has_status) text += R"(,"status":)" + std::to_string(status);
  if (parse_number(retry_after)) text.append(R"(,"retry_after":)").append(retry_after);
  return close(std::move(text), id);
}

std::string subscribed_event(std::string_view room, const Position& position, bool recovered) {
  return event("subscribed", room, position, recovered ? R"(,"recovered":true)" : R"(,"recovered":false)");
}

std::string reset_event(std::string_view room, const Position& position, std::string_view reason) {
  return event("reset", room, position, ",\"reason\":" + quoted(reason));
}

void append_event(Buffer& out, const Position& position, std::string_view data) {
  out.append("id: ");
  out.append(id_of(position));
  out.append("\ndata: ");
  // A json column may have line ends between its tokens.
  for (std::size_t at = 0; at < data.size();) {
    const std::size_t end = std::min(data.find_first_of("\r\n", at), data.size());
    out.append(data.substr(at, end - at));
    at = end + 1;
  }
  out.append("\n\n");
}

}  // namespace sluice::rooms
