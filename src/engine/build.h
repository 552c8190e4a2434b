/* SPDX-License-Identifier: Apache-2.0 */
/* Building an image by recipe: a child that runs the builder, and tells of it through a pipe.
 *
 * Recipes in the operator's directory are built by the name that stands in them; a request may
 * bring the text of another, which its builder holds to the same language: packages of Debian's and
 * npm's own, by name. What comes out of the pipe is text, a line for each step, and last of all a
 * verdict. Without one the child was ended. Who closes the pipe ends the build. */
#pragma once

#define CAY_BUILD_DONE "=done"     /* the image is in the store */
#define CAY_BUILD_NONE "=none"     /* no recipe makes it */
#define CAY_BUILD_FAILED "=failed" /* the lines before say why */
#define CAY_BUILD_LATE "=late"     /* it took longer than CAY_BUILD_MS */
