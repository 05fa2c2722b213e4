/* SPDX-License-Identifier: Apache-2.0
 *
 * call_payload.c: the payload of a call as one value, for handlers that pass it on (programs, bindings). An entry has
 * one such value for each payload that its chain went through; most entries have one or none. They are in a list that
 * only grows, newest first, and that is freed with the entry. The list is read without a lock. A thread that adds to it
 * holds the runtime's lock `payloads`, so that handlers that run at the same time make a value only once. */
#include "runtime/exec/call.h"
#include "runtime/exec/entry.h"
#include "runtime/exec/runtime.h"
#include "runtime/value/value.h"

struct tp__call_payload {
  struct tp__call_payload *next;
  const tp_field *fields; /* of the calls that it belongs to */
  tp_writer writer;       /* has the value's memory */
  tp_text value;          /* empty: it could not be made */
};

/* The field with the lowest id above the last one. So the order in which a host gives the fields does not matter. */
static const tp_field *next_field(const tp_call *call, uint32_t last) {
  const tp_field *next = NULL;
  for (uint32_t i = 0; i < call->field_count; i++) {
    const tp_field *field = &call->fields[i];
    if (field->id > last && (!next || field->id < next->id)) next = field;
  }
  return next;
}

static tp_text write_payload(const tp_call *call, tp_writer *writer) {
  const tp__contribution_ops *ops = tp__runtime_layer_ops(call->entry->turn->runtime)->contributions;
  tp_text value;
  tp_write_map(writer, call->field_count);
  for (const tp_field *field = next_field(call, 0); field; field = next_field(call, field->id)) {
    tp__field_label_buffer buffer;
    tp_write_string(writer, tp__field_label(ops, field->id, &buffer));
    if (field->kind == TP_FIELD_KIND_INT) tp_write_int(writer, field->number);
    else if (field->kind == TP_FIELD_KIND_TEXT) tp_write_text(writer, field->text);
    else if (field->text.size > 0) tp_write_value(writer, field->text);
    else tp_write_null(writer);
  }
  return tp_writer_finish(writer, &value) == TP_OK ? value : (tp_text){NULL, 0};
}

static const struct tp__call_payload *find_payload(const tp_call *call) {
  const struct tp__call_payload *p =
      tp__aptr_load_acquire(&call->entry->payloads); /* pairs with add_payload_locked() */
  while (p && p->fields != call->fields) p = p->next;
  return p;
}

/* Without memory nothing is added, and the next call tries again. */
static const struct tp__call_payload *add_payload_locked(const tp_call *call) {
  TP__LOCKED(tp__runtime_payloads_mutex(call->entry->turn->runtime));
  tp_runtime *runtime = call->entry->turn->runtime;
  struct tp__call_payload *p = tp__alloc(tp__runtime_allocator(runtime), sizeof *p);
  if (!p) return NULL;
  tp__value_writer_init(&p->writer, tp__runtime_allocator(runtime));
  p->fields = call->fields;
  p->value = write_payload(call, &p->writer);
  p->next = tp__aptr_load_relaxed(&call->entry->payloads);
  tp__aptr_store_release(&call->entry->payloads, p);
  return p;
}

tp_text tp_call_payload(const tp_call *call) {
  if (!call) return (tp_text){0};
  tp_runtime *runtime = call->entry->turn->runtime;
  const struct tp__call_payload *p = find_payload(call);
  if (!p) {
    tp__mutex_lock(tp__runtime_payloads_mutex(runtime));
    p = find_payload(call);
    if (!p) p = add_payload_locked(call);
    tp__mutex_unlock(tp__runtime_payloads_mutex(runtime));
  }
  return p ? p->value : (tp_text){NULL, 0};
}

void tp__call_payloads_free(tp__entry *e) {
  const tp_allocator *allocator = tp__runtime_allocator(e->turn->runtime);
  struct tp__call_payload *p = tp__aptr_load_acquire(&e->payloads);
  tp__aptr_store_relaxed(&e->payloads, NULL);
  while (p) {
    struct tp__call_payload *next = p->next;
    tp__value_writer_fini(&p->writer);
    tp__release(allocator, p, sizeof *p);
    p = next;
  }
}
