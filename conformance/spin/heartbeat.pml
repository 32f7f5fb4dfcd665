/*
 * Heartbeats between two processes that may be paused. Time advances in heartbeat intervals. In each interval a
 * running process sends a message, handles what has arrived, and runs a timer that counts intervals without arrivals.
 * If the count exceeds MISSED, the process declares its peer dead. A paused process does none of this, and messages to
 * it wait. When it continues, its timer is overdue and may run before it handles the messages that have arrived.
 *
 * Rules: a peer is declared dead only if it was silent for at least MISSED whole intervals (partial intervals at both
 * ends do not count). A peer that is silent forever is declared dead after at most MISSED + 2 intervals in which the
 * other process runs. An overdue timer counts as one interval. With -DBUG it counts all the intervals that have
 * passed.
 */
#define MISSED 2
#define LONGEST 5 /* maximum length of a pause in intervals */

bool waiting[2];    /* a message of the peer has arrived and is not handled */
byte missed[2];
bool declared[2];   /* the node has declared its peer dead */
byte stopped[2];    /* remaining intervals of the pause */
byte overdue[2];    /* intervals since the last run of the node's timer */
bool gone[2];       /* stopped forever */
byte silence[2];    /* intervals of real time without a message from the peer */
byte longest[2];    /* maximum of `silence` since the node handled a message */
byte watched[2];    /* intervals in which the node ran while its peer was stopped forever */
byte pauses = 2, deaths = 1;

inline look(me) {
  if
  :: waiting[me] -> waiting[me] = false; missed[me] = 0; longest[me] = 0
  :: else -> skip
  fi
}

inline timer(me) {
  if
  :: missed[me] > MISSED -> declared[me] = true;
       assert(longest[me] >= MISSED)
  :: else ->
#ifdef BUG
       missed[me] = missed[me] + overdue[me];
#else
       missed[me] = missed[me] + 1;
#endif
       if
       :: missed[me] > MISSED + 1 -> declared[me] = true; assert(longest[me] >= MISSED)
       :: else -> skip
       fi
  fi;
  overdue[me] = 0
}

inline one(me) {
  if
  :: gone[me] || declared[me] -> skip
  :: else ->
       overdue[me] = (overdue[me] < LONGEST + 1 -> overdue[me] + 1 : overdue[me]);
       if
       :: stopped[me] > 0 -> stopped[me]--
       :: else ->
            if /* in either order */
            :: true -> look(me); timer(me)
            :: true -> timer(me); look(me)
            fi;
            if
            :: gone[1 - me] -> watched[me]++; assert(declared[me] || watched[me] <= MISSED + 2)
            :: else -> skip
            fi
       fi
  fi
}

inline send(me) {
  if
  :: gone[me] || declared[me] || stopped[me] > 0 ->
       silence[1 - me] = (silence[1 - me] < 100 -> silence[1 - me] + 1 : 100)
  :: else -> waiting[1 - me] = true; silence[1 - me] = 0
  fi;
  longest[1 - me] = (silence[1 - me] > longest[1 - me] -> silence[1 - me] : longest[1 - me])
}

inline trouble() {
  if
  :: pauses > 0 && stopped[0] == 0 -> pauses--; select (length : 1 .. LONGEST); stopped[0] = length
  :: pauses > 0 && stopped[1] == 0 -> pauses--; select (length : 1 .. LONGEST); stopped[1] = length
  :: deaths > 0 -> deaths--; gone[0] = true
  :: deaths > 0 -> deaths--; gone[1] = true
  :: true -> skip
  fi
}

active proctype Time() {
  byte length;
  do
  :: declared[0] || declared[1] -> break
  :: !declared[0] && !declared[1] ->
       atomic { trouble(); send(0); send(1); one(0); one(1) }
  od
}
