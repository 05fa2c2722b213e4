/* SPDX-License-Identifier: Apache-2.0
 *
 * no_domain.c: a library that exports no tp_domain_export. */
int no_domain(void);

int no_domain(void) { return 0; }
