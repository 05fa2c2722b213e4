/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/openai/request.h"

#include <string.h>

#include "runtime/base/check.h"

enum { SHOWN_SIZE = 96 };

tp_text tp__openai_request_model(const tp__openai_config *config, const tp_model_request *request) {
  return request->model.size > 0 ? request->model : tp_text_of(config->model);
}

/* ---- fields that hosts add: parameters first, then the body of the options ---- */

/* The two maps that hosts add. The keys of body are the API's names; api_name() translates those of parameters. */
typedef struct extras {
  const tp__openai_form *form;
  tp_text parameters, body;
  bool no_thinking; /* the field is left out */
} extras;

/* The API's name of a parameter; text without data: the API has no such parameter. */
static tp_text api_name(const tp__openai_form *form, tp_text parameter) {
  for (const tp__openai_rename *row = form->renames; row->from; row++)
    if (tp__is_word(parameter, row->from)) return tp_text_of(row->to);
  return parameter;
}

static bool in_parameters(const extras *extra, tp_text name, tp_text *ret_value) {
  for (tp_value_walk walk = {0}; tp_value_next(extra->parameters, &walk);) {
    if (!tp__same(api_name(extra->form, walk.key), name)) continue;
    *ret_value = walk.value;
    return true;
  }
  return false;
}

static bool find_extra(const extras *extra, tp_text name, tp_text *ret_value) {
  if (in_parameters(extra, name, ret_value)) return true;
  for (tp_value_walk walk = {0}; tp_value_next(extra->body, &walk);) {
    if (!tp__same(walk.key, name)) continue;
    *ret_value = walk.value;
    return true;
  }
  return false;
}

static tp_status check_parameters(const extras *extra, tp_fault *fault) {
  for (tp_value_walk walk = {0}; tp_value_next(extra->parameters, &walk);) {
    char shown[SHOWN_SIZE];
    tp__show(shown, sizeof shown, walk.key);
    if (tp__openai_is_fixed(walk.key))
      return tp__refuse(fault, TP_ERR_USAGE, shown, "parameters.%s: it is the request's own and cannot be set", shown);
    if (!api_name(extra->form, walk.key).data)
      return tp__refuse(fault, TP_ERR_USAGE, shown, "parameters.%s: the API %s has nothing like it: leave it out",
                        shown, extra->form->name);
  }
  return TP_OK;
}

static bool is_field(const tp__openai_form *form, tp_text name) {
  for (const tp__openai_field *row = form->fields; row->name; row++)
    if (tp__is_word(name, row->name)) return true;
  return false;
}

static bool is_null(tp_text value) { return tp_value_kind_of(value) == TP_VALUE_NULL; }

/* ---- the fields ---- */

/* Writes the host's fields that are no row of the form; a NULL writer only counts. If a name comes twice, the first one
 * counts. */
static size_t write_others(const extras *extra, tp_writer *writer) {
  size_t count = 0;
  for (int which = 0; which < 2; which++) {
    tp_text map = which == 0 ? extra->parameters : extra->body;
    for (tp_value_walk walk = {0}; tp_value_next(map, &walk);) {
      tp_text name = which == 0 ? api_name(extra->form, walk.key) : walk.key, first;
      if (is_field(extra->form, name) || !find_extra(extra, name, &first)) continue;
      if (first.data != walk.value.data || is_null(walk.value)) continue;
      if (extra->no_thinking && tp__is_word(name, "thinking")) continue; /* see tp__openai_fit.no_thinking */
      count++;
      if (!writer) continue;
      tp_write_text(writer, name);
      tp_write_value(writer, walk.value);
    }
  }
  return count;
}

static bool wants(const tp__openai_field *row, const tp__openai_draft_request *draft, const extras *extra,
                  tp_text *ret_value) {
  *ret_value = (tp_text){NULL, 0};
  if (!row->fixed && find_extra(extra, tp_text_of(row->name), ret_value)) return !is_null(*ret_value);
  return !row->wanted || row->wanted(draft);
}

static void write_fields(tp__openai_draft_request *draft, const extras *extra) {
  size_t count = write_others(extra, NULL);
  tp_text value;
  for (const tp__openai_field *row = extra->form->fields; row->name; row++) count += wants(row, draft, extra, &value);
  tp_write_map(draft->writer, count);
  for (const tp__openai_field *row = extra->form->fields; row->name; row++) {
    if (!wants(row, draft, extra, &value)) continue;
    tp_write_string(draft->writer, row->name);
    if (value.size > 0) tp_write_value(draft->writer, value);
    else row->write(draft);
  }
  (void)write_others(extra, draft->writer);
}

static tp_status encode(tp__openai_draft_request *draft, tp__bytes *json, tp_fault *fault) {
  tp_fault why = {.code = TP_OK};
  tp_text value, text;
  tp_status status = draft->status;
  if (status == TP_OK) status = tp_writer_finish(draft->writer, &value);
  if (status == TP_OK) status = tp_json_encode(value, draft->writer, &text, &why);
  if (status == TP_OK) tp__bytes_put_text(json, text);
  if (json->failed) status = TP_ERR_NO_MEMORY;
  if (status == TP_OK) return TP_OK;
  return tp__refuse(fault, status, NULL, "the request cannot be written as JSON: %s",
                    why.message[0] ? why.message : tp_status_text(status));
}

/* ---- parts ---- */

enum { IMAGES_BYTES_MAX = 64 << 20 };

/** The parts of all messages that are being written into the draft. */
typedef struct parts {
  tp__openai_part *items;
  tp__openai_media *media; /* as many as items */
  size_t *first;           /* by message */
  size_t count, message_count;
  size_t images_left, bytes_left;
} parts;

static size_t last_user(const tp_model_request *request) {
  for (size_t i = request->message_count; i > 0; i--)
    if (request->messages[i - 1]->role == TP_ROLE_USER) return i - 1;
  return SIZE_MAX;
}

static bool reserve_parts(parts *p, const tp_model_request *request) {
  p->message_count = request->message_count;
  p->first = tp__heap_alloc((p->message_count + 1) * sizeof *p->first);
  if (!p->first) return false;
  for (size_t i = 0; i < p->message_count; i++) {
    p->first[i] = p->count;
    p->count += tp_value_count(request->messages[i]->parts);
  }
  p->first[p->message_count] = p->count;
  p->items = tp__heap_alloc((p->count + 1) * sizeof *p->items);
  p->media = tp__heap_alloc((p->count + 1) * sizeof *p->media);
  return p->items && p->media;
}

static void free_parts(parts *p) {
  for (size_t i = 0; p->media && i < p->count; i++) tp__openai_image_fini(&p->media[i]);
  tp__heap_free(p->media, (p->count + 1) * sizeof *p->media);
  tp__heap_free(p->items, (p->count + 1) * sizeof *p->items);
  tp__heap_free(p->first, (p->message_count + 1) * sizeof *p->first);
}

/* ---- one part ---- */

/* Reasons why a part is not sent; they follow the part's name. */
static const char not_any_more[] = "is not sent any more";

/* The text that replaces a file in an earlier message of the user. */
static const tp_text not_sent = {"[an image that is not sent any more]", 36};

typedef struct reading {
  const tp__openai_config *config;
  parts *parts;
  const tp_message *message;
  bool must; /* for the user's newest message: a part that cannot be sent fails the request */
  tp_fault *fault;
} reading;

/* The media types that the APIs accept. Another type would fail this request and each later one. */
static bool is_taken(tp_part_kind kind, tp_text media) {
  static const char *const images[] = {"image/png", "image/jpeg", "image/gif", "image/webp", NULL};
  static const char *const audio[] = {"audio/wav", "audio/mpeg", "audio/mp3", NULL};
  static const char *const files[] = {"application/pdf", NULL};
  const char *const *list = kind == TP_PART_IMAGE ? images : kind == TP_PART_AUDIO ? audio : files;
  while (*list && !tp__is_word(media, *list)) list++;
  return *list != NULL;
}

/* @return the reason why a part of this kind and type is not sent; NULL: it is sent. */
static const char *obstacle(const reading *r, const tp_part *part) {
  const tp__openai_form *form = r->config->form;
  bool by_url = part->bytes.size == 0 && !tp__begins(part->uri, "data:");
  if (!(form->kinds & 1u << part->kind)) return "is not sent: the API takes none";
  if (!(r->config->kinds & 1u << part->kind)) return "is not sent: the model reads none";
  if (r->message->is_error && form->errors_are_text) return "is not sent: the API takes text of a tool that failed";
  if (by_url && (part->kind == TP_PART_AUDIO || (part->kind == TP_PART_FILE && !form->file_urls)))
    return "is not sent: the API takes no URL of it";
  if (by_url) return tp__begins(part->uri, "https://") ? NULL : "is not sent: only data: and https: URLs are";
  return is_taken(part->kind, part->media_type) ? NULL : "is not sent: the API does not take its media type";
}

/* [image chart.bmp (image/bmp, 20,317 bytes) is not sent: …] */
static tp_status write_words(tp__openai_part *item, tp__openai_media *media, const tp_part *part, const char *why) {
  assert(part->kind != TP_PART_TEXT && part->kind != TP_PART_NONE);
  char line[3072];
  (void)tp_part_describe(part, line, sizeof line);
  tp__openai_image_fini(media);
  tp__bytes_put_string(&media->url, "[");
  tp__bytes_put_string(&media->url, line);
  if (why[0]) tp__bytes_put_string(&media->url, " ");
  tp__bytes_put_string(&media->url, why);
  tp__bytes_put_string(&media->url, "]");
  *item = (tp__openai_part){.text = tp__bytes_text(&media->url)};
  return media->url.failed ? TP_ERR_NO_MEMORY : TP_OK;
}

/* A document that is text is sent as text, because every API accepts that. */
static bool is_text_file(const tp_part *part) {
  bool is_text = tp__begins(part->media_type, "text/") || tp__begins(part->media_type, "application/json");
  return part->kind == TP_PART_FILE && is_text && part->bytes.size > 0 && tp_utf8_valid(part->bytes, NULL);
}

static tp_status write_text_file(tp__openai_part *item, tp__openai_media *media, const tp_part *part) {
  tp_status status = write_words(item, media, part, "");
  if (status != TP_OK) return status;
  tp__bytes_put_string(&media->url, "\n");
  tp__bytes_put_text(&media->url, part->bytes);
  item->text = tp__bytes_text(&media->url);
  return media->url.failed ? TP_ERR_NO_MEMORY : TP_OK;
}

static tp_status too_many(tp_fault *fault) {
  return tp__refuse(fault, TP_ERR_TOO_LARGE, "files", "a message takes at most %d images, and 64 MiB of them",
                    TP__OPENAI_IMAGES_MAX);
}

/* Counts the media in the budget of the request. */
static bool count_media(parts *p, const tp__openai_media *media) {
  assert(p->images_left > 0);
  if (media->url.size > p->bytes_left) return false;
  p->bytes_left -= media->url.size;
  p->images_left--;
  return true;
}

/* Reads a file that a user names by path or URL: it must be an image. */
static tp_status read_users_file(const reading *r, const tp_part *part, tp__openai_media *media) {
  tp_fault *fault = r->must ? r->fault : NULL;
  if (!(r->config->kinds & 1u << TP_PART_IMAGE))
    return tp__refuse(fault, TP_ERR_USAGE, "files", "the model reads no images: see tp_openai_options.inputs");
  if (r->parts->images_left == 0) return too_many(fault);
  tp_status status = tp__openai_image_read(part->uri, r->config->files_directory, media, fault);
  if (status != TP_OK) return status;
  media->kind = TP_PART_IMAGE;
  return count_media(r->parts, media) ? TP_OK : too_many(fault);
}

/* @param ret_why  the reason why it is not sent, if that is no error of the request. */
static tp_status read_media(const reading *r, const tp_part *part, tp__openai_media *media, const char **ret_why) {
  *ret_why = obstacle(r, part);
  if (*ret_why) return TP_ERR_USAGE;
  *ret_why = not_any_more;
  if (r->parts->images_left == 0) return TP_ERR_TOO_LARGE;
  tp_status status = tp__openai_media_read(part, media);
  if (status == TP_ERR_USAGE) *ret_why = "is not sent: its data: URL has no base64";
  if (status != TP_OK) return status;
  return count_media(r->parts, media) ? TP_OK : TP_ERR_TOO_LARGE;
}

/* A file of a user's message is named by a path or a URL, and is always an image. */
static bool is_users_file(const reading *r, const tp_part *part) {
  return r->message->role == TP_ROLE_USER && part->bytes.size == 0 &&
         (part->kind == TP_PART_FILE || part->kind == TP_PART_IMAGE) &&
         !(tp__begins(part->uri, "data:") && part->kind == TP_PART_FILE &&
           tp__is_word(part->media_type, "application/pdf"));
}

/* The parts of the user's newest message must be sent. In an older message, which no turn can change any more, and in a
 * tool's result, a text replaces a part that cannot be sent. */
static tp_status read_part(const reading *r, size_t at, tp_text value) {
  assert(at < r->parts->count);
  tp__openai_part *item = &r->parts->items[at];
  tp__openai_media *media = &r->parts->media[at];
  tp_part part = {.struct_size = sizeof part};
  const char *why = not_any_more;
  if (tp_part_read(value, &part, r->fault) != TP_OK) return TP_ERR_USAGE;
  *item = (tp__openai_part){.text = part.text};
  if (part.kind == TP_PART_TEXT) return TP_OK;
  if (part.kind == TP_PART_LINK) return write_words(item, media, &part, "");
  if (is_text_file(&part)) return write_text_file(item, media, &part);
  bool is_file = is_users_file(r, &part);
  tp_status status = is_file ? read_users_file(r, &part, media) : read_media(r, &part, media, &why);
  if (status == TP_OK) item->media = media;
  if (status == TP_OK || status == TP_ERR_NO_MEMORY) return status;
  if (is_file && r->must) return status; /* the fault names it */
  if (is_file) {
    tp__openai_image_fini(media); /* its path is the host's */
    item->text = not_sent;
    return TP_OK;
  }
  if (!r->must) return write_words(item, media, &part, why);
  char line[512];
  (void)tp_part_describe(&part, line, sizeof line);
  return tp__refuse(r->fault, status, "parts", "%s %s", line, why);
}

static tp_status read_request_message(reading *r, const tp_model_request *request, size_t i) {
  assert(i < request->message_count);
  size_t at = r->parts->first[i];
  r->message = request->messages[i];
  for (tp_value_walk walk = {0}; tp_value_next(r->message->parts, &walk); at++) {
    tp_status status = read_part(r, at, walk.value);
    if (status == TP_ERR_NO_MEMORY && r->fault && r->fault->code == TP_OK)
      return tp__refuse(r->fault, status, NULL, "no memory for a request");
    if (status != TP_OK) return status;
  }
  return TP_OK;
}

/* Reads the user's newest message first, because its parts must be sent, then the others from the newest to the oldest.
 * So when there are too many parts, the oldest are left out. */
static tp_status read_parts(const tp__openai_config *config, const tp_model_request *request, parts *p,
                            tp_fault *fault) {
  size_t newest = last_user(request);
  reading r = {.config = config, .parts = p, .must = true, .fault = fault};
  if (!reserve_parts(p, request)) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a request");
  tp_status status = newest < request->message_count ? read_request_message(&r, request, newest) : TP_OK;
  r.must = false;
  for (size_t i = request->message_count; status == TP_OK && i > 0; i--)
    if (i - 1 != newest) status = read_request_message(&r, request, i - 1);
  return status;
}

static tp_status write_with(const tp__openai_config *config, tp__openai_draft_request *draft, tp__bytes *json,
                            tp_fault *fault) {
  extras extra = {.form = config->form,
                  .parameters = draft->request->parameters,
                  .body = {config->body, config->body_size},
                  .no_thinking = draft->fit->no_thinking};
  tp_status status = check_parameters(&extra, fault);
  if (status != TP_OK) return status;
  status = tp_writer_new(tp__heap, &draft->writer);
  if (status != TP_OK) return tp__refuse(fault, status, NULL, "no memory for a request");
  write_fields(draft, &extra);
  status = encode(draft, json, fault);
  tp__bytes_fini(&draft->scratch);
  tp_writer_free(draft->writer);
  return status;
}

/* @param fit  its fitted request is written. */
static tp_status write_fitted(const tp__openai_config *config, const tp__openai_fit *fit, tp__bytes *json,
                              tp_fault *fault) {
  parts p = {.images_left = TP__OPENAI_IMAGES_MAX, .bytes_left = IMAGES_BYTES_MAX};
  tp__openai_draft_request draft = {.request = &fit->request,
                                    .config = config,
                                    .fit = fit,
                                    .model = tp__openai_request_model(config, &fit->request),
                                    .streams = !config->no_stream};
  if (draft.model.size == 0)
    return tp__refuse(fault, TP_ERR_USAGE, NULL,
                      "no model is named: set tp_openai_options.model, or the turn's or agent's model_name");
  tp_status status = read_parts(config, &fit->request, &p, fault);
  draft.parts = p.items;
  draft.first_part = p.first;
  if (status == TP_OK) status = write_with(config, &draft, json, fault);
  free_parts(&p);
  return status;
}

tp_status tp__openai_request_write(const tp__openai_config *config, const tp_model_request *request, tp__bytes *json,
                                   tp__openai_sent *ret_sent, tp_fault *fault) {
  assert(config->form && json->size == 0);
  tp__openai_fit fit = {.blocks = NULL};
  tp_status status = tp__openai_fit_init(&fit, config, request);
  if (status != TP_OK) (void)!tp__refuse(fault, status, NULL, "no memory for a request");
  else status = write_fitted(config, &fit, json, fault);
  if (status == TP_OK && ret_sent) {
    ret_sent->names = fit.names;
    fit.names = (tp__openai_names){.rows = NULL};
    (void)tp__openai_fit_describe(&fit, ret_sent->repairs, sizeof ret_sent->repairs);
  }
  tp__openai_fit_fini(&fit);
  return status;
}
