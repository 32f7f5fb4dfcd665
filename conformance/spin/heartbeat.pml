/*
 * Heartbeats between two processes that may be stopped for a while. Time goes in intervals. A running process sends in each
 * of them, looks at what arrived, and counts in a timer the intervals without anything; more than MISSED and it declares the
 * other dead. A stopped one does neither, and what is sent to it waits. When it goes on, its timer is long overdue, and may
 * run before it looks at what has arrived.
 *
 * The rules: nobody is declared dead who was not silent for MISSED whole intervals in between (the first and the last one
 * are parts); who is silent for good is declared dead after at most MISSED + 2 intervals in which the other runs. An overdue
 * timer counts as one interval. With -DBUG it counts as all the intervals that went by.
 */
#define MISSED 2
#define LONGEST 5 /* intervals of a pause */

bool waiting[2];    /* something of the other one waits to be looked at */
byte missed[2];
bool declared[2];   /* the other is dead */
byte stopped[2];    /* intervals still to be stopped */
byte overdue[2];    /* intervals since its timer ran last */
bool gone[2];       /* for good */
byte silence[2];    /* of the other, in intervals of true time */
byte longest[2];    /* the longest silence since it looked at something that had arrived */
byte watched[2];    /* intervals in which it ran while the other was silent for good */
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
