/*
 * A permit, a failover and a fence. The client writes 1 to a block and, when that is acknowledged, writes 2. The
 * client may lose path 0 at any time. The old request is then still in flight, in a queue or in storage, and the
 * server does not know of the loss. The client resends the request over path 1. A late first write must not undo the
 * second write, and a chunk must serve one request at a time.
 *
 * Rule: before the client resends a request, it asks the server over a connected path to close and drain the old
 * incarnation (the fence). The server lets no request use a chunk that another incarnation still uses (the gate). With
 * -DBUG the client resends at once, like the kernel client. The gate alone is not sufficient: -DBUG keeps it.
 */
#define FENCE 9

chan to_server[2] = [2] of { byte }; /* a path is reliable and ordered while it is connected */
chan to_client[2] = [2] of { byte };
bool fault = false;                  /* the client has lost path 0 */
bool open[2] = true;                 /* server: accepts messages on the path */
byte serving[2];                     /* server: the path's write in storage, 0: none */
byte chunk = 0;                      /* 1 + the path whose request uses it, 0: free */
byte disk = 0;
byte acknowledged = 0;

inline storage_finishes(p) {
  disk = serving[p];
  assert(disk >= acknowledged); /* fails if an acknowledged write is undone */
  serving[p] = 0;
  chunk = 0;
  if :: p == 1 || !fault -> to_client[p]!disk :: else -> skip fi
}

active [2] proctype ServerPath() {
  byte p = _pid, value;
end:
  do
  /* The gate: a request waits for the chunk, a fence does not. */
  :: atomic { open[p] && chunk == 0 && len(to_server[p]) > 0 ->
       to_server[p]?<value>;
       if
       :: value == FENCE -> skip
       :: else ->
            to_server[p]?value;
            assert(chunk == 0 && serving[p] == 0);
            chunk = p + 1;
            serving[p] = value
       fi }
  :: atomic { to_server[p]?[FENCE] ->
       to_server[p]?FENCE;
       open[0] = false;
       serving[0] == 0; /* drained */
       to_client[1]!FENCE }
  /* Storage completes at any later time. */
  :: atomic { serving[p] != 0 -> storage_finishes(p) }
  od
}

inline write(value) {
  if :: fault -> over = 1 :: else -> skip fi;
  to_server[over]!value;
  do
  :: to_client[over]?eval(value) -> break
  :: over == 0 && !fault ->
       atomic { fault = true; over = 1 };
#ifndef BUG
       to_server[1]!FENCE;
       to_client[1]?FENCE;
#endif
       to_server[1]!value
  od;
  acknowledged = value
}

active proctype Client() {
  byte over = 0;
  write(1);
  write(2);
  /* Nothing is in flight: the disk must contain the last write. */
  (len(to_server[1]) == 0 && serving[0] == 0 && serving[1] == 0 && (len(to_server[0]) == 0 || !open[0])) -> assert(disk == 2)
}
