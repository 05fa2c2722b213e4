/* SPDX-License-Identifier: Apache-2.0
 *
 * domain.c: the handshake with a library that a host has loaded. The descriptor of a library is data. So a library that
 * was built against other headers is refused before any of its code is called. */
#include "runtime/exec/runtime.h"

#define MAJOR(version) ((version) >> 16)
#define MINOR(version) ((version) >> 8 & 0xff)

static bool version_fits(uint32_t version) {
  if (MAJOR(version) != TP_VERSION_MAJOR) return false;
  return TP_VERSION_MAJOR > 0 || MINOR(version) == TP_VERSION_MINOR; /* before 1.0 a minor version may break the ABI */
}

static tp_status read_domain(const tp_domain *theirs, tp_domain *domain, tp_fault *fault) {
  if (!theirs) return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_domain_add needs a domain");
  TP__TRY(tp__options_read(domain, sizeof *domain, theirs, "tp_domain", fault));
  uint32_t version = domain->header_version;
  if (!version_fits(version)) /* then its other fields may have other meanings */
    return tp__fail(fault, TP_ERR_VERSION, NULL,
                    "tp_domain: it was built with the headers of turnphase %u.%u.%u, and this is %s: build it again",
                    MAJOR(version), MINOR(version), version & 0xff, tp_version());
  if (!tp__id_valid(domain->name))
    return tp__fail(fault, TP_ERR_BAD_ID, domain->name,
                    "tp_domain.name is no id: 1 to 128 bytes of UTF-8 without white space");
  if (domain->reserved_ != 0)
    return tp__fail(fault, TP_ERR_VERSION, domain->name, "domain `%s`: reserved_ must be zero", domain->name);
  if (!domain->register_with)
    return tp__fail(fault, TP_ERR_USAGE, domain->name, "domain `%s`: register_with is NULL", domain->name);
  return TP_OK;
}

tp_status tp_domain_add(tp_runtime *runtime, tp_edit *edit, const tp_domain *theirs, tp_fault *fault) {
  tp_domain domain;
  tp_fault own = {.code = TP_OK};
  TP__TRY(read_domain(theirs, &domain, fault));
  if (!edit)
    return tp__fail(fault, TP_ERR_USAGE, domain.name, "tp_domain_add needs an edit: make one with tp_edit_begin()");
  tp_domain_context context = {.struct_size = sizeof context, .runtime = runtime, .edit = edit};
  tp_status status = domain.register_with(&context, &own);
  if (status == TP_OK) return TP_OK;
  const char *version = domain.version ? domain.version : "";
  tp__fail(fault, status, domain.name, "domain `%s`%s%s refused to register: %s", domain.name, *version ? " " : "",
           version, own.message[0] ? own.message : tp_status_text(status));
  if (fault && own.code != TP_OK) {
    fault->phase = own.phase;
    fault->system_error = own.system_error;
  }
  return status;
}
