/* SPDX-License-Identifier: Apache-2.0
 *
 * tables.h: what bindings/fields.py writes: for each public struct of a binding its members, by which the binding reads
 * objects of its language into structs, and shows structs as objects. */
#ifndef TURNPHASE_BINDINGS_TABLES_H
#define TURNPHASE_BINDINGS_TABLES_H

#include <stddef.h>
#include <stdint.h>

typedef enum tpb_kind {
  TPB_STRING,  /* const char * */
  TPB_UINT,    /* of `size` bytes */
  TPB_INT,     /* of `size` bytes */
  TPB_BOOL,    /* bool */
  TPB_ENUM,    /* 32 bits; a name of the table, or a number */
  TPB_TEXT,    /* tp_text: UTF-8 */
  TPB_BYTES,   /* tp_text: bytes */
  TPB_VALUE,   /* tp_text: a value, or text */
  TPB_LATER,   /* likewise; a binding may show it as bytes, to read them when they are asked for */
  TPB_STRINGS, /* array of const char *, ended by NULL and counted where the struct has a count */
  TPB_STRUCT,  /* pointer to a struct of the table */
  TPB_STRUCTS  /* array of pointers to structs of the table, counted */
} tpb_kind;
typedef struct tpb_enum_value {
  const char *name; /* NULL: the end */
  int32_t number;
} tpb_enum_value;
typedef struct tpb_enum {
  const char *name;
  const tpb_enum_value *values;
  void **names; /* as those of a struct */
} tpb_enum;
typedef struct tpb_field {
  const char *name; /* NULL: the end */
  tpb_kind kind;
  uint32_t size;
  size_t offset;
  int32_t count_offset; /* of a list; of a VALUE that of a bool which is set when it is text; -1: none */
  const void *table;    /* tpb_enum, tpb_struct or NULL */
} tpb_field;
typedef struct tpb_struct {
  const char *name;
  size_t size; /* struct_size is its first member */
  const tpb_field *fields;
  void **names; /* one for each field, NULL at first: what the binding keeps of its name */
} tpb_struct;

#endif
