/* SPDX-License-Identifier: Apache-2.0 */
/* What runs in the peers' sandboxes: says that it runs, and waits for its end. Linked statically.
 */
#include <unistd.h>

int main(void)
{
    if (write(1, "r", 1) != 1)
        return 1;
    for (;;)
        pause();
}
