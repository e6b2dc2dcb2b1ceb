/*
 * settings: hearthd's configuration: one table (hearth.conf.5 says the same in words).
 */
#ifndef HEARTH_CONTROLLER_SETTINGS_H
#define HEARTH_CONTROLLER_SETTINGS_H

#include "common/base/err.h"
#include "common/os/conf.h"
#include "controller/controller.h"

/* Defaults, then the file, then --set. NULL + error. */
struct conf *settings_load(const struct controller_options *o, struct err *e);

#endif
