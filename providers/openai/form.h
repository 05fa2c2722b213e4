/* SPDX-License-Identifier: Apache-2.0
 *
 * form: the differences between the APIs: where requests go, which fields they have, and what the events of a stream
 * mean. Each form is one table in a file of its own (form_chat.c, form_responses.c, form_messages.c). The code that
 * uses the tables is the same for all (request.c, stream.c). The tables never change. */
#ifndef TP__OPENAI_FORM_H
#define TP__OPENAI_FORM_H

#include "providers/openai/answer.h"
#include "turnphase/openai.h"

/** An image, audio or document of a message. */
typedef struct tp__openai_media {
  tp_part_kind kind; /* IMAGE, AUDIO or FILE */
  tp__bytes url;     /* data: or https:; for a part that is not sent, the text that replaces it */
  tp_text media;     /* "image/png"; empty for https: */
  tp_text base64;    /* part of url; empty for https: */
  tp_text name;      /* of a document; may be empty */
} tp__openai_media;

/** An item of a message after its text: text, or media. */
typedef struct tp__openai_part {
  tp_text text;
  const tp__openai_media *media; /* NULL: text */
} tp__openai_part;

/** A request on its way to JSON. */
typedef struct tp__openai_draft_request {
  const tp_model_request *request; /* fitted */
  const struct tp__openai_config *config;
  const struct tp__openai_fit *fit;
  tp_text model;
  bool streams;
  const tp__openai_part *parts; /* of all messages */
  const size_t *first_part;     /* by message, and one more after the last */
  tp_writer *writer;
  tp__bytes scratch;
  tp_status status; /* of what could not be written */
} tp__openai_draft_request;

/** A field of the request. Hosts cannot set fixed rows; other rows are replaced by the host's body and parameters. */
typedef struct tp__openai_field {
  const char *name;
  bool fixed;
  bool (*wanted)(const tp__openai_draft_request *draft); /* NULL: always */
  void (*write)(tp__openai_draft_request *draft);        /* one value */
} tp__openai_field;

/** A parameter to which the API gives another name. */
typedef struct tp__openai_rename {
  const char *from, *to; /* to NULL: the API has none */
} tp__openai_rename;

/** An event of the stream; found by the text of its field "type". */
typedef struct tp__openai_event {
  const char *type; /* NULL: any */
  void (*take)(tp__openai_answer *answer, tp_text event);
} tp__openai_event;

typedef struct tp__openai_form {
  const char *name; /* as tp_openai_api_name() */
  const char *base_url, *path, *key_env;
  const char *key_header, *key_prefix;
  const char *header;               /* one more; NULL: none */
  const tp__openai_field *fields;   /* ended by a row without name */
  const tp__openai_rename *renames; /* the same */
  const tp__openai_event *events;   /* ended by a row without take */
  uint32_t kinds;                   /* of parts that messages and results can have: bits 1 << tp_part_kind */
  bool file_urls;                   /* a document may be given by its URL */
  bool errors_are_text;             /* the result of a failed tool may only have text */
  /** Whether a value is a whole answer, and not an event. */
  bool (*is_whole)(tp_text value);
  /** An answer as a whole. */
  void (*take_whole)(tp__openai_answer *answer, tp_text value);
} tp__openai_form;

extern const tp__openai_form tp__openai_form_chat, tp__openai_form_responses, tp__openai_form_messages;

/** NULL for a number that is none. */
const tp__openai_form *tp__openai_form_of(tp_openai_api api);

/* ---- functions that the forms share for writing ---- */

void tp__openai_write_model(tp__openai_draft_request *draft);
void tp__openai_write_stream(tp__openai_draft_request *draft);
bool tp__openai_has_tools(const tp__openai_draft_request *draft);
/** Whether the turn has an answer schema whose root is an object, as the APIs require. */
bool tp__openai_has_schema(const tp__openai_draft_request *draft);
/** Whether the answer schema is also closed: each object requires all of its properties and allows no others, and the
 *  schema has no keyword that is unknown to APIs with constrained output. */
bool tp__openai_has_closed_schema(const tp__openai_draft_request *draft);
/** Writes three pairs: the schema's name, the schema, and whether the API must follow it strictly. */
void tp__openai_write_schema_pairs(tp__openai_draft_request *draft);
bool tp__openai_has_system(const tp__openai_draft_request *draft);
void tp__openai_write_pair(tp_writer *writer, const char *key, const char *value);
void tp__openai_write_pair_text(tp_writer *writer, const char *key, tp_text value);
/** Writes the arguments of a call: the first as JSON text, the second as a map. */
void tp__openai_write_arguments(tp__openai_draft_request *draft, const tp_tool_call *call);
void tp__openai_write_arguments_map(tp__openai_draft_request *draft, const tp_tool_call *call);
/** The number of parts of a message, without its text. */
size_t tp__openai_part_count(const tp__openai_draft_request *draft, size_t message);
/** How a message's content is made of parts: the text, unless it is empty, and the others. */
typedef struct tp__openai_content {
  void (*text)(tp_writer *writer, tp_text text);
  void (*image)(tp_writer *writer, const tp__openai_media *image);
  void (*audio)(tp_writer *writer, const tp__openai_media *audio); /* NULL where tp__openai_form.kinds has none */
  void (*file)(tp_writer *writer, const tp__openai_media *file);
} tp__openai_content;
size_t tp__openai_content_count(const tp__openai_draft_request *draft, size_t message);
void tp__openai_write_content(tp__openai_draft_request *draft, size_t message, const tp__openai_content *content);
/** One part that is media. */
void tp__openai_write_media(tp_writer *writer, const tp__openai_media *media, const tp__openai_content *content);
/** The system text and the system messages as one text, in the scratch; empty when there are none. */
tp_text tp__openai_system(tp__openai_draft_request *draft);
/** Writes items that the provider gave with its message: those at the place `at`. Place 0 is before the text, place 1 +
 *  i before call i; SIZE_MAX: all items. A NULL writer only counts. */
size_t tp__openai_write_given(const tp__openai_draft_request *draft, const tp_message *message, size_t at,
                              tp_writer *writer);
/** A map with a "type" and one more pair. */
void tp__openai_write_typed(tp_writer *writer, const char *type, const char *key, tp_text value);
/** Writes the members that all APIs have for a tool: name, description, schema. */
size_t tp__openai_tool_pairs(const tp_tool *tool);
void tp__openai_write_tool_pairs(tp__openai_draft_request *draft, const tp_tool *tool, const char *schema_key);

/* ---- and when they read ---- */

/** The int under a key, or -1. A float without a fraction counts, and so do digits in a text. */
int64_t tp__openai_count(tp_text map, const char *key);
tp_text tp__openai_text(tp_text map, const char *key);
/** Takes the error from an event; the answer fails. */
void tp__openai_take_error(tp__openai_answer *answer, tp_text event);
/** For an event in which the form found nothing: checks whether it is an error in one of the known shapes, and
 *  otherwise counts it as unread. */
void tp__openai_take_unread(tp__openai_answer *answer, tp_text event);

#endif
