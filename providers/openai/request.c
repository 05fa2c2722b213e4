/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/openai/request.h"

#include <string.h>

#include "runtime/base/check.h"

enum { SHOWN_SIZE = 96 };

tp_text tp__openai_request_model(const tp__openai_config *config, const tp_model_request *request) {
  return request->model.size > 0 ? request->model : tp_text_of(config->model);
}

/* ---- what hosts add: parameters first, then the body of the options ---- */

/* The two maps, with the names that the API has. */
typedef struct extras {
  const tp__openai_form *form;
  tp_text parameters, body;
} extras;

/* Text without data: the API has none of that name. */
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

/* Writes what is no row of the form; a NULL writer only counts. A name that comes twice counts where it comes first. */
static size_t write_others(const extras *extra, tp_writer *writer) {
  size_t count = 0;
  for (int which = 0; which < 2; which++) {
    tp_text map = which == 0 ? extra->parameters : extra->body;
    for (tp_value_walk walk = {0}; tp_value_next(map, &walk);) {
      tp_text name = which == 0 ? api_name(extra->form, walk.key) : walk.key, first;
      if (is_field(extra->form, name) || !find_extra(extra, name, &first)) continue;
      if (first.data != walk.value.data || is_null(walk.value)) continue;
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

/* What stands for an image of an earlier message that is not sent: its file has gone, or there are too many. */
static const tp_text not_sent = {"[an image that is not sent any more]", 36};

/** The parts of all messages, on their way into the draft. */
typedef struct parts {
  tp__openai_part *items;
  tp__openai_image *images; /* as many as items */
  size_t *first;            /* by message */
  size_t count, message_count;
  size_t images_left, bytes_left;
} parts;

static size_t last_user(const tp_model_request *request) {
  for (size_t i = request->message_count; i > 0; i--)
    if (request->messages[i - 1]->role == TP_ROLE_USER) return i - 1;
  return SIZE_MAX;
}

static bool reserve(parts *p, const tp_model_request *request) {
  p->message_count = request->message_count;
  p->first = tp__heap_alloc((p->message_count + 1) * sizeof *p->first);
  if (!p->first) return false;
  for (size_t i = 0; i < p->message_count; i++) {
    p->first[i] = p->count;
    p->count += tp_value_count(request->messages[i]->parts);
  }
  p->first[p->message_count] = p->count;
  p->items = tp__heap_alloc((p->count + 1) * sizeof *p->items);
  p->images = tp__heap_alloc((p->count + 1) * sizeof *p->images);
  return p->items && p->images;
}

static void free_parts(parts *p) {
  for (size_t i = 0; p->images && i < p->count; i++) tp__openai_image_fini(&p->images[i]);
  tp__heap_free(p->images, (p->count + 1) * sizeof *p->images);
  tp__heap_free(p->items, (p->count + 1) * sizeof *p->items);
  tp__heap_free(p->first, (p->message_count + 1) * sizeof *p->first);
}

static tp_status too_many(tp_fault *fault) {
  return tp__refuse(fault, TP_ERR_TOO_LARGE, "files", "a message takes at most %d images, and 64 MiB of them",
                    TP__OPENAI_IMAGES_MAX);
}

static tp_status read_image(const tp__openai_config *config, parts *p, tp_text file, tp__openai_image *image,
                            tp_fault *fault) {
  if (p->images_left == 0) return too_many(fault);
  tp_status status = tp__openai_image_read(file, config->files_directory, image, fault);
  if (status != TP_OK) return status;
  if (image->url.size > p->bytes_left) return too_many(fault);
  p->bytes_left -= image->url.size;
  p->images_left--;
  return TP_OK;
}

/* An image of the user's newest message must be sent; an older one, which no turn can change any more, need not. */
static tp_status read_part(const tp__openai_config *config, parts *p, size_t at, tp_text value, bool is_newest,
                           tp_fault *fault) {
  tp_part part = {.struct_size = sizeof part};
  if (tp_part_read(value, &part, fault) != TP_OK) return TP_ERR_USAGE;
  p->items[at] = (tp__openai_part){.text = part.text};
  if (part.kind == TP_PART_TEXT) return TP_OK;
  if (part.kind != TP_PART_FILE || part.bytes.size > 0)
    return tp__refuse(fault, TP_ERR_USAGE, "parts", "a part of kind %s cannot be sent", tp_part_kind_name(part.kind));
  tp_status status = read_image(config, p, part.uri, &p->images[at], is_newest ? fault : NULL);
  if (status == TP_OK) {
    p->items[at].image = &p->images[at];
  } else if (!is_newest && status != TP_ERR_NO_MEMORY) {
    tp__openai_image_fini(&p->images[at]);
    p->items[at].text = not_sent;
    status = TP_OK;
  }
  return status;
}

/* The newest message first: its images take precedence over those of older ones. */
static tp_status read_parts(const tp__openai_config *config, const tp_model_request *request, parts *p,
                            tp_fault *fault) {
  size_t newest = last_user(request);
  if (!reserve(p, request)) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a request");
  for (size_t i = request->message_count; i > 0; i--) {
    size_t at = p->first[i - 1];
    for (tp_value_walk walk = {0}; tp_value_next(request->messages[i - 1]->parts, &walk); at++) {
      tp_status status = read_part(config, p, at, walk.value, i - 1 == newest, fault);
      if (status == TP_ERR_NO_MEMORY && fault && fault->code == TP_OK)
        return tp__refuse(fault, status, NULL, "no memory for a request");
      if (status != TP_OK) return status;
    }
  }
  return TP_OK;
}

static tp_status write_with(const tp__openai_config *config, tp__openai_draft_request *draft, tp__bytes *json,
                            tp_fault *fault) {
  extras extra = {
      .form = config->form, .parameters = draft->request->parameters, .body = {config->body, config->body_size}};
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

tp_status tp__openai_request_write(const tp__openai_config *config, const tp_model_request *request, tp__bytes *json,
                                   tp_fault *fault) {
  assert(config->form && json->size == 0);
  parts p = {.images_left = TP__OPENAI_IMAGES_MAX, .bytes_left = IMAGES_BYTES_MAX};
  tp__openai_draft_request draft = {
      .request = request, .model = tp__openai_request_model(config, request), .streams = !config->no_stream};
  if (draft.model.size == 0)
    return tp__refuse(fault, TP_ERR_USAGE, NULL,
                      "no model is named: set tp_openai_options.model, or the turn's or agent's model_name");
  tp_status status = read_parts(config, request, &p, fault);
  draft.parts = p.items;
  draft.first_part = p.first;
  if (status == TP_OK) status = write_with(config, &draft, json, fault);
  free_parts(&p);
  return status;
}
