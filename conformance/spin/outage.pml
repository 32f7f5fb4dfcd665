/*
 * A write that fails because every path is lost, and the next write. The client writes 1 over path 0. If path 0 is
 * lost, the client fences it and resends over path 1. If both paths are lost, the write fails to the application,
 * although the server may still have it in a queue or in storage. Then one of the two paths reconnects, and the
 * application writes 2 to the same block. A failed write may take effect, but not after a later acknowledged write.
 *
 * Links 0 and 1 are the first incarnations of paths 0 and 1. Link 2 is the second incarnation of either path. The
 * server accepts link 2 only after it has closed and drained the first incarnation of that path.
 *
 * Rule: the client sends nothing new before it knows that the failed write can no longer execute: by a fence of its
 * link, or because its own path was accepted again. The failed write keeps its permit until then, so the two writes
 * never share a chunk. With -DBUG the client sends the second write as soon as it has a path.
 */
#define FENCE(link) (8 + link)

chan to_server[3] = [3] of { byte };
chan to_client[3] = [3] of { byte };
bool dead[3] = false;  /* lost at the client */
bool open[3] = true;   /* server: accepts messages on the link */
byte serving[3];       /* server: the write in storage, 0: none */
byte disk = 0;
byte acknowledged = 0;

inline drain(link) {
  open[link] = false;
  serving[link] == 0
}

active [3] proctype ServerLink() {
  byte p = _pid, value;
end:
  do
  :: atomic { open[p] && serving[p] == 0 && to_server[p]?[value] ->
       to_server[p]?value;
       if
       :: value >= FENCE(0) ->
            drain(value - FENCE(0));
            to_client[p]!value
       :: else -> serving[p] = value
       fi }
  /* Storage completes at any later time. */
  :: atomic { serving[p] != 0 ->
       disk = serving[p];
       assert(disk >= acknowledged); /* fails if an acknowledged write is undone */
       if :: !dead[p] -> to_client[p]!disk :: else -> skip fi;
       serving[p] = 0 }
  od
}

active proctype Client() {
  byte over = 0; /* the link on which the first write was sent last */
  byte back;
  bool failed = false;
  to_server[0]!1;
  do
  :: to_client[over]?1 -> acknowledged = 1; break
  /* A failover: path 0 is lost; path 1 is connected and may be lost now or later. */
  :: over == 0 && !dead[0] ->
       dead[0] = true;
       to_server[1]!FENCE(0);
       if
       :: to_client[1]?eval(FENCE(0)) -> over = 1; to_server[1]!1
       :: dead[1] = true; failed = true; break
       fi
  :: atomic { dead[0] = true; dead[1] = true; failed = true }; break
  od;
  if
  :: failed ->
       if :: back = 0 :: back = 1 fi;
       drain(back);
#ifndef BUG
       if
       :: over != back -> to_server[2]!FENCE(over); to_client[2]?eval(FENCE(over))
       :: else -> skip
       fi;
#endif
       over = 2
  :: else -> skip
  fi;
  to_server[over]!2;
  to_client[over]?2;
  acknowledged = 2;
  /* Nothing is in flight: the disk must contain the last write. */
  (serving[0] == 0 && serving[1] == 0 && serving[2] == 0 && (len(to_server[0]) == 0 || !open[0]) &&
   (len(to_server[1]) == 0 || !open[1])) -> assert(disk == 2)
}
