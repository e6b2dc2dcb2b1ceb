/*
 * role: what a caller may do, from nothing to everything.
 */
#ifndef HEARTH_CONTROLLER_STATE_ROLE_H
#define HEARTH_CONTROLLER_STATE_ROLE_H

enum user_role { ROLE_NONE = 0, ROLE_JOB = 1, ROLE_USER = 2, ROLE_ADMIN = 3 };

#endif
