/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/model/parts.h"

#include <stdio.h>

#include "phases/merge/escape.h"
#include "phases/merge/out.h"
#include "phases/merge/render.h"
#include "runtime/value/value.h"

enum {
  PARTS_MAX = 256,
  PART_HEAD_BYTES = 64,
  MEDIA_TYPE_BYTES_MAX = 255,
  URI_BYTES_SHOWN = 2048,
  WORDS_BYTES_SHOWN = 512
};

static const char *const kind_names[] = {[TP_PART_TEXT] = "text",
                                         [TP_PART_FILE] = "file",
                                         [TP_PART_IMAGE] = "image",
                                         [TP_PART_AUDIO] = "audio",
                                         [TP_PART_LINK] = "link"};

const char *tp_part_kind_name(tp_part_kind kind) { return TP__NAME_AT(kind_names, kind, "unknown"); }

static tp_part_kind part_kind_of(tp_text name) {
  for (unsigned kind = TP_PART_TEXT; kind <= TP_PART_LINK; kind++)
    if (tp_text_is(name, kind_names[kind])) return (tp_part_kind)kind;
  return TP_PART_NONE;
}

/* ---- one part ---- */

static bool uri_begins(tp_text text, const char *with) {
  size_t size = strlen(with);
  return text.size >= size && memcmp(text.data, with, size) == 0;
}

/* Printable ASCII with a `/` in it. */
static bool is_media_type(tp_text text) {
  bool has_slash = false;
  for (size_t i = 0; i < text.size; i++) {
    if (text.data[i] < ' ' || text.data[i] > '~') return false;
    has_slash |= text.data[i] == '/' && i > 0 && i + 1 < text.size;
  }
  return has_slash && text.size <= MEDIA_TYPE_BYTES_MAX;
}

/* @return the error in the part, after the name of the member; NULL: there is none. */
static const char *flaw_of(const tp_part *part) {
  bool is_text = part->kind == TP_PART_TEXT, is_link = part->kind == TP_PART_LINK;
  bool names_media = part->media_type.size > 0;
  if (part->kind < TP_PART_TEXT || part->kind > TP_PART_LINK) return "kind is none of the known ones";
  if (part->reserved_) return "reserved_ must be zero";
  if (!is_text && part->text.size > 0) return "text belongs to kind text only";
  if (is_text && (part->bytes.size > 0 || part->uri.size > 0 || names_media || part->name.size > 0 ||
                  part->description.size > 0 || part->size != 0))
    return "a part of kind text has a text, and nothing else";
  if (is_text) return NULL;
  if (is_link && part->bytes.size > 0) return "bytes: a link names a resource and does not include it";
  if (is_link && part->uri.size == 0) return "uri is missing: a link needs it";
  /* Only a file may lack both: it may be empty. Its name is not checked: the library gives it no meaning. */
  if (part->bytes.size == 0 && part->uri.size == 0 && part->kind != TP_PART_FILE) return "bytes or uri is missing";
  if (names_media && !is_media_type(part->media_type)) return "media_type must be such as \"image/png\"";
  if (!names_media && part->bytes.size > 0 && part->kind != TP_PART_FILE)
    return "media_type is missing: bytes of an image or audio need it";
  return part->size < 0 ? "size must not be negative" : NULL;
}

/* The texts that a map may have in addition to its content. */
typedef struct member {
  const char *key;
  size_t offset;
} member;
static const member members[] = {{"uri", offsetof(tp_part, uri)},
                                 {"media_type", offsetof(tp_part, media_type)},
                                 {"name", offsetof(tp_part, name)},
                                 {"description", offsetof(tp_part, description)}};
enum { MEMBERS = sizeof members / sizeof *members };

static tp_text *member_of(tp_part *part, size_t which) {
  return (tp_text *)(void *)((char *)part + members[which].offset);
}

/* The media type in data:image/png;base64,…, for hosts that do not set it separately. */
static tp_text media_of(tp_text url) {
  tp_text media = {NULL, 0};
  if (!uri_begins(url, "data:")) return media;
  media.data = url.data + 5;
  while (media.size < url.size - 5 && media.size <= MEDIA_TYPE_BYTES_MAX && media.data[media.size] != ';' &&
         media.data[media.size] != ',')
    media.size++;
  return is_media_type(media) ? media : (tp_text){NULL, 0};
}

/* @return the error in the pair; NULL: there is none. */
static const char *read_pair(tp_text key, tp_text value, tp_part *part) {
  tp_part_kind kind = part_kind_of(key);
  tp_value_kind given = tp_value_kind_of(value);
  if (kind != TP_PART_NONE && part->kind != TP_PART_NONE) return "two of text, file, image, audio and link are there";
  if (kind != TP_PART_NONE) {
    part->kind = kind;
    if (given == TP_VALUE_BYTES) part->bytes = tp_value_text(value);
    else if (kind == TP_PART_TEXT) part->text = tp_value_text(value);
    return given == TP_VALUE_TEXT || (given == TP_VALUE_BYTES && kind != TP_PART_TEXT)
               ? NULL
               : "its content is of a wrong kind";
  }
  if (tp_text_is(key, "size")) {
    part->size = tp_value_int(value, -1);
    return part->size >= 0 ? NULL : "size must be a number of bytes";
  }
  for (size_t i = 0; i < MEMBERS; i++) {
    if (!tp_text_is(key, members[i].key)) continue;
    *member_of(part, i) = tp_value_text(value);
    return given == TP_VALUE_TEXT ? NULL : "uri, media_type, name and description must be texts";
  }
  return "a key is none of text, file, image, audio, link, uri, media_type, name, description and size";
}

/* A content that is text is the URI. Then there must be no other URI. */
static const char *take_content(tp_text value, tp_part *part) {
  tp_text content = tp_value_get(value, tp_part_kind_name(part->kind));
  if (part->kind == TP_PART_TEXT || tp_value_kind_of(content) == TP_VALUE_BYTES) return NULL;
  if (part->uri.size > 0) return "uri stands beside a content that is a URI itself";
  part->uri = tp_value_text(content);
  if (part->media_type.size == 0) part->media_type = media_of(part->uri);
  return NULL;
}

/* @return the error; NULL: the value is a part. */
static const char *read_value_part(tp_text value, tp_part *ret_part) {
  tp_part part = {.struct_size = sizeof part};
  const char *wrong = tp_value_kind_of(value) == TP_VALUE_MAP ? NULL : "it must be a map";
  for (tp_value_walk walk = {0}; !wrong && tp_value_next(value, &walk);) wrong = read_pair(walk.key, walk.value, &part);
  if (!wrong && part.kind == TP_PART_NONE) wrong = "none of text, file, image, audio and link is there";
  if (!wrong) wrong = take_content(value, &part);
  if (!wrong) wrong = flaw_of(&part);
  if (!wrong) *ret_part = part;
  return wrong;
}

tp_status tp_part_read(tp_text value, tp_part *ret_part, tp_fault *fault) {
  tp_part part;
  if (!ret_part) return tp__fail_null(fault, "ret_part");
  TP__TRY(tp__size_check(ret_part, "tp_part", fault));
  const char *wrong = read_value_part(value, &part);
  if (wrong) return tp__fail(fault, TP_ERR_USAGE, NULL, "no part (turnphase/part.h): %s", wrong);
  (void)tp__shown_fill(ret_part, &part, sizeof part);
  return TP_OK;
}

/* The content is the bytes if there are any, else the URI. */
static void write_part(tp_writer *writer, const tp_part *part) {
  TP__ASSERT(part->bytes.size == 0 || part->kind != TP_PART_TEXT);
  bool has_bytes = part->bytes.size > 0, is_text = part->kind == TP_PART_TEXT;
  tp_part copy = *part;
  size_t count = 1 + (part->size > 0);
  if (!has_bytes) copy.uri = (tp_text){NULL, 0}; /* written as the content */
  for (size_t i = 0; i < MEMBERS; i++) count += member_of(&copy, i)->size > 0;
  tp_write_map(writer, count);
  tp_write_string(writer, tp_part_kind_name(part->kind));
  if (has_bytes) tp_write_bytes(writer, part->bytes);
  else tp_write_text(writer, is_text ? part->text : part->uri);
  for (size_t i = 0; i < MEMBERS; i++) {
    if (member_of(&copy, i)->size == 0) continue;
    tp_write_string(writer, members[i].key);
    tp_write_text(writer, *member_of(&copy, i));
  }
  if (part->size == 0) return;
  tp_write_string(writer, "size");
  tp_write_int(writer, part->size);
}

static tp_status read_part_struct(const tp_part *theirs, tp_part *ret_part, tp_fault *fault) {
  tp_part part;
  TP__TRY(tp__options_read(&part, sizeof part, theirs, "tp_part", fault));
  const char *wrong = flaw_of(&part);
  if (wrong) return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_part.%s", wrong);
  if (!tp_utf8_valid(part.text, NULL)) return tp__fail(fault, TP_ERR_UTF8, NULL, "tp_part.text is not UTF-8");
  for (size_t i = 0; i < MEMBERS; i++)
    if (!tp_utf8_valid(*member_of(&part, i), NULL))
      return tp__fail(fault, TP_ERR_UTF8, NULL, "tp_part.%s is not UTF-8", members[i].key);
  *ret_part = part;
  return TP_OK;
}

tp_status tp_part_write(const tp_part *theirs, tp_writer *writer, tp_fault *fault) {
  tp_part part;
  if (!theirs || !writer) return tp__fail_null(fault, theirs ? "writer" : "part");
  TP__TRY(read_part_struct(theirs, &part, fault));
  write_part(writer, &part);
  tp_status status = tp__writer_status(writer);
  return status == TP_OK ? TP_OK
                         : tp__fail(fault, status, NULL, "the part was not written: %s", tp_status_text(status));
}

/* The known size: in the base64 of a data: URL four characters stand for three bytes. */
static int64_t part_size(const tp_part *part) {
  if (part->bytes.size > 0) return (int64_t)part->bytes.size;
  if (part->size > 0 || !uri_begins(part->uri, "data:")) return part->size;
  const char *comma = memchr(part->uri.data, ',', part->uri.size);
  return comma ? (int64_t)(part->uri.size - (size_t)(comma + 1 - part->uri.data)) / 4 * 3 : 0;
}

static void write_summary(tp_writer *writer, const tp_part *part) {
  tp_part copy = *part;
  int64_t size = part_size(part);
  bool is_text = part->kind == TP_PART_TEXT;
  if (uri_begins(copy.uri, "data:")) copy.uri = (tp_text){NULL, 0};
  size_t count = 1 + is_text + (size > 0);
  for (size_t i = 0; i < MEMBERS; i++) count += member_of(&copy, i)->size > 0;
  tp_write_map(writer, count);
  tp_write_string(writer, "kind");
  tp_write_string(writer, tp_part_kind_name(part->kind));
  if (is_text) tp_write_string(writer, "text");
  if (is_text) tp_write_text(writer, part->text);
  for (size_t i = 0; i < MEMBERS; i++) {
    if (member_of(&copy, i)->size == 0) continue;
    tp_write_string(writer, members[i].key);
    tp_write_text(writer, *member_of(&copy, i));
  }
  if (size == 0) return;
  tp_write_string(writer, "size");
  tp_write_int(writer, size);
}

tp_status tp_part_write_summary(const tp_part *theirs, tp_writer *writer, tp_fault *fault) {
  tp_part part;
  if (!theirs || !writer) return tp__fail_null(fault, theirs ? "writer" : "part");
  TP__TRY(read_part_struct(theirs, &part, fault));
  write_summary(writer, &part);
  tp_status status = tp__writer_status(writer);
  return status == TP_OK ? TP_OK
                         : tp__fail(fault, status, NULL, "the part was not written: %s", tp_status_text(status));
}

void tp__parts_write_summaries(tp_writer *writer, tp_text parts) {
  tp_part part;
  tp_write_array(writer, tp_value_count(parts));
  for (tp_value_walk walk = {0}; tp_value_next(parts, &walk);)
    if (!read_value_part(walk.value, &part)) write_summary(writer, &part);
    else tp_write_null(writer);
}

/* ---- a part in words ---- */

static void put_shown(tp__out *out, tp_text text, size_t bytes_max) {
  tp_text shown = {text.data, tp__utf8_cut(text, bytes_max)};
  for (size_t i = 0; i < shown.size; i++) {
    unsigned char byte = (unsigned char)shown.data[i];
    tp__out_char(out, byte < ' ' || byte == 0x7f ? ' ' : (char)byte);
  }
  if (shown.size < text.size) tp__out_string(out, "…");
}

static void put_after(tp__out *out, const char *before, tp_text text, size_t bytes_max, const char *behind) {
  if (text.size == 0) return;
  tp__out_string(out, before);
  put_shown(out, text, bytes_max);
  tp__out_string(out, behind);
}

/* 20,317 */
static void put_grouped(tp__out *out, int64_t number) {
  char digits[32];
  int count = snprintf(digits, sizeof digits, "%lld", (long long)number);
  for (int i = 0; i < count; i++) {
    if (i > 0 && (count - i) % 3 == 0) tp__out_char(out, ',');
    tp__out_char(out, digits[i]);
  }
}

static void put_part(tp__out *out, const tp_part *part) {
  TP__ASSERT(!flaw_of(part));
  int64_t size = part->kind == TP_PART_TEXT ? (int64_t)part->text.size : part_size(part);
  tp__out_string(out, tp_part_kind_name(part->kind));
  put_after(out, " ", part->name, WORDS_BYTES_SHOWN, "");
  if (!uri_begins(part->uri, "data:")) put_after(out, " <", part->uri, URI_BYTES_SHOWN, ">");
  if (part->media_type.size > 0 || size > 0) {
    tp__out_string(out, " (");
    tp__out_text(out, part->media_type);
    if (part->media_type.size > 0 && size > 0) tp__out_string(out, ", ");
    if (size > 0) put_grouped(out, size);
    if (size > 0) tp__out_string(out, size == 1 ? " byte" : " bytes");
    tp__out_char(out, ')');
  }
  put_after(out, ": ", part->description, WORDS_BYTES_SHOWN, "");
}

size_t tp_part_describe(const tp_part *theirs, char *buffer, size_t size) {
  tp_part part;
  tp__out out = {.data = buffer, .capacity = buffer ? size : 0};
  if (buffer && size > 0) buffer[0] = '\0';
  if (!theirs || read_part_struct(theirs, &part, NULL) != TP_OK) return 0;
  put_part(&out, &part);
  if (out.capacity > 0) buffer[tp__utf8_cut((tp_text){buffer, out.size}, size - 1)] = '\0';
  return out.size;
}

static void put_parts(tp__out *out, const void *ctx) {
  tp_part part;
  for (tp_value_walk walk = {0}; tp_value_next(*(const tp_text *)ctx, &walk);) {
    if (read_value_part(walk.value, &part) || part.kind == TP_PART_TEXT) continue;
    tp__out_string(out, out->size > 0 ? "\n[" : "[");
    put_part(out, &part);
    tp__out_char(out, ']');
  }
}

tp_text tp__parts_described(tp__arena *arena, tp_text parts) {
  tp_text text = {"", 0};
  if (parts.size > 0 && tp__out_twice(arena, put_parts, &parts, &text) != TP_OK) return (tp_text){"", 0};
  return text;
}

/* ---- all parts of a message ---- */

/* @return the error in one of the parts, whose index is set; NULL: there is none. */
static const char *flaw_of_all(tp_text parts, size_t *ret_index) {
  tp_part part;
  const char *wrong = NULL;
  *ret_index = 0;
  for (tp_value_walk walk = {0}; tp_value_next(parts, &walk); ++*ret_index)
    if ((wrong = read_value_part(walk.value, &part))) return wrong;
  return NULL;
}

bool tp__parts_valid(tp_text parts) {
  size_t index;
  return parts.size == 0 || (tp_value_kind_of(parts) == TP_VALUE_ARRAY && !flaw_of_all(parts, &index));
}

tp_status tp__parts_check(tp_text parts, const char *where, tp_fault *fault) {
  size_t index;
  if (parts.size == 0) return TP_OK;
  if (tp_value_check(parts, NULL) != TP_OK)
    return tp__fail(fault, TP_ERR_MALFORMED, NULL, "%s are no well-formed value", where);
  if (tp_value_kind_of(parts) != TP_VALUE_ARRAY)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "%s must be an array of maps", where);
  const char *wrong = flaw_of_all(parts, &index);
  if (!wrong) return TP_OK;
  return tp__fail(fault, TP_ERR_USAGE, NULL, "%s[%zu] is no part (turnphase/part.h): %s", where, index, wrong);
}

/* @return the value in the arena. */
static tp_status finish_parts(tp__arena *arena, tp_writer *writer, tp_text *ret_value) {
  tp_text value;
  tp_status status = tp_writer_finish(writer, &value);
  if (status == TP_OK && !tp__arena_text(arena, value, ret_value)) status = TP_ERR_NO_MEMORY;
  tp__value_writer_fini(writer);
  return status;
}

tp_status tp__parts_of_files(tp__arena *arena, tp_text files, tp_text *ret_parts) {
  tp_writer w, *writer = &w;
  *ret_parts = (tp_text){NULL, 0};
  if (tp_value_count(files) == 0) return TP_OK;
  tp__value_writer_init(writer, arena->allocator);
  tp_write_array(writer, tp_value_count(files));
  for (tp_value_walk walk = {0}; tp_value_next(files, &walk);)
    write_part(writer, &(tp_part){.kind = TP_PART_FILE, .uri = tp_value_text(walk.value)});
  return finish_parts(arena, writer, ret_parts);
}

/* ---- the parts of an answer ---- */

/* Parts that are being written into a value, while bytes are left. */
typedef struct fitting {
  tp_writer *writer;
  size_t left;
  size_t written, total;
  bool left_out;
} fitting;

static void write_left_out(fitting *f, const tp_part *part) {
  char line[960], words[1024];
  TP__ASSERT(part->kind != TP_PART_NONE);
  (void)tp_part_describe(part, line, sizeof line);
  snprintf(words, sizeof words, "[left out, since the tool's answer is too large: %s]", line);
  write_part(f->writer, &(tp_part){.kind = TP_PART_TEXT, .text = tp_text_of(words)});
  f->left_out = true;
}

static void write_rest_out(fitting *f) {
  char words[128];
  snprintf(words, sizeof words, "[%zu more parts are left out, since the tool's answer has more than %d]",
           f->total - f->written, (int)PARTS_MAX);
  write_part(f->writer, &(tp_part){.kind = TP_PART_TEXT, .text = tp_text_of(words)});
  f->left_out = true;
}

static void fit_begin(fitting *f, tp__arena *arena, size_t bytes_max, size_t count) {
  *f = (fitting){.writer = f->writer, .left = bytes_max, .total = count};
  tp__value_writer_init(f->writer, arena->allocator);
  tp_write_array(f->writer, count <= PARTS_MAX ? count : PARTS_MAX + 1);
}

/* @return whether more parts are written. */
static bool fit(fitting *f, const tp_part *part) {
  TP__ASSERT(f->written < f->total && f->written <= PARTS_MAX);
  if (f->written == PARTS_MAX) {
    write_rest_out(f);
    return false;
  }
  size_t bytes = part->bytes.size + part->text.size + PART_HEAD_BYTES;
  for (size_t i = 0; i < MEMBERS; i++)
    bytes += ((const tp_text *)(const void *)((const char *)part + members[i].offset))->size;
  if (bytes <= f->left) write_part(f->writer, part);
  else write_left_out(f, part);
  if (bytes <= f->left) f->left -= bytes;
  f->written++;
  return true;
}

tp_status tp__parts_list_check(const tp_part *const *parts, size_t count, tp_fault *fault) {
  tp_part part;
  tp_fault why;
  if (count > 0 && !parts)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_tool_answer: %zu parts, and the list is NULL", count);
  for (size_t i = 0; i < count; i++) {
    if (!parts[i]) return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_tool_answer.parts[%zu] is NULL", i);
    tp_status status = read_part_struct(parts[i], &part, &why);
    if (status != TP_OK) return tp__fail(fault, status, NULL, "tp_tool_answer.parts[%zu]: %s", i, why.message);
  }
  return TP_OK;
}

tp_status tp__parts_of_list(tp__arena *arena, const tp_part *const *parts, size_t count, size_t bytes_max,
                            tp_text *ret_parts, bool *ret_left_out) {
  tp_writer writer;
  fitting f = {.writer = &writer};
  tp_part part;
  *ret_parts = (tp_text){NULL, 0};
  if (count == 0) return TP_OK;
  fit_begin(&f, arena, bytes_max, count);
  bool more = true;
  for (size_t i = 0; more && i < count; i++) more = read_part_struct(parts[i], &part, NULL) == TP_OK && fit(&f, &part);
  *ret_left_out |= f.left_out;
  return finish_parts(arena, &writer, ret_parts);
}

tp_status tp__parts_fit(tp__arena *arena, tp_text parts, size_t bytes_max, tp_text *ret_parts, bool *ret_left_out) {
  tp_writer writer;
  fitting f = {.writer = &writer};
  tp_part part;
  size_t count = tp_value_count(parts);
  *ret_parts = (tp_text){NULL, 0};
  if (count == 0) return TP_OK;
  if (parts.size <= bytes_max && count <= PARTS_MAX)
    return tp__arena_text(arena, parts, ret_parts) ? TP_OK : TP_ERR_NO_MEMORY;
  fit_begin(&f, arena, bytes_max, count);
  bool more = true;
  for (tp_value_walk walk = {0}; more && tp_value_next(parts, &walk);)
    more = !read_value_part(walk.value, &part) && fit(&f, &part);
  *ret_left_out |= f.left_out;
  return finish_parts(arena, &writer, ret_parts);
}

/* ---- escaping ---- */

/* Whether a model may read this member of a part as text. */
static bool is_said(tp_text value) {
  return tp_value_kind_of(value) == TP_VALUE_TEXT && !uri_begins(tp_value_text(value), "data:");
}

static bool has_tags(tp_text parts) {
  for (tp_value_walk part = {0}; tp_value_next(parts, &part);)
    for (tp_value_walk pair = {0}; tp_value_next(part.value, &pair);)
      if (is_said(pair.value)) {
        tp_text text = tp_value_text(pair.value);
        if (tp__escape_find(text, 0) < text.size) return true;
      }
  return false;
}

static tp_status write_escaped(tp__arena *arena, tp_writer *writer, tp_text part) {
  tp_write_map(writer, tp_value_count(part));
  for (tp_value_walk pair = {0}; tp_value_next(part, &pair);) {
    tp_text text = tp_value_text(pair.value);
    tp_write_text(writer, pair.key);
    if (is_said(pair.value)) {
      TP__TRY(tp__render_escaped(arena, text, &text));
      tp_write_text(writer, text);
    } else {
      tp_write_value(writer, pair.value);
    }
  }
  return TP_OK;
}

tp_status tp__parts_escaped(tp__arena *arena, tp_text parts, tp_text *ret_parts) {
  tp_writer w, *writer = &w;
  *ret_parts = parts;
  if (!has_tags(parts)) return TP_OK;
  tp__value_writer_init(writer, arena->allocator);
  tp_write_array(writer, tp_value_count(parts));
  tp_status status = TP_OK;
  for (tp_value_walk walk = {0}; status == TP_OK && tp_value_next(parts, &walk);)
    status = write_escaped(arena, writer, walk.value);
  if (status == TP_OK) return finish_parts(arena, writer, ret_parts);
  tp__value_writer_fini(writer);
  return status;
}
