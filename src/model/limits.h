/* SPDX-License-Identifier: Apache-2.0 */
/* Every default and every bound, by name. Nothing from outside is looped over, stored or waited
 * for without one of these. */
#pragma once

#define CAY_KIB 1024LL
#define CAY_MIB (1024 * CAY_KIB)
#define CAY_GIB (1024 * CAY_MIB)

/* sandboxes */
#define CAY_DEFAULT_IMAGE "node:20-bookworm"
#define CAY_DEFAULT_CPU_MILLI 1000
#define CAY_DEFAULT_MEMORY_BYTES (2 * CAY_GIB)
#define CAY_MEMORY_PER_VCPU_BYTES (2048 * CAY_MIB)
#define CAY_ALL_MEMORY_PERCENT 85 /* of the host's, for all together; so no one can have more */
#define CAY_DEFAULT_DISK_BYTES (10 * 1000 * 1000 * 1000LL)
#define CAY_DEFAULT_PIDS 512
#define CAY_DEFAULT_TIMEOUT_MS (60 * 60 * 1000LL)
#define CAY_DEFAULT_GRACE_MS 10000
#define CAY_DEFAULT_USER "user"
#define CAY_DEFAULT_WORKDIR "/workspace"
#define CAY_MIN_CPU_MILLI 100
#define CAY_MAX_CPU_MILLI 64000
#define CAY_MIN_MEMORY_BYTES (64 * CAY_MIB)
#define CAY_MIN_DISK_BYTES (100 * 1000 * 1000LL)
#define CAY_MAX_TIMEOUT_MS (24 * 60 * 60 * 1000LL)
#define CAY_MAX_GRACE_MS 600000
#define CAY_MIN_IDLE_MS 1000
#define CAY_MAX_IDLE_MS CAY_MAX_TIMEOUT_MS
#define CAY_MIN_LEASE_MS 1000
#define CAY_MAX_LEASE_MS CAY_MAX_TIMEOUT_MS
#define CAY_MAX_NAME 63
#define CAY_MAX_IMAGE_NAME 255
#define CAY_MAX_LABELS 64
#define CAY_MAX_LABEL 128
#define CAY_MAX_TAGS 5
#define CAY_MAX_PORTS 4
#define CAY_MAX_PORT_NAME 63
#define CAY_MAX_PORT_WAIT_S 120 /* a request that waits for something to listen */
#define CAY_MAX_ENV 256
#define CAY_MAX_ENV_BYTES (64 * CAY_KIB)
#define CAY_MAX_SECRETS 64
#define CAY_DEFAULT_READY_MS 30000
#define CAY_MAX_READY_MS 600000
#define CAY_MAX_READY_LINE 1024
#define CAY_READIERS 4               /* threads that look whether sandboxes are ready */
#define CAY_DEFAULT_SOURCE_MS 300000 /* until a source is there */
#define CAY_MAX_SOURCE_MS 1800000
#define CAY_SOURCE_SLACK_MS 10000      /* beyond it, for who should have ended it */
#define CAY_SOURCE_BYTES (4 * CAY_GIB) /* that one may move; nor more than the disk holds */
#define CAY_SOURCE_SILENCE_S 60        /* below 1000 bytes a second for so long is no server */
#define CAY_SOURCE_LINE 240            /* of what a tool said last */
#define CAY_MAX_URL 2048
#define CAY_MAX_REVISION 255
#define CAY_MAX_DEPTH 1000000
#define CAY_MAX_CREDENTIAL 1024
#define CAY_MAX_IDEMPOTENCY_KEY 255
#define CAY_MAX_PER_PAGE 1000
#define CAY_DEFAULT_PER_PAGE 50
#define CAY_MAX_FORKS 100     /* by one request */
#define CAY_FORK_THREADS 8    /* that make them, the worker's own among them */
#define CAY_FORK_HELPERS 32   /* threads beside the workers, over all requests */
#define CAY_LONG_COPY_MS 1000 /* where copies take longer, few run at once */
#define CAY_MAX_PAGE 1000000
#define CAY_MAX_STATUSES 100    /* that one request asks for */
#define CAY_HOLD_LONG_MS 1000   /* an operation that takes longer is waited for by few */
#define CAY_HOLD_WAITERS 7      /* so many: with those who wait for a grace, a worker is left */
#define CAY_MAKERS 4            /* threads for creates that nobody waits for */
#define CAY_MAKER_JOBS 256      /* such creates at once; more is 503 */
#define CAY_MAKER_DRAIN_MS 3000 /* what a stop waits for them */
#define CAY_STATS_MIN_MS 100    /* between two readings of one sandbox */
#define CAY_STATS_MAX_MS 60000
#define CAY_STATS_DEFAULT_MS 1000

/* executions */
#define CAY_MAX_ARGS 4096
#define CAY_MAX_ARG_BYTES (128 * CAY_KIB - 1) /* the kernel's own, per string */
#define CAY_MAX_ARGV_BYTES (1 * CAY_MIB)      /* all of argv */
#define CAY_MAX_PATH 4095
#define CAY_MAX_SOCKET_PATH 107 /* the kernel's */
#define CAY_MAX_STDIN_BYTES (4 * CAY_MIB)
#define CAY_MAX_EXEC_TIMEOUT_MS (24 * 60 * 60 * 1000LL)
#define CAY_EXEC_FILES_MS 20000 /* until the files of a command are written */
#define CAY_MAX_EXECUTIONS 128  /* at once in one sandbox */
#define CAY_DEFAULT_COLS 80
#define CAY_DEFAULT_ROWS 24
#define CAY_MAX_INPUTS 16      /* that may write to one execution's stdin at once */
#define CAY_MAX_TERMINALS 64   /* of one sandbox; the host has 4096 for all */
#define CAY_MAX_WINDOW 1000    /* columns, and rows, of a terminal */
#define CAY_EXEC_GRACE_MS 2000 /* between SIGTERM and SIGKILL of a timeout */
#define CAY_LOG_HEAD_BYTES (8 * CAY_MIB)
#define CAY_LOG_TAIL_BYTES (8 * CAY_MIB)
#define CAY_LOG_RESERVE_BYTES (16 * CAY_MIB) /* given up to new logs when the disk is full */
#define CAY_LOG_BLOCK (64 * CAY_KIB)         /* no record crosses a border of these */
#define CAY_LOG_RATE_BYTES (32 * CAY_MIB)    /* a second, past the head */
#define CAY_LOG_SANDBOX_LOGS 32              /* of one sandbox, as much as so many full ones; */
#define CAY_LOG_SANDBOX_STOP 2               /* it is stopped at so many times that */
#define CAY_LOG_ACCOUNT_BYTES (2 * CAY_GIB)  /* of one account, all together */
#define CAY_LOG_WEIGH_MS 2000                /* of what they take is known how it was then, */
#define CAY_LOG_WEIGH_AGAIN_MS 200           /* and who is over his quota, how it was then */
#define CAY_LOG_RETENTION_MS (24 * 60 * 60 * 1000LL)

/* batches */
#define CAY_BATCHES 16                 /* at once, of one account half of it; more is 503 */
#define CAY_BATCH_BYTES (32 * CAY_MIB) /* of what they were asked, together */
#define CAY_BATCH_ITEMS 10000
#define CAY_BATCH_SANDBOXES 1000
#define CAY_BATCH_CONCURRENCY 64 /* items of one that run at once */
#define CAY_BATCH_DEFAULT_CONCURRENCY 8
#define CAY_BATCH_THREADS 8 /* that begin and finish items of all */
#define CAY_BATCH_OUTPUT_BYTES                                                                     \
    (1 * CAY_MIB) /* of each stream of an item, unless it says otherwise */
#define CAY_BATCH_FILE_BYTES (256 * CAY_MIB) /* of results; what comes then is without output */
#define CAY_BATCH_HEAD 33                    /* bytes before the first line of a batch's file */

/* files */
#define CAY_MAX_FILE_CALLS 32  /* at once in one sandbox */
#define CAY_FILE_CALL_MS 60000 /* of one that moves no data */
#define CAY_FILE_DATA_MS (24 * 60 * 60 * 1000LL)
#define CAY_FILE_VERDICT_MS 300000        /* from the end of an upload to its file */
#define CAY_FILE_PIPE_BYTES (512 * 1024)  /* of one that data goes through */
#define CAY_FILE_ARGS 192                 /* of cay-file */
#define CAY_FILE_DEPTH 256                /* of a tree that is walked */
#define CAY_FILE_PAGE 1000                /* entries */
#define CAY_FILE_PAGE_BYTES (1 * CAY_MIB) /* a page ends behind the entry that passes this */
#define CAY_FILE_FORM_FILES 1000
#define CAY_FILE_FILTER_BYTES 2048 /* of each kind */
#define CAY_FILE_MATCH_BYTES 2048  /* of If-Match */
#define CAY_FILE_FILTERS 64        /* patterns of each kind */
#define CAY_FILE_ARCHIVE_ENTRIES 1000000
#define CAY_FILE_TEXT_MAX (32 * CAY_MIB) /* of a file that is answered as a JSON string */
#define CAY_FILE_WATCHES 8192            /* directories below one that is watched */

/* the network */
#define CAY_MAX_RULES 1000                     /* of one policy, all its lists together */
#define CAY_MAX_RULE 300                       /* bytes of one, as it is written */
#define CAY_MAX_HOST 253                       /* bytes of a name, without a final dot */
#define CAY_MAX_NET_HEADERS 32                 /* that a policy adds to requests */
#define CAY_MAX_NET_HEADER 8192                /* bytes of the value of one */
#define CAY_MAX_NET_HEADERS_SUM (32 * CAY_KIB) /* of all: each connection may have to hold them */
#define CAY_CLAIM_MAX (16 * CAY_KIB) /* of a connection's first bytes, looked at for a name */
#define CAY_DNS_MESSAGE 4096         /* bytes of one that is read or made */
#define CAY_DNS_UDP 1232             /* that we say we take */
#define CAY_DNS_ADDRESSES 32         /* of one answer; more are left out */
#define CAY_DNS_CHAIN 16             /* aliases followed to them */
#define CAY_DNS_RECORDS 256          /* looked at in one answer */
#define CAY_DNS_TTL_MAX 3600         /* seconds; a longer one is cut to it */

/* the way out */
#define CAY_NET_WANTED 256                  /* that are remembered of one sandbox */
#define CAY_NET_GIVEN 1024                  /* addresses that it was given for names */
#define CAY_NET_GIVEN_MS (10 * 60 * 1000LL) /* they count for so long at least */
#define CAY_NET_CONNECTIONS 1024            /* of one sandbox at once */
#define CAY_NET_ACCOUNT_CONNECTIONS 4096    /* of all of an account's */
#define CAY_NET_ALL_CONNECTIONS 6000        /* of all, or a third of the descriptors */
#define CAY_NET_RATE 200                    /* new ones of one sandbox in a second */
#define CAY_NET_BURST 1000                  /* and so many at once after a quiet time */
#define CAY_NET_DNS_RATE 100                /* questions of one sandbox in a second */
#define CAY_NET_DNS_BURST 500
#define CAY_NET_REST_MS 50           /* nothing is taken for so long once it had more */
#define CAY_NET_DNS_WAITING 64       /* of one sandbox that wait for an answer */
#define CAY_NET_DNS_ACCOUNT 256      /* of all of an account's */
#define CAY_NET_DNS_SESSIONS 64      /* that it asks by TCP */
#define CAY_NET_DNS_SESSION_MS 30000 /* how long one of these lasts */
#define CAY_NET_DIAL_MS 15000        /* until a connection stands, or does not */
#define CAY_NET_CLAIM_MS 15000       /* from the first byte that may name a host to the name */
#define CAY_NET_IDLE_MS (60 * 60 * 1000LL) /* no byte either way */
#define CAY_NET_TURN_BYTES (1 * CAY_MIB)   /* of one connection before the others' turn */
#define CAY_NET_PIPE_BYTES (64 * CAY_KIB)  /* between its two sockets at most, each way */
#define CAY_NET_LITTLE (4 * CAY_KIB)       /* less is copied at once, more goes through a pipe */
#define CAY_NET_SPARE_PIPES 64
#define CAY_NET_PIPES_PART 16  /* one pipe for so many descriptors that there may be, at most */
#define CAY_NET_TALLY_MS 1000  /* between two looks at what limited accounts have moved */
#define CAY_NET_USERS 4096     /* accounts of whose use is kept what they used today */
#define CAY_NET_NAMES 64       /* of one address that are asked about */
#define CAY_NET_ANSWERS 4096   /* of nameservers that are kept */
#define CAY_NET_QUESTIONS 512  /* to them at once */
#define CAY_NET_ANSWER_MS 2000 /* until the next one is asked */
#define CAY_NET_FAILED_S 2     /* for so long nobody is asked again */
#define CAY_NET_HOSTS 4096     /* names in /etc/hosts */
#define CAY_NET_OWN 256        /* addresses of this host */
#define CAY_NET_OPERATORS 64   /* nets that the operator opened */
#define CAY_NET_LOOK_MS 5000   /* between two looks at the host's own addresses */

#define CAY_SANDBOX_EXEC_MS 30000 /* of one command of /api/sandbox, unless said */

/* code history */
#define CAY_HISTORY_FILES 200000              /* of one workspace */
#define CAY_HISTORY_NAME_BYTES (32 * CAY_MIB) /* of all their paths */
#define CAY_HISTORY_FILE_BYTES (8 * CAY_MIB)  /* a larger one is left out */
#define CAY_HISTORY_RULES 10000               /* of all .gitignore files */
#define CAY_HISTORY_RULE_BYTES 4096           /* a longer one is none */
#define CAY_HISTORY_RULE_STEPS 400000000      /* that one look may take by them: a second or two */
#define CAY_HISTORY_COMMIT_BYTES (512 * CAY_MIB) /* that one commit may take in */
#define CAY_HISTORY_BYTES                                                                          \
    (4LL * 1024 * CAY_MIB) /* of one on the disk, or what its sandbox may have */
#define CAY_HISTORY_JOURNAL_BYTES (64 * CAY_MIB) /* of its journal: past either it is full */
#define CAY_HISTORY_BUNDLES 4                    /* that are made or fetched at the same time */
#define CAY_HISTORY_TOLD 1000                    /* paths of one version that are named */
#define CAY_HISTORY_TOLD_BYTES (64 * CAY_KIB)    /* and as many bytes of them, quoted */
#define CAY_HISTORY_LEFT_BYTES (4 * CAY_KIB)     /* likewise of what each version leaves out */
#define CAY_HISTORY_DIFF_BYTES (8 * CAY_MIB)     /* of one answer */
#define CAY_HISTORY_THREADS 8         /* each at one sandbox, which may keep it waiting */
#define CAY_HISTORY_MS 30000          /* that a look at the workspace may take */
#define CAY_HISTORY_AWAIT_MS 5000     /* that anybody waits for a version, holding a thread */
#define CAY_HISTORY_AWAITING 8        /* who do */
#define CAY_HISTORY_OPEN 32           /* that stay open */
#define CAY_HISTORY_OPEN_FILES 200000 /* of all of these */
#define CAY_HISTORY_DUE_BYTES (16 * CAY_MIB)     /* that tell which versions are due */
#define CAY_HISTORY_BROUGHT_BYTES (64 * CAY_KIB) /* of the paths that one command brings */
#define CAY_HISTORY_BROUGHT_HERE CAY_MIB         /* of all commands of a sandbox, as they are due */
#define CAY_HISTORY_BROUGHT_ALL (8 * CAY_MIB)    /* of all commands: half of what due may have */
#define CAY_HISTORY_SWEEP_MS (60 * 60 * 1000)    /* that one without its sandbox stays */

#define CAY_MAX_TRUST (4 * CAY_MIB) /* of certificates of authorities */
/* images by recipe, and by other names */
#define CAY_BUILDS 2                    /* at once */
#define CAY_BUILD_LOOKS 8               /* looks at what can be built, at once */
#define CAY_BUILD_MS (30 * 60 * 1000LL) /* of one */
#define CAY_BUILD_END_MS 10000          /* to remove what it has half made */
#define CAY_MAX_RECIPES 1000            /* looked at in the directory */
#define CAY_RECIPE_BYTES (64 * CAY_KIB)
#define CAY_MAX_ALIASES 256
#define CAY_IMAGE_WAIT_MS (15 * 60 * 1000LL) /* that a create waits for its image */
#define CAY_FETCHES 8                        /* images that are waited for at once */

/* images */
#define CAY_IMAGE_MANIFEST_BYTES (4 * CAY_MIB) /* of an index, a manifest, a config */
#define CAY_IMAGE_TEXT_BYTES (64 * CAY_KIB)    /* what the store keeps of one */
#define CAY_IMAGE_PLATFORMS 256                /* in one index */
#define CAY_IMAGE_LAYERS 127                   /* in one manifest; what a sandbox takes is fewer */
#define CAY_IMAGE_STRINGS 1024                 /* of each list in a config */
#define CAY_IMAGE_JOBS 4                       /* children of the engine at work on images */
#define CAY_IMAGE_EXPORTS 2                    /* of them that write what somebody reads */
#define CAY_IMAGE_WAITING 64                   /* requests that wait for one */
#define CAY_IMAGE_CALL_MS 120000               /* of one that moves no data */
#define CAY_IMAGE_DATA_MS (30 * 60 * 1000LL)   /* of one that does */
#define CAY_LAYER_BYTES (64 * CAY_GIB)         /* unpacked */
#define CAY_LAYER_ENTRIES 1000000
#define CAY_LAYER_DEPTH 256 /* directories in each other */
#define CAY_LAYER_RATIO 100 /* unpacked to packed bytes, above the next */
#define CAY_LAYER_RATIO_BYTES (1 * CAY_GIB)
#define CAY_LAYER_WAY_BYTES (64 * CAY_MIB)   /* names that are remembered, in and out */
#define CAY_LAYER_MARK_BYTES (64 * CAY_MIB)  /* and of directories that are marked */
#define CAY_IMPLIED_BYTES (1 * CAY_MIB)      /* names of those that no entry has, kept of a layer */
#define CAY_IMPLIED_DIRS 4096                /* of them, looked at for one image */
#define CAY_LAYER_MEMORY (512 * CAY_MIB)     /* of the child that unpacks */
#define CAY_SHELF_FREE_BYTES (512 * CAY_MIB) /* left free on the image store's disk */
#define CAY_SHELF_NAMES 10000                /* images in a list */
#define CAY_ARCHIVE_MEMBERS 10000            /* of an archive with images */
#define CAY_ARCHIVE_BYTES (64 * CAY_GIB)

/* registries */
#define CAY_REGISTRIES 256                /* that the operator names */
#define CAY_REGISTRY_MIRRORS 8            /* of one */
#define CAY_REGISTRY_REDIRECTS 5          /* of one request */
#define CAY_REGISTRY_TRIES 5              /* in a row without a byte more */
#define CAY_REGISTRY_TRIES_ALL 32         /* of one blob, however far each came */
#define CAY_REGISTRY_BACKOFF_MS 200       /* before the second try; doubled before each more */
#define CAY_REGISTRY_BACKOFF_MAX_MS 10000 /* also of what a Retry-After says */
#define CAY_REGISTRY_CONNECT_MS 10000
#define CAY_REGISTRY_BRIEF_MS 2000       /* the same where there is another way to the image */
#define CAY_REGISTRY_BRIEF_CALL_MS 10000 /* and of a manifest then */
#define CAY_REGISTRY_CALL_MS 60000       /* of a manifest, a config, a token */
#define CAY_REGISTRY_BLOB_MS (60 * 60 * 1000LL)
#define CAY_REGISTRY_SLOW_BYTES 1024 /* a second; less, over so many seconds, is cut: */
#define CAY_REGISTRY_SLOW_S 30
#define CAY_REGISTRY_TOKEN_BYTES (64 * CAY_KIB) /* of a token server's answer */
#define CAY_REGISTRY_TOKENS 256                 /* that are kept */
#define CAY_REGISTRY_TOKEN_S 60 /* a token lasts that long, unless it says otherwise */
#define CAY_REGISTRY_CONFIG_BYTES (1 * CAY_MIB) /* of ~/.docker/config.json */

/* jobs */
#define CAY_JOBS 256                       /* that are known; the oldest that ended go first */
#define CAY_JOBS_WAITING 64                /* more is 503 */
#define CAY_JOB_THREADS 16                 /* that run at once */
#define CAY_JOB_EXPORTS 4                  /* of them that last as long as their readers like */
#define CAY_JOB_ACCOUNTS 64                /* that want the same one */
#define CAY_JOB_KEPT_MS (60 * 60 * 1000LL) /* after its end */
#define CAY_JOB_LOOK_MS 200                /* between two events of one that runs */
#define CAY_PULL_LAYERS 3                  /* of one image that are fetched at once */
#define CAY_PULL_MS (60 * 60 * 1000LL)     /* that one may take */

/* records */
#define CAY_AUDIT_DAYS 90
#define CAY_AUDIT_GAP_DAYS 30 /* without a line: more than that, and the clock is not believed */
#define CAY_AUDIT_SYNC_MS 200
#define CAY_AUDIT_SCAN (32 * CAY_MIB)  /* looked at for one page */
#define CAY_EVENTS_BYTES (4 * CAY_MIB) /* of one account's events; older ones go */
#define CAY_EVENTS_BLOCK (64 * CAY_KIB)
#define CAY_EVENTS_RETENTION_MS (7 * 24 * 60 * 60 * 1000LL)

/* HTTP */
#define CAY_HTTP_HEAD_MAX (32 * CAY_KIB)
#define CAY_HTTP_HEADERS_MAX 100
#define CAY_HTTP_JSON_MAX (8 * CAY_MIB)
#define CAY_HTTP_HEAD_MS 10000
#define CAY_HTTP_BODY_MS 30000
#define CAY_HTTP_IDLE_MS 30000
#define CAY_HTTP_WRITE_MS 30000 /* a reader that takes no byte for so long is cut */
#define CAY_HTTP_CONNECTIONS 16000
#define CAY_HTTP_KEEPALIVE_MS 15000          /* comment lines on quiet streams */
#define CAY_HTTP_STREAM_CHUNK (64 * CAY_KIB) /* what one stream may have queued */
#define CAY_HTTP_MOVE (1 * CAY_MIB)          /* at once, between a pipe and a socket */
#define CAY_HTTP_STREAMS_AT_WORK 4           /* streams that have a worker for a moment */
#define CAY_HTTP_QUEUE 4096                  /* requests waiting for a worker; more is 503 */
#define CAY_HTTP_PARAMS 8
#define CAY_HTTP_SILENCE_MS 30000          /* a sender of a streamed body that sends nothing */
#define CAY_HTTP_SLOW_MS 60000             /* over so long it must send at least */
#define CAY_HTTP_SLOW_BYTES (60 * CAY_KIB) /* so much, or it is cut */
#define CAY_HTTP_SINK_MS 60000             /* a streamed body's taker that takes nothing */
#define CAY_HTTP_DRAIN_MS 10000
#define CAY_HTTP_LARGE (1 * CAY_MIB)          /* an answer above this claims its memory: */
#define CAY_HTTP_LARGE_BUDGET (256 * CAY_MIB) /* of all that are made or not yet read */
#define CAY_HTTP_LARGE_MS (10 * 60 * 1000LL)  /* in which such a one must have been read */
#define CAY_HTTP_LARGE_WAIT_MS 3000           /* for room, */
#define CAY_HTTP_LARGE_WAITING 8              /* at most so many: a quarter of the workers */
#define CAY_TLS_KEY_UPDATES 1000        /* of one connection; a good client needs one in 256 GiB */
#define CAY_TLS_PEM_MAX (256 * CAY_KIB) /* of a certificate with those that sign it; of its key */

/* WebSocket */
#define CAY_WS_TEXT_MAX (16 * CAY_KIB)    /* of one message of text, which is control */
#define CAY_WS_FRAME_MAX (1 * CAY_MIB)    /* of one frame */
#define CAY_WS_MESSAGE_MAX (16 * CAY_MIB) /* of one message of bytes; they are not gathered */
#define CAY_WS_FRAGMENTS_MAX 4096
#define CAY_WS_PING_MS 20000
#define CAY_WS_SILENCE_MS 60000                /* not even a pong: the peer is dead */
#define CAY_WS_IDLE_MS (12 * 60 * 60 * 1000LL) /* no byte either way */

/* previews */
#define CAY_PREVIEW_LINK_S 3600                /* what a signed link is good for, unless it says */
#define CAY_PREVIEW_LINK_MAX_S (7 * 24 * 3600) /* and at most */
#define CAY_PREVIEW_AGAIN_MS 100               /* between two tries while nothing listens */
#define CAY_PREVIEW_RECALL_MS 1000             /* how old a decision may be that is used again */
#define CAY_PREVIEW_RECALLED 1024              /* decisions that are remembered */
#define CAY_PREVIEW_OPEN 1000                  /* requests and WebSockets of one sandbox at once */
#define CAY_PROXY_CONNECT_MS 10000
#define CAY_PROXY_BODY_MS 120000                    /* a client that sends nothing of its body */
#define CAY_PROXY_IDLE_MS (60 * 60 * 1000LL)        /* no byte either way */
#define CAY_PROXY_TUNNEL_MS (12 * 60 * 60 * 1000LL) /* the same once it is a WebSocket */
#define CAY_PROXY_INTERIM 8                         /* answers before the answer */
#define CAY_PROXY_POOL 256                          /* idle connections into sandboxes */
#define CAY_PROXY_POOL_EACH 64                      /* of them to one port */
#define CAY_PROXY_POOL_MS 4000 /* servers close theirs after five seconds or more */

/* the store */
#define CAY_STORE_QUEUE 4096     /* writes waiting for the writer; more is refused */
#define CAY_STORE_READERS 8      /* connections that read */
#define CAY_STORE_BUSY_MS 10000  /* for a lock that another program holds */
#define CAY_STORE_WAL_PAGES 2000 /* grown by so many, the write-ahead log is written back */
#define CAY_STORE_WAL_MAX (2 * CAY_STORE_WAL_PAGES) /* writers wait for all of it from here */
#define CAY_STORE_WAL_BYTES (24 * CAY_MIB) /* that it has on the disk before it needs them */
#define CAY_STORE_RESTART_MS 100           /* but no longer than this for a reader */
#define CAY_STORE_DUE 256
#define CAY_STORE_FORGET 500                  /* rows removed in one step */
#define CAY_STORE_CHECK_BYTES (256 * CAY_MIB) /* checked at every start up to this size */

/* access */
#define CAY_MAX_HOLDERS 10000       /* accounts, and teams, that a list shows */
#define CAY_MAX_KEYS 1000           /* of one account, revoked ones too */
#define CAY_MAX_MEMBERS 1000        /* of one team, and teams of one account */
#define CAY_MAX_ACCOUNT_NAME 128    /* bytes; a JWT's subject as well */
#define CAY_MAX_TOKEN (8 * CAY_KIB) /* of what is shown as Bearer */
#define CAY_KEY_SECRET 64           /* hex digits: 256 random bits */
#define CAY_KEYRING 4096            /* tokens that are remembered as verified */
#define CAY_KEYRING_MS 10000        /* for so long */
#define CAY_UNBOUNDED 64      /* accounts that are remembered as without a quota of commands */
#define CAY_UNBOUNDED_MS 1000 /* for so long; another server may have set one */
#define CAY_KEY_USED_MS 60000 /* last_used is written at most so often */
#define CAY_SANDBOX_TOKEN_MS (60 * 60 * 1000LL)
#define CAY_JWT_LEEWAY_S 30 /* between the issuer's clock and ours */
#define CAY_JWT_KEY_MAX (16 * CAY_KIB)

/* JSON */
#define CAY_JSON_DEPTH 64
#define CAY_JSON_VALUES (128 * CAY_KIB) /* in one document */
#define CAY_LIMIT_STRING (64 * CAY_KIB)
#define CAY_LIMIT_LIST 1024

/* between our own processes */
#define CAY_MESSAGE_MAX (16 * CAY_KIB) /* larger ones go as memfd */
#define CAY_MEMFD_MAX (16 * CAY_MIB)
#define CAY_ENGINE_CALL_MS 20000
#define CAY_FREEZE_MS 5000        /* until every process of a sandbox stands still */
#define CAY_VICTIMS 4             /* of want of memory, remembered for each sandbox */
#define CAY_IO_LOOK_MS 2          /* for a look at what a sandbox's processes read and wrote */
#define CAY_ENGINE_COPY_MS 300000 /* a snapshot or a fork that must copy every file */
#define CAY_BACKUP_WAIT_MS 20000  /* for jobs under way, before a backup begins */
#define CAY_BACKUP_QUIET_MS 60000 /* a backup that others wait for and that does nothing */
#define CAY_BACKUP_MANIFEST_BYTES (8 * CAY_MIB)
#define CAY_INIT_CALL_MS 5000
#define CAY_INIT_AWAIT_MS 20  /* that a call waits for the end of what it began */
#define CAY_INIT_AWAITING 16  /* calls that do so, at once: half of the workers */
#define CAY_INIT_CALLS 12     /* that may wait for one pid 1: of 32 workers */
#define CAY_INIT_SLOW_MS 1000 /* from when on no others wait for their turn */
#define CAY_RECONCILE_MS 30000
#define CAY_ORPHAN_GRACE_MS 60000
#define CAY_CONNECTIONS_TO_INIT 4096
