#include "api/upload.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "api/body/form_data.h"
#include "api/body/reader.h"
#include "api/refusals.h"

namespace sluice::api {
namespace {

using http::same_name;

// The request's only Content-Type. Returns nullopt if there are several, because readers might disagree on which one
// applies, or if the body has a content coding, which is not supported.
std::optional<std::string_view> content_type(const http::Request& request) {
  std::optional<std::string_view> type;
  for (const http::Field& field : request.fields) {
    if (same_name(field.name, "content-encoding") && !same_name(field.value, "identity")) return std::nullopt;
    if (!same_name(field.name, "content-type")) continue;
    if (type) return std::nullopt;
    type = field.value;
  }
  return type ? type : std::optional<std::string_view>("");
}

std::string called(const UploadPlan::File& file) {
  return file.part.empty() ? "The file" : "The file \"" + file.part + "\"";
}

http::Response refuse_media_type(const UploadPlan::File& file, std::string_view type) {
  std::string detail = called(file) + " may not be " + std::string(type);
  if (!file.types.empty()) {
    detail += "; taken is ";
    for (const std::string& one : file.types) {
      if (&one != file.types.data()) detail += ", ";
      detail += one;
    }
  }
  return http::problem(415, detail + ".");
}

http::Response refuse_file(const UploadPlan::File& file, std::string_view type, std::uint64_t limit,
                           const Error& error) {
  switch (error.code) {
    case Errc::limit:
      return http::problem(413, called(file) + " is longer than " + std::to_string(limit) + " bytes.");
    case Errc::malformed:
      return http::problem(415, called(file) + " does not begin as " + std::string(type) + " does.");
    case Errc::system:
      if (error.detail == ENOSPC || error.detail == EDQUOT) return http::problem(507);
      return http::problem(500);
    default: {
      http::Response response = http::problem(503, "Too many files are on their way.");
      response.fields.add("Retry-After", "1");
      return response;
    }
  }
}

class Receiver {
 public:
  Receiver(const UploadPlan::File& file, http::BlobStore& store, std::string media_type)
      : file_(file), store_(store), type_(std::move(media_type)) {}

  // Returns the refusal, or nullopt. The caller must await the task immediately.
  core::Task<std::optional<http::Response>> write(std::string_view bytes) {
    if (!writer_) {
      if (!store_.takes(type_)) co_return refuse_media_type(file_, type_);
      writer_ = store_.begin(type_);
      if (!writer_) co_return refuse_file(file_, type_, 0, {Errc::closed});
    }
    auto written = co_await writer_->write(bytes);
    if (!written) co_return refuse_file(file_, type_, store_.limit(), written.error());
    co_return std::nullopt;
  }
  core::Task<std::expected<Upload, http::Response>> finish(std::optional<std::string> name) {
    if (!writer_) {
      if (auto refused = co_await write({})) co_return std::unexpected(std::move(*refused));
    }
    auto blob = co_await writer_->finish();
    writer_.reset();
    if (!blob) co_return std::unexpected(refuse_file(file_, type_, store_.limit(), blob.error()));
    co_return Upload{.hash = std::move(blob->hash),
                     .size = std::to_string(blob->size),
                     .type = std::move(type_),
                     .name = std::move(name)};
  }
  [[nodiscard]] bool has_begun() const { return writer_ != nullptr; }

 private:
  const UploadPlan::File& file_;
  http::BlobStore& store_;
  std::string type_;
  std::unique_ptr<http::BlobWriter> writer_;
};

// Appends a name or value to a form and escapes characters that would end it.
void append_form_text(std::string& form, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '%':
        form += "%25";
        break;
      case '&':
        form += "%26";
        break;
      case '+':
        form += "%2B";
        break;
      case '=':
        form += "%3D";
        break;
      default:
        form += c;
    }
  }
}

core::Task<std::expected<Received, http::Response>> receive_whole(const http::Request& request, const UploadPlan& plan,
                                                                  http::BlobStore& store) {
  const UploadPlan::File& file = plan.files[0];
  const auto type = content_type(request);
  if (!type) co_return std::unexpected(http::problem(415, "The body may not be coded, nor have several types."));
  auto media_type = type->empty() ? std::optional<std::string>("application/octet-stream") : bare_media_type(*type);
  if (!media_type || media_type->starts_with("multipart/")) {
    co_return std::unexpected(http::problem(415, "The body is the file itself."));
  }
  if (!store.takes(*media_type)) co_return std::unexpected(refuse_media_type(file, *media_type));
  if (request.body != nullptr) request.body->allow_more(store.limit());
  Receiver receiver(file, store, std::move(*media_type));
  while (request.body != nullptr) {
    auto piece = co_await request.body->read();
    if (!piece) co_return std::unexpected(refuse_body(piece.error()));
    if (piece->empty()) break;
    if (auto refused = co_await receiver.write(*piece)) co_return std::unexpected(std::move(*refused));
  }
  auto upload = co_await receiver.finish(std::nullopt);
  if (!upload) co_return std::unexpected(std::move(upload.error()));
  Received received;
  received.uploads.push_back(std::move(*upload));
  co_return received;
}

class Form {
 public:
  Form(const UploadPlan& plan, std::span<http::BlobStore* const> stores, http::BodyReader& body)
      : plan_(plan), stores_(stores), body_(body) {
    received_.uploads.resize(plan.files.size());
  }

  core::Task<std::optional<http::Response>> begin(FormDataPart& part) {
    if (auto refused = co_await end()) co_return refused;
    part_ = std::move(part);
    if (!is_text(part_.name) || (part_.file_name && !is_text(*part_.file_name))) {
      co_return http::problem(400, "A part's name is not valid UTF-8, or holds the character NUL.");
    }
    const auto file = std::ranges::find(plan_.files, part_.name, &UploadPlan::File::part);
    is_file_ = file != plan_.files.end();
    in_part_ = true;
    if (is_file_) {
      index_ = static_cast<std::size_t>(file - plan_.files.begin());
      if (received_.uploads[index_].hash) co_return http::problem(422, called(*file) + " is there twice.");
      receiver_.emplace(*file, *stores_[index_], part_.media_type);
      co_return std::nullopt;
    }
    if (part_.file_name) {
      co_return http::problem(422, "There is no file \"" + part_.name.substr(0, 100) + "\".");
    }
    if (received_.has_fields) received_.fields += '&';
    received_.has_fields = true;
    auto refused = append(part_.name);
    received_.fields += '=';
    co_return refused;
  }
  core::Task<std::optional<http::Response>> data(std::string_view bytes) {
    if (is_file_) co_return co_await receiver_->write(bytes);
    co_return append(bytes);
  }
  core::Task<std::optional<http::Response>> end() {
    if (!std::exchange(in_part_, false) || !is_file_) co_return std::nullopt;
    // Browsers send this if the user has not selected a file.
    const bool is_none = part_.file_name && part_.file_name->empty() && !receiver_->has_begun();
    if (!is_none) {
      auto upload = co_await receiver_->finish(std::move(part_.file_name));
      if (!upload) co_return std::move(upload.error());
      received_.uploads[index_] = std::move(*upload);
    }
    receiver_.reset();
    co_return std::nullopt;
  }
  [[nodiscard]] Received take() { return std::move(received_); }

 private:
  std::optional<http::Response> append(std::string_view text) {
    if (text.size() > plan_.field_bytes - field_bytes_) {
      return http::problem(413, "The fields are longer than " + std::to_string(plan_.field_bytes) + " bytes.");
    }
    field_bytes_ += text.size();
    const std::size_t before = received_.fields.size();
    append_form_text(received_.fields, text);
    // Counted twice, because the reader of the fields has a copy.
    auto kept = body_.keep(2 * (received_.fields.size() - before));
    return kept ? std::nullopt : std::optional(refuse_body(kept.error()));
  }

  const UploadPlan& plan_;
  std::span<http::BlobStore* const> stores_;
  http::BodyReader& body_;
  std::size_t field_bytes_ = 0;
  Received received_;
  FormDataPart part_;
  std::optional<Receiver> receiver_;
  std::size_t index_ = 0;
  bool in_part_ = false;
  bool is_file_ = false;
};

core::Task<std::expected<Received, http::Response>> receive_form(const http::Request& request, const UploadPlan& plan,
                                                                 std::span<http::BlobStore* const> stores) {
  const auto type = content_type(request);
  const auto boundary = type ? form_data_boundary(*type) : std::nullopt;
  if (!boundary) {
    co_return std::unexpected(http::problem(415, "The body may be multipart/form-data, and not compressed."));
  }
  std::uint64_t files = 0;
  for (const http::BlobStore* store : stores) files += store->limit();
  request.body->allow_more(files);
  FormDataReader reader(*boundary);
  Form form(plan, stores, *request.body);
  for (;;) {
    std::optional<http::Response> refused;
    switch (reader.next()) {
      case FormDataReader::Next::need_more: {
        auto piece = co_await request.body->read();
        if (!piece) co_return std::unexpected(refuse_body(piece.error()));
        if (piece->empty()) {
          reader.finish();
        } else {
          reader.feed(*piece);
        }
        break;
      }
      case FormDataReader::Next::part:
        refused = co_await form.begin(reader.part());
        break;
      case FormDataReader::Next::data:
        refused = co_await form.data(reader.data());
        break;
      case FormDataReader::Next::end:
        refused = co_await form.end();
        if (!refused) co_return form.take();
        break;
      case FormDataReader::Next::broken:
        refused = http::problem(400, "The body is no multipart/form-data: " + reader.fault() + ".");
        break;
    }
    if (refused) co_return std::unexpected(std::move(*refused));
  }
}

}  // namespace

UploadPlan plan_uploads(std::span<Source* const> sources, bool has_fields) {
  UploadPlan plan;
  const auto is_upload = [](const Source* source) { return source->from == From::upload; };
  plan.whole =
      std::ranges::any_of(sources, [&](const Source* source) { return is_upload(source) && source->key.empty(); });
  for (Source* const source : sources) {
    if (!is_upload(source)) continue;
    if (plan.whole && !source->key.empty()) {
      // For the whole body, the key is not a part's name but one of the file's properties.
      const bool is_type = source->key == "type";
      if (source->upload_field != UploadField::hash || (!is_type && source->key != "size")) {
        plan.fault = "\"upload\" is the whole body, and so \"upload." + source->key + "\" is no part of it";
        return plan;
      }
      source->upload_field = is_type ? UploadField::type : UploadField::size;
      source->key.clear();
    }
    auto file = std::ranges::find(plan.files, source->key, &UploadPlan::File::part);
    if (file == plan.files.end()) {
      file = plan.files.emplace(file);
      file->part = source->key;
    }
    source->upload_index = static_cast<std::size_t>(file - plan.files.begin());
    file->required |= source->required;
    if (source->upload_field != UploadField::hash || source->asks_presence) continue;
    if (!file->store.empty() && file->store != source->store) {
      plan.fault = "the file \"" + file->part + "\" goes into two stores";
      return plan;
    }
    file->store = source->store;
  }
  for (const UploadPlan::File& file : plan.files) {
    if (!file.store.empty()) continue;
    plan.fault = "nothing takes the hash of \"upload." + file.part + "\"";
    return plan;
  }
  if (plan.whole && has_fields) plan.fault = "\"upload\" is the whole body, and so it has no fields";
  return plan;
}

core::Task<std::expected<Received, http::Response>> receive_uploads(const http::Request& request,
                                                                    const UploadPlan& plan,
                                                                    std::span<http::BlobStore* const> stores) {
  // If the request has no content, the connection creates no body reader. Content-Length: 0 means an empty file.
  const bool is_empty_file = plan.whole && request.field("content-length") == "0";
  if (request.body == nullptr && !is_empty_file) {
    if (!plan.whole && !form_data_boundary(request.field("content-type"))) {
      co_return std::unexpected(http::problem(415, "The body may be multipart/form-data."));
    }
    co_return std::unexpected(http::problem(400, "The request has no body."));
  }
  if (plan.whole) co_return co_await receive_whole(request, plan, *stores[0]);
  co_return co_await receive_form(request, plan, stores);
}

}  // namespace sluice::api
