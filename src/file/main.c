/* SPDX-License-Identifier: Apache-2.0 */
/* cay-file: one operation on files of a sandbox, from inside. pid 1 starts it from sealed memory
 * with the rights of a user; stdin and stdout are pipes to the server. */
#include "file/file.h"

int main(int argc, char **argv)
{
    return cay_file_main(argc, argv);
}
