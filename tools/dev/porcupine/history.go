// Reads histories that `urtrs-sim sweep --histories` writes (docs/simulation.md, "Histories").
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

const format = "urtrs-history-1"

// Limits for files of unknown origin.
const (
	maxLine    = 1 << 20
	maxSectors = 1 << 12 // per operation
)

type record struct {
	Format  string  `json:"format"`
	Event   string  `json:"event"`
	Client  int     `json:"client"`
	Disk    string  `json:"disk"`
	Op      int64   `json:"op"`
	Type    string  `json:"type"`
	Sector  uint64  `json:"sector"`
	Sectors uint64  `json:"sectors"`
	Read    []int64 `json:"read"`
}

// place names one sector of one disk.
type place struct {
	disk   string
	sector uint64
}

type opKey struct {
	disk string
	op   int64
}

type ending int

const (
	pending ending = iota // never returned
	ok                    // succeeded
	failed                // the server answered with an error
	unknown               // failed without an answer
)

type operation struct {
	client   int
	process  int // number of crashes of the client before the operation
	disk     string
	op       int64
	kind     string
	sector   uint64
	sectors  uint64
	invoked  int64 // line number
	returned int64 // line number; 0: never
	end      ending
	closed   int64 // line after which the operation has no effect; 0: none
	read     []int64
}

func (o *operation) changes() bool {
	return o.kind == "write" || o.kind == "discard" || o.kind == "write-zeroes"
}

// value returns the content that a change leaves in a sector: its number, or 0 for zeroes.
func (o *operation) value() int64 {
	if o.kind == "write" {
		return o.op
	}
	return 0
}

type history struct {
	operations []*operation
	byKey      map[opKey]*operation
	process    map[int]int
	cuts       int
}

func readHistory(source io.Reader) (*history, error) {
	h := &history{byKey: map[opKey]*operation{}, process: map[int]int{}}
	lines := bufio.NewScanner(source)
	lines.Buffer(make([]byte, 0, 1<<16), maxLine)
	number := int64(0)
	for lines.Scan() {
		number++
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if number == 1 {
			if r.Format != format {
				return nil, fmt.Errorf("line 1: format %q instead of %q", r.Format, format)
			}
			continue
		}
		if err := h.add(&r, number); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if number == 0 {
		return nil, fmt.Errorf("an empty file")
	}
	return h, nil
}

func (h *history) add(r *record, line int64) error {
	switch r.Event {
	case "crash":
		h.process[r.Client]++
	case "session_ended":
		h.close(line, func(o *operation) bool {
			return o.client == r.Client && (o.end != pending || o.process != h.process[r.Client])
		})
	case "cut":
		h.cuts++
	case "invoke":
		return h.invoke(r, line)
	case "ok", "failed", "unknown":
		return h.complete(r, line)
	default:
		return fmt.Errorf("unknown event %q", r.Event)
	}
	return nil
}

func (h *history) invoke(r *record, line int64) error {
	key := opKey{r.Disk, r.Op}
	if h.byKey[key] != nil {
		return fmt.Errorf("operation %d of %s begins twice", r.Op, r.Disk)
	}
	if r.Sectors > maxSectors || r.Op <= 0 {
		return fmt.Errorf("operation %d has %d sectors", r.Op, r.Sectors)
	}
	o := &operation{client: r.Client, process: h.process[r.Client], disk: r.Disk, op: r.Op, kind: r.Type,
		sector: r.Sector, sectors: r.Sectors, invoked: line}
	if !o.changes() && o.kind != "read" && o.kind != "flush" {
		return fmt.Errorf("unknown type %q", r.Type)
	}
	h.byKey[key] = o
	h.operations = append(h.operations, o)
	return nil
}

func (h *history) complete(r *record, line int64) error {
	o := h.byKey[opKey{r.Disk, r.Op}]
	if o == nil || o.end != pending || o.process != h.process[o.client] {
		return fmt.Errorf("operation %d of %s is not in flight", r.Op, r.Disk)
	}
	o.returned = line
	o.end = map[string]ending{"ok": ok, "failed": failed, "unknown": unknown}[r.Event]
	if o.end != unknown {
		o.closed = line
	}
	if o.end != ok {
		return nil
	}
	if o.kind == "read" && uint64(len(r.Read)) != o.sectors {
		return fmt.Errorf("read %d returned %d sectors instead of %d", o.op, len(r.Read), o.sectors)
	}
	o.read = r.Read
	// A request that fails without an answer has no effect after a later one of its process has succeeded.
	h.close(line, func(failed *operation) bool {
		return failed.client == o.client && failed.process == o.process && failed.end == unknown &&
			failed.returned < o.invoked
	})
	return nil
}

func (h *history) close(line int64, ends func(*operation) bool) {
	for _, o := range h.operations {
		if o.closed == 0 && ends(o) {
			o.closed = line
		}
	}
}
