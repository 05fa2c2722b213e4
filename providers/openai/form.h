/* SPDX-License-Identifier: Apache-2.0
 *
 * form: what distinguishes the APIs: where requests go, of which fields they are made, and what the events of a stream
 * mean. Each form is one table in a file of its own (form_chat.c, form_responses.c, form_messages.c); what reads them
 * is the same for all (request.c, stream.c). The tables never change. */
#ifndef TP__OPENAI_FORM_H
#define TP__OPENAI_FORM_H

#include "providers/openai/answer.h"
#include "turnphase/openai.h"

/** An image, audio or document of a message. */
typedef struct tp__openai_media {
  tp_part_kind kind; /* IMAGE, AUDIO or FILE */
  tp__bytes url;     /* data: or https:; of a part that is not sent, the text in its place */
  tp_text media;     /* "image/png"; empty for https: */
  tp_text base64;    /* part of url; empty for https: */
  tp_text name;      /* of a document; may be empty */
} tp__openai_media;

/** What stands in a message after its text: text, or media. */
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

/** A field of the request. Rows that are fixed cannot be set by hosts; others give way to body and parameters. */
typedef struct tp__openai_field {
  const char *name;
  bool fixed;
  bool (*wanted)(const tp__openai_draft_request *draft); /* NULL: always */
  void (*write)(tp__openai_draft_request *draft);        /* one value */
} tp__openai_field;

/** A parameter that the API has under another name. */
typedef struct tp__openai_rename {
  const char *from, *to; /* to NULL: the API has none */
} tp__openai_rename;

/** An event of the stream, by the text of its field "type". */
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
  uint32_t kinds;                   /* of parts that messages and results can carry: bits 1 << tp_part_kind */
  bool file_urls;                   /* a document may be given by its URL */
  bool errors_are_text;             /* the result of a tool that failed has text only */
  /** Whether a value is an answer as a whole, and no event. */
  bool (*is_whole)(tp_text value);
  /** An answer as a whole. */
  void (*take_whole)(tp__openai_answer *answer, tp_text value);
} tp__openai_form;

extern const tp__openai_form tp__openai_form_chat, tp__openai_form_responses, tp__openai_form_messages;

/** NULL for a number that is none. */
const tp__openai_form *tp__openai_form_of(tp_openai_api api);

/* ---- what the forms share when they write ---- */

void tp__openai_write_model(tp__openai_draft_request *draft);
void tp__openai_write_stream(tp__openai_draft_request *draft);
bool tp__openai_has_tools(const tp__openai_draft_request *draft);
/** Whether the turn demands a schema whose root is an object, which the APIs want. */
bool tp__openai_has_schema(const tp__openai_draft_request *draft);
/** The same for one that is closed: each object has all of its properties and no others, and no keyword is there that
 *  APIs which constrain what a model writes do not know. */
bool tp__openai_has_closed_schema(const tp__openai_draft_request *draft);
/** Three pairs: the schema's name, itself, and whether the API is to keep strictly to it. */
void tp__openai_write_schema_pairs(tp__openai_draft_request *draft);
bool tp__openai_has_system(const tp__openai_draft_request *draft);
void tp__openai_write_pair(tp_writer *writer, const char *key, const char *value);
void tp__openai_write_pair_text(tp_writer *writer, const char *key, tp_text value);
/** The arguments of a call as JSON text, and as a map. */
void tp__openai_write_arguments(tp__openai_draft_request *draft, const tp_tool_call *call);
void tp__openai_write_arguments_map(tp__openai_draft_request *draft, const tp_tool_call *call);
/** How many parts a message has besides its text. */
size_t tp__openai_part_count(const tp__openai_draft_request *draft, size_t message);
/** How its content is made of parts: the text, unless it is empty, and the others. */
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
/** The system text and the messages of the system as one text, in the scratch; empty: there are none. */
tp_text tp__openai_system(tp__openai_draft_request *draft);
/** Of what the provider gave with a message of its own: the items that stand before place `at`: 0 is before the text,
 *  1 + i before call i; SIZE_MAX: all. A NULL writer only counts. */
size_t tp__openai_write_given(const tp__openai_draft_request *draft, const tp_message *message, size_t at,
                              tp_writer *writer);
/** A map with a "type" and one more pair. */
void tp__openai_write_typed(tp_writer *writer, const char *type, const char *key, tp_text value);
/** What all APIs say of a tool: name, description, schema. */
size_t tp__openai_tool_pairs(const tp_tool *tool);
void tp__openai_write_tool_pairs(tp__openai_draft_request *draft, const tp_tool *tool, const char *schema_key);

/* ---- and when they read ---- */

/** The int under a key, or -1; a float without a fraction and digits in a text count, too. */
int64_t tp__openai_count(tp_text map, const char *key);
tp_text tp__openai_text(tp_text map, const char *key);
/** Takes the error of an event: the answer fails. */
void tp__openai_take_error(tp__openai_answer *answer, tp_text event);
/** An event in which the form found nothing of its own: an error in one of its shapes, or unread. */
void tp__openai_take_unread(tp__openai_answer *answer, tp_text event);

#endif
