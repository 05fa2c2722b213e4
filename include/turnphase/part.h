/* SPDX-License-Identifier: Apache-2.0
 *
 * part.h: parts that a message or a tool's result has in addition to its text: images, audio, files, links to
 * resources, and further text. A part is given as a struct, and carried as a value (value.h): the parts of a message
 * are an array of maps, one for each part, in order. One key of a map names the kind and has the content; the others
 * are optional:
 *
 *   {"text": str}
 *   {"image": bytes or str, "media_type": str, "uri": str, "name": str, "description": str, "size": int}
 *   {"audio": …}, {"file": …}    likewise
 *   {"link": str, …}             likewise, without "uri"
 *
 * A content that is text is the URI where it is: a data: or https: URL, or what host and provider agree on. With bytes
 * "media_type" is required, except for a file, and "uri" may say where they came from. Other keys are refused.
 * Threads: any. */
#ifndef TURNPHASE_PART_H
#define TURNPHASE_PART_H

#include "turnphase/value.h"

TP_BEGIN_DECLS

/** What a part is. Values above the known ones may come from a newer library. */
typedef enum tp_part_kind {
  TP_PART_NONE = 0,  /* no part */
  TP_PART_TEXT = 1,  /* text */
  TP_PART_FILE = 2,  /* bytes or uri: a document, or a file of any kind */
  TP_PART_IMAGE = 3, /* bytes or uri */
  TP_PART_AUDIO = 4, /* bytes or uri */
  TP_PART_LINK = 5,  /* uri: a resource that is named, and not included */
  TP_PART_KIND_FORCE_32 = 0x7fffffff
} tp_part_kind;

/** "text", "file", "image", "audio", "link": the key of the kind in a value; "unknown" for any other number. Static
 *  text. Threads: any. */
TP_API const char *tp_part_kind_name(tp_part_kind kind);

/** A part. It is passed by pointer, in lists of pointers; struct_size is set by the code that fills it. */
typedef struct tp_part {
  size_t struct_size;
  tp_part_kind kind;
  uint32_t reserved_; /* must be zero */
  /** TEXT: UTF-8. Of other kinds empty. */
  tp_text text;
  /** IMAGE, AUDIO, FILE: the content itself, not encoded. */
  tp_text bytes;
  /** IMAGE, AUDIO, FILE: where the content is; with bytes, where it came from. LINK: the resource. */
  tp_text uri;
  /** "image/png". Required with the bytes of an IMAGE or AUDIO. */
  tp_text media_type;
  /** For people and models; may be empty. */
  tp_text name, description;
  /** Of what uri names, in bytes; 0: not known. */
  int64_t size;
} tp_part;

/** Writes a part as one value, an element of an array that was begun by tp_write_array().
 *  @param part    read by its struct_size; copied.
 *  @param writer  untouched when the part is refused; it stores TP_ERR_NO_MEMORY and the error of its own limit.
 *  @return TP_OK; TP_ERR_USAGE for another kind, for a member that the kind does not have, and for a missing member
 *          that it needs; TP_ERR_UTF8; TP_ERR_VERSION. The fault names the member.
 *  Threads: one at a time for each writer. */
TP_API tp_status tp_part_write(const tp_part *part, tp_writer *writer, tp_fault *fault);
/** Reads one element of the parts of a message or result.
 *  @param ret_part  its texts point into the value. media_type of a data: URL is the URL's where the map has none.
 *                   struct_size is set by the caller: fields that its size leaves out are not written. Untouched on
 *                   failure.
 *  @return TP_OK; TP_ERR_USAGE for a value that is no part, TP_ERR_VERSION for a wrong struct_size.
 *  Threads: any. */
TP_API tp_status tp_part_read(tp_text value, tp_part *ret_part, tp_fault *fault) TP_MUST_USE;

/** Names a part in one line, without its content: "image chart.png (image/png, 20,317 bytes)" or "link Report
 *  <file:///report.html> (text/html): of May". It is what a provider sends in place of a part that its API or model
 *  cannot carry. Control characters become spaces. A data: URL is not shown.
 *  @param buffer  gets at most size - 1 bytes, cut at a code point, and a NUL; may be NULL when size is 0.
 *  @return the bytes of the whole line; 0 for a part that cannot be read.
 *  Threads: any. */
TP_API size_t tp_part_describe(const tp_part *part, char *buffer, size_t size);

/** Writes what a part is, without its content, as one value: {"kind": str, "name": str, "media_type": str, "uri": str,
 *  "description": str, "size": int}, each but kind where it is known; of a TEXT {"kind": "text", "text": str}. A data:
 *  URL is left out. For programs that read JSON: the context of a declared hook and the lines of `turnphase run` have
 *  parts in this form.
 *  @return as tp_part_write().  Threads: one at a time for each writer. */
TP_API tp_status tp_part_write_summary(const tp_part *part, tp_writer *writer, tp_fault *fault);

TP_END_DECLS
#endif
