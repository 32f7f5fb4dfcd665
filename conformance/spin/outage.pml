/*
 * A write that fails because every path is lost, and the write after it. The client writes 1 over path 0; when path 0 dies
 * it fences it and sends again over path 1. When both are dead the write fails to the application, although the server may
 * still have it: in a queue or in storage. Then one of the two paths connects again, and the application writes 2 to the same
 * block. A failed write may take effect, but not after a later one that was acknowledged.
 *
 * Links 0 and 1 are the first incarnations of paths 0 and 1, link 2 is the second incarnation of either. The server accepts
 * it only when it has closed and drained the first one of that path.
 *
 * The rule: nothing new is sent before the failed write is known to be dead, by a fence of its link or because its own path
 * was accepted again. Its permit stays taken until then, so the two writes never share a chunk. With -DBUG the client sends
 * the second write as soon as it has a path.
 */
#define FENCE(link) (8 + link)

chan to_server[3] = [3] of { byte };
chan to_client[3] = [3] of { byte };
bool dead[3] = false;  /* at the client */
bool open[3] = true;   /* server: takes what arrives on the link */
byte serving[3];       /* server: the write that storage works at, 0 none */
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
  /* Storage takes its time. */
  :: atomic { serving[p] != 0 ->
       disk = serving[p];
       assert(disk >= acknowledged); /* a write that was acknowledged is undone */
       if :: !dead[p] -> to_client[p]!disk :: else -> skip fi;
       serving[p] = 0 }
  od
}

active proctype Client() {
  byte over = 0; /* the link that has the first write, or had it last */
  byte back;
  bool failed = false;
  to_server[0]!1;
  do
  :: to_client[over]?1 -> acknowledged = 1; break
  /* A failover: path 0 died, path 1 lives and dies now or later. */
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
  /* Nothing is left anywhere: the last word was the last write. */
  (serving[0] == 0 && serving[1] == 0 && serving[2] == 0 && (len(to_server[0]) == 0 || !open[0]) &&
   (len(to_server[1]) == 0 || !open[1])) -> assert(disk == 2)
}
