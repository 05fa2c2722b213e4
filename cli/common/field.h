/* SPDX-License-Identifier: Apache-2.0
 *
 * field: messages of the library name fields of its C API. For a person who calls the command, these names are replaced
 * by the options of the command. The table is field.def. Output for programs (--json) keeps the library's words.
 * Threads: any. */
#ifndef CLI_FIELD_H
#define CLI_FIELD_H

#include "support/bytes.h"
#include "turnphase/turnphase.h"

/** Adds a text in which options replace fields of structs of options ("tp_openai_options.key_env": "--key-env").
 *  @param of_model  the text tells why a turn failed: words without a struct are replaced, too ("check base_url"). */
void cli_field_words(tp_text text, bool of_model, tp__bytes *to);

#endif
