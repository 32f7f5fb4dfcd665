/*
 * A permit, a failover and a fence. The client writes 1, then 2, to one block; 2 only when 1 was acknowledged. Path 0 may
 * die at the client at any time: what was on its way is then still on its way, in a queue or in storage, and the server
 * does not know. The request is sent again over path 1. The second write must not be undone by a late first one, and the
 * chunk belongs to one request at a time.
 *
 * The rule: before a request is sent again the client asks over a living path to close and drain the old incarnation (the
 * fence), and the server lets no request use a chunk that another incarnation still uses (the gate). With -DBUG the client
 * sends again at once, as the kernel does. The gate alone does not help: -DBUG keeps it.
 */
#define FENCE 9

chan to_server[2] = [2] of { byte }; /* a path is reliable and ordered while it lives */
chan to_client[2] = [2] of { byte };
bool fault = false;                  /* path 0 died at the client */
bool open[2] = true;                 /* server: takes what arrives on the path */
byte serving[2];                     /* server: what storage works at for the path, 0 nothing */
byte chunk = 0;                      /* 1 + the path whose request uses it, 0 free */
byte disk = 0;
byte acknowledged = 0;

inline storage_finishes(p) {
  disk = serving[p];
  assert(disk >= acknowledged); /* a write that was acknowledged is undone */
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
  /* Storage takes its time. */
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
  /* Nothing is left anywhere: the last word was the last write. */
  (len(to_server[1]) == 0 && serving[0] == 0 && serving[1] == 0 && (len(to_server[0]) == 0 || !open[0])) -> assert(disk == 2)
}
