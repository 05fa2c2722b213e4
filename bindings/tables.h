/* SPDX-License-Identifier: Apache-2.0
 *
 * tables.h: the types of the tables that bindings/fields.py writes. They have the members of each public struct that a
 * binding uses; by them the binding reads objects of its language into structs, and shows structs as objects. */
#ifndef TURNPHASE_BINDINGS_TABLES_H
#define TURNPHASE_BINDINGS_TABLES_H

#include <stddef.h>
#include <stdint.h>

typedef enum tpb_kind {
  TPB_STRING,  /* const char * */
  TPB_UINT,    /* of `size` bytes */
  TPB_INT,     /* of `size` bytes */
  TPB_BOOL,    /* bool */
  TPB_ENUM,    /* of 32 bits; a name of the table, or a number */
  TPB_TEXT,    /* tp_text: UTF-8 */
  TPB_BYTES,   /* tp_text: bytes */
  TPB_VALUE,   /* tp_text: a value, or text */
  TPB_LATER,   /* as VALUE; a binding may show it as bytes, and decode them on demand */
  TPB_STRINGS, /* array of const char *, ended by NULL; counted if the struct has a count */
  TPB_STRUCT,  /* pointer to a struct of the table */
  TPB_STRUCTS  /* array of pointers to structs of the table, counted */
} tpb_kind;
typedef struct tpb_enum_value {
  const char *name; /* NULL ends the table */
  int32_t number;
} tpb_enum_value;
typedef struct tpb_enum {
  const char *name;
  const tpb_enum_value *values;
  void **names; /* as tpb_struct.names */
} tpb_enum;
typedef struct tpb_field {
  const char *name; /* NULL ends the table */
  tpb_kind kind;
  uint32_t size;
  size_t offset;
  int32_t count_offset; /* of a list; for a VALUE the offset of a bool which is set when it is text; -1: none */
  const void *table;    /* tpb_enum, tpb_struct or NULL */
} tpb_field;
typedef struct tpb_struct {
  const char *name;
  size_t size; /* the struct's first member is struct_size */
  const tpb_field *fields;
  void **names; /* one for each field, NULL at first: the binding's object for the name */
} tpb_struct;

#endif
