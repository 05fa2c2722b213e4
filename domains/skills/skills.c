/* SPDX-License-Identifier: Apache-2.0
 *
 * Registration, and the two handlers: one lists the skills for an agent, one puts their bodies into a message. */
#include "turnphase/skills.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/bytes.h"
#include "support/fault.h"
#include "support/references.h"
#include "domains/skills/skill.h"
#include "turnphase/value.h"

/* The state that the handlers share. Each handler holds a reference, and so does tp_skills_register() while it runs. */
typedef struct domain {
  int directory;
  tp__references refs;
} domain;

/* ---- what an agent may use ---- */

static bool is_allowed(tp_text allowed, tp_text name) {
  if (allowed.size == 0) return true; /* without a list every skill is allowed */
  for (tp_value_walk walk = {0}; tp_value_next(allowed, &walk);)
    if (tp__same(tp_value_text(walk.value), name)) return true;
  return false;
}

/* ---- agent.build ---- */

static tp_status put_summary(const domain *d, const char *name, tp__bytes *list, tp_fault *fault) {
  tp__skill skill;
  tp_status status = tp__skill_read(d->directory, name, &skill, fault);
  if (status != TP_OK) return status;
  tp__bytes_put_string(list, list->size ? "\n- /" : "- /");
  tp__bytes_put_string(list, name);
  tp__bytes_put_string(list, ": ");
  tp__bytes_put_text(list, skill.summary);
  tp__skill_fini(&skill);
  return TP_OK;
}

static bool has_name(const tp__skill_names *names, tp_text name) {
  for (size_t i = 0; i < names->count; i++)
    if (tp__is_word(name, names->items[i])) return true;
  return false;
}

/* Diagnoses names in the agent's list that have no file: they may be names of another domain, or a mistake that the
 * operator should see. */
static void diagnose_missing(tp_call *call, const tp__skill_names *names, tp_text allowed) {
  char text[TP__SKILL_NAME_MAX + 128];
  for (tp_value_walk walk = {0}; allowed.size && tp_value_next(allowed, &walk);) {
    tp_text name = tp_value_text(walk.value);
    if (has_name(names, name)) continue;
    snprintf(text, sizeof text, "the config names the skill %.*s, and there is no file of it",
             (int)(name.size < TP__SKILL_NAME_MAX ? name.size : TP__SKILL_NAME_MAX), name.data);
    (void)!tp_call_emit_diagnostic(call, TP_SEVERITY_WARNING, "skill_missing", text, NULL);
  }
}

static tp_answer emit_list(tp_call *call, const tp__bytes *list) {
  if (list->failed) return tp_call_fail(call, TP_ERR_NO_MEMORY, "no memory for the list of skills");
  if (list->size == 0) return TP_ANSWER_DONE;
  const tp_contribution section = {.struct_size = sizeof section,
                                   .kind = TP_CONTRIBUTION_PROMPT_SECTION,
                                   .key = tp_text_of("skills"),
                                   .title = tp_text_of("Skills"),
                                   .text = tp__bytes_text(list)};
  return tp_call_emit(call, &section, NULL) == TP_OK ? TP_ANSWER_DONE : TP_ANSWER_FAILED;
}

static tp_answer list_skills(void *ctx, tp_call *call) {
  const domain *d = ctx;
  tp_fault fault = {0};
  tp__bytes list = {0};
  tp_text allowed = tp_value_get(tp_call_text(call, TP_FIELD_AGENT_CONFIG), "skills");
  tp__skill_names *names = malloc(sizeof *names);
  if (!names) return tp_call_fail(call, TP_ERR_NO_MEMORY, "no memory for the list of skills");
  tp_status status = tp__skill_list(d->directory, names, &fault);
  for (size_t i = 0; status == TP_OK && i < names->count; i++)
    if (is_allowed(allowed, tp_text_of(names->items[i]))) status = put_summary(d, names->items[i], &list, &fault);
  if (status == TP_OK) diagnose_missing(call, names, allowed);
  tp_answer answer = status == TP_OK ? emit_list(call, &list) : tp_call_fail(call, (uint32_t)status, fault.message);
  free(names);
  tp__bytes_fini(&list);
  return answer;
}

/* ---- turn.intake ---- */

static bool is_command_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/* Returns the word after a slash at the beginning of a line; empty when there is none, or when the word holds another
 * slash. */
static tp_text command_at(tp_text text, size_t at) {
  static const tp_text none = {NULL, 0};
  if (at >= text.size || text.data[at] != '/') return none;
  tp_text word = {text.data + at + 1, 0};
  while (at + 1 + word.size < text.size && !is_command_space(word.data[word.size])) word.size++;
  return word.size && memchr(word.data, '/', word.size) ? none : word;
}

static bool begins_like_a_name(tp_text word) {
  char c = word.size ? word.data[0] : '\0';
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Returns where the next line begins whose first word is a name after a slash; the end of the text if there is none. */
static size_t next_command(tp_text text, size_t from) {
  for (size_t at = from; at < text.size; at++)
    if (text.data[at] == '\n' && tp__skill_name_valid(command_at(text, at + 1))) return at + 1;
  return text.size;
}

static tp_text trim(tp_text text) {
  while (text.size && is_command_space(text.data[0])) text = (tp_text){text.data + 1, text.size - 1};
  while (text.size && is_command_space(text.data[text.size - 1])) text.size--;
  return text;
}

static tp_status refuse_command(tp_fault *fault, tp_text word, const char *why) {
  return tp__refuse(fault, TP_ERR_NOT_FOUND, NULL, "/%.*s: %s; begin the message with a blank to send it as it is",
                    (int)(word.size < TP__SKILL_NAME_MAX ? word.size : TP__SKILL_NAME_MAX), word.data, why);
}

static tp_status put_skill(const domain *d, tp_text word, tp_text allowed, tp__bytes *message, tp_fault *fault) {
  char name[TP__SKILL_NAME_MAX + 1] = "";
  tp__skill skill;
  if (!tp__skill_name_valid(word)) return refuse_command(fault, word, "no skill can have this name");
  if (!is_allowed(allowed, word)) return refuse_command(fault, word, "the agent may not use this skill");
  memcpy(name, word.data, word.size);
  tp_status status = tp__skill_read(d->directory, name, &skill, fault);
  if (status == TP_ERR_NOT_FOUND) return refuse_command(fault, word, "there is no such skill");
  if (status != TP_OK) return status;
  tp__bytes_put_string(message, message->size ? "\n\n<skill name=\"" : "<skill name=\"");
  tp__bytes_put_string(message, name);
  tp__bytes_put_string(message, "\">\n");
  tp__bytes_put_text(message, skill.body);
  tp__bytes_put_string(message, "\n</skill>");
  tp__skill_fini(&skill);
  return TP_OK;
}

static tp_status put_skill_message(const domain *d, tp_text text, tp_text allowed, tp__bytes *message,
                                   tp_fault *fault) {
  for (size_t at = 0; at < text.size;) {
    tp_text word = command_at(text, at);
    size_t behind = at + 1 + word.size, next = next_command(text, behind);
    tp_status status = put_skill(d, word, allowed, message, fault);
    if (status != TP_OK) return status;
    tp_text arguments = trim((tp_text){text.data + behind, next - behind});
    if (arguments.size) tp__bytes_put_string(message, "\n\n");
    tp__bytes_put_text(message, arguments);
    at = next;
  }
  if (!message->failed) return TP_OK;
  return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the skills of a message");
}

static tp_answer call_skills(void *ctx, tp_call *call) {
  tp_fault fault = {0};
  tp__bytes message = {0};
  tp_answer answer = TP_ANSWER_DONE;
  tp_text text = tp_call_text(call, TP_FIELD_TEXT), allowed = tp_value_get(tp_call_agent_config(call), "skills");
  if (!begins_like_a_name(command_at(text, 0)))
    return TP_ANSWER_DONE; /* an earlier handler of the phase has changed
                                                                          the text */
  if (put_skill_message(ctx, text, allowed, &message, &fault) == TP_OK) {
    tp_field field = {.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = tp__bytes_text(&message)};
    if (tp_call_replace(call, &field, 1, NULL) != TP_OK) answer = TP_ANSWER_FAILED;
  } else {
    answer = tp_call_deny(call, fault.message);
  }
  tp__bytes_fini(&message);
  return answer;
}

/* ---- registration ---- */

static void unref_skills(void *ctx) {
  domain *d = ctx;
  if (!tp__references_unref(&d->refs)) return;
  close(d->directory);
  free(d);
}

static int32_t is_command(void *ctx, const tp_match_view *view) {
  (void)ctx;
  return begins_like_a_name(command_at(tp_match_text(view, TP_FIELD_TEXT), 0)) ? TP_MATCH_YES : TP_MATCH_NO;
}

/* @param match  NULL: always. */
static tp_status add_skill_handler(tp_edit *edit, domain *d, const tp_handler *row, const tp_match *match,
                                   tp_fault *fault) {
  tp_handler handler = *row;
  handler.struct_size = sizeof handler;
  handler.ctx = d;
  handler.destroy = unref_skills;
  handler.phase_count = 1;
  handler.contract_version = 1;
  handler.idempotent = true;
  tp_status status = tp_edit_add_handler(edit, &handler, fault);
  if (status != TP_OK) return status; /* a handler that was not taken is not destroyed */
  tp__references_ref(&d->refs);
  const tp_subscription subscription = {.struct_size = sizeof subscription,
                                        .id = row->id,
                                        .handler = row->id,
                                        .phase = row->phases[0],
                                        .failure = TP_FAILURE_REQUIRED,
                                        .match = match};
  return tp_edit_add_subscription(edit, &subscription, fault);
}

static tp_status add_handlers(tp_edit *edit, domain *d, tp_fault *fault) {
  static const uint32_t build = TP_PHASE_AGENT_BUILD, intake = TP_PHASE_TURN_INTAKE;
  const tp_handler lists = {.id = "skills.list",
                            .summary = "lists the skills in the agent's system text",
                            .run = list_skills,
                            .phases = &build,
                            .capabilities = TP_CAPABILITY_CONTRIBUTE_PROMPT_SECTION};
  const tp_handler calls = {.id = "skills.call",
                            .summary = "puts the skills that a message calls into it",
                            .run = call_skills,
                            .phases = &intake,
                            .capabilities = TP_CAPABILITY_DECIDE | TP_CAPABILITY_REPLACE_PAYLOAD};
  static const tp_field_id field = TP_FIELD_TEXT;
  static const tp_match match = {.struct_size = sizeof match,
                                 .matches = is_command,
                                 .description = "the text begins with /NAME",
                                 .fields = &field,
                                 .field_count = 1};
  tp_status status = add_skill_handler(edit, d, &lists, NULL, fault);
  return status == TP_OK ? add_skill_handler(edit, d, &calls, &match, fault) : status;
}

static tp_status read_skills_options(const tp_skills_options *theirs, tp_skills_options *ours, tp_fault *fault) {
  tp_status status = tp__struct_read(ours, sizeof *ours, theirs, "tp_skills_options", fault);
  if (status != TP_OK) return status;
  if (ours->directory && ours->directory[0]) return TP_OK;
  return tp__refuse(fault, TP_ERR_USAGE, NULL,
                    "tp_skills_options.directory is empty: name the directory of the skills");
}

static tp_status domain_new(const char *path, domain **ret_domain, tp_fault *fault) {
  int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return tp__refuse(fault, TP_ERR_IO, path, "%s: %s", path, strerror(errno));
  domain *d = calloc(1, sizeof *d);
  if (!d) {
    close(directory);
    return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the skills");
  }
  tp__references_init(&d->refs);
  d->directory = directory;
  *ret_domain = d;
  return TP_OK;
}

static tp_status check_all(const domain *d, tp_fault *fault) {
  tp__skill_names *names = malloc(sizeof *names);
  if (!names) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the names of the skills");
  tp_status status = tp__skill_list(d->directory, names, fault);
  for (size_t i = 0; status == TP_OK && i < names->count; i++) {
    tp__skill skill = {0};
    status = tp__skill_read(d->directory, names->items[i], &skill, fault);
    tp__skill_fini(&skill);
  }
  free(names);
  return status;
}

tp_status tp_skills_register(tp_edit *edit, const tp_skills_options *options, tp_fault *fault) {
  tp_skills_options ours;
  domain *d = NULL;
  tp_status status = read_skills_options(options, &ours, fault);
  if (status == TP_OK) status = domain_new(ours.directory, &d, fault);
  if (status != TP_OK) return status;
  status = check_all(d, fault);
  if (status == TP_OK) status = add_handlers(edit, d, fault);
  unref_skills(d);
  return status;
}

/* Passes one skill to each. @return false: `each` has stopped the walk, or the skill cannot be read. */
static bool pass_skill(int directory, const char *name, tp_skill_fn each, void *ctx, tp_status *status,
                       tp_fault *fault) {
  tp__skill skill = {0};
  assert(*status == TP_OK);
  *status = tp__skill_read(directory, name, &skill, fault);
  const tp_skill shown = {
      .struct_size = sizeof shown, .name = tp_text_of(name), .summary = skill.summary, .body = skill.body};
  bool goes_on = *status == TP_OK && each(ctx, &shown);
  tp__skill_fini(&skill);
  return goes_on;
}

tp_status tp_skills_each(const char *directory, const char *only, tp_skill_fn each, void *ctx, tp_fault *fault) {
  domain *d = NULL;
  if (!directory || !directory[0] || !each)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_skills_each() needs a directory and a callback");
  if (only && !tp__skill_name_valid(tp_text_of(only)))
    return tp__refuse(fault, TP_ERR_NOT_FOUND, only, "no skill has such a name");
  tp_status status = domain_new(directory, &d, fault);
  tp__skill_names *names = status == TP_OK ? malloc(sizeof *names) : NULL;
  if (status == TP_OK && !names) status = tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the names");
  if (status == TP_OK && only) (void)pass_skill(d->directory, only, each, ctx, &status, fault);
  else if (status == TP_OK) status = tp__skill_list(d->directory, names, fault);
  for (size_t i = 0; status == TP_OK && !only && i < names->count; i++)
    if (!pass_skill(d->directory, names->items[i], each, ctx, &status, fault)) break;
  free(names);
  if (d) unref_skills(d);
  return status;
}
