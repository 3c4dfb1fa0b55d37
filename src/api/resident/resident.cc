#include "api/resident/resident.h"

#include <algorithm>
#include <ranges>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "api/query_names.h"
#include "api/refusals.h"
#include "base/json.h"
#include "http/query_string.h"

namespace sluice::api::resident {
namespace {

// Up to this many rows, select() runs on the core itself.
constexpr std::uint64_t effort_here = 16 * 1024;
// Answers up to this size are encoded at once. Longer ones are encoded piece by piece as the client reads them.
constexpr std::uint64_t whole_rows = 2000;
constexpr std::size_t whole_bytes = 1 << 20;  // it also bounds how long a core encodes without a pause

http::Response refuse(const Refused& refused) { return refuse_parameter(refused.parameter, refused.detail); }

http::Response without_csv(const Preference& preference) {
  http::Response refused =
      http::problem(406, "The resource is there as application/json, application/x-ndjson and application/csj.");
  if (preference.negotiated) refused.fields.add_trusted("Vary", "Accept");
  return refused;
}

// Whether an answer probably takes at most whole_bytes. For rows kept as JSON the size is known exactly.
bool fits_whole(const Table& table, const Selection& selection) {
  if (table.packed() != nullptr) {
    return table.json_bytes() / std::max<std::uint64_t>(table.size(), 1) * selection.size() <= whole_bytes;
  }
  std::size_t bytes = 0;
  for (std::uint64_t i = 0; i < selection.size() && bytes <= whole_bytes; ++i) {
    bytes += table.object(selection.at(i)).size();
  }
  return bytes <= whole_bytes;
}

// Returns false if the answer exceeds whole_bytes.
bool encode_whole(const Table& table, const Selection& selection, const RowWriter::Wanted& wanted, Buffer& bytes) {
  RowWriter writer(table, wanted);
  writer.begin(bytes);
  for (std::uint64_t i = 0; i < selection.size(); ++i) {
    if (bytes.size() > whole_bytes) return false;
    writer.row(selection.at(i), bytes);
  }
  writer.end(bytes);
  return true;
}

// The first parameter of a query that is not "fields".
std::string other_than_fields(std::string_view query) {
  for (const auto part : std::views::split(query, '&')) {
    const std::string_view pair(part.begin(), part.end());
    std::string name;
    if (http::append_decoded(pair.substr(0, pair.find('=')), name) && !name.empty() && name != "fields") return name;
  }
  return "query";
}

}  // namespace

// A long answer. It keeps its version when a new one is published.
class Resident::RowsBody final : public http::BodySource {
 public:
  RowsBody(std::shared_ptr<const Version> version, RowWriter::Wanted wanted, Selection selection)
      : version_(std::move(version)), selection_(std::move(selection)), writer_(*version_->table, std::move(wanted)) {}

  core::Async<Result<Progress>> pull(Buffer& out) override {
    const std::size_t end = out.size() + piece_bytes;
    if (next_ == 0) writer_.begin(out);
    while (next_ < selection_.size() && out.size() < end) {
      writer_.row(selection_.at(next_), out);
      ++next_;
    }
    if (next_ < selection_.size()) return Result<Progress>(Progress::more);
    writer_.end(out);
    return Result<Progress>(Progress::done);
  }
  const void* owner() const override { return version_.get(); }

 private:
  const std::shared_ptr<const Version> version_;
  const Selection selection_;
  RowWriter writer_;
  std::uint64_t next_ = 0;
};

Resident::Resident(std::shared_ptr<const Plan> plan, TableVersion version, core::Reactor& reactor,
                   core::Mailbox& mailbox, core::BlockingPool& threads, core::MeshPort* mesh)
    : plan_(std::move(plan)),
      reactor_(reactor),
      mailbox_(mailbox),
      threads_(threads),
      cache_(plan_->cache - plan_->cache / 2),
      projections_(plan_->cache / 2) {
  if (mesh != nullptr && mesh->size() > 1 && plan_->shape.on_demand) helpers_ = std::make_shared<Helpers>(*mesh);
  publish(version);
}

void Resident::publish(const TableVersion& version) {
  checked_ = version.checked;
  failing_ = version.failing;
  if (version_ && version_->table == version.table) return;
  auto tags = std::make_shared<Tags>();
  for (const auto format : {sql::Format::json, sql::Format::ndjson, sql::Format::csv, sql::Format::csj}) {
    for (const auto header : {sql::Header::present, sql::Header::absent}) {
      (*tags)[static_cast<std::size_t>(format) * 2 + static_cast<std::size_t>(header)] =
          api::tag_of(version.table->state(), format, header);
    }
  }
  std::erase_if(retired_, [](const auto& version) { return version.expired(); });
  if (version_) retired_.push_back(version_);
  version_ = std::make_shared<const Version>(version.table, std::move(tags));
  cache_.clear();
  projections_.clear();
}

Readings Resident::Counters::readings() const {
  return {
      counter("sluice_resident_answers_cached_total", "Queries whose whole answer was kept.", answers.hits),
      counter("sluice_resident_answers_made_total", "Queries whose answer was put together.", answers.misses),
      gauge("sluice_resident_cache_bytes", "Memory of cached answers and rows, of all cores.",
            answers.bytes + rows_bytes),
      counter("sluice_resident_chunks_elsewhere_total",
              "Chunks of long answers, encoded on demand, that another core than the answering one has encoded.",
              chunks_elsewhere),
  };
}

bool Resident::is_stale() const {
  return plan_->stale_after > Duration{} && reactor_.now() - checked_ > plan_->stale_after;
}

http::Response Resident::too_old() {
  http::Response response = http::problem(503, "The rows of this table are too old.");
  response.fields.add("Retry-After", "1");
  return response;
}

std::optional<http::Response> Resident::judge(const http::Request& request, const Preference& preference) const {
  if (preference.format == sql::Format::csv && !version_->table->has_csv()) return without_csv(preference);
  const Conditions conditions(request);
  if (conditions.none()) [[likely]]
    return std::nullopt;
  const std::string& tag = tag_of(*version_, preference);
  switch (conditions.judge(version_->table->state(), tag)) {
    case Conditions::Verdict::proceed:
      return std::nullopt;
    case Conditions::Verdict::stale:
      return refuse_stale();
    case Conditions::Verdict::malformed:
      return http::refuse_mixed_any();
    case Conditions::Verdict::known:
      break;
  }
  return head_of(preference).not_modified(conditions, tag);
}

AnswerHead Resident::head_of(const Preference& preference) const {
  AnswerHead head{.preference = preference, .cache_control = plan_->cache_control};
  if (failing_) [[unlikely]]
    head.age = reactor_.now() - checked_;
  return head;
}

// The body keeps its version of the table alive; the ETag belongs to that version.
void Resident::fill_head(http::Response& response, const Preference& preference, const Version& version) const {
  response.fields.add_trusted("ETag", tag_of(version, preference));
  response.tag_takes_suffix = true;
  head_of(preference).fill(response);
}

core::Async<http::Response> Resident::list(http::Request& request) {
  const auto preference = preference_of(request);
  if (!preference) return not_acceptable();
  if (is_stale()) return too_old();
  key_.assign(1,
              static_cast<char>('0' + static_cast<int>(preference->format) * 2 + static_cast<int>(preference->header)));
  key_ += request.query;
  const auto* const kept = cache_.find(key_);
  Query query;
  if (kept == nullptr) {
    auto parsed = parse_query(*version_->table, request.query);
    if (!parsed) return refuse(parsed.error());
    query = std::move(*parsed);
  }
  // Conditions apply only if the answer without them would be a success.
  if (auto refusal = judge(request, *preference)) return std::move(*refusal);
  if (kept != nullptr) {
    core::Async<http::Response> response(200);
    fill_head(response.get(), *preference, *version_);
    response.get().fields.add_trusted("X-Total-Count", (*kept)->total);
    response.get().body.emplace<http::SharedBytes>(*kept, (*kept)->bytes.view());
    return response;
  }
  if (effort_of(*version_->table, query) > effort_here) {
    return select_elsewhere(*preference, key_);
  }
  Selection selection = select(*version_->table, query);
  return answer(*preference, std::move(query), std::move(selection), key_, version_);
}

core::Task<http::Response> Resident::select_elsewhere(Preference preference, std::string key) {
  const std::shared_ptr<const Version> version = version_;
  auto query = parse_query(*version->table, std::string_view(key).substr(1));
  if (!query) co_return refuse(query.error());
  // The work may outlive the request, so it holds the table itself.
  auto work = [table = version->table, query = *query] { return select(*table, query); };
  auto selected = co_await threads_.run(mailbox_, std::move(work));
  if (!selected) {
    http::Response response = http::problem(503, "The server is busy.");
    response.fields.add("Retry-After", "1");
    co_return response;
  }
  co_return answer(preference, std::move(*query), std::move(*selected), key, version);
}

http::SharedSpans Resident::pieces(const Selection& selection, sql::Format format,
                                   const std::shared_ptr<const Version>& version) {
  const Table& table = *version->table;
  const bool is_array = format == sql::Format::json;
  if (is_array && selection.is_range) {
    http::SharedSpans whole(version, 3);
    whole.add("[");
    whole.add(table.objects(selection.first, selection.last));
    whole.add("]\n");
    return whole;
  }
  http::SharedSpans spans(version, selection.size() + 2);
  if (is_array) spans.add("[");
  for (std::uint64_t i = 0; i < selection.size(); ++i) {
    const std::uint32_t row = selection.at(i);
    spans.add(is_array && i != 0 ? table.next_object(row) : table.object(row));
  }
  if (is_array) spans.add("]\n");
  return spans;
}

http::Response Resident::answer(const Preference& preference, Query query, Selection selection, std::string_view key,
                                const std::shared_ptr<const Version>& version) {
  const Table& table = *version->table;
  http::Response response;
  fill_head(response, preference, *version);
  std::string total = std::to_string(selection.total);
  RowWriter::Wanted wanted{
      .format = preference.format, .header = preference.header, .object = false, .fields = std::move(query.fields)};
  const bool as_they_are = table.packed() == nullptr && wanted.fields.empty() &&
                           (preference.format == sql::Format::json || preference.format == sql::Format::ndjson);
  const bool is_short = selection.size() <= whole_rows && (as_they_are || fits_whole(table, selection));
  std::optional<http::SharedSpans> spans;
  if (as_they_are && (is_short || (selection.is_range && preference.format == sql::Format::json))) {
    spans = pieces(selection, preference.format, version);
  } else if (!as_they_are && is_short && version == version_) {
    spans = projections_.answer(version->tags, table, selection, wanted, whole_bytes);
  }
  Buffer bytes;
  if (spans) {
    if (version != version_ || !cache_.admits(key, spans->size())) {
      response.fields.add_owned("X-Total-Count", std::move(total));
      response.body.emplace<http::SharedSpans>(std::move(*spans));
      return response;
    }
    (void)bytes.reserve(spans->size());
    for (const std::string_view piece : spans->pieces()) bytes.append(piece);
  } else if (!is_short || !encode_whole(table, selection, wanted, bytes)) {
    response.fields.add_owned("X-Total-Count", std::move(total));
    if (helpers_ && table.packed() != nullptr && ParallelRows::worth(table, selection, wanted)) {
      auto work = std::make_shared<RowsWork>(version->table, std::move(selection), std::move(wanted));
      response.body = std::make_unique<ParallelRows>(version, helpers_, std::move(work));
      return response;
    }
    response.body = std::make_unique<RowsBody>(version, std::move(wanted), std::move(selection));
    return response;
  }
  // An answer is cached at the second request for it.
  auto whole =
      std::make_shared<Answer>(Answer{.tags = version->tags, .bytes = std::move(bytes), .total = std::move(total)});
  response.fields.add_trusted("X-Total-Count", whole->total);
  const bool kept = spans || (version == version_ && cache_.admits(key, whole->bytes.size()));
  if (kept) cache_.store(key, whole);
  const std::string_view view = whole->bytes.view();
  response.body.emplace<http::SharedBytes>(std::move(whole), view, !kept);
  return response;
}

// The row with a key from the client, or Dictionary::none.
std::uint32_t Resident::id_of(std::string_view text) {
  const Index& index = *version_->table->key();
  Key key;
  if (!make_asked_key(index.type(), text, key_, key)) return Dictionary::none;
  std::uint32_t id = index.find(key);
  if (id == Dictionary::none && make_asked_text_key(index.type(), text, key_, key)) id = index.find(key);
  if (id == Dictionary::none && make_asked_bytes_key(index.type(), text, key_, key)) id = index.find(key);
  return id;
}

core::Async<http::Response> Resident::find(http::Request& request) {
  const Table& table = *version_->table;
  std::uint32_t id = Dictionary::none;
  if (!request.extension.empty()) {
    // A key may end like the extension of a format.
    id = id_of(std::string(request.path_values[0]).append(request.extension));
    if (id != Dictionary::none) request.extension = {};
  }
  const auto preference = preference_of(request);
  if (!preference) return not_acceptable();
  if (is_stale()) return too_old();
  std::vector<std::uint32_t> fields;
  if (!request.query.empty()) {
    auto query = parse_query(table, request.query);
    if (query &&
        (!query->conditions.empty() || !query->order.empty() || query->limit != UINT64_MAX || query->offset != 0)) {
      query = std::unexpected(
          Refused{.parameter = other_than_fields(request.query), .detail = "one row takes \"fields\" alone"});
    }
    if (!query) return refuse(query.error());
    fields = std::move(query->fields);
  }
  if (id == Dictionary::none) id = id_of(request.path_values[0]);
  if (id == Dictionary::none) return refuse_missing(request);
  if (auto refusal = judge(request, *preference)) return std::move(*refusal);
  const std::uint32_t row = *table.key()->rows_of(id).begin();
  core::Async<http::Response> answering(200);
  http::Response& response = answering.get();
  fill_head(response, *preference, *version_);
  if (preference->format == sql::Format::json && fields.empty() && table.packed() == nullptr) {
    response.body.emplace<http::SharedBytes>(version_, table.object(row));
    return answering;
  }
  auto answer = std::make_shared<Answer>(Answer{.tags = version_->tags, .bytes = {}, .total = {}});
  RowWriter writer(
      table, {.format = preference->format, .header = preference->header, .object = true, .fields = std::move(fields)});
  writer.begin(answer->bytes);
  writer.row(row, answer->bytes);
  writer.end(answer->bytes);
  const std::string_view view = answer->bytes.view();
  response.body.emplace<http::SharedBytes>(std::move(answer), view, true);
  return answering;
}

}  // namespace sluice::api::resident
