/* SPDX-License-Identifier: Apache-2.0 */
/* Names below the stage, the working directory of spawners and of cay-berths: a tmpfs in the
 * engine's own mount namespace. Each sandbox's mount namespace begins as a copy of it. */
#pragma once

#define CAY_STAGE_IMAGES "images" /* bind of the image store */
#define CAY_STAGE_FILES "files"   /* bind of files_fd */
#define CAY_STAGE_SYS "sys"       /* template of /sys, masked */
#define CAY_STAGE_VOID "void"     /* read-only: an empty directory and an empty file */
#define CAY_STAGE_LOWER "lower"   /* mount points, used in each sandbox's own copy */
#define CAY_STAGE_UPPER "upper"
#define CAY_STAGE_ROOT "root"
#define CAY_STAGE_DEV "dev"
#define CAY_STAGE_BOX_PROC "box-proc"
#define CAY_STAGE_PROC "proc" /* the host's, for the engine itself */
