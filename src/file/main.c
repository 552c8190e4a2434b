/* SPDX-License-Identifier: Apache-2.0 */
/* cay-file: one operation on files of a sandbox, from inside. pid 1 starts it from sealed memory
 * with the rights of a user; stdin and stdout are pipes to the server. */
#include "file/file.h"
#include <sys/prctl.h>

int main(int argc, char **argv)
{
    (void)prctl(PR_SET_NAME, "cay-file"); /* or it would be called after its descriptor */
    return cay_file_main(argc, argv);
}
